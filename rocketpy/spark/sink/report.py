"""What tasks report of what they have stored, summed up: the commit messages of the sink.

Rule: a task reports once, at its end, and only what brokers have acknowledged. A task that fails reports nothing;
what it had stored stays in the topics, and is stored again when Spark repeats the task.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import attrs
from pyspark.sql.datasource import WriterCommitMessage

from rocketpy.client import SendResult, SendStatus


@attrs.define
class QueueCount:
    """Messages that were stored in one queue, within offsets from ``begin_offset`` to ``end_offset`` (exclusive)."""

    messages: int = 0
    begin_offset: int = 2**63 - 1
    end_offset: int = 0

    def add(self, other: QueueCount) -> None:
        """Add messages of the same queue."""
        self.messages += other.messages
        self.begin_offset = min(self.begin_offset, other.begin_offset)
        self.end_offset = max(self.end_offset, other.end_offset)


@attrs.define
class StoredCounts:
    """Messages by queue (topic, broker, queue id); other messages may lie between them."""

    queues: dict[tuple[str, str, int], QueueCount] = attrs.field(factory=dict)
    statuses: Counter[str] = attrs.field(factory=Counter)
    """Messages by how durably they were stored: SEND_OK, FLUSH_DISK_TIMEOUT ..."""
    bytes: int = 0
    repeated_requests: int = 0
    """Requests that were sent again after one that failed, and may have stored messages twice."""

    @property
    def messages(self) -> int:
        """Number of messages."""
        return self.statuses.total()

    def note(self, result: SendResult, count: int, size: int) -> None:
        """Count what one request has stored."""
        queue = result.message_queue
        stored = QueueCount(count, result.queue_offset, result.queue_offset + count)
        self.queues.setdefault((queue.topic, queue.broker_name, queue.queue_id), QueueCount()).add(stored)
        self.statuses[result.status.name] += count
        self.bytes += size

    def add(self, other: StoredCounts) -> None:
        """Add the counts of another task."""
        for queue, count in other.queues.items():
            self.queues.setdefault(queue, QueueCount()).add(count)
        self.statuses.update(other.statuses)
        self.bytes += other.bytes
        self.repeated_requests += other.repeated_requests


@attrs.frozen
class TaskCommit(WriterCommitMessage):
    """What one task has stored of a write, named as in the keys of its rows."""

    write: str
    partition: int
    rows: int
    counts: StoredCounts


def summed(commits: Iterable[WriterCommitMessage | None]) -> tuple[StoredCounts, int, int]:
    """Return the counts of all tasks, how many tasks reported, and how many did not."""
    counts, reported, missing = StoredCounts(), 0, 0
    for commit in commits:
        if isinstance(commit, TaskCommit):
            counts.add(commit.counts)
            reported += 1
        else:
            missing += 1
    return counts, reported, missing


def sentence(counts: StoredCounts) -> str:
    """Return what was stored in a few words."""
    topics = sorted({topic for topic, _, _ in counts.queues})
    weak = counts.messages - counts.statuses[SendStatus.SEND_OK.name]
    return (
        f"{counts.messages} messages ({counts.bytes} bytes) in {len(counts.queues)} queues of "
        f"{', '.join(topics) or 'no topic'}"
        + (f", {weak} of them stored but not yet flushed or replicated" if weak else "")
        + (f", {counts.repeated_requests} requests repeated" if counts.repeated_requests else "")
    )


def write_report(directory: Path, name: str, counts: StoredCounts, *, outcome: str, tasks: int, missing: int) -> Path:
    """Write the counts as ``NAME.json`` (with dashes for slashes); a report of the same name is replaced, whole."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name.replace('/', '-')}.json"
    content = {
        "write": name,
        "outcome": outcome,
        "messages": counts.messages,
        "bytes": counts.bytes,
        "tasks": tasks,
        "tasksWithoutReport": missing,
        "repeatedRequests": counts.repeated_requests,
        "statuses": dict(counts.statuses),
        "queues": [
            {"topic": topic, "brokerName": broker, "queueId": queue_id, **attrs.asdict(count)}
            for (topic, broker, queue_id), count in sorted(counts.queues.items())
        ],
    }
    written = path.with_suffix(".json.tmp")
    written.write_text(json.dumps(content, indent=1))
    os.replace(written, path)
    return path
