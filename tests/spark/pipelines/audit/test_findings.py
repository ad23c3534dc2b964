"""Rows become findings with one schema; grouped kinds are one finding for each queue."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from rocketpy.spark.pipelines.audit.findings import (
    FINDING_SCHEMA,
    KINDS,
    classified_findings,
    findings_of,
    severity_of,
    union_of,
)
from rocketpy.spark.pipelines.local_rows import local_frame
from rocketpy.store.inspection.verify.findings import Severity


def test_a_row_may_be_several_findings_and_grouped_ones_are_counted_by_queue(spark: SparkSession) -> None:
    rows = local_frame(spark, [("T", 0, 1), ("T", 0, 2), ("T", 1, 3), ("T", 1, 4)], "topic string, queue_id int, n int")
    found = classified_findings(
        rows.withColumn("queue_offset", F.col("n")),
        {
            "recordWithoutUnit": (F.col("n") == 2, F.format_string("unit %d", "n"), "none"),
            "dispatchBehind": (F.col("n") > 1, "units", "none"),
            "unitOfWrongSize": (F.col("n") == 4, "a", "b"),
        },
        grouped=("dispatchBehind",),
    )
    assert ", ".join(f"{name} {kind}" for name, kind in found.dtypes) == FINDING_SCHEMA
    assert sorted(
        (row.kind, row.severity, row.queue_id, row.queue_offset, row.messages) for row in found.collect()
    ) == [
        ("dispatchBehind", "notice", 0, 2, 1),
        ("dispatchBehind", "notice", 1, 3, 2),
        ("recordWithoutUnit", "error", 0, 2, 1),
        ("unitOfWrongSize", "error", 1, 4, 1),
    ]


def test_findings_of_different_rows_are_one_dataframe(spark: SparkSession) -> None:
    first = findings_of(local_frame(spark, [("T",)], "topic string"), "neverConsumed", expected="x", found="y")
    second = findings_of(local_frame(spark, [(7,)], "messages int"), "queueGap", expected="x", found="y")
    rows = union_of([first, second]).collect()
    assert [(row.kind, row.topic, row.messages) for row in rows] == [("neverConsumed", "T", 1), ("queueGap", None, 7)]


def test_each_kind_is_named_once_and_has_a_severity() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS)
    assert severity_of("recordWithoutUnit") is Severity.ERROR
