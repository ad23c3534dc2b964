"""Log against an archive: what one of them lacks, what differs, and what neither can have."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql import SparkSession

from rocketpy.spark.pipelines.audit.archives import log_against_archive
from tests.spark.pipelines.message_rows import message, messages_of


def test_each_difference_is_found_and_what_neither_can_have_is_a_notice(spark: SparkSession) -> None:
    log = [message(number, unique_key=f"U{number}") for number in range(3, 10) if number != 7]
    log.append(message(20, queue_id=1, queue_offset=0))
    archive = [message(number, unique_key=f"U{number}") for number in (1, 2, 3, 3, 5, 6, 7)]
    archive[4] |= {"body": b"another"}
    archive[5] |= {"unique_key": "another"}
    archive.append(message(30, topic="Old"))
    rows = log_against_archive(messages_of(spark, log), messages_of(spark, archive)).collect()
    assert sorted((row.kind, row.topic, row.queue_id, row.queue_offset, row.messages) for row in rows) == [
        ("archiveBehind", "T", 0, 8, 2),
        ("archiveBehind", "T", 1, 0, 1),
        ("differsFromArchive", "T", 0, 5, 1),
        ("differsFromArchive", "T", 0, 6, 1),
        ("doubleInArchive", "T", 0, 3, 1),
        ("expiredFromLog", "Old", 0, 30, 1),
        ("expiredFromLog", "T", 0, 1, 2),
        ("notInArchive", "T", 0, 4, 1),
        ("onlyInArchive", "T", 0, 7, 1),
    ]


def test_bodies_are_compared_only_where_they_are_wanted(spark: SparkSession) -> None:
    log, archive = [message(0, body=b"one")], [message(0, body=b"two")]
    both = messages_of(spark, log), messages_of(spark, archive)
    assert [row.kind for row in log_against_archive(*both).collect()] == ["differsFromArchive"]
    assert log_against_archive(*both, compare_bodies=False).collect() == []
