"""Log against index: keys that are not found, entries that lead nowhere, and what the index does not cover."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql import SparkSession

from rocketpy.protocol.java_hash import index_key_hash
from rocketpy.spark.pipelines.audit.index_entries import ENTRY_SCHEMA
from rocketpy.spark.pipelines.audit.key_index import log_against_index
from rocketpy.spark.pipelines.local_rows import local_frame
from tests.spark.pipelines.message_rows import message, messages_of


def entry(number: int, key: str, physical_offset: int, *, is_reachable: bool = True) -> tuple[object, ...]:
    return ("f", number, index_key_hash(f"T#{key}"), physical_offset, 0, 0, is_reachable)


def test_keys_and_entries_that_do_not_fit_are_found(spark: SparkSession) -> None:
    rows = [message(number, unique_key=f"U{number}") for number in range(8)]
    entries = [
        entry(1, "U2", 200),
        entry(2, "U3", 300, is_reachable=False),
        entry(3, "other", 400),
        entry(4, "U5", 500),
        entry(5, "U5", 500),  # twice is no harm
        entry(6, "U0", 50),  # before the log's first offset
    ]
    findings = log_against_index(
        messages_of(spark, rows[1:]), local_frame(spark, entries, ENTRY_SCHEMA), log_min_offset=100
    ).collect()
    assert sorted((row.kind, row.physical_offset, row.messages) for row in findings) == [
        ("indexEntryWithoutRecord", 400, 1),
        ("keyNotInIndex", 100, 1),
        ("keyNotInIndex", 300, 1),
        ("keyNotInIndex", 400, 1),
        ("notIndexed", 600, 2),
    ]
    found = {(row.kind, row.physical_offset): row.found for row in findings}
    assert found["keyNotInIndex", 300] == "entry 2 of f, which no chain leads to"
    assert found["keyNotInIndex", 400] == "none"


def test_without_entries_there_is_no_index_and_no_finding(spark: SparkSession) -> None:
    messages = messages_of(spark, [message(0, unique_key="U0")])
    assert log_against_index(messages, local_frame(spark, [], ENTRY_SCHEMA)).collect() == []
