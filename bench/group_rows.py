"""Rows for broker groups: what a producer set of 4x64 gets of one broker, and divided over two on the same cores.

Ours is ``python -m rocketpy.broker --groups N``. Java's is a process for each group, as RocketMQ runs them. Two load
generators of 2x64 run in both cases, so the clients cost the same.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench import load
from bench.brokers import JAVA, Broker, free_port
from bench.rows import BODY_BYTES, QUEUES, Row, Session

GENERATORS = 2
CONNECTIONS, DEPTH = 2, 64
"""Of each generator."""

WARM_UP_TOTAL = 200_000
TOTAL = 400_000
PORT_STEP = 10  # of --groups


@dataclass
class GroupsBroker(Broker):
    """The groups of ours: one process that has a broker for each as a child; ``port`` is that of the first."""

    count: int = 1

    def _command(self, settings: Path) -> tuple[list[str], dict[str, str]]:
        command, environment = super()._command(settings)
        return [*command, "--groups", str(self.count), "-n", "127.0.0.1:1"], environment

    def _check_build(self) -> None:
        """The parent prints a table instead of its build; every other row has asked for it."""


def _rate(session: Session, count: int) -> float:
    """Start ``count`` groups on empty stores, warm them up, and return messages per second of both generators."""
    like = session.broker
    with ExitStack() as stack:
        brokers = _started(like, count, stack)
        each = [brokers[number % len(brokers)] for number in range(GENERATORS)]
        _send(session, each, "bench_groups_warm", WARM_UP_TOTAL)
        rate = _send(session, each, "bench_groups", TOTAL)
    session.kept[f"{count} groups"] = rate
    return rate


def _started(like: Broker, count: int, stack: ExitStack) -> list[Broker]:
    """Start the groups of one kind; return what to send to. They end with the stack."""
    settings = {**like.settings, "mappedFileSizeCommitLog": str(256 << 20)}
    if like.kind == JAVA:
        brokers = [
            Broker(JAVA, like.directory / f"{count}-{number}", settings, like.jars, like.java_heap_mib)
            for number in range(count)
        ]
        for broker in brokers:
            stack.callback(_ended, broker)
            broker.start()
        return brokers
    groups = GroupsBroker(
        like.kind, like.directory / f"{count}", settings, port=free_port(count, PORT_STEP), count=count
    )
    stack.callback(_ended, groups)
    groups.start()
    others = [
        Broker(like.kind, groups.directory, settings, port=groups.port + PORT_STEP * number)
        for number in range(1, count)
    ]
    return [groups, *others]


def _ended(broker: Broker) -> None:
    broker.stop()
    broker.remove_store()


def _send(session: Session, brokers: list[Broker], topic: str, total: int) -> float:
    results = load.run_all(
        session.program,
        brokers,
        "send",
        topic=topic,
        queues=QUEUES,
        connections=CONNECTIONS,
        depth=DEPTH,
        total=session.scaled(total) // GENERATORS,
        body=BODY_BYTES,
    )
    for result in results:
        if result.errors:
            session.note(f"groups: {session.broker.kind} refused {result.errors} sends, first: {result.first_error}")
    return sum(result.messages for result in results) / max(result.load_s + result.drain_s for result in results)


def _scaling(session: Session) -> float | None:
    one, two = session.kept.get("1 groups"), session.kept.get("2 groups")
    return two / one if one and two else None


GROUP_ROWS = [
    Row("send 4x64 to 1 group", "messages/s", lambda session: _rate(session, 1)),
    Row("send 4x64 to 2 groups", "messages/s", lambda session: _rate(session, 2)),
    Row("send 4x64, 2 groups / 1 group", "ratio", _scaling),
]
