"""``rocketpy pipeline audit`` with the session of these tests: the report as lines and as JSON, the exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql import SparkSession
from typer.testing import CliRunner

from rocketpy.cli.__main__ import app
from tests.store.broken_stores import unpack


def test_findings_are_status_1_and_are_written(spark: SparkSession, tmp_path: Path) -> None:
    store = unpack("store-ext", tmp_path)
    store.overwrite(store.queue_file("GoldA"), 0, bytes(20))
    findings = str(tmp_path / "findings")
    done = CliRunner().invoke(app, ["pipeline", "audit", str(store.root), "--json", "--findings", findings])
    assert done.exit_code == 1, done.output
    report = json.loads(done.stdout)
    assert (report["read"], report["written"], report["skipped"]) == (
        report["messages"],
        2,
        {"appended after the audit began": 0},
    )
    assert [each["kind"] for each in report["kinds"]] == ["recordWithoutUnit", "topicWithoutGroup"]
    assert sorted(row.kind for row in spark.read.parquet(findings).collect()) == [
        "recordWithoutUnit",
        "topicWithoutGroup",
    ]
