"""Dead letters by cause, open transactions and overdue messages, from records made by hand."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql import SparkSession

from rocketpy.protocol.topic_name import (
    DELAY_DEAD_LETTER_TOPIC,
    SCHEDULE_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)
from rocketpy.spark.pipelines.audit.queue_units import UNIT_SCHEMA
from rocketpy.spark.pipelines.audit.stuck import (
    dead_letter_findings,
    dead_letters,
    open_transactions,
    overdue_messages,
)
from rocketpy.spark.pipelines.local_rows import local_frame
from tests.spark.pipelines.message_rows import at, message, messages_of


def test_dead_letters_have_a_cause(spark: SparkSession) -> None:
    retry = {"RETRY_TOPIC": "T"}
    rows = [
        message(0, topic="%DLQ%g", reconsume_times=17, properties=retry),
        message(1, topic="%DLQ%g", reconsume_times=17, properties=retry),
        message(2, topic="%DLQ%g", reconsume_times=2, properties=retry),
        message(3, topic="%DLQ%few", reconsume_times=3, properties=retry),
        message(
            4,
            topic=TRANS_CHECK_MAX_TIME_TOPIC,
            properties={"PGROUP": "p", "REAL_TOPIC": "T", "TRANSACTION_CHECK_TIMES": "15"},
        ),
        message(5, topic=DELAY_DEAD_LETTER_TOPIC, properties={"REAL_TOPIC": "T", "DEAD_LETTER_REASON": "too long"}),
        message(6),
    ]
    letters = dead_letters(messages_of(spark, rows), {"few": 3, "g": 16})
    assert sorted(
        (row.physical_offset, row.consumer_group, row.origin_topic, row.cause) for row in letters.collect()
    ) == [
        (0, "g", "T", "retries exhausted: the limit is 16"),
        (100, "g", "T", "retries exhausted: the limit is 16"),
        (200, "g", "T", "given up by the consumer before the limit of 16"),
        (300, "few", "T", "retries exhausted: the limit is 3"),
        (400, "p", "T", "transaction neither committed nor rolled back after 15 checks"),
        (500, None, "T", "too long"),
    ]
    found = dead_letter_findings(letters).collect()
    assert sorted(row.messages for row in found) == [1, 1, 1, 1, 2]
    [both] = [row for row in found if row.messages == 2]
    assert (both.topic, both.expected) == ("%DLQ%g", "consumption of T")
    assert both.found == "retries exhausted: the limit is 16; sent back up to 17 times"


def half(number: int, queue_offset: int, **columns: Any) -> dict[str, Any]:
    columns = {"topic": TRANS_HALF_TOPIC} | columns
    return message(number, queue_offset=queue_offset, **columns)


def op(number: int, half_offset: int) -> dict[str, Any]:
    return message(number, topic=TRANS_OP_HALF_TOPIC, tags="d", body=b"%d" % half_offset)


def test_a_transaction_is_open_until_any_of_its_records_is_ended_or_given_up(spark: SparkSession) -> None:
    rows = [
        half(0, 0, unique_key="ended"),
        half(1, 1, unique_key="open", properties={"REAL_TOPIC": "T", "PGROUP": "p"}),
        half(2, 2, unique_key="open", properties={"REAL_TOPIC": "T", "PGROUP": "p"}),  # a copy, when it was checked
        half(3, 3, unique_key="ended by its copy"),
        half(4, 4, unique_key="ended by its copy"),
        half(5, 5, unique_key="given up"),
        half(6, 0, unique_key="given up", topic=TRANS_CHECK_MAX_TIME_TOPIC),
        half(7, 6),
        half(8, 7, properties={"TRAN_PREPARED_QUEUE_OFFSET": "6"}),  # without a unique key, the origin counts
        op(9, 0),
        op(10, 4),
        op(11, 7),
        message(12, topic=TRANS_OP_HALF_TOPIC, body=b"1"),  # no tag: no op message
        message(13, topic=TRANS_OP_HALF_TOPIC, tags="d", body=b"x"),
    ]
    found = open_transactions(messages_of(spark, rows)).collect()
    assert [(row.kind, row.queue_offset, row.consumer_group, row.found) for row in found] == [
        ("openTransaction", 1, "p", "none; checked 1 times; it is for T")
    ]


def delayed(number: int, due_s: int, **columns: Any) -> tuple[dict[str, Any], tuple[Any, ...]]:
    properties = {"REAL_TOPIC": "T", "DELAY": "1"}
    row = message(number, topic=SCHEDULE_TOPIC, properties=properties, **columns)
    due_ms = int(at(due_s).timestamp() * 1000)
    return row, (SCHEDULE_TOPIC, 0, number, number * 100, 100, due_ms, None)


def test_a_message_is_overdue_if_its_time_has_come_and_no_copy_was_delivered(spark: SparkSession) -> None:
    made = [
        delayed(0, 1, unique_key="before the offset"),
        delayed(1, 2, unique_key="delivered by Java"),
        delayed(2, 3, unique_key="delivered by us"),
        delayed(3, 4, unique_key="overdue"),
        delayed(4, 5),
        delayed(5, 60, unique_key="not due"),
    ]
    copies = [
        message(6, unique_key="delivered by Java", properties={"DELAY": "1"}),
        message(7, prepared_transaction_offset=~200, properties={"DELAY": "1"}),
        message(8, unique_key="overdue"),  # sent again by a producer, not a copy
    ]
    messages = messages_of(spark, [row for row, _ in made] + copies)
    units = local_frame(spark, [unit for _, unit in made], UNIT_SCHEMA)
    [row] = overdue_messages(messages, units, {1: 1}, at(10)).collect()
    assert (row.kind, row.queue_id, row.queue_offset, row.messages) == ("overdueDelay", 0, 3, 2)
    assert row.since == at(4).replace(tzinfo=None)
    assert overdue_messages(messages, units, {1: 5}, at(10)).collect() == []
