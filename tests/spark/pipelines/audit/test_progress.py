"""Groups' offsets against queues: what waits, what was lost, what is past the end."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql import DataFrame, SparkSession

from rocketpy.spark.pipelines.audit.extents import bounds_of_queues, queue_extents
from rocketpy.spark.pipelines.audit.progress import (
    group_offsets,
    log_against_offsets,
    topics_without_groups,
)
from rocketpy.spark.pipelines.audit.queue_units import UNIT_SCHEMA
from rocketpy.spark.pipelines.local_rows import local_frame
from tests.spark.pipelines.message_rows import at, message, messages_of


def units(spark: SparkSession) -> DataFrame:
    """A queue whose first three records were deleted, one whose records all were, and topics without groups."""
    rows = [("T", 0, number, number * 100, 100, 0, None) for number in range(10)]
    rows += [("T", 1, number, number * 10, 100, 0, None) for number in range(4)]
    rows += [(topic, 0, 0, 500, 100, 0, None) for topic in ("Alone", "%DLQ%G", "%RETRY%G", "RMQ_SYS_TRANS_HALF_TOPIC")]
    return local_frame(spark, rows, UNIT_SCHEMA)


def bounds(spark: SparkSession, *, log_min_offset: int = 0) -> DataFrame:
    return bounds_of_queues(spark, queue_extents(units(spark), log_min_offset=log_min_offset))


def test_bounds_begin_at_the_first_record_that_is_still_in_the_log(spark: SparkSession) -> None:
    rows = bounds(spark, log_min_offset=300).where("topic = 'T'").collect()
    assert sorted(map(tuple, rows)) == [("T", 0, 3, 10), ("T", 1, 4, 4)]


def test_each_group_is_told_what_it_misses(spark: SparkSession) -> None:
    offsets = group_offsets(
        spark,
        {
            "T@current": {0: 10, 1: 4},
            "T@behind": {0: 7},
            "T@lost": {0: 1},
            "T@ahead": {0: 12, 1: 4},
            "%RETRY%x@x": {0: 0},
            "Deleted@ahead": {0: 5},
            "RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS": {0: 0},
        },
    )
    messages = messages_of(spark, [message(number) for number in range(3, 10)])
    rows = log_against_offsets(messages, offsets, bounds(spark, log_min_offset=300), topics={"T"}).collect()
    found = sorted((row.kind, row.consumer_group, row.queue_id, row.queue_offset, row.messages) for row in rows)
    assert found == [
        ("lostBeforeConsumed", "lost", 0, 1, 2),
        ("neverConsumed", "behind", 0, 7, 3),
        ("neverConsumed", "lost", 0, 3, 7),
        ("offsetPastEnd", "ahead", 0, 12, 2),
    ]
    since = {row.consumer_group: row.since for row in rows if row.kind == "neverConsumed"}
    assert since == {"behind": at(7).replace(tzinfo=None), "lost": at(3).replace(tzinfo=None)}


def test_only_topics_of_users_miss_a_group(spark: SparkSession) -> None:
    offsets = group_offsets(spark, {"T@current": {0: 10}})
    rows = topics_without_groups(bounds(spark), offsets).collect()
    assert [(row.kind, row.topic, row.messages) for row in rows] == [("topicWithoutGroup", "Alone", 1)]
