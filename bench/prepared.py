"""Prepared stores: written once, and copied for every start of either broker.

Our broker writes them, with the sizes that RocketMQ's files have, so that both sides are measured on the same
directory. Copies keep holes: an index file is 420 MB and mostly nothing.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench import load, probe
from bench.brokers import BenchError, Broker

CRASHED_BODY_BYTES = 1024
CRASHED_TOPIC = "bench_crashed"
CRASHED_QUEUES = 8
LOG_FILE_BYTES = 1 << 30
LOG_MARGIN_BYTES = 8 << 20  # so that the last file of the log stays the last

MANY_TOPICS = 20
QUEUES_PER_TOPIC = 1000
MESSAGES_PER_QUEUE = 2

_COPY_S = 600.0
_FIGURES_S = 10.0
_LAG_KEYS = ("dispatchBehindBytes", "indexBehind")
_READ_BYTES = 1 << 22


@dataclass
class PreparedStores:
    """The stores of one run, each made when it is first asked for."""

    work: Path
    program: Path
    scale: float
    _made: dict[str, Path] = field(default_factory=dict)

    def crashed(self, gib: float = 1.0) -> Path:
        """Return a store with ``gib`` GiB of 1 KiB messages, left by SIGKILL while more were sent."""
        name = f"crashed-{gib:g}"
        if name not in self._made:
            broker = self._writer(name)
            broker.start()
            try:
                kill_under_load(self.program, broker, int(log_bytes(gib) * self.scale))
            finally:
                broker.kill()
            self._made[name] = broker.directory / "store"
        return self._made[name]

    def stopped(self, gib: float = 1.0) -> Path:
        """Return a store with ``gib`` GiB of 1 KiB messages after a clean shutdown, its index complete."""
        name = f"stopped-{gib:g}"
        if name not in self._made:
            broker = self._writer(name)
            copy_store(self.crashed(gib), broker.directory / "store")
            broker.start(_COPY_S)
            try:
                wait_indexed(broker, _COPY_S)
            finally:
                broker.stop()
            self._made[name] = broker.directory / "store"
        return self._made[name]

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

    def _send(self, broker: Broker, topic: str, *, queues: int, total: int, body: int) -> None:
        _send(self.program, broker, topic, queues=queues, total=total, body=body)


def log_bytes(gib: float) -> float:
    """Return the log size, in bytes, of a store of ``gib`` GiB; it ends before the last file is full."""
    size = gib * LOG_FILE_BYTES
    return size - LOG_MARGIN_BYTES if size >= LOG_FILE_BYTES else size


def kill_under_load(program: Path, broker: Broker, wanted_bytes: int) -> None:
    """Send 1 KiB messages until a broker's log has ``wanted_bytes``, and kill it with messages in flight."""
    wait_for_figures(broker)
    # The topic is there now.
    _send(program, broker, CRASHED_TOPIC, queues=CRASHED_QUEUES, total=1000, body=CRASHED_BODY_BYTES)
    options = {"topic": CRASHED_TOPIC, "queues": CRASHED_QUEUES, "connections": 1, "depth": 64}
    sizes = {"total": 1 << 30, "body": CRASHED_BODY_BYTES}
    with load.started(program, broker, "send", **options, **sizes) as generator:
        deadline = time.monotonic() + _COPY_S
        while _log_end(broker) < wanted_bytes:
            if generator.poll() is not None or time.monotonic() > deadline:
                raise broker.failed(f"preparing a store: {wanted_bytes} bytes were not sent")
            time.sleep(0.005)
        broker.kill()


def wait_for_figures(broker: Broker) -> None:
    """Wait until a broker answers its runtime info, which the generator asks for. Java's fails in its first second."""
    deadline = time.monotonic() + _FIGURES_S
    while True:
        try:
            broker.runtime_info()
        except OSError as failure:
            if time.monotonic() > deadline:
                raise broker.failed(f"preparing a store: {failure}") from failure
            time.sleep(0.1)
        else:
            return


def _log_end(broker: Broker) -> int:
    return int(broker.runtime_info().get("commitLogMaxOffset", "0"))  # Java's has nothing to say in its first second


def _send(program: Path, broker: Broker, topic: str, *, queues: int, total: int, body: int) -> None:
    result = load.run(
        program, broker, "send", topic=topic, queues=queues, connections=1, depth=64, total=total, body=body
    )
    if result.errors:
        raise broker.failed(f"preparing a store: {result.errors} sends were refused, first: {result.first_error}")


def wait_indexed(broker: Broker, timeout_s: float) -> None:
    """Wait until the last message of each queue is found by its key, and the broker reports no lag."""
    deadline = time.monotonic() + timeout_s
    while not _is_indexed(broker):
        if time.monotonic() > deadline:
            raise broker.failed(f"the index is not complete after {timeout_s:.0f} s")
        time.sleep(0.01)


def _is_indexed(broker: Broker) -> bool:
    with probe.Connection(broker.port) as connection:
        for queue in range(CRASHED_QUEUES):
            key = connection.unique_key(CRASHED_TOPIC, queue, connection.max_offset(CRASHED_TOPIC, queue) - 1)
            if key.encode() not in connection.query_message(CRASHED_TOPIC, key):
                return False
    try:
        runtime_info = broker.runtime_info()
    except OSError:
        return True  # Java's has nothing to say in its first second
    return not any(int(runtime_info.get(key, "0")) for key in _LAG_KEYS)


def copy_store(source: Path, target: Path) -> None:
    """Make ``target`` a durable copy of a store, replacing what is there; its pages are in the cache."""
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    command = ["cp", "-a", "--sparse=auto", str(source), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_COPY_S, check=False)
    if done.returncode != 0:
        raise BenchError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    write_back(target)


def write_back(store: Path) -> None:
    """Make a store durable now, so that this does not happen during a measurement."""
    for descriptor in _opened(store):
        os.fsync(descriptor)


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
        pages = _resident_pages(descriptor)
        looked_at += len(pages)
        resident += sum(page & 1 for page in pages)
    return resident / looked_at if looked_at else 0.0


def _resident_pages(descriptor: int) -> bytes:
    """Return what ``mincore`` says of each page of a file: a read, however short, would bring pages in."""
    size = os.fstat(descriptor).st_size
    if not size:
        return b""
    with mmap.mmap(descriptor, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as view:
        first = ctypes.c_char.from_buffer(view)  # needs a map that may be written; the file may not
        found = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
        failed = ctypes.CDLL(None, use_errno=True).mincore(
            ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(size), found
        )
        del first
    if failed:
        raise BenchError(f"mincore: {os.strerror(ctypes.get_errno())}")
    return bytes(found)


def _opened(directory: Path) -> Iterator[int]:
    """Open each file below a directory, one at a time."""
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                yield descriptor
            finally:
                os.close(descriptor)
