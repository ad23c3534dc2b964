"""A whole audit: stores of a Java broker are clean, and each damage is found as what it is, and nothing else is."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql import SparkSession

from rocketpy.spark.pipelines.audit import store as store_audit
from rocketpy.spark.pipelines.audit.report import AuditReport
from rocketpy.spark.pipelines.audit.store import APPENDED, audit_store
from rocketpy.store.layout import UNIT, UNIT_SIZE
from tests.spark.pipelines.jobs import counted_jobs
from tests.store.broken_stores import BrokenStore, unpack

JOBS_MAX = 20
"""Of an audit of a small store. There were 49 when it shuffled and broadcast what one task can compare."""


def audit(spark: SparkSession, store: BrokenStore) -> AuditReport:
    with audit_store(spark, str(store.root)) as result:
        assert result.findings.count() == sum(each.findings for each in result.report.kinds)
        return result.report


def serious(report: AuditReport) -> list[tuple[object, ...]]:
    """Everything but notices, as kind and place."""
    return [
        (row["kind"], row["topic"], row["queue_id"], row["queue_offset"], row["physical_offset"])
        for row in report.listed
        if row["severity"] != "notice"
    ]


def test_a_java_brokers_store_has_its_dead_letters_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    with counted_jobs(spark) as job_count:
        report = audit(spark, unpack("store-clean", tmp_path))
        assert job_count() <= JOBS_MAX
    assert [(each.kind, each.findings, each.messages) for each in report.kinds] == [
        ("topicWithoutGroup", 2, 652),
        ("deadLetter", 2, 4),
    ]
    assert (report.messages, report.units, report.is_clean, report.has_errors) == (925, 925, False, False)
    letters = {row["topic"]: row["found"] for row in report.listed if row["kind"] == "deadLetter"}
    assert letters == {
        "%DLQ%GoldRetryGroup": "given up by the consumer before the limit of 16; sent back up to 2 times",
        "TRANS_CHECK_MAX_TIME_TOPIC": (
            "transaction neither committed nor rolled back after 2 checks; sent back up to 0 times"
        ),
    }


def test_an_empty_store_of_a_java_broker_is_clean(spark: SparkSession, tmp_path: Path) -> None:
    report = audit(spark, unpack("store-empty", tmp_path))
    assert report.is_clean, report.lines()


def test_a_torn_record_leaves_its_unit_and_its_index_entries_behind(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a store is compared by many tasks if it is large."""
    monkeypatch.setattr(store_audit, "SMALL_LOG_SIZE", -1)
    assert serious(audit(spark, unpack("store-torn", tmp_path))) == [
        ("damagedLog", None, None, None, 634944),
        ("unitWithoutRecord", "GoldA", 0, 551, 634944),
        ("indexEntryWithoutRecord", None, None, None, 634944),
        ("indexEntryWithoutRecord", None, None, None, 634944),
        ("deadLetter", "TRANS_CHECK_MAX_TIME_TOPIC", None, None, 263564),
        ("openTransaction", "RMQ_SYS_TRANS_HALF_TOPIC", 0, 7, 263907),
    ]


@pytest.fixture(scope="module")
def damaged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[BrokenStore, AuditReport]:
    """A store with multi-dispatch, damaged in seven ways at seven places."""
    store = unpack("store-multi", tmp_path_factory.mktemp("multi"))
    queue, extra = store.queue_file("GoldA"), store.queue_file("GoldA", queue_id=1)
    light = store.queue_file("%LMQ%one")
    store.overwrite(queue, 3 * UNIT_SIZE, bytes(UNIT_SIZE))  # a unit of zeros
    store.overwrite(queue, 5 * UNIT_SIZE, queue.read_bytes()[6 * UNIT_SIZE : 7 * UNIT_SIZE])  # that of the next one
    offset, size, tags_code = UNIT.unpack_from(extra.read_bytes(), 2 * UNIT_SIZE)
    store.overwrite(extra, 2 * UNIT_SIZE, UNIT.pack(offset, size + 1, tags_code))
    offset, size, tags_code = UNIT.unpack_from(extra.read_bytes(), 4 * UNIT_SIZE)
    store.overwrite(extra, 4 * UNIT_SIZE, UNIT.pack(offset, size, tags_code + 1))
    store.overwrite(light, 7 * UNIT_SIZE, bytes(UNIT_SIZE))
    end = 40 * UNIT_SIZE  # far behind the last unit: no records up to there
    store.overwrite(extra, end, UNIT.pack(900_000, 100, 0))
    path = store.root / "config" / "lmqConsumerOffset.json"
    path.write_text(path.read_text().replace('"GoldA@GoldGroup":{0:4', '"GoldA@GoldGroup":{0:99'))
    return store, audit(spark, store)


def test_each_damage_to_a_queue_is_found_where_it_is(damaged: tuple[BrokenStore, AuditReport]) -> None:
    store, report = damaged
    places = {
        (record.topic, record.queue_id, record.queue_offset): record.physical_offset for record in store.records()
    }
    found = [row for row in serious(report) if row[0] != "recordWithoutUnit"]
    assert found == [
        ("unitWithoutRecord", "GoldA", 1, 40, 900_000),
        ("unitOfOtherRecord", "GoldA", 0, 5, places["GoldA", 0, 5]),
        ("unitOfWrongSize", "GoldA", 1, 2, places["GoldA", 1, 2]),
        ("unitOfWrongTag", "GoldA", 1, 4, places["GoldA", 1, 4]),
        ("queueGap", "GoldA", 1, 12, None),
        ("offsetPastEnd", "GoldA", 0, 99, None),
    ]


def test_records_without_units_are_found_in_light_queues_too(damaged: tuple[BrokenStore, AuditReport]) -> None:
    _, report = damaged
    lost = [row[1:4] for row in serious(report) if row[0] == "recordWithoutUnit"]
    assert lost == [("%LMQ%one", 0, 7), ("GoldA", 0, 3)]


def test_a_gap_says_how_many_are_missing(damaged: tuple[BrokenStore, AuditReport]) -> None:
    _, report = damaged
    [gap] = [row for row in report.listed if row["kind"] == "queueGap"]
    assert (gap["expected"], gap["found"]) == ("units and records from 12 to 39", "neither for 28 of them")


@contextmanager
def opened_elsewhere(store: BrokenStore) -> Iterator[None]:
    """Hold the lock of a store in another process, as a broker does that has it open."""
    code = "import fcntl, sys; file = open(sys.argv[1], 'wb'); fcntl.lockf(file, fcntl.LOCK_EX); print(); input()"
    holder = subprocess.Popen(
        [sys.executable, "-u", "-c", code, str(store.root / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        yield
    finally:
        holder.communicate("\n")


def test_what_a_broker_has_not_dispatched_yet_is_not_compared(spark: SparkSession, tmp_path: Path) -> None:
    """Nor is it missing: the broker was writing when the audit listed its queues. All else in this store is clean."""
    store = unpack("store-ext", tmp_path)
    last = store.records()[-1]
    store.overwrite(
        store.queue_file(last.topic, queue_id=last.queue_id), last.queue_offset * UNIT_SIZE, bytes(UNIT_SIZE)
    )
    with opened_elsewhere(store):
        report = audit(spark, store)
    assert (report.is_live, report.messages, report.skipped[APPENDED]) == (True, len(store.records()) - 1, 1)
    assert [each.kind for each in report.kinds] == ["topicWithoutGroup"], report.lines()


def test_a_report_is_json_and_lines(damaged: tuple[BrokenStore, AuditReport]) -> None:
    _, report = damaged
    fields = json.loads(json.dumps(report.as_fields()))
    assert (fields["pipeline"], fields["is_clean"], fields["messages"]) == ("audit", False, 25)
    lines = report.lines()
    assert "25 messages, 57 units" in lines[0]
    assert any(line.startswith("error: queueGap: 1 (28 messages)") for line in lines)
