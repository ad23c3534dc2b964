"""Rows of the driver as a DataFrame without jobs."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql import SparkSession

from rocketpy.spark.pipelines.local_rows import local_frame, spread
from rocketpy.spark.schema import SPARK_SCHEMA
from tests.spark.pipelines.jobs import counted_jobs
from tests.spark.pipelines.message_rows import at


def test_rows_come_back_as_they_are(spark: SparkSession) -> None:
    schema = "name string, number bigint, moment timestamp, names array<string>"
    rows = [("a", 2**40, at(0), ["x", "y"]), (None, None, None, [])]
    frame = local_frame(spark, rows, schema)
    assert [tuple(row) for row in frame.collect()] == [("a", 2**40, at(0).replace(tzinfo=None), ["x", "y"]), rows[1]]
    assert local_frame(spark, [], SPARK_SCHEMA).collect() == []
    assert local_frame(spark, [], SPARK_SCHEMA).schema == SPARK_SCHEMA


def test_an_aggregation_of_local_rows_is_one_job(spark: SparkSession) -> None:
    with counted_jobs(spark) as job_count:
        frame = local_frame(spark, [("a", 1), ("b", 2), ("a", 3)], "name string, number int")
        assert sorted(map(tuple, frame.groupBy("name").sum("number").collect())) == [("a", 4), ("b", 2)]
        assert job_count() == 1


def test_rows_are_spread_over_as_many_tasks_as_there_is_work(spark: SparkSession) -> None:
    frame = local_frame(spark, [(number,) for number in range(8)], "number int")
    assert [spread(frame, tasks).rdd.getNumPartitions() for tasks in (0, 1, 3)] == [1, 1, 3]
