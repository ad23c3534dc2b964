"""Compaction of an archive: fewer files, the same messages. Its commit is cut in ``archive_log/test_log.py``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql import SparkSession
from typer.testing import CliRunner

from rocketpy.cli.__main__ import app
from rocketpy.errors import StoreError
from rocketpy.spark.pipelines.archive import archive, archived_ranges, read_archive
from rocketpy.spark.pipelines.archive_log.file_system import LocalFileSystem
from rocketpy.spark.pipelines.archive_log.log import ArchiveLog
from rocketpy.spark.pipelines.archive_log.record import ArchivedFile
from rocketpy.spark.pipelines.compaction import compact, small_files
from tests.spark.pipelines.messages import frame, message, places


def files_of(root: Path) -> dict[str, int]:
    """Return the number of files in each directory of an archive."""
    found = [str(path.parent.relative_to(root)) for path in root.glob("topic=*/date=*/*.parquet")]
    return {directory: found.count(directory) for directory in sorted(set(found))}


def test_small_files_are_those_that_have_company() -> None:
    files = [("a/1", 10), ("a/2", 49), ("a/3", 50), ("b/1", 10), ("b/2", 60), ("c/1", 1), ("c/2", 1)]
    found = small_files([ArchivedFile(*each) for each in files], 100)
    assert [file.path for file in found] == ["a/1", "a/2", "c/1", "c/2"]
    assert small_files([], 100) == []


def test_an_archive_has_fewer_files_and_the_same_messages(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "archive"
    for run in range(3):
        rows = [message(topic, 0, offset) for topic in ("T", "%RETRY%g") for offset in range(run * 3, run * 3 + 3)]
        archive(frame(spark, [*rows, *([message("Alone", 0, 0)] if run == 0 else [])]), str(root))
    before, ranges = read_archive(spark, str(root)).collect(), archived_ranges(spark, str(root))
    done = CliRunner().invoke(app, ["pipeline", "archive", str(root), "--compact", "--json"], env={"NAMESRV_ADDR": ""})
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)
    assert (summary["read"], summary["written"], list(summary["skipped"].values())) == (18, 18, [1])
    assert (summary["run"], summary["files"], summary["replaced"]) == (4, 2, 6)
    assert set(files_of(root).values()) == {1}
    assert len(files_of(root)) == 3
    order = ["topic", "queue_offset"]
    after = read_archive(spark, str(root))
    assert after.orderBy(order).collect() == sorted(before, key=lambda row: (row.topic, row.queue_offset))
    assert spark.read.parquet(str(root)).count() == len(before)
    assert archived_ranges(spark, str(root)) == ranges
    assert [read_archive(spark, str(root), as_of=run).count() for run in (1, 4)] == [7, 19]
    assert places(read_archive(spark, str(root), topics=["T"], as_of=2)) == [("T", 0, offset) for offset in range(6)]
    assert compact(spark, str(root)).details["run"] is None
    later = archive(frame(spark, [message("T", 0, offset) for offset in range(12)]), str(root))
    assert (later.read, later.written, later.details["run"]) == (12, 3, 5)


def test_files_are_not_larger_than_is_wanted(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "archive"
    for run in range(3):
        archive(frame(spark, [message("T", 0, offset) for offset in range(run * 2, run * 2 + 2)]), str(root))
    summary = compact(spark, str(root), rows_per_file=5)
    log = ArchiveLog(str(root), files=LocalFileSystem())
    assert (summary.details["files"], sorted(file.rows for file in log.state().files)) == (2, [1, 5])
    assert places(read_archive(spark, str(root))) == [("T", 0, offset) for offset in range(6)]


def test_files_that_lack_messages_are_left_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "archive"
    for run in range(2):
        archive(frame(spark, [message("T", 0, run * 2), message("T", 0, run * 2 + 1)]), str(root))
    first, second = sorted(root.glob("topic=*/date=*/*.parquet"))
    archive(frame(spark, [message("T", 0, 7)]), str(tmp_path / "other"))
    [short] = (tmp_path / "other").glob("topic=*/date=*/*.parquet")
    for suffixed in (first.with_name(f".{first.name}.crc"), first):
        suffixed.unlink(missing_ok=True)
    first.write_bytes(short.read_bytes())
    with pytest.raises(StoreError, match="expected 4 messages in the files to be merged, as the runs say, found 3"):
        compact(spark, str(root))
    assert sorted(root.glob("topic=*/date=*/*.parquet")) == [first, second]
    assert list((root / "_archive" / "staging").iterdir()) == []
