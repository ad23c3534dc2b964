"""The progress bar: tasks of the block's own jobs, and no trace of it afterwards."""

from __future__ import annotations

import io
import threading

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql import SparkSession
from rich.console import Console

from rocketpy.spark.pipelines.progress import JobProgress, job_progress, progress_bar


def test_tasks_of_the_group_are_counted(spark: SparkSession) -> None:
    context = spark.sparkContext
    context.setJobGroup("mine", "one job")
    try:
        context.parallelize(range(4), 4).count()
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    context.parallelize(range(4), 3).count()
    assert job_progress(context, "mine") == JobProgress(4, 4, 0)
    assert job_progress(context, "other") == JobProgress(0, 0, 0)


def test_a_bar_shows_tasks_while_jobs_run(spark: SparkSession) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=100)
    with progress_bar(spark, "archiving", show=True, console=console):
        spark.sparkContext.parallelize(range(8), 8).map(lambda each: __import__("time").sleep(0.2)).count()
    assert "archiving" in console.file.getvalue()
    assert "/8 tasks" in console.file.getvalue()
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None


def test_without_a_terminal_nothing_is_drawn(spark: SparkSession) -> None:
    console = Console(file=io.StringIO())
    before = set(threading.enumerate())
    with progress_bar(spark, "archiving", show=False, console=console):
        assert set(threading.enumerate()) <= before
    assert console.file.getvalue() == ""
