"""Archive: each message once, whatever is read again, from wherever it comes, and whenever a run ends too early."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from rocketpy.clock import ManualClock
from rocketpy.errors import SettingsError
from rocketpy.spark.pipelines.archive import archive, archived_ranges, read_archive
from rocketpy.spark.pipelines.archive_log.file_system import LocalFileSystem
from rocketpy.spark.pipelines.archive_log.log import ArchiveLog
from rocketpy.spark.pipelines.archive_log.ranges import OffsetRange
from rocketpy.spark.pipelines.sources import store_messages
from tests.spark.files.test_reader import golden_store
from tests.spark.pipelines.messages import frame, message, places


def test_an_archive_reads_back_as_what_was_archived(spark: SparkSession, tmp_path: Path) -> None:
    """Also topics that look like numbers, and those whose names a directory cannot have."""
    rows = [message(topic, 0, offset) for topic in ("T", "123", "%RETRY%g", "a|b") for offset in range(3)]
    rows.append(message("T", 1, 0, store_timestamp=None, unique_key=None, keys=None, tags=None, properties={}))
    messages = frame(spark, rows)
    summary = archive(messages, str(tmp_path / "archive"))
    assert (summary.read, summary.written, summary.skipped_count) == (13, 13, 0)
    read = read_archive(spark, str(tmp_path / "archive"))
    assert read.dtypes == messages.dtypes
    order = ["topic", "queue_id", "queue_offset"]
    assert read.orderBy(order).collect() == messages.orderBy(order).collect()


def test_a_store_that_java_wrote_is_equal_in_its_archive(spark: SparkSession, tmp_path: Path) -> None:
    store, records = golden_store("store-clean", tmp_path)
    files = store_messages(spark, str(store), "b", sorted({str(record["topic"]) for record in records}))
    summary = archive(files, str(tmp_path / "archive"))
    assert summary.written == summary.read == len(records)
    order = ["topic", "queue_id", "queue_offset"]
    archived = read_archive(spark, str(tmp_path / "archive"))
    assert archived.orderBy(order).collect() == files.orderBy(order).collect()


def test_files_lie_by_topic_and_by_the_day_of_the_store_in_utc(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "archive"
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        archive(frame(spark, [message("T", 0, offset) for offset in range(8, 12)]), str(root))
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    days = spark.read.parquet(str(root)).groupBy("topic", "date").agg(F.min("queue_offset"), F.max("queue_offset"))
    assert sorted(tuple(row) for row in days.collect()) == [
        ("T", date(2026, 1, 31), 8, 9),
        ("T", date(2026, 2, 1), 10, 11),
    ]


def test_a_run_adds_what_no_run_before_it_has(spark: SparkSession, tmp_path: Path) -> None:
    root = str(tmp_path / "archive")
    first = archive(frame(spark, [message("T", 0, offset) for offset in range(5)]), root)
    again = archive(frame(spark, [message("T", 0, offset) for offset in range(5)]), root)
    more = archive(frame(spark, [message("T", queue, offset) for queue in (0, 1) for offset in range(8)]), root)
    assert [(each.read, each.written, each.skipped_count) for each in (first, again, more)] == [
        (5, 5, 0),
        (5, 0, 5),
        (16, 11, 5),
    ]
    assert [each.details["run"] for each in (first, again, more)] == [1, None, 2]
    assert places(read_archive(spark, root)) == [("T", queue, offset) for queue in (0, 1) for offset in range(8)]
    assert archived_ranges(spark, root) == (OffsetRange("T", "b", 0, 0, 8), OffsetRange("T", "b", 1, 0, 8))


def test_messages_before_and_between_those_of_earlier_runs_are_added(spark: SparkSession, tmp_path: Path) -> None:
    """As when a cluster was archived first, and a disk that has older messages after it."""
    root = str(tmp_path / "archive")
    archived = archive(frame(spark, [message("T", 0, offset) for offset in (3, 4, 7, 8)]), root)
    assert archived.details["missing"] == 2
    assert archived_ranges(spark, root) == (OffsetRange("T", "b", 0, 3, 5), OffsetRange("T", "b", 0, 7, 9))
    archive(frame(spark, [message("T", 0, offset) for offset in range(10)]), root)
    assert places(read_archive(spark, root)) == [("T", 0, offset) for offset in range(10)]
    assert archived_ranges(spark, root) == (OffsetRange("T", "b", 0, 0, 10),)


def test_equal_offsets_of_two_brokers_are_two_messages(spark: SparkSession, tmp_path: Path) -> None:
    root = str(tmp_path / "archive")
    for broker in ("a", "b", "a"):
        archive(frame(spark, [message("T", 0, offset, broker_name=broker) for offset in range(2)]), root)
    assert [(each.broker_name, each.end) for each in archived_ranges(spark, root)] == [("a", 2), ("b", 2)]
    assert read_archive(spark, root).count() == 4


def test_topics_can_be_chosen_when_an_archive_is_read(spark: SparkSession, tmp_path: Path) -> None:
    root = str(tmp_path / "archive")
    assert read_archive(spark, root).count() == 0
    assert archive(frame(spark, []), root).written == 0
    archive(frame(spark, [message("T", 0, 0), message("U", 0, 0)]), root)
    assert places(read_archive(spark, root, topics=["U", "V"])) == [("U", 0, 0)]


def test_the_number_of_files_can_be_bounded(spark: SparkSession, tmp_path: Path) -> None:
    messages = frame(spark, [message("T", queue, 0) for queue in range(4)]).repartition(4, "queue_id")
    many = archive(messages, str(tmp_path / "many")).details["files"]
    one = archive(messages, str(tmp_path / "one"), files_per_partition=1).details["files"]
    assert one == 1 < int(str(many))
    assert read_archive(spark, str(tmp_path / "one")).count() == 4


def test_a_run_that_is_refused_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "archive"
    with pytest.raises(SettingsError, match="without a broker name"):
        archive(frame(spark, [message("T", 0, 0, broker_name=None)]), str(root))
    assert list(root.rglob("*.parquet")) == []
    assert archive(frame(spark, [message("T", 0, 0)]), str(root)).written == 1


def test_a_record_says_when_by_the_clock_of_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    root = str(tmp_path / "archive")
    summary = archive(frame(spark, [message("T", 0, 0)]), root, clock=ManualClock(1_700_000_000_000))
    assert summary.seconds == 0
    (record,) = ArchiveLog(root, files=LocalFileSystem()).records()
    assert (record.run, record.time, record.row_count) == (1, "2023-11-14T22:13:20+00:00", 1)


def test_a_run_that_shuffles_and_finds_nothing_new_counts_what_it_has_read(spark: SparkSession, tmp_path: Path) -> None:
    messages = frame(spark, [message("T", queue, 0) for queue in range(4)])
    root = str(tmp_path / "archive")
    assert archive(messages, root, files_per_partition=1).written == 4
    again = archive(messages, root, files_per_partition=1)
    assert (again.read, again.written, again.skipped) == (4, 0, {"already archived": 4})
    assert archive(frame(spark, []), root, files_per_partition=1).read == 0
