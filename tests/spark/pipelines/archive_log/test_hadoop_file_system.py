"""Hadoop's files of an archive, tried on the file system that needs no cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql import SparkSession

from rocketpy.clock import ManualClock
from rocketpy.spark.pipelines.archive_log.hadoop_file_system import ABANDONED_AFTER_MS, HadoopFileSystem
from tests.spark.pipelines.archive_log.test_file_system import check_contract


def test_hadoop_files_keep_the_contract(spark: SparkSession, tmp_path: Path) -> None:
    check_contract(HadoopFileSystem(spark, f"file:{tmp_path}", clock=ManualClock()), f"file:{tmp_path}")


def test_a_staging_directory_is_abandoned_after_a_day(spark: SparkSession, tmp_path: Path) -> None:
    clock = ManualClock(int(tmp_path.stat().st_mtime * 1000))
    files = HadoopFileSystem(spark, f"file:{tmp_path}", clock=clock)
    with files.locked(f"file:{tmp_path}/lock"):
        clock.advance_ms(ABANDONED_AFTER_MS - 1_000)
        assert not files.is_abandoned(f"file:{tmp_path}")
    clock.advance_ms(2_000)
    assert files.is_abandoned(f"file:{tmp_path}")
