"""Units and keys that a broker makes of records, by the rules of dispatch."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql import SparkSession

from rocketpy.protocol.java_hash import index_key_hash, tags_code
from rocketpy.spark.pipelines.audit.expected import expected_keys, expected_units
from tests.spark.pipelines.message_rows import message, messages_of

NAMES, OFFSETS = "INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET"


def test_units_are_those_of_own_and_named_queues_and_none_of_prepared_records(spark: SparkSession) -> None:
    rows = [
        message(0, tags="TagA"),
        message(1, sys_flag=0x4),  # prepared
        message(2, sys_flag=0x8),  # committed
        message(3, sys_flag=0xC),  # rolled back
        message(4, queue_id=2, properties={NAMES: "%LMQ%a,Extra,T", OFFSETS: "7,8,x"}),
        message(5, properties={NAMES: "%LMQ%a,Extra", OFFSETS: "9"}),  # as many offsets as names, or none counts
    ]
    units = expected_units(messages_of(spark, rows)).collect()
    assert sorted((row.physical_offset, row.topic, row.queue_id, row.queue_offset, row.is_own) for row in units) == [
        (0, "T", 0, 0, True),
        (200, "T", 0, 2, True),
        (400, "%LMQ%a", 0, 7, False),
        (400, "Extra", 2, 8, False),
        (400, "T", 2, 4, True),
        (500, "T", 0, 5, True),
    ]
    assert {row.physical_offset: row.tags_code for row in units}[0] == tags_code("TagA")


def test_keys_are_the_unique_key_and_each_part_of_keys(spark: SparkSession) -> None:
    rows = [
        message(0, unique_key="U0", keys="a  b"),
        message(1, unique_key="U1", sys_flag=0xC),  # rolled back: not indexed
        message(2, sys_flag=0x4, keys="p"),
        message(3, unique_key="U3", properties={"ROCKETPY_DAMAGED": "1"}),  # stands for a lost record
        message(4),
    ]
    keys = expected_keys(messages_of(spark, rows)).collect()
    assert sorted((row.physical_offset, row.key, row.key_hash, row.is_due) for row in keys) == [
        (0, "U0", index_key_hash("T#U0"), True),
        (0, "a", index_key_hash("T#a"), True),
        (0, "b", index_key_hash("T#b"), True),
        (200, "p", index_key_hash("T#p"), True),
    ]


def test_keys_past_the_128th_are_allowed_and_not_required(spark: SparkSession) -> None:
    rows = [message(0, unique_key="U", keys=" ".join(f"k{number}" for number in range(130)))]
    keys = expected_keys(messages_of(spark, rows)).collect()
    assert len(keys) == 131
    assert sorted(row.key for row in keys if not row.is_due) == ["k127", "k128", "k129"]
