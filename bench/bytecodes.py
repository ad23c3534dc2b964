"""Bytecodes per message of two versions of this broker: ``python -m bench.bytecodes CHECKOUT [--rows TEXT ...]``.

``CHECKOUT`` is a work tree of the other version (``git worktree add``). Each broker runs under a trace function that
counts the bytecodes of each Python function while a load runs; the totals are divided by the number of messages. The
count hardly depends on the machine, so it shows a difference of one percent that no timing on a shared machine shows,
and in which function it is. It says nothing of time spent in C, in the kernel or in waiting, and the trace makes the
broker some thirty times slower: services that run each second weigh more than they do in reality. Rows of functions
outside the package are therefore left out of the totals.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench import load
from bench.brokers import REPOSITORY, BenchError
from bench.rows import BATCH_SIZE
from bench.versions import HeldRow, VersionBroker, VersionRow

START_S = 120.0
WRITE_S = 30.0
SHOWN = 25
SETTINGS = {"brokerFastFailureEnable": "false"}
"""Under the trace a burst takes long enough for sends to be refused."""
_COUNTS = "bytecodes.txt"


@dataclass
class CountedBroker(VersionBroker):
    """A broker of ours from a work tree of its own, whose bytecodes are counted between two calls."""

    def _command(self, settings: Path) -> tuple[list[str], dict[str, str]]:
        (interpreter, *arguments), environment = super()._command(settings)
        environment["BYTECODES_FILE"] = str(self.directory / _COUNTS)
        program = Path(__file__).with_name("counted_broker.py")
        return [interpreter, str(program), *arguments[arguments.index("-c") :]], environment

    def toggle(self) -> None:
        """Begin to count, or end and write what was counted."""
        assert self.process is not None
        self.process.send_signal(signal.SIGUSR1)

    def counted(self) -> Counter[str]:
        """Return the bytecodes of each function of the package, by its qualified name; waits until they are written."""
        path = self.directory / _COUNTS
        deadline = time.monotonic() + WRITE_S
        while not path.exists():
            if time.monotonic() > deadline:
                raise self.failed(f"nothing counted within {WRITE_S:.0f} s")
            time.sleep(0.05)
        counts: Counter[str] = Counter()
        for line in path.read_text().splitlines():
            count, name = line.split(" ", 1)
            counts[name] += int(count)
        path.unlink()
        return counts


Row = VersionRow | HeldRow

ROWS: tuple[Row, ...] = (
    VersionRow("send 1x64", 4_000, 1, 64),
    VersionRow("send 1x1000", 4_000, 1, 1000),
    VersionRow("send 32x1", 2_000, 32, 1),
    VersionRow("batch of 32", 200, 1, 16, batch=BATCH_SIZE),
    HeldRow("held pull", 500),
)


def main() -> int:
    """Run what the command line asks for; 0, or 2 with one message when it cannot be done."""
    parser = argparse.ArgumentParser(prog="python -m bench.bytecodes", description="Bytecodes of two versions.")
    parser.add_argument("checkout", type=Path, help="a work tree of the other version")
    parser.add_argument("--rows", nargs="+", metavar="TEXT", default=[""], help="rows whose name contains one of these")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bytecodes-") as work:
        try:
            program = load.build(Path(work))
            for row in (row for row in ROWS if any(text in row.name for text in options.rows)):
                other, this = (
                    measure(program, row, Path(work) / f"{row.name} {name}", repository.resolve())
                    for name, repository in (("other", options.checkout), ("this", REPOSITORY))
                )
                show(row, other, this)
        except BenchError as error:
            print(f"bench: {error}", file=sys.stderr)
            return 2
    return 0


def measure(program: Path, row: Row, directory: Path, repository: Path) -> dict[str, float]:
    """Return bytecodes per message of each function of the package in one version."""
    broker = CountedBroker("ours", directory, SETTINGS, repository=repository)
    broker.start(START_S)
    try:
        row.run(program, broker, "bytecodes", max(1, row.total // 8))  # fills caches, makes files
        broker.toggle()
        row.run(program, broker, "bytecodes", row.total)
        broker.toggle()
        return {name: count / row.message_count for name, count in broker.counted().items()}
    finally:
        broker.stop()


def show(row: Row, other: Mapping[str, float], this: Mapping[str, float]) -> None:
    """Print the totals, and the functions that differ most. A function is known by its class and name, not its file."""
    sums = [sum(counts.values()) for counts in (other, this)]
    print(f"{row.name}: other {sums[0]:.1f}, this {sums[1]:.1f}, ratio {sums[1] / sums[0]:.3f}")
    names = sorted({*other, *this}, key=lambda name: -abs(this.get(name, 0.0) - other.get(name, 0.0)))
    for name in names[:SHOWN]:
        before, now = other.get(name, 0.0), this.get(name, 0.0)
        if abs(now - before) >= 0.05:
            print(f"  {before:8.1f} {now:8.1f} {now - before:+8.1f}  {name}")


if __name__ == "__main__":
    os.environ.setdefault("PYTHONHASHSEED", "0")
    sys.exit(main())
