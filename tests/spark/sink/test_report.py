"""Commit messages of tasks: summed by queue, pickled, written as a report."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from rocketpy.client import MessageQueue, SendResult, SendStatus
from rocketpy.spark.sink.report import QueueCount, StoredCounts, TaskCommit, sentence, summed, write_report


def stored(queue_id: int, offset: int, count: int, status: SendStatus = SendStatus.SEND_OK) -> StoredCounts:
    counts = StoredCounts()
    counts.note(SendResult(status, "k", "", MessageQueue("T", "b", queue_id), offset, "r"), count, 10 * count)
    return counts


def test_tasks_are_summed_by_queue_and_those_without_a_report_are_counted() -> None:
    commits = [
        TaskCommit("w", 0, 5, stored(0, 10, 5)),
        None,
        TaskCommit("w", 1, 4, stored(0, 4, 3, SendStatus.FLUSH_DISK_TIMEOUT)),
        TaskCommit("w", 2, 1, stored(1, 7, 1)),
    ]
    counts, reported, missing = summed(pickle.loads(pickle.dumps(commits)))
    assert (reported, missing, counts.messages, counts.bytes) == (3, 1, 9, 90)
    assert counts.queues == {("T", "b", 0): QueueCount(8, 4, 15), ("T", "b", 1): QueueCount(1, 7, 8)}
    assert sentence(counts) == (
        "9 messages (90 bytes) in 2 queues of T, 3 of them stored but not yet flushed or replicated"
    )


def test_nothing_stored_is_said() -> None:
    assert sentence(summed([])[0]) == "0 messages (0 bytes) in 0 queues of no topic"


def test_a_report_is_a_file_named_after_the_write(tmp_path: Path) -> None:
    path = write_report(
        tmp_path / "new" / "reports", "query/7", stored(2, 5, 3), outcome="committed", tasks=1, missing=0
    )
    assert path.name == "query-7.json"
    report = json.loads(path.read_text())
    assert report["queues"] == [
        {"topic": "T", "brokerName": "b", "queueId": 2, "messages": 3, "begin_offset": 5, "end_offset": 8}
    ]
    assert (report["write"], report["messages"], report["statuses"]) == ("query/7", 3, {"SEND_OK": 3})
    assert [each.name for each in path.parent.iterdir()] == ["query-7.json"]
