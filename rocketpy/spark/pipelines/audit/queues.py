"""Log against queues: for each record its unit, for each unit its record.

One full outer join on (topic, queue id, queue offset) decides everything: a unit without a record, a record without a
unit, and two that meet but do not fit. Records without a unit at the end of the log wait for dispatch; those of a topic
that was deleted need none.

When a topic is deleted and created again, its queues begin again at offset 0. So a record that lies in front of the
record of unit 0 belongs to the time before, and nothing misses its unit. Ours also note a deletion in the topic's
directory (``deleted-before-...``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from rocketpy.protocol.topic_name import LMQ_PREFIX
from rocketpy.spark.pipelines.audit.expected import expected_units
from rocketpy.spark.pipelines.audit.extents import QueueExtent, first_units, queue_extents
from rocketpy.spark.pipelines.audit.findings import classified_findings, findings_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_KEY = ["topic", "queue_id", "queue_offset"]
_OF_UNIT = ("physical_offset", "size", "tags_code")


def log_against_queues(
    messages: DataFrame,
    units: DataFrame,
    *,
    log_min_offset: int = 0,
    log_end_offset: int | None = None,
    topics: Collection[str] | None = None,
    deleted_before: Mapping[str, int] | None = None,
    extents: Sequence[QueueExtent] | None = None,
) -> DataFrame:
    """Return findings about records without units, units without records, and units that do not fit their records.

    ``messages`` has the columns of a read of the store, ``units`` those of
    :func:`~rocketpy.spark.pipelines.audit.queue_units.queue_units`. Units of records before ``log_min_offset``, which
    the broker has deleted, are left out; with ``log_end_offset``, for a store that is being written, also what lies
    after. ``topics`` are those of the broker, None if not known. ``extents`` are those of the units, asked for here if
    they are not given.
    """
    inside = F.col("physical_offset") >= log_min_offset
    if log_end_offset is not None:
        inside &= F.col("physical_offset") < log_end_offset
    if extents is None:
        extents = queue_extents(units, log_min_offset=log_min_offset, log_end_offset=log_end_offset)
    last_units = [each.last_physical_offset for each in extents if each.last_physical_offset is not None]
    of_unit = [F.col(name).alias(f"unit_{name}") for name in _OF_UNIT]
    joined = (
        expected_units(messages.where(inside))
        .join(units.where(inside).select(*_KEY, *of_unit, "ext_store_timestamp_ms"), _KEY, "full_outer")
        .join(F.broadcast(first_units(units.sparkSession, extents)), ["topic", "queue_id"], "left")
        .withColumn("last_unit", F.lit(max(last_units, default=-1)))
    )
    classified = joined.withColumn("deleted", _is_deleted(topics, deleted_before or {})).withColumn(
        "is_record", F.col("physical_offset").isNotNull()
    )
    rows = classified.withColumn("physical_offset", F.coalesce("physical_offset", "unit_physical_offset"))
    return classified_findings(rows, _cases(), grouped=("dispatchBehind", "deletedWithTopic"))


def _cases() -> dict[str, tuple[Column, Column | str, Column | str]]:
    """Return for each kind of finding its condition, what is expected, and what is found."""
    col = F.col
    is_record, is_unit = col("is_record"), col("unit_physical_offset").isNotNull()
    is_same = col("unit_physical_offset") == col("physical_offset")
    # A client may name any queue; light queues are there only if the broker dispatches to what is named.
    counts = col("is_own") | (col("topic").startswith(LMQ_PREFIX) & col("first_queue_offset").isNotNull())
    lacks_unit = is_record & ~is_unit & counts
    # Dispatch follows the log, so nothing after the last unit's record has been dispatched.
    is_behind = col("physical_offset") > col("last_unit")
    fits = is_record & is_unit & is_same
    record, unit = F.format_string("the record at %d", "physical_offset"), "unit_physical_offset"
    return {
        "unitWithoutRecord": (
            ~is_record,
            F.format_string("a record of %d bytes with this queue offset", "unit_size"),
            F.lit("none there"),
        ),
        "recordWithoutUnit": (
            lacks_unit & ~is_behind & ~col("deleted"),
            F.format_string("a unit of %d bytes at queue offset %d", "size", "queue_offset"),
            F.lit("none"),
        ),
        "unitOfOtherRecord": (
            is_record & is_unit & ~is_same & col("is_own") & ~col("deleted"),
            F.concat(F.lit("a unit that points to "), record),
            F.format_string("one that points to %d", unit),
        ),
        "unitOfWrongSize": (
            fits & (col("unit_size") != col("size")),
            F.format_string("a size of %d", "size"),
            F.format_string("%d", "unit_size"),
        ),
        "unitOfWrongTag": (
            fits & _has_wrong_tag(),
            F.format_string("tag code %d", "tags_code"),
            F.coalesce(
                F.when(col("unit_tags_code").isNotNull(), F.format_string("%d", "unit_tags_code")),
                F.lit("an address that leads to no extension"),
            ),
        ),
        "dispatchBehind": (lacks_unit & is_behind, "units for all records up to the end of the log", "none"),
        "deletedWithTopic": (
            is_record & counts & col("deleted") & ~(is_unit & is_same) & ~(is_behind & ~is_unit),
            "no unit: the topic was deleted after this",
            "none",
        ),
    }


def _has_wrong_tag() -> Column:
    code = F.col("unit_tags_code")
    has_wrong_time = F.coalesce(F.col("ext_store_timestamp_ms") != F.unix_millis("since"), F.lit(False))
    is_right = F.coalesce(code == F.col("tags_code"), F.lit(False)) & ~has_wrong_time
    # The time of delivery depends on levels that only the broker's settings have: any time from the store time on.
    is_time = F.coalesce(F.col("is_timed") & (code >= F.unix_millis("since")), F.lit(False))
    return ~(is_right | is_time | F.col("is_placeholder"))


def _is_deleted(topics: Collection[str] | None, deleted_before: Mapping[str, int]) -> Column:
    """Return whether a record's topic was deleted after it."""
    physical_offset = F.col("physical_offset")
    is_from_before = (F.col("first_queue_offset") == 0) & (physical_offset < F.col("first_physical_offset"))
    is_deleted = F.coalesce(is_from_before, F.lit(False))
    if topics is not None:
        is_deleted |= F.col("first_queue_offset").isNull() & ~F.col("topic").isin(list(topics))
    for topic, offset in deleted_before.items():
        is_deleted |= (F.col("topic") == topic) & F.coalesce(physical_offset < offset, F.lit(False))
    return is_deleted


def gaps_of_queues(messages: DataFrame, gaps: DataFrame) -> DataFrame:
    """Return findings about queue offsets between others that have neither a unit nor a record.

    ``gaps`` has the columns of :func:`~rocketpy.spark.pipelines.audit.queue_units.queue_gaps`. Where there are records
    the units are missing, which is the business of :func:`log_against_queues`.
    """
    width = F.col("last_queue_offset") - F.col("first_queue_offset") + 1
    ranges = F.broadcast(gaps.withColumnsRenamed({"topic": "gap_topic", "queue_id": "gap_queue_id"}))
    here = (
        (F.col("topic") == F.col("gap_topic"))
        & (F.col("queue_id") == F.col("gap_queue_id"))
        & F.col("queue_offset").between(F.col("first_queue_offset"), F.col("last_queue_offset"))
    )
    records = (
        expected_units(messages)
        .join(ranges, here)
        .groupBy("topic", "queue_id", "first_queue_offset")
        .agg(F.count_distinct("queue_offset").alias("records"))
    )
    rows = (
        gaps.join(F.broadcast(records), ["topic", "queue_id", "first_queue_offset"], "left")
        .withColumn("messages", width - F.coalesce("records", F.lit(0)))
        .where("messages > 0")
        .withColumn("queue_offset", F.col("first_queue_offset"))
    )
    return findings_of(
        rows,
        "queueGap",
        expected=F.format_string("units and records from %d to %d", "first_queue_offset", "last_queue_offset"),
        found=F.format_string("neither for %d of them", "messages"),
    )
