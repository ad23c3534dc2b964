"""``rocketpy pipeline`` with the session of these tests: summary, exit status, failures in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from rocketpy.cli.__main__ import app
from rocketpy.spark.pipelines.archive import archive, read_archive
from rocketpy.testing.fixture.in_thread import BrokerInThread
from tests.spark.files.test_reader import golden_store
from tests.spark.pipelines.messages import frame, message


def run(*arguments: str) -> Result:
    """Run ``rocketpy pipeline`` in this process."""
    return CliRunner().invoke(app, ["pipeline", *arguments])


def test_a_disk_is_archived_and_the_summary_says_so(spark: SparkSession, tmp_path: Path) -> None:
    store, records = golden_store("store-clean", tmp_path)
    root = str(tmp_path / "archive")
    expected = [record for record in records if record["topic"] == "GoldA"]
    done = run("archive", root, "--store", str(store), "--broker-name", "b", "-t", "GoldA", "--json")
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)
    assert (summary["read"], summary["written"], summary["run"]) == (len(expected), len(expected), 1)
    again = run("archive", root, "--store", str(store), "--broker-name", "b", "-t", "GoldA")
    assert again.stdout.startswith(f"archive: {len(expected)} read, 0 written, {len(expected)} skipped in ")
    assert read_archive(spark, root).count() == len(expected)


def test_what_was_archived_is_replayed(spark: SparkSession, rocketmq: BrokerInThread, tmp_path: Path) -> None:
    root = str(tmp_path / "archive")
    archive(frame(spark, [message("T", queue, offset) for queue in (0, 1) for offset in range(4)]), root)
    topic = rocketmq.topic("Again")
    done = run(
        "replay", rocketmq.name_server, "--archive", root, "--to", f"T={topic}", "-k", "k1", "-k", "k3", "--json"
    )
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)
    assert (summary["read"], summary["written"]) == (4, 4)
    assert {each.body for each in rocketmq.messages(topic)} == {b"T/0/1", b"T/0/3", b"T/1/1", b"T/1/3"}


def test_a_failure_is_a_sentence_first_and_sparks_traceback_after(spark: SparkSession) -> None:
    done = run("trace", "K", "-n", "127.0.0.1:1", "-t", "T")
    first, *rest = done.stderr.splitlines()
    assert done.exit_code == 1
    assert first.startswith("rocketpy: connect to 127.0.0.1:1 failed: ")
    assert any("Traceback" in line for line in rest)
    assert done.stdout == ""
