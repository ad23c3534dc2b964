"""Processor time of two versions of this broker, side by side: ``python -m bench.versions CHECKOUT [--rows TEXT ...]``.

For optimizing a path: ``CHECKOUT`` is a work tree of the previous version (``git worktree add``). Both brokers run and
take turns under the same load; the figure is the processor time that a broker has used, system time included, until it
had caught up. Unlike a rate it depends little on other load of the machine, and the ratio of the two runs of one turn
hardly at all: the last column is the median of those ratios. It does not cover parallelism, waiting, or other brokers.

``--accounts both`` compares the two versions with ``aclEnable=true``; ``--accounts this`` has accounts on this side
only, so that ``python -m bench.versions . --accounts this`` gives what accounts cost in one version.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Protocol

from bench import load, probe
from bench.brokers import REPOSITORY, BenchError, Broker
from bench.processes import processor_s
from bench.rows import BATCH_SIZE, BODY_BYTES, PULL_SIZE, QUEUES

HELD_MS = 15_000
WITH_ACCOUNTS = {"aclEnable": "true"}


@dataclass
class VersionBroker(Broker):
    """A broker of ours from a work tree of its own."""

    repository: Path = REPOSITORY

    def _command(self, settings: Path) -> tuple[list[str], dict[str, str]]:
        command, environment = super()._command(settings)
        return command, environment | {"PYTHONPATH": str(self.repository)}

    def processor_s(self) -> float:
        """Return the processor time that the process has used so far, with that of its threads."""
        assert self.process is not None
        return processor_s(self.process.pid)


class Measured(Protocol):
    """What is measured of a broker."""

    name: str

    def measure(self, program: Path, broker: VersionBroker, topic: str) -> float:
        """Return microseconds of processor time per message."""
        ...


@dataclass(frozen=True)
class PullRow:
    """Pulls of up to 32 messages of a topic that is filled first, which is not counted."""

    name: str
    total: int

    def measure(self, program: Path, broker: VersionBroker, topic: str) -> float:
        """Return microseconds of processor time per message."""
        filled = load.run(
            program,
            broker,
            "send",
            topic=topic,
            queues=QUEUES,
            connections=1,
            depth=16,
            total=self.total // BATCH_SIZE,
            body=BODY_BYTES,
            batch=BATCH_SIZE,
        )
        if filled.errors:
            raise broker.failed(f"{self.name}: refused {filled.errors} sends, first: {filled.first_error}")
        before = broker.processor_s()
        load.run(program, broker, "pull", topic=topic, queues=QUEUES, connections=1, max=PULL_SIZE, total=self.total)
        return (broker.processor_s() - before) / self.total * 1e6


@dataclass(frozen=True)
class HeldRow:
    """Pulls that are held, each until a message for its queue wakes it; the sends are counted with them."""

    name: str
    total: int

    @property
    def message_count(self) -> int:
        """The messages that wake a pull."""
        return self.total

    def run(self, program: Path, broker: Broker, topic: str, total: int) -> None:
        """Hold and wake ``total`` pulls; BenchError when one is answered without its message."""
        probe.send_one(broker.port, topic)
        with (
            probe.Connection(broker.port, timeout_s=60) as sender,
            probe.Connection(broker.port, timeout_s=60) as consumer,
        ):
            end = sender.max_offset(topic, 0)
            for offset in range(end, end + total):
                consumer.begin(probe.PULL_MESSAGE, probe.pull_fields(topic, 0, offset, HELD_MS))
                sender.ask(probe.SEND_MESSAGE_V2, probe.send_fields(topic), b"wakes")
                code, _, _ = consumer.end()
                if code != probe.SUCCESS:
                    raise broker.failed(f"{self.name}: a pull was answered with code {code}")

    def measure(self, program: Path, broker: VersionBroker, topic: str) -> float:
        """Return microseconds of processor time per message."""
        before = broker.processor_s()
        self.run(program, broker, topic, self.total)
        return (broker.processor_s() - before) / self.total * 1e6


@dataclass(frozen=True)
class VersionRow:
    """A load: how many requests over how many connections, so many at a time on each; single messages or batches."""

    name: str
    total: int
    connections: int
    depth: int
    batch: int = 0

    @property
    def message_count(self) -> int:
        """The messages that the load sends."""
        return self.total * max(self.batch, 1)

    def run(self, program: Path, broker: Broker, topic: str, total: int) -> None:
        """Send ``total`` requests of this load; BenchError when one is refused."""
        result = load.run(
            program,
            broker,
            "send",
            topic=topic,
            queues=QUEUES,
            connections=self.connections,
            depth=self.depth,
            total=total,
            body=BODY_BYTES,
            batch=self.batch,
        )
        if result.errors:
            raise broker.failed(f"{self.name}: refused {result.errors} requests, first: {result.first_error}")

    def measure(self, program: Path, broker: VersionBroker, topic: str) -> float:
        """Return microseconds of processor time per message."""
        before = broker.processor_s()
        self.run(program, broker, topic, self.total)
        return (broker.processor_s() - before) / self.message_count * 1e6


ROWS: tuple[Measured, ...] = (
    VersionRow("send 1x64", 200_000, 1, 64),
    VersionRow("send 4x64", 200_000, 4, 64),
    VersionRow("send 1x1000", 200_000, 1, 1000),
    VersionRow("send 32x1", 100_000, 32, 1),
    VersionRow("batch of 32", 20_000, 1, 16, batch=BATCH_SIZE),
    PullRow("pull of 32", 640_000),
    HeldRow("held pull", 10_000),
)


def main() -> int:
    """Run what the command line asks for; 0, or 2 with one message when it cannot be done."""
    parser = argparse.ArgumentParser(prog="python -m bench.versions", description="Two versions of our broker.")
    parser.add_argument("checkout", type=Path, help="the other version")
    parser.add_argument("--rows", nargs="+", metavar="TEXT", default=[""], help="rows whose name contains one of these")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--accounts", choices=("none", "this", "both"), default="none", help="which one has accounts")
    parser.add_argument("--directory", type=Path, default=REPOSITORY / "bench" / "results", help="for the stores")
    options = parser.parse_args()
    rows = [row for row in ROWS if any(text in row.name for text in options.rows)]
    options.directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="versions-", dir=options.directory) as work:
        brokers = [
            VersionBroker("ours", Path(work) / name, settings, repository=repository.resolve())
            for name, repository, settings in (
                ("other", options.checkout, WITH_ACCOUNTS if options.accounts == "both" else {}),
                ("this", REPOSITORY, {} if options.accounts == "none" else WITH_ACCOUNTS),
            )
        ]
        try:
            program = load.build(Path(work))
            for broker in brokers:
                broker.start()
            compare(program, brokers, rows, options.rounds, print)
        except BenchError as error:
            print(f"bench: {error}", file=sys.stderr)
            return 2
        finally:
            for broker in brokers:
                broker.stop()
    return 0


def compare(
    program: Path, brokers: list[VersionBroker], rows: list[Measured], rounds: int, show: Callable[[str], None]
) -> None:
    """Load both brokers in turns and show a line for each row."""
    show(f"{'us of processor time per message':34} least: other   this   median: other   this   ratio of a turn")
    for row in rows:
        took: list[list[float]] = [[] for _ in brokers]
        for turn in range(rounds + 1):  # the first one warms up: files of log and index are made
            order = range(len(brokers)) if turn % 2 else reversed(range(len(brokers)))
            for index in order:
                each = row.measure(program, brokers[index], f"versions_{row.name.replace(' ', '_')}_{turn}")
                if turn:
                    took[index].append(each)
        least, middle = [min(each) for each in took], [median(each) for each in took]
        ratio = median(this / other for other, this in zip(*took, strict=True))
        show(
            f"{row.name:34}       {least[0]:6.2f} {least[1]:6.2f}           {middle[0]:6.2f} {middle[1]:6.2f}"
            f"             {ratio:6.3f}"
        )


if __name__ == "__main__":
    sys.exit(main())
