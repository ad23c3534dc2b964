"""What is in each queue, in figures: small enough for the driver, and asked for once in an audit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import attrs
from pyspark.sql import functions as F  # noqa: N812

from rocketpy.spark.pipelines.local_rows import local_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BOUNDS_SCHEMA = "topic string, queue_id int, min_offset bigint, max_offset bigint"
FIRST_SCHEMA = "topic string, queue_id int, first_queue_offset bigint, first_physical_offset bigint"


@attrs.frozen(kw_only=True)
class QueueExtent:
    """Units of one queue. Those whose records are in the part of the log that is looked at are *inside*."""

    topic: str
    queue_id: int
    units: int
    min_queue_offset: int
    max_queue_offset: int
    """Of the last unit, not after it."""
    first_queue_offset: int | None
    """Of the first unit inside; None if there is none."""
    first_physical_offset: int | None
    """Of that unit's record."""
    last_physical_offset: int | None
    """Highest one of the units inside."""
    end_physical_offset: int
    """After the last record of all units."""

    @property
    def has_gaps(self) -> bool:
        """Whether queue offsets between the first and the last one have no unit."""
        return self.units != self.max_queue_offset + 1 - self.min_queue_offset


def queue_extents(
    units: DataFrame, *, log_min_offset: int = 0, log_end_offset: int | None = None
) -> tuple[QueueExtent, ...]:
    """Return the extents of all queues that have units; runs one aggregation."""
    inside = F.col("physical_offset") >= log_min_offset
    if log_end_offset is not None:
        inside &= F.col("physical_offset") < log_end_offset
    offset = F.when(inside, F.col("queue_offset"))
    rows = units.groupBy("topic", "queue_id").agg(
        F.count("*").alias("units"),
        F.min("queue_offset").alias("min_queue_offset"),
        F.max("queue_offset").alias("max_queue_offset"),
        F.min(offset).alias("first_queue_offset"),
        F.min_by("physical_offset", offset).alias("first_physical_offset"),
        F.max(F.when(inside, F.col("physical_offset"))).alias("last_physical_offset"),
        F.max(F.col("physical_offset") + F.col("size")).alias("end_physical_offset"),
    )
    return tuple(QueueExtent(**row.asDict()) for row in rows.collect())


def bounds_of_queues(spark: SparkSession, extents: Sequence[QueueExtent]) -> DataFrame:
    """Return the first queue offset whose record is in the log, and the end of each queue.

    Columns: ``topic``, ``queue_id``, ``min_offset``, ``max_offset`` (not included). The two are equal where all
    records of a queue were deleted.
    """
    rows = []
    for each in extents:
        end = each.max_queue_offset + 1
        rows.append((each.topic, each.queue_id, end if (first := each.first_queue_offset) is None else first, end))
    return local_frame(spark, rows, BOUNDS_SCHEMA)


def first_units(spark: SparkSession, extents: Iterable[QueueExtent]) -> DataFrame:
    """Return the first unit inside of each queue that has one; columns: ``FIRST_SCHEMA``."""
    rows = [
        (each.topic, each.queue_id, each.first_queue_offset, each.first_physical_offset)
        for each in extents
        if each.first_queue_offset is not None
    ]
    return local_frame(spark, rows, FIRST_SCHEMA)
