"""Rows for the memory of a broker that holds 5,000 connections, each of which has asked for something."""

from __future__ import annotations

import resource
import time
from contextlib import ExitStack

from bench import probe
from bench.brokers import PROBE_TOPIC
from bench.rows import SETTLE_S, Row, Session

CONNECTIONS = 5_000
SPARE_DESCRIPTORS = 100


def _anonymous(session: Session) -> float:
    """Return RssAnon in MiB with all connections open; the other figures are kept."""
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = session.scaled(CONNECTIONS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(limit, count + SPARE_DESCRIPTORS), most), most))
    broker = session.broker
    broker.stop()
    broker.remove_store()
    broker.start()
    try:
        time.sleep(SETTLE_S)
        before = broker.anonymous_bytes()
        with ExitStack() as stack:
            for _ in range(count):
                stack.enter_context(probe.Connection(broker.port, timeout_s=60)).max_offset(PROBE_TOPIC, 0)
            time.sleep(SETTLE_S)
            after = broker.anonymous_bytes()
            session.kept["resident"] = broker.resident_bytes() / 2**20
            session.kept["of each"] = (after - before) / count / 1024
    finally:
        broker.stop()
    return after / 2**20


CONNECTION_ROWS = [
    Row("5,000 connections: RssAnon", "MiB", _anonymous, is_less_better=True),
    Row("5,000 connections: RSS", "MiB", lambda session: session.kept.get("resident"), is_less_better=True),
    Row("5,000 connections: of each", "KiB", lambda session: session.kept.get("of each"), is_less_better=True),
]
