"""DataFrames of messages made by hand, with the columns of a read: what a row does not say has a default."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from rocketpy.spark.pipelines.local_rows import local_frame
from rocketpy.spark.schema import SPARK_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
RECORD_SIZE = 100


def at(seconds: float) -> datetime:
    """Return a moment after the beginning."""
    return BEGIN + timedelta(seconds=seconds)


def message(number: int, **columns: Any) -> dict[str, Any]:
    """Return message number ``number`` of a log: one of 100 bytes, stored in its second."""
    properties = dict(columns.pop("properties", {}))
    row = {
        "topic": "T",
        "queue_id": 0,
        "queue_offset": number,
        "physical_offset": number * RECORD_SIZE,
        "message_id": f"{number:032X}",
        "unique_key": properties.get("UNIQ_KEY"),
        "keys": properties.get("KEYS"),
        "tags": properties.get("TAGS"),
        "body": b"body",
        "body_size": 4,
        "born_timestamp": at(number),
        "store_timestamp": at(number),
        "born_host": "127.0.0.1:1",
        "store_host": "127.0.0.1:2",
        "reconsume_times": 0,
        "sys_flag": 0,
        "flag": 0,
        "prepared_transaction_offset": 0,
        "stored_size": RECORD_SIZE,
        "broker_name": None,
    }
    named = {"UNIQ_KEY": "unique_key", "KEYS": "keys", "TAGS": "tags"}
    properties |= {name: columns[column] for name, column in named.items() if columns.get(column)}
    return row | columns | {"properties": properties}


def messages_of(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    """Return messages as a DataFrame."""
    return local_frame(spark, [tuple(row[name] for name in SPARK_SCHEMA.names) for row in rows], SPARK_SCHEMA)
