"""Counts of messages that were written: how many, and which queue offsets of which queue.

Messages whose offset comes twice are found here: they would be two messages with one name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from rocketpy.errors import SettingsError
from rocketpy.spark.pipelines.archive_log.offset_sum import OffsetSum
from rocketpy.spark.pipelines.archive_log.ranges import OffsetRange, joined
from rocketpy.spark.pipelines.local_rows import local_frame

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

QUEUE_COLUMNS = ("topic", "broker_name", "queue_id")
_QUEUE_SCHEMA = "topic string, broker_name string, queue_id int"

_Queue = tuple[str, str, int]


@attrs.frozen
class Counts:
    """Messages by the place where they were written, and all their queue offsets."""

    rows: Mapping[str, int]
    ranges: tuple[OffsetRange, ...]


def count_messages(written: DataFrame, place: Column) -> Counts:
    """Count messages by a column, such as their file. ``SettingsError`` where two have one name, or no broker name."""
    offset = F.col("queue_offset")
    whole = offset.cast("decimal(19,0)")  # sums that no queue is too long for
    counts = (
        written.groupBy(place.alias("place"), *QUEUE_COLUMNS)
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.min(offset).alias("first"),
            F.max(offset).alias("last"),
            F.sum(whole).alias("sum"),
            F.sum(whole * whole).alias("squares"),
            F.bit_xor(offset).alias("xor"),
        )
        .collect()
    )
    if any(row.broker_name is None for row in counts):
        raise SettingsError("messages without a broker name cannot be archived: files do not hold it, give broker_name")
    rows = Counter[str]()
    for row in counts:
        rows[row.place] += row.rows
    return Counts(rows, _ranges(written, counts))


def _ranges(written: DataFrame, counts: Sequence[Row]) -> tuple[OffsetRange, ...]:
    """Return the queue offsets of the written messages. Only queues with gaps are looked at message by message."""
    queues: dict[_Queue, OffsetSum] = {}
    for row in counts:
        queue = (row.topic, row.broker_name, row.queue_id)
        part = OffsetSum(row.rows, row.first, row.last, int(row.sum), int(row.squares), row.xor)
        queues[queue] = queues[queue].plus(part) if queue in queues else part
    whole = [OffsetRange(*queue, sums.first, sums.last + 1) for queue, sums in queues.items() if sums.is_unbroken]
    ranges = joined([*whole, *_islands(written, [queue for queue, sums in queues.items() if not sums.is_unbroken])])
    offsets = Counter[_Queue]()
    for each in ranges:
        offsets[each.topic, each.broker_name, each.queue_id] += each.message_count
    for queue, sums in queues.items():
        if offsets[queue] != sums.rows:
            raise SettingsError(
                f"topic {queue[0]} broker {queue[1]} queue {queue[2]}: expected each queue offset once, found "
                f"{sums.rows} messages with {offsets[queue]} offsets: do they come from several stores or brokers?"
            )
    return ranges


def _islands(written: DataFrame, queues: Sequence[_Queue]) -> list[OffsetRange]:
    """Return the unbroken ranges of queues that have gaps."""
    if not queues:
        return []
    chosen = F.broadcast(local_frame(written.sparkSession, queues, _QUEUE_SCHEMA))
    number = F.dense_rank().over(Window.partitionBy(*QUEUE_COLUMNS).orderBy("queue_offset"))
    islands = (
        written.select(*QUEUE_COLUMNS, "queue_offset")
        .join(chosen, list(QUEUE_COLUMNS))
        .withColumn("island", F.col("queue_offset") - number)  # equal within an unbroken range
        .groupBy(*QUEUE_COLUMNS, "island")
        .agg(F.min("queue_offset").alias("first"), F.max("queue_offset").alias("last"))
    )
    return [OffsetRange(row.topic, row.broker_name, row.queue_id, row.first, row.last + 1) for row in islands.collect()]
