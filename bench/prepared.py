"""Prepared stores: written once, and copied for every start of either broker.

Our broker writes them, with the sizes that RocketMQ's files have, so that both sides are measured on the same
directory. Copies keep holes: an index file is 420 MB and mostly nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench import load
from bench.brokers import BenchError, Broker

CRASHED_LOG_BYTES = 1 << 30
CRASHED_BODY_BYTES = 1024
CRASHED_TOPIC = "bench_crashed"
CRASHED_QUEUES = 8
LOG_MARGIN_BYTES = 8 << 20  # so that the log stays one file

MANY_TOPICS = 20
QUEUES_PER_TOPIC = 1000
MESSAGES_PER_QUEUE = 2

_COPY_S = 600.0
_READ_BYTES = 1 << 22


@dataclass
class PreparedStores:
    """The stores of one run, each made when it is first asked for."""

    work: Path
    program: Path
    scale: float
    _made: dict[str, Path] = field(default_factory=dict)

    def crashed(self) -> Path:
        """Return a store with a gibibyte of 1 KiB messages, as SIGKILL left it right after the last one."""
        if "crashed" not in self._made:
            broker = self._writer("crashed")
            broker.start()
            try:
                self._send(broker, CRASHED_TOPIC, queues=CRASHED_QUEUES, total=1000)
                record_bytes = max(1, int(broker.runtime_info()["commitLogMaxOffset"]) // 1000)
                total = int((CRASHED_LOG_BYTES - LOG_MARGIN_BYTES) * self.scale) // record_bytes
                self._send(broker, CRASHED_TOPIC, queues=CRASHED_QUEUES, total=max(1000, total - 1000))
            finally:
                broker.kill()
            self._made["crashed"] = broker.directory / "store"
        return self._made["crashed"]

    def many_queues(self) -> Path:
        """Return a store with two messages in each of 20,000 queues, stopped in order."""
        if "queues" not in self._made:
            broker = self._writer("queues")
            broker.start()
            try:
                for topic in self.topics():
                    total = QUEUES_PER_TOPIC * MESSAGES_PER_QUEUE
                    self._send(broker, topic, queues=QUEUES_PER_TOPIC, total=total, body=128)
            finally:
                broker.stop()
            self._made["queues"] = broker.directory / "store"
        return self._made["queues"]

    def topics(self) -> list[str]:
        """Return the topics of :meth:`many_queues`."""
        return [f"bench_many_{number}" for number in range(max(1, round(MANY_TOPICS * self.scale)))]

    def _writer(self, name: str) -> Broker:
        return Broker("ours", self.work / f"prepared-{name}", {})

    def _send(self, broker: Broker, topic: str, *, queues: int, total: int, body: int = CRASHED_BODY_BYTES) -> None:
        result = load.run(
            self.program, broker, "send", topic=topic, queues=queues, connections=1, depth=64, total=total, body=body
        )
        if result.errors:
            raise broker.failed(f"preparing a store: {result.errors} sends were refused, first: {result.first_error}")


def copy_store(source: Path, target: Path) -> None:
    """Make ``target`` a durable copy of a store, replacing what is there; its pages are in the cache."""
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    command = ["cp", "-a", "--sparse=auto", str(source), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_COPY_S, check=False)
    if done.returncode != 0:
        raise BenchError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    for descriptor in _opened(target):
        os.fsync(descriptor)  # written back now, not during a measurement


def warm(store: Path) -> None:
    """Bring the log of a store into the page cache."""
    for descriptor in _opened(store / "commitlog"):
        while os.read(descriptor, _READ_BYTES):
            pass


def cool(store: Path) -> float:
    """Drop a store from the page cache as far as its owner may; return which share of the log is still there."""
    for descriptor in _opened(store):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    looked_at = resident = 0
    for descriptor in _opened(store / "commitlog"):
        for position in range(0, os.fstat(descriptor).st_size, _READ_BYTES):
            looked_at += 1
            resident += _is_resident(descriptor, position)
    return resident / looked_at if looked_at else 0.0


def _is_resident(descriptor: int, position: int) -> bool:
    try:
        os.preadv(descriptor, [bytearray(1)], position, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    return True


def _opened(directory: Path) -> Iterator[int]:
    """Open each file below a directory, one at a time."""
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                yield descriptor
            finally:
                os.close(descriptor)
