"""Log against queues: each way in which they may not fit, and what is no finding."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql import DataFrame, SparkSession

from rocketpy.protocol.java_hash import tags_code
from rocketpy.spark.pipelines.audit.queue_units import GAP_SCHEMA, UNIT_SCHEMA
from rocketpy.spark.pipelines.audit.queues import gaps_of_queues, log_against_queues
from rocketpy.spark.pipelines.local_rows import local_frame
from tests.spark.pipelines.message_rows import BEGIN, message, messages_of


def unit(number: int, **columns: Any) -> tuple[Any, ...]:
    row = {
        "topic": "T",
        "queue_id": 0,
        "queue_offset": number,
        "physical_offset": number * 100,
        "size": 100,
        "tags_code": 0,
        "ext": None,
    }
    return tuple((row | columns).values())


def found(
    spark: SparkSession, rows: list[dict[str, Any]], units: list[tuple[Any, ...]], **options: Any
) -> list[tuple[object, ...]]:
    findings: DataFrame = log_against_queues(
        messages_of(spark, rows), local_frame(spark, units, UNIT_SCHEMA), **options
    )
    return sorted(
        (row.kind, row.topic, row.queue_id, row.queue_offset, row.physical_offset, row.messages)
        for row in findings.collect()
    )


def test_units_and_records_that_fit_are_no_finding(spark: SparkSession) -> None:
    begin_ms = int(BEGIN.timestamp() * 1000)
    delayed = {"DELAY": "3"}
    rows = [
        message(0),
        message(1, tags="TagA"),
        message(2, topic="SCHEDULE_TOPIC_XXXX", properties=delayed),
        message(3, properties={"INNER_MULTI_DISPATCH": "Named", "INNER_MULTI_QUEUE_OFFSET": "5"}),  # not dispatched
        message(4, sys_flag=0x4),
    ]
    units = [
        unit(0),
        unit(1, tags_code=tags_code("TagA")),
        unit(2, topic="SCHEDULE_TOPIC_XXXX", tags_code=begin_ms + 12_000),
        unit(3),
    ]
    assert found(spark, rows, units) == []


def test_each_misfit_is_one_finding(spark: SparkSession) -> None:
    rows = [message(number) for number in range(8)]
    units = [
        unit(0),
        unit(1, size=99),
        unit(2, tags_code=5),
        unit(3, tags_code=None),
        unit(4, physical_offset=500),
        unit(5),
        unit(7),
        unit(9, physical_offset=7000),
    ]
    assert found(spark, rows, units) == [
        ("recordWithoutUnit", "T", 0, 6, 600, 1),
        ("unitOfOtherRecord", "T", 0, 4, 400, 1),
        ("unitOfWrongSize", "T", 0, 1, 100, 1),
        ("unitOfWrongTag", "T", 0, 2, 200, 1),
        ("unitOfWrongTag", "T", 0, 3, 300, 1),
        ("unitWithoutRecord", "T", 0, 9, 7000, 1),
    ]


def test_two_records_with_one_queue_offset_are_found(spark: SparkSession) -> None:
    rows = [message(0), message(1), message(2, queue_offset=1), message(3, queue_offset=2)]
    units = [unit(0), unit(1), unit(2, physical_offset=300)]
    assert found(spark, rows, units) == [("unitOfOtherRecord", "T", 0, 1, 200, 1)]


def test_records_after_the_last_unit_wait_for_dispatch(spark: SparkSession) -> None:
    rows = [message(0), message(1), message(2), message(3, topic="U", queue_offset=0)]
    assert found(spark, rows, [unit(0)]) == [
        ("dispatchBehind", "T", 0, 1, 100, 2),
        ("dispatchBehind", "U", 0, 0, 300, 1),
    ]


def test_records_from_before_a_topic_was_deleted_miss_no_unit(spark: SparkSession) -> None:
    again = [message(0), message(1), message(2, queue_offset=0), message(3, topic="Gone", queue_offset=0), message(4)]
    units = [unit(0, physical_offset=200), unit(4)]
    assert found(spark, again, units, topics={"T"}) == [
        ("deletedWithTopic", "Gone", 0, 0, 300, 1),
        ("deletedWithTopic", "T", 0, 0, 0, 2),
    ]
    noted = found(spark, again, units, deleted_before={"Gone": 301})
    assert ("deletedWithTopic", "Gone", 0, 0, 300, 1) in noted
    assert ("recordWithoutUnit", "Gone", 0, 0, 300, 1) in found(spark, again, units, topics={"T", "Gone"})


def test_what_was_expired_and_what_came_later_is_left_out(spark: SparkSession) -> None:
    rows = [message(2), message(3), message(4)]
    units = [unit(0), unit(1), unit(2), unit(3), unit(9, physical_offset=900)]
    assert found(spark, rows, units, log_min_offset=200, log_end_offset=400) == []


def test_a_light_queue_misses_its_units_only_where_it_is_dispatched_to(spark: SparkSession) -> None:
    named = {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b", "INNER_MULTI_QUEUE_OFFSET": "1,0"}
    rows = [message(0), message(1, properties=named), message(2)]
    light = [unit(0, topic="%LMQ%a", physical_offset=0)]
    found_with = found(spark, rows, [unit(0), unit(1), unit(2), *light])
    assert ("recordWithoutUnit", "%LMQ%a", 0, 1, 100, 1) in found_with
    assert not [row for row in found_with if row[1] == "%LMQ%b"]


def test_a_gap_is_what_neither_units_nor_records_fill(spark: SparkSession) -> None:
    gaps = local_frame(spark, [("T", 0, 2, 5), ("T", 0, 8, 8), ("T", 1, 1, 1)], GAP_SCHEMA)
    rows = [message(number) for number in (0, 1, 3, 6, 8)]
    findings = gaps_of_queues(messages_of(spark, rows), gaps).collect()
    assert sorted((row.kind, row.queue_id, row.queue_offset, row.messages) for row in findings) == [
        ("queueGap", 0, 2, 3),
        ("queueGap", 1, 1, 1),
    ]
