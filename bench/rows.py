"""The measurements: one :class:`Row` for each line of the table.

Rule: both brokers get exactly the same requests in the same order, warm-up included. A measurement returns one figure
per round; ``None`` means that this broker does not report it (a row of ours only).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench import load, probe
from bench.brokers import Broker
from bench.prepared import PreparedStores

QUEUES = 8
BODY_BYTES = 128
BATCH_SIZE = 32
PULL_SIZE = 32
LATENCY_RATE = 500
IDLE_CONNECTIONS = 2000
PULL_TOPIC = "bench_pull"
SETTLE_S = 3.0
FILL_S = 60.0
"""Time for the messages that are pulled to be stored and in their queues."""

LATENESS_KEY = "serviceLatenessP99Ms"


@dataclass
class Session:
    """One broker under measurement with the generator, the size of the run and what has been noted about it."""

    broker: Broker
    program: Path
    scale: float
    stores: PreparedStores
    notes: list[str] = field(default_factory=list)
    kept: dict[str, float] = field(default_factory=dict)  # second figures of a measurement, for rows of their own
    keys: list[str] = field(default_factory=list)  # of messages in the topic of the look-ups
    sent_between_ms: tuple[int, int] = (0, 0)  # when these messages were stored
    _runs: int = 0
    _has_pull_messages: bool = False
    _latency: load.LoadResult | None = None

    def send(self, connections: int, depth: int, total: int, *, batch: int = 0, idle: int = 0, row: str = "") -> float:
        """Send to a fresh topic; return messages per second, drain included. Refusals are noted under ``row``."""
        result = load.run(
            self.program,
            self.broker,
            "send",
            topic=self._fresh_topic(),
            queues=QUEUES,
            connections=connections,
            depth=depth,
            total=self.scaled(total),
            body=BODY_BYTES,
            batch=batch,
            idle=idle,
        )
        if row and not result.errors and result.indexed != 1:
            self.note(f"{row}: {self.broker.kind} does not find the last message by its key: no index, or not yet")
        if result.errors and row:
            share = result.errors / (result.errors + result.messages / max(batch, 1))
            self.note(f"{row}: {self.broker.kind} refused {share:.2%} of the requests, first: {result.first_error}")
        return result.per_s

    def pull(self, selector: str = "") -> float:
        """Pull a million prepared messages from all queues, by SQL92 if asked; return messages per second."""
        total = self.prepare_pull()
        by = {"selector": selector} if selector else {}
        result = load.run(
            self.program,
            self.broker,
            "pull",
            topic=PULL_TOPIC,
            queues=QUEUES,
            connections=1,
            max=PULL_SIZE,
            total=total,
            **by,
        )
        return result.per_s

    def prepare_pull(self) -> int:
        """Fill the topic for pulling once; return how many messages are in it.

        Java refuses batches while it is busy, and puts messages into their queues after it has acknowledged them: what
        was refused is sent again, and the queues must have all.
        """
        batches = self.scaled(32_000)
        if not self._has_pull_messages:
            left = batches
            end = time.monotonic() + FILL_S
            while left:
                filled = load.run(
                    self.program,
                    self.broker,
                    "send",
                    topic=PULL_TOPIC,
                    queues=QUEUES,
                    connections=1,
                    depth=16,
                    total=left,
                    body=BODY_BYTES,
                    batch=BATCH_SIZE,
                )
                left = filled.errors
                if left and time.monotonic() > end:
                    raise self.broker.failed(f"{PULL_TOPIC}: it still refuses batches: {filled.first_error}")
            self._wait_pull_messages(batches * BATCH_SIZE, end)
            self._has_pull_messages = True
        return batches * BATCH_SIZE

    def _wait_pull_messages(self, total: int, end: float) -> None:
        with probe.Connection(self.broker.port) as asker:
            while (found := sum(asker.max_offset(PULL_TOPIC, queue) for queue in range(QUEUES))) < total:
                if time.monotonic() > end:
                    raise self.broker.failed(f"{PULL_TOPIC}: the queues have {found} of {total} messages")
                time.sleep(0.01)

    def measure_latency(self) -> load.LoadResult:
        """Send at a fixed rate and receive by long poll."""
        self._latency = load.run(
            self.program,
            self.broker,
            "latency",
            topic=self._fresh_topic(),
            rate=LATENCY_RATE,
            total=self.scaled(5000),
            body=BODY_BYTES,
        )
        return self._latency

    def last_latency(self) -> load.LoadResult:
        """Return the latest latency run: its second quantile is a row of its own."""
        return self._latency or self.measure_latency()

    def of(self, broker: Broker) -> Session:
        """Return a session with another broker of the same run; what it notes is noted here."""
        return Session(broker, self.program, self.scale, self.stores, self.notes)

    def warm_up(self) -> None:
        """Bring compilers and caches to their steady state, the same way for both; refusals do not count here."""
        for connections, depth, total in [
            (1, 64, 300_000),
            (4, 64, 200_000),
            (1, 1000, 200_000),
            (32, 1, 100_000),
            (1, 1, 10_000),
        ]:
            self.send(connections, depth, total)
        self.send(1, 16, 10_000, batch=BATCH_SIZE)
        self.prepare_pull()
        self.pull()

    def scaled(self, total: int) -> int:
        """Return a count for this run's size, never below a hundred."""
        return max(100, int(total * self.scale))

    def note(self, text: str) -> None:
        """Say something under the table, once."""
        if text not in self.notes:
            self.notes.append(text)

    def _fresh_topic(self) -> str:
        self._runs += 1
        return f"bench_{self._runs}"


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    unit: str
    measure: Callable[[Session], float | None]
    is_less_better: bool = False
    is_send: bool = False  # part of the mean of the sends
    is_of_ten: bool = False  # part of the mean of the ten rates
    is_warmed: bool = False  # measured once before the rounds, which does not count


def _send(name: str, connections: int, depth: int, total: int) -> Row:
    def measure(session: Session) -> float:
        return session.send(connections, depth, total, row=name)

    return Row(name, "messages/s", measure, is_send=True, is_of_ten=True)


def _batch(session: Session, row: str = "batch of 32") -> float:
    return session.send(1, 16, 30_000, batch=BATCH_SIZE, row=row)


def _idle_share(session: Session) -> float:
    alone = session.send(1, 64, 200_000)
    return session.send(1, 64, 200_000, idle=IDLE_CONNECTIONS, row="2,000 idle connections") / alone


def _start(session: Session) -> float:
    session.broker.stop()
    return session.broker.start() * 1e3


def _memory_idle(session: Session) -> float:
    """Memory of a broker that has been started on its store and answered one send."""
    session.broker.stop()
    session.broker.start()
    time.sleep(SETTLE_S)
    session.kept["resident"] = session.broker.resident_bytes() / 2**20
    session.kept["proportional"] = session.broker.proportional_bytes() / 2**20
    return session.broker.anonymous_bytes() / 2**20


def _memory_after_sends(session: Session) -> float:
    """Memory right after a million sends to the process that ``_memory_idle`` started."""
    session.send(4, 64, 1_000_000)
    return session.broker.anonymous_bytes() / 2**20


def _service_lateness(session: Session) -> float | None:
    """The broker reports a minute of wake-ups, so it is a fresh process that has known nothing but this load."""
    if LATENESS_KEY not in session.broker.runtime_info():
        return None
    session.broker.stop()
    session.broker.start()
    session.send(32, 1000, 1_000_000, row="service lateness")
    return float(session.broker.runtime_info()[LATENESS_KEY])


STEADY_ROWS = [
    _send("send 1x64", 1, 64, 300_000),
    _send("send 4x64", 4, 64, 400_000),
    _send("send 1x1000", 1, 1000, 400_000),
    _send("send 32x1", 32, 1, 120_000),
    _send("send 1x1", 1, 1, 20_000),
    Row("batch of 32", "messages/s", _batch, is_of_ten=True),
    Row("pull of 32", "messages/s", lambda session: session.pull(), is_of_ten=True),
    Row("latency p50 at 500/s", "us", lambda session: session.measure_latency().p50_us, is_less_better=True),
    Row("latency p99 at 500/s", "us", lambda session: session.last_latency().p99_us, is_less_better=True),
    Row("2,000 idle connections", "rate with / alone", _idle_share),
]
ACL_ROWS = [
    Row("send 1x64 with ACL", "messages/s", lambda session: session.send(1, 64, 300_000, row="send 1x64 with ACL")),
    Row("send 4x64 with ACL", "messages/s", lambda session: session.send(4, 64, 400_000, row="send 4x64 with ACL")),
    Row("send 1x1 with ACL", "messages/s", lambda session: session.send(1, 1, 20_000, row="send 1x1 with ACL")),
    Row("batch of 32 with ACL", "messages/s", lambda session: _batch(session, "batch of 32 with ACL")),
    Row("pull of 32 with ACL", "messages/s", lambda session: session.pull()),
]
SYNC_ROWS = [
    replace(_send("SYNC_FLUSH 32x1", 32, 1, 60_000), is_send=False),
    replace(_send("SYNC_FLUSH 1x1", 1, 1, 10_000), is_send=False),
]
PROCESS_ROWS = [
    Row("spawn to first SEND_OK", "ms", _start, is_less_better=True),
    Row("RssAnon idle", "MiB", _memory_idle, is_less_better=True),
    Row("RSS idle", "MiB", lambda session: session.kept.get("resident"), is_less_better=True),
    Row("PSS idle", "MiB", lambda session: session.kept.get("proportional"), is_less_better=True),
    Row("RssAnon after a million sends", "MiB", _memory_after_sends, is_less_better=True),
    Row("service lateness p99 under 32x1000", "ms", _service_lateness, is_less_better=True),
]
