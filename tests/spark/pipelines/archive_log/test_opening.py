"""Which file system an archive is on, by its path."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql import SparkSession

from rocketpy.spark.pipelines.archive_log.opening import open_archive_log


def test_a_path_of_this_machine_may_be_a_uri(spark: SparkSession, tmp_path: Path) -> None:
    assert open_archive_log(spark, f"file://{tmp_path}/a%b").root == open_archive_log(spark, f"{tmp_path}/a%b/").root
    assert open_archive_log(spark, str(tmp_path / "a%b")).root == str(tmp_path / "a%b")


def test_any_other_file_system_is_hadoops(spark: SparkSession, tmp_path: Path) -> None:
    """The file system ``viewfs`` maps names to other file systems, and needs no cluster."""
    configuration = spark.sparkContext._jsc.hadoopConfiguration()  # Hadoop's settings have no public way in
    configuration.set("fs.viewfs.mounttable.tests.link./archives", f"file://{tmp_path}")
    log = open_archive_log(spark, "viewfs://tests/archives/a")
    assert log.root == "viewfs://tests/archives/a"
    with log.opened_for_writing() as state:
        assert state.last_run == 0
    assert log.records() == []
