"""The rows about the store: recovery and start by the size of the log, look-ups by key and time, very many queues.

Each broker recovers its own store, in the place where it was killed; the other rows start on copies of one directory
(``prepared.py``). A row that cannot be measured at one of them says so in
a note under the table.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from statistics import median

from bench import load, probe
from bench.brokers import BenchError
from bench.prepared import (
    MESSAGES_PER_QUEUE,
    QUEUES_PER_TOPIC,
    cool,
    copy_store,
    kill_under_load,
    log_bytes,
    wait_indexed,
    warm,
    write_back,
)
from bench.rows import BODY_BYTES, QUEUES, Row, Session

RECOVERY_S = 300.0
LOG_SIZES_GIB = (0.1, 1, 4)
QUESTIONS = 100
QUERY_TOPIC = "bench_query"
QUERY_TOTAL = 1_000_000


# ---- recovery -------------------------------------------------------------------------------------------------------


def _recovery(session: Session, gib: float, *, is_cold: bool = False) -> float:
    """Kill the broker under load and start it; return the seconds to the first SEND_OK."""
    broker = session.broker
    broker.stop()
    broker.remove_store()
    broker.start()
    kill_under_load(session.program, broker, int(log_bytes(gib) * session.scale))
    if is_cold:
        write_back(broker.directory / "store")
        _cool(session, f"recovery of {gib:g} GiB")
    return _measure_start(session)


def _start_on(session: Session, gib: float) -> float:
    """Start on a copy of a store that was stopped in order; return the seconds to the first SEND_OK."""
    broker = session.broker
    broker.stop()
    store = broker.directory / "store"
    copy_store(session.stores.stopped(gib), store)
    warm(store)
    return _measure_start(session)


def _cool(session: Session, row: str) -> None:
    left = cool(session.broker.directory / "store")
    if left > 0.01:
        session.note(f"{row}, cache cold: {left:.0%} of the log stayed in the page cache")


def _measure_start(session: Session) -> float:
    broker = session.broker
    spawned = time.perf_counter()
    try:
        first_s = broker.start(RECOVERY_S)
        wait_indexed(broker, RECOVERY_S)
        session.kept["until indexed"] = time.perf_counter() - spawned
    finally:
        broker.kill()
        broker.remove_store()
    return first_s


def _indexed(session: Session) -> float | None:
    return session.kept.get("until indexed")


def _recovery_rows(gib: float, *, is_cold: bool = False) -> list[Row]:
    name = f"recovery of {gib:g} GiB" + (", cache cold" if is_cold else "")
    return [
        Row(name, "s", lambda session: _recovery(session, gib, is_cold=is_cold), is_less_better=True),
        Row(f"{name}, until indexed", "s", _indexed, is_less_better=True),
    ]


def _start_row(gib: float) -> Row:
    return Row(f"start on {gib:g} GiB", "s", lambda session: _start_on(session, gib), is_less_better=True)


# ---- look-ups -------------------------------------------------------------------------------------------------------


def _prepare_look_ups(session: Session) -> None:
    """Send a million messages with a key each, once, and choose the keys to ask for."""
    if session.keys:
        return
    begin_ms = time.time_ns() // 1_000_000
    load.run(
        session.program,
        session.broker,
        "send",
        topic=QUERY_TOPIC,
        queues=QUEUES,
        connections=4,
        depth=64,
        total=session.scaled(QUERY_TOTAL),
        body=BODY_BYTES,
    )
    session.sent_between_ms = begin_ms, time.time_ns() // 1_000_000
    choices = random.Random(1)
    with probe.Connection(session.broker.port) as connection:
        for number in range(QUESTIONS):
            queue = number % QUEUES
            offset = choices.randrange(connection.max_offset(QUERY_TOPIC, queue))
            session.keys.append(connection.unique_key(QUERY_TOPIC, queue, offset))


def _query(session: Session) -> float:
    """Return the median milliseconds of looking up a key; the slowest is kept."""
    _prepare_look_ups(session)

    def ask(connection: probe.Connection, number: int) -> None:
        key = session.keys[number]
        if key.encode() not in connection.query_message(QUERY_TOPIC, key):
            session.note(f"index query: {session.broker.kind} does not find {key}")

    return _median_ms(session, ask)


def _search(session: Session) -> float:
    """Return the median milliseconds of a search by time; the slowest is kept."""
    _prepare_look_ups(session)
    choices = random.Random(2)

    def ask(connection: probe.Connection, number: int) -> None:
        connection.search_offset(QUERY_TOPIC, number % QUEUES, choices.randint(*session.sent_between_ms))

    return _median_ms(session, ask)


def _median_ms(session: Session, ask: Callable[[probe.Connection, int], None]) -> float:
    taken_ms = []
    with probe.Connection(session.broker.port) as connection:
        for number in range(QUESTIONS):
            begun = time.perf_counter()
            ask(connection, number)
            taken_ms.append((time.perf_counter() - begun) * 1e3)
    session.kept["slowest"] = max(taken_ms)
    return median(taken_ms)


def _slowest(session: Session) -> float | None:
    return session.kept.get("slowest")


# ---- very many queues -----------------------------------------------------------------------------------------------


def _start_many(session: Session) -> float | None:
    """Start on a store of 20,000 queues that was stopped in order."""
    broker = session.broker
    broker.stop()
    store = broker.directory / "store"
    if not store.exists():
        copy_store(session.stores.many_queues(), store)
    try:
        return broker.start(RECOVERY_S)
    except BenchError as error:
        # The Java broker keeps a descriptor and a map for each queue file.
        broker.stop()
        session.note(f"20,000 queues: {str(error).splitlines()[0]}")
        return None


def _descriptors(session: Session) -> float | None:
    """Serve all queues, and return how many descriptors are open then."""
    broker = session.broker
    if broker.process is None:
        return None
    for topic in session.stores.topics():
        load.run(
            session.program,
            broker,
            "pull",
            topic=topic,
            queues=QUEUES_PER_TOPIC,
            connections=1,
            max=32,
            total=QUEUES_PER_TOPIC * MESSAGES_PER_QUEUE,
        )
    return float(broker.descriptors())


def _anonymous(session: Session) -> float | None:
    return None if session.broker.process is None else session.broker.anonymous_bytes() / 2**20


def _resident(session: Session) -> float | None:
    return None if session.broker.process is None else session.broker.resident_bytes() / 2**20


RECOVERY_ROWS = [
    *(row for gib in LOG_SIZES_GIB for row in _recovery_rows(gib)),
    *_recovery_rows(1, is_cold=True),
]
START_ROWS = [_start_row(gib) for gib in LOG_SIZES_GIB]
LOOK_UP_ROWS = [
    Row("index query in a million, median", "ms", _query, is_less_better=True),
    Row("index query in a million, slowest of 100", "ms", _slowest, is_less_better=True),
    Row("time search in a million, median", "ms", _search, is_less_better=True),
    Row("time search in a million, slowest of 100", "ms", _slowest, is_less_better=True),
]
QUEUES_ROWS = [
    Row("20,000 queues: start", "s", _start_many, is_less_better=True),
    Row("20,000 queues: descriptors, all served", "open", _descriptors, is_less_better=True),
    Row("20,000 queues: RssAnon, all served", "MiB", _anonymous, is_less_better=True),
    Row("20,000 queues: RSS, all served", "MiB", _resident, is_less_better=True),
]
