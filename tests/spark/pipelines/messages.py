"""Made-up messages for tests of pipelines: DataFrames with the columns of the format."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from rocketpy.spark.pipelines.local_rows import local_frame
from rocketpy.spark.schema import SPARK_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BEGIN = datetime(2026, 1, 31, 23, 59, 50, tzinfo=UTC)
"""Just before midnight: ten messages later it is another day."""


def message(topic: str, queue_id: int, queue_offset: int, **changes: object) -> dict[str, object]:
    """Return one message as a row; ``changes`` replace columns."""
    body = f"{topic}/{queue_id}/{queue_offset}".encode()
    stored = BEGIN + timedelta(seconds=queue_offset)
    columns: dict[str, object] = {
        "topic": topic,
        "queue_id": queue_id,
        "queue_offset": queue_offset,
        "physical_offset": queue_id * 1_000_000 + queue_offset * 100,
        "message_id": f"{topic}-{queue_id}-{queue_offset}",
        "unique_key": f"U{queue_offset}",
        "keys": f"k{queue_offset} all",
        "tags": "even" if queue_offset % 2 == 0 else "odd",
        "body": body,
        "body_size": len(body),
        "properties": {"KEYS": f"k{queue_offset} all", "UNIQ_KEY": f"U{queue_offset}", "mine": "1"},
        "born_timestamp": stored,
        "store_timestamp": stored,
        "born_host": "10.0.0.1:5000",
        "store_host": "10.0.0.2:10911",
        "reconsume_times": 0,
        "sys_flag": 0,
        "flag": 0,
        "prepared_transaction_offset": 0,
        "stored_size": 100 + len(body),
        "broker_name": "b",
    }
    assert changes.keys() <= columns.keys()
    return columns | changes


def frame(spark: SparkSession, rows: Iterable[dict[str, object]]) -> DataFrame:
    """Return a DataFrame of messages."""
    return local_frame(spark, [tuple(row[name] for name in SPARK_SCHEMA.names) for row in rows], SPARK_SCHEMA)


def places(messages: DataFrame) -> list[tuple[str, int, int]]:
    """Return topic, queue and queue offset of all messages, sorted; one that comes twice is there twice."""
    return sorted(tuple(row) for row in messages.select("topic", "queue_id", "queue_offset").collect())
