"""Rows about a master with one slave of its own make: both are processes of this machine, with a nameserver of ours.

Each pair lives for the rows that are measured on it: SYNC_MASTER, ASYNC_MASTER, and a slave that begins with nothing.
The lag is read off the files: this process maps the logs of both, and notes when a record is in the master's and when
it is in the slave's. So neither broker is asked anything meanwhile, and the clock is one.
"""

from __future__ import annotations

import mmap
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import probe
from bench.brokers import BenchError, Broker
from bench.idle_rows import nameserver
from bench.prepared import CRASHED_QUEUES, CRASHED_TOPIC, copy_store
from bench.processes import processor_s
from bench.rows import Row, Session

START_S = 300.0  # a master that recovers a gibibyte
ATTACH_S = 60.0
CATCH_UP_S = 240.0
POLL_S = 0.002
CATCH_UP_POLL_S = 0.01
LAST_BYTES = 64
LAG_RATE = 5_000
LAG_TOTAL = 100_000
LAG_TOPIC = "bench_lag"
LAG_BODY = b"l" * 128
LAG_POLL_S = 0.000_2
SETTLE_S = 5.0
IDLE_S = 30.0
_SIZE = struct.Struct(">i")

SYNC_32X1 = "SYNC_MASTER 32x1"
SYNC_4X64 = "SYNC_MASTER 4x64"
ASYNC_4X64 = "ASYNC_MASTER 4x64"
WITH_SLAVE = "ASYNC_MASTER 4x64, slave attached"
LAG = "replication lag p99 at 5,000/s"
LAG_P50 = "replication lag p50 at 5,000/s"
IDLE = "idle pair, both processes"
CATCH_UP = "catch-up of 1 GiB"


@dataclass
class Pair:
    """A master and a slave that is not started yet."""

    master: Broker
    slave: Broker

    def start_slave(self) -> None:
        """Start the slave and wait until it has what the master has."""
        self.slave.start()
        probe.send_one(self.master.port, "bench_attach")
        self.wait_equal(ATTACH_S)

    def wait_equal(self, timeout_s: float) -> None:
        """Wait until the slave's log ends where the master's does now."""
        end, deadline = log_end(self.master), time.perf_counter() + timeout_s
        while log_end(self.slave) < end:
            if time.perf_counter() > deadline:
                found = log_end(self.slave)
                raise self.slave.failed(f"its log ends at {found} after {timeout_s:.0f} s, the master's at {end}")
            time.sleep(POLL_S)


@contextmanager
def running_master(session: Session, role: str, store: Path | None = None) -> Iterator[Pair]:
    """Run a master, on a copy of a store if one is given; what runs at the end is ended and removed."""
    directory = session.broker.directory
    with nameserver(directory / "namesrv") as address:
        master = _member(session, "master", {"brokerRole": role, "namesrvAddr": address})
        known = {"namesrvAddr": address, "haMasterAddress": f"127.0.0.1:{master.port + 1}"}
        slave = _member(session, "slave", {"brokerRole": "SLAVE", "brokerId": "1", **known})
        if store is not None:
            copy_store(store, master.directory / "store")
        try:
            master.start(START_S)
            _wait(master, lambda: log_end(master) >= 0, "it reports no figures")
            yield Pair(master, slave)
        finally:
            slave.stop()
            master.stop()
            slave.remove_store()
            master.remove_store()


def _member(session: Session, name: str, settings: dict[str, str]) -> Broker:
    """Return one of the two brokers. Both have one name; neither may refuse what this machine delays."""
    like = session.broker
    given = {"brokerName": "bench-pair", **settings}
    return Broker(like.kind, like.directory / name, given, like.jars, like.java_heap_mib)


def log_end(broker: Broker) -> int:
    """Return the end of a broker's log, -1 while it does not say."""
    try:
        return int(broker.runtime_info()["commitLogMaxOffset"])
    except OSError:
        return -1


# ---- rates ----------------------------------------------------------------------------------------------------------


def _measure_sync(session: Session) -> None:
    with running_master(session, "SYNC_MASTER") as pair:
        pair.start_slave()
        master = session.of(pair.master)
        master.send(4, 64, 300_000)
        master.send(32, 1, 100_000)
        session.kept[SYNC_32X1] = master.send(32, 1, 100_000, row=SYNC_32X1)
        session.kept[SYNC_4X64] = master.send(4, 64, 400_000, row=SYNC_4X64)


def _measure_async(session: Session) -> None:
    with running_master(session, "ASYNC_MASTER") as pair:
        master = session.of(pair.master)
        for _ in range(2):
            master.send(4, 64, 300_000)
        alone = master.send(4, 64, 400_000, row=ASYNC_4X64)
        pair.start_slave()
        master.send(4, 64, 300_000)
        session.kept[WITH_SLAVE] = master.send(4, 64, 400_000, row=WITH_SLAVE) / alone
        pair.wait_equal(ATTACH_S)
        lags_s = sorted(_lags_s(pair, session.scaled(LAG_TOTAL)))
        session.kept[LAG] = lags_s[len(lags_s) * 99 // 100] * 1e3
        session.kept[LAG_P50] = lags_s[len(lags_s) // 2] * 1e3
        time.sleep(SETTLE_S)
        session.kept[IDLE] = _idle_share(pair, IDLE_S * max(session.scale, 0.3))


def _idle_share(pair: Pair, seconds: float) -> float:
    """Return the share of a core in percent that both use together."""
    processes = [each.process for each in (pair.master, pair.slave)]
    pids = [each.pid for each in processes if each is not None]
    begin = sum(map(processor_s, pids))
    time.sleep(seconds)
    return (sum(map(processor_s, pids)) - begin) / seconds * 100


# ---- lag ------------------------------------------------------------------------------------------------------------


class LogFile:
    """The file of a log that has a position, mapped: how far it is written from there, without asking the broker."""

    def __init__(self, broker: Broker, position: int) -> None:
        path = max(each for each in (broker.directory / "store" / "commitlog").iterdir() if int(each.name) <= position)
        with open(path, "rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._begin = int(path.name)
        self.position = position

    def passed(self) -> Iterator[int]:
        """Yield the end of each record that has been written since the last call; the file must not end meanwhile."""
        while size := _SIZE.unpack_from(self._map, self.position - self._begin)[0]:
            self.position += size
            yield self.position


def _lags_s(pair: Pair, total: int) -> list[float]:
    """Send at a fixed rate, and return for each record how long after the master's log the slave's had it.

    The slave's file is looked at before the master's, so that no lag is taken for shorter than it is.
    """
    reached = end = log_end(pair.master)
    master, slave = (LogFile(each, end) for each in (pair.master, pair.slave))
    written: deque[tuple[int, float]] = deque()
    lags: list[float] = []
    begin = time.perf_counter()
    with PacedSender(pair.master.port) as sender:
        while len(lags) < total:
            now = time.perf_counter()
            if now - begin > total / LAG_RATE + ATTACH_S:
                raise pair.slave.failed(f"{len(lags)} of {total} records within {now - begin:.0f} s")
            sender.send_until(min(total, int((now - begin) * LAG_RATE)))
            reached = max(slave.passed(), default=reached)
            seen = time.perf_counter()
            # A record that the slave had before the master's file was looked at is in both: it has no lag to speak of.
            while written and written[0][0] <= reached:
                lags.append(seen - written.popleft()[1])
            written.extend((end_offset, time.perf_counter()) for end_offset in master.passed())
            time.sleep(LAG_POLL_S)
    return lags


class PacedSender:
    """One connection that sends as many messages as are due, and reads the answers away."""

    def __init__(self, port: int) -> None:
        with probe.Connection(port) as first:
            first.ask(probe.SEND_MESSAGE_V2, probe.send_fields(LAG_TOPIC), LAG_BODY)
        self._frame = probe.encode_request(probe.SEND_MESSAGE_V2, probe.send_fields(LAG_TOPIC), LAG_BODY)
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sent = 0

    def __enter__(self) -> PacedSender:
        return self

    def __exit__(self, *raised: object) -> None:
        self._socket.close()

    def send_until(self, count: int) -> None:
        """Send what is missing to ``count`` messages in all."""
        if count > self._sent:
            self._socket.sendall(self._frame * (count - self._sent))
            self._sent = count
        try:
            while self._socket.recv(1 << 16, socket.MSG_DONTWAIT):
                pass
        except BlockingIOError:
            return
        raise BenchError("the master closed the connection of the sender")


# ---- catch-up -------------------------------------------------------------------------------------------------------


def _catch_up(session: Session) -> float:
    """Start a slave with nothing beside a master with a gibibyte; return its MiB/s.

    The time runs from the first byte in its log until its queues have every message: RocketMQ waits for six seconds
    before it asks for anything. The log is looked at in its file, so that the slave is not asked while it works.
    """
    with running_master(session, "ASYNC_MASTER", session.stores.crashed()) as pair:
        end, counts = log_end(pair.master), _queue_counts(pair.master)
        last = _bytes_at(pair.master, end - LAST_BYTES)
        pair.slave.begin()
        _wait(pair.slave, lambda: any(_bytes_at(pair.slave, 0)), "it has received nothing", ATTACH_S)
        begun = time.perf_counter()
        _wait(pair.slave, lambda: _bytes_at(pair.slave, end - LAST_BYTES) == last, f"its log does not reach {end}")
        _wait(pair.slave, lambda: _queue_counts(pair.slave) == counts, "its queues are not complete")
        return end / (time.perf_counter() - begun) / 2**20


def _wait(broker: Broker, condition: Callable[[], bool], otherwise: str, timeout_s: float = CATCH_UP_S) -> None:
    deadline = time.perf_counter() + timeout_s
    while not condition():
        if time.perf_counter() > deadline:
            raise broker.failed(f"{otherwise} after {timeout_s:.0f} s")
        time.sleep(CATCH_UP_POLL_S)


def _bytes_at(broker: Broker, position: int) -> bytes:
    """Return some bytes of the first file of a log, none while there is no file."""
    try:
        with open(broker.directory / "store" / "commitlog" / f"{0:020}", "rb") as file:
            file.seek(position)
            return file.read(LAST_BYTES)
    except FileNotFoundError:
        return b""


def _queue_counts(broker: Broker) -> list[int]:
    """Return how many messages are in each queue, nothing while the broker does not answer."""
    try:
        with probe.Connection(broker.port) as connection:
            return [connection.max_offset(CRASHED_TOPIC, queue) for queue in range(CRASHED_QUEUES)]
    except OSError:
        return []


# ---- the rows -------------------------------------------------------------------------------------------------------


def _kept(name: str, measure: Callable[[Session], None]) -> Callable[[Session], float]:
    """Return a measurement of one figure of several: they are taken together, by the first row that is asked for."""

    def take(session: Session) -> float:
        if name not in session.kept:
            measure(session)
        return session.kept.pop(name)

    return take


REPLICATION_ROWS = [
    Row(SYNC_32X1, "messages/s", _kept(SYNC_32X1, _measure_sync)),
    Row(SYNC_4X64, "messages/s", _kept(SYNC_4X64, _measure_sync)),
    Row(WITH_SLAVE, "rate with / alone", _kept(WITH_SLAVE, _measure_async)),
    Row(LAG_P50, "ms", _kept(LAG_P50, _measure_async), is_less_better=True),
    Row(LAG, "ms", _kept(LAG, _measure_async), is_less_better=True),
    Row(IDLE, "% of a core", _kept(IDLE, _measure_async), is_less_better=True),
    Row(CATCH_UP, "MiB/s", _catch_up),
]
