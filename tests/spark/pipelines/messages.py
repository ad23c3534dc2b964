"""Messages of several queues for tests of pipelines, each with a key, a tag and a body that names its place."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tests.spark.pipelines import message_rows
from tests.spark.pipelines.message_rows import messages_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BEGIN = datetime(2026, 1, 31, 23, 59, 50, tzinfo=UTC)
"""Just before midnight: ten messages later it is another day."""


def message(topic: str, queue_id: int, queue_offset: int, **changes: object) -> dict[str, object]:
    """Return one message as a row; ``changes`` replace columns."""
    body = f"{topic}/{queue_id}/{queue_offset}".encode()
    stored = BEGIN + timedelta(seconds=queue_offset)
    columns = message_rows.message(
        queue_offset,
        topic=topic,
        queue_id=queue_id,
        physical_offset=queue_id * 1_000_000 + queue_offset * 100,
        message_id=f"{topic}-{queue_id}-{queue_offset}",
        unique_key=f"U{queue_offset}",
        keys=f"k{queue_offset} all",
        tags="even" if queue_offset % 2 == 0 else "odd",
        body=body,
        body_size=len(body),
        born_timestamp=stored,
        store_timestamp=stored,
        stored_size=100 + len(body),
        broker_name="b",
    )
    assert changes.keys() <= columns.keys()
    properties = {"KEYS": columns["keys"], "UNIQ_KEY": columns["unique_key"], "mine": "1"}
    return columns | {"properties": properties} | changes


frame = messages_of


def places(messages: DataFrame) -> list[tuple[str, int, int]]:
    """Return topic, queue and queue offset of all messages, sorted; one that comes twice is there twice."""
    return sorted(tuple(row) for row in messages.select("topic", "queue_id", "queue_offset").collect())
