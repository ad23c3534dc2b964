"""Hadoop's files of an archive, tried on the file system that needs no cluster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from rocketpy.spark.pipelines.archive_log.hadoop_file_system import ABANDONED_AFTER_SECONDS, HadoopFileSystem
from tests.spark.pipelines.archive_log.test_file_system import check_contract

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_hadoop_files_keep_the_contract(spark: SparkSession, tmp_path: Path) -> None:
    check_contract(HadoopFileSystem(spark, f"file:{tmp_path}"), f"file:{tmp_path}")


def test_a_staging_directory_is_abandoned_after_a_day(spark: SparkSession, tmp_path: Path) -> None:
    files = HadoopFileSystem(spark, f"file:{tmp_path}")
    with files.locked(f"file:{tmp_path}/lock"):
        assert not files.is_abandoned(f"file:{tmp_path}")
    changed = tmp_path.stat().st_mtime - ABANDONED_AFTER_SECONDS - 1
    os.utime(tmp_path, (changed, changed))
    assert files.is_abandoned(f"file:{tmp_path}")
