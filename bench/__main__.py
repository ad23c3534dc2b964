"""Measures the Java broker and both builds of ours side by side: ``python -m bench [--quick] [--rows TEXT ...]``.

The brokers of a group of rows live at the same time and take turns row by row; who goes first changes by round. While
one is loaded the others are idle. Stores must be on a real file system, and everything is removed at the end.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench import load, machine
from bench.brokers import COMPILED, JAVA, OURS, PURE, REPOSITORY, BenchError, Broker, peer_jars
from bench.connection_rows import CONNECTION_ROWS
from bench.group_rows import GROUP_ROWS
from bench.hold_rows import HOLD_ROWS
from bench.idle_rows import IDLE_ROWS
from bench.prepared import PreparedStores
from bench.replication_rows import REPLICATION_ROWS
from bench.rows import ACL_ROWS, PROCESS_ROWS, STEADY_ROWS, SYNC_ROWS, Row, Session
from bench.store_rows import LOOK_UP_ROWS, QUEUES_ROWS, RECOVERY_ROWS, START_ROWS
from bench.table import Figures, format_means, format_table, means
from rocketpy.compiled import find_build

QUICK_SCALE = 0.1


@dataclass(frozen=True)
class Group:
    """Rows that are measured on the same brokers, in their order."""

    name: str
    rows: Sequence[Row]
    settings: Mapping[str, str] = field(default_factory=dict)
    starts: bool = True  # or the rows start them, on a store of their own
    warms_up: bool = False


GROUPS = (
    Group("steady", STEADY_ROWS, warms_up=True),
    Group("acl", ACL_ROWS, {"aclEnable": "true"}, warms_up=True),
    Group("held", HOLD_ROWS, {"enablePropertyFilter": "true"}, warms_up=True),
    Group("sync", SYNC_ROWS, {"flushDiskType": "SYNC_FLUSH"}, warms_up=True),
    Group("process", PROCESS_ROWS),
    Group("connections", CONNECTION_ROWS, starts=False),
    Group("groups", GROUP_ROWS, starts=False),
    Group("look-up", LOOK_UP_ROWS),
    Group("recovery", RECOVERY_ROWS, starts=False),
    Group("start", START_ROWS, starts=False),
    Group("queues", QUEUES_ROWS, starts=False),
    Group("idle", IDLE_ROWS, starts=False),
    Group("replication", REPLICATION_ROWS, starts=False),
)


def main() -> int:
    """Run what the command line asks for; 0, or 2 with one message when it cannot be done."""
    options = _parse_options()
    options.directory.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="run-", dir=options.directory))
    try:
        return _run(options, work)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    finally:
        if options.keep:
            print(f"kept: {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="The Java broker and both builds of ours.")
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of the messages and one round: to see that it works, not to quote"
    )
    parser.add_argument("--rounds", type=int, help="rounds per row (default 5; 1 with --quick)")
    parser.add_argument("--rows", nargs="+", metavar="TEXT", help="only rows whose name contains one of these")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=(JAVA, PURE, COMPILED, OURS),
        help="measure these brokers (default: java, pure, and compiled if this checkout is; ours: the faster build)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every round here")
    parser.add_argument(
        "--directory", type=Path, default=REPOSITORY / "bench" / "results", help="where the stores go; not a tmpfs"
    )
    parser.add_argument(
        "--jars", type=Path, metavar="DIR", help="a folder with the Java broker's jars (default: fetched with Maven)"
    )
    parser.add_argument(
        "--java-heap", type=int, default=1024, metavar="MIB", help="the Java broker's heap (default 1024)"
    )
    parser.add_argument("--keep", action="store_true", help="keep stores and logs")
    options = parser.parse_args()
    if options.rounds is None:
        options.rounds = 1 if options.quick else 5
    return options


def _run(options: argparse.Namespace, work: Path) -> int:
    facts = machine.describe(work)
    if facts["file system"] in machine.NO_DISK:
        raise BenchError(
            f"{work} is on {facts['file system']}: stores must be on a real file system, give --directory DIR"
        )
    started = time.monotonic()
    kinds = _kinds(options.only or [JAVA, PURE, OURS])
    program, jars = load.build(work), _jars(options, kinds)
    stores = PreparedStores(work, program, QUICK_SCALE if options.quick else 1.0)
    figures: list[Figures] = []
    notes: list[str] = []
    builds: dict[str, str] = {}
    for group in GROUPS:
        chosen = [row for row in group.rows if not options.rows or any(text in row.name for text in options.rows)]
        if not chosen:
            continue
        brokers = [
            Broker(kind, work / f"{group.name}-{kind}", dict(group.settings), jars, options.java_heap) for kind in kinds
        ]
        sessions = [Session(broker, program, stores.scale, stores) for broker in brokers]
        figures += _measure(group, chosen, sessions, rounds=options.rounds)
        notes += [note for session in sessions for note in session.notes]
        builds |= {broker.kind: broker.build for broker in brokers if broker.build}
    _report(options, facts | builds, figures, notes, time.monotonic() - started)
    return 0


def _kinds(asked: Sequence[str]) -> list[str]:
    """Return the brokers to measure, each once, in the order of the columns."""
    build = find_build(str(REPOSITORY / "rocketpy"), {})
    ours = PURE if build.why_pure else COMPILED
    if build.modules and build.why_pure:
        _progress(f"the compiled modules are left out: {build.why_pure}")
    wanted = {ours if kind == OURS else kind for kind in asked}
    return [kind for kind in (JAVA, PURE, COMPILED) if kind in wanted]


def _measure(group: Group, rows: Sequence[Row], sessions: Sequence[Session], *, rounds: int) -> list[Figures]:
    """Measure rows of a group; its brokers are ended on the way out, whatever happens."""
    figures = [Figures(row, {session.broker.kind: [] for session in sessions}) for row in rows]
    with ExitStack() as stack:
        for session in sessions:
            stack.callback(session.broker.stop)
            if group.starts:
                session.broker.start()
        if group.warms_up:
            for session in sessions:
                _progress(f"warming up {session.broker.kind}")
                session.warm_up()
                for row in rows:
                    if row.is_warmed:
                        row.measure(session)
        for number in range(rounds):
            first = number % len(sessions)
            order = [*sessions[first:], *sessions[:first]]
            for each in figures:
                for session in order:
                    value = each.row.measure(session)
                    if value is not None:
                        each.rounds[session.broker.kind].append(value)
                        figure = f"{session.broker.kind} {value:,.1f} {each.row.unit}"
                        _progress(f"round {number + 1}/{rounds}  {each.row.name}: {figure}")
    return figures


def _jars(options: argparse.Namespace, kinds: Sequence[str]) -> Path | None:
    if JAVA not in kinds:
        return None
    jars: Path | None = options.jars
    return jars or peer_jars()


def _report(
    options: argparse.Namespace, facts: dict[str, str], figures: list[Figures], notes: list[str], seconds: float
) -> None:
    of = means(figures)
    print("\n" + "\n".join(f"{name}: {fact}" for name, fact in facts.items()))
    print(f"\n{format_table(figures)}\n")
    if of:
        print(format_means(of))
    for note in notes:
        print(f"note: {note}")
    print(f"{options.rounds} rounds, medians; {seconds:.0f} s" + ("; QUICK: not for quoting" if options.quick else ""))
    if options.json:
        rows = [each.as_json() for each in figures]
        options.json.write_text(
            json.dumps({"machine": facts, "rows": rows, "means": of, "notes": notes}, indent=1) + "\n"
        )


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
