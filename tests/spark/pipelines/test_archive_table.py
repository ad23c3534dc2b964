"""Archive in a table, by the writer of Spark's that every machine has: ORC, whose appends are no transactions."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql import SparkSession

from rocketpy.errors import StartError
from rocketpy.spark.pipelines.archive import archived_ranges
from rocketpy.spark.pipelines.archive_log.file_system import LocalFileSystem
from rocketpy.spark.pipelines.archive_log.log import ArchiveLog
from rocketpy.spark.pipelines.archive_log.ranges import OffsetRange
from rocketpy.spark.pipelines.archive_table import TableFormat, archive_to_table, read_table
from tests.spark.pipelines.messages import frame, message, places


def test_a_run_that_died_after_its_append_is_not_repeated(spark: SparkSession, tmp_path: Path) -> None:
    """And one that died before it is, as the table says: the log has neither."""
    root, table = tmp_path / "log", TableFormat("orc", str(tmp_path / "table"))
    log = ArchiveLog(str(root), files=LocalFileSystem())
    log.announce("died-before")
    first = archive_to_table(frame(spark, [message("T", 0, offset) for offset in range(3)]), str(root), table)
    assert (first.read, first.written) == (3, 3)
    (record,) = log.records()
    (root / "_archive" / "runs" / "00000000000000000001.json").unlink()
    log.announce(record.id)
    again = archive_to_table(frame(spark, [message("T", 0, offset) for offset in range(5)]), str(root), table)
    assert (again.read, again.written, again.skipped_count) == (5, 2, 3)
    assert places(read_table(spark, table)) == [("T", 0, offset) for offset in range(5)]
    assert archived_ranges(spark, str(root)) == (OffsetRange("T", "b", 0, 0, 5),)
    assert log.announced() == []


def test_a_table_may_be_a_name_in_a_catalog(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql(f"CREATE DATABASE named_tables LOCATION 'file:{tmp_path}/named'")
    try:
        root, table = str(tmp_path / "log"), TableFormat("orc", "named_tables.orders")
        done = [
            archive_to_table(frame(spark, [message("T", 0, offset) for offset in range(count)]), root, table)
            for count in (2, 3)
        ]
        assert [(each.read, each.written) for each in done] == [(2, 2), (3, 1)]
        assert places(read_table(spark, table)) == [("T", 0, offset) for offset in range(3)]
    finally:
        spark.sql("DROP DATABASE named_tables CASCADE")


def test_a_format_without_its_jars_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"Spark has no format delta: start the session with its jars"):
        archive_to_table(frame(spark, [message("T", 0, 0)]), str(tmp_path), TableFormat("delta", str(tmp_path)))
