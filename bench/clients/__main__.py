"""Measures our client beside others, against one broker of ours: ``python -m bench.clients [--quick] [--rows TEXT]``.

Each measurement is a process of its own: it connects, warms up, and reports rate and processor time of what came then.
A process that fails, or takes longer than :data:`RUN_SECONDS`, is named under the table, and the others go on.
The clients take turns, row by row; broker, nameserver and client share the machine. Beside ours, on Trio, on asyncio
and in plain code, stand RocketMQ's Java client and the C++ client behind PyPI's ``rocketmq``, where they can do a row.
``--against CHECKOUT`` puts our client of a work tree of an earlier version beside today's, and nothing else: the last
column is the median ratio of a turn, of processor time per message where a row has it (above 1: today's takes more).
The C++ client stops after some seconds with what it has done by then: some of its rows are slow.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from bench import load, machine
from bench.brokers import REPOSITORY, BenchError, Broker, peer_jars
from bench.idle_rows import nameserver

HERE = Path(__file__).resolve().parent
QUEUES = 8
BODY_BYTES = 128
BATCH = 32
QUICK_SCALE = 0.1
RUN_SECONDS = 60.0
IDLE_SECONDS = 4
IMPORTS = 9
CONSUME_TOPIC = "bench_consume"
CONSUMED = 450_000


@dataclass(frozen=True)
class ClientRow:
    """One line of the table; ``clients`` can do it."""

    name: str
    worker_row: str
    total: int
    clients: Sequence[str]
    unit: str = "per second"


ROWS = (
    ClientRow("send, one after the other", "sequence", 12_000, ("ours", "asyncio", "blocking", "java", "c++")),
    ClientRow("send, 64 tasks on one producer", "tasks", 60_000, ("ours", "asyncio", "blocking", "java", "c++")),
    ClientRow("send, pipelined", "pipelined", 90_000, ("ours", "asyncio", "blocking", "java", "c++")),
    ClientRow("send, batches of 32 one after the other", "batched", 300_000, ("ours", "java")),
    ClientRow("send, batches collected by the producer", "collected", 300_000, ("ours",)),
    ClientRow("consume as a group", "consume", 300_000, ("ours", "asyncio", "blocking", "java", "c++")),
    ClientRow("consume by pulls", "pulls", 300_000, ("ours",)),
    ClientRow("idle producer and consumer", "idle", 0, ("ours", "asyncio", "blocking"), "% of a core"),
    ClientRow("import, over bare Python", "import", 0, ("ours", "asyncio", "blocking"), "ms of processor"),
)
EARLIER = "earlier "
"""Before the name of a client of another work tree."""
IMPORTED = {"ours": "rocketpy.client", "asyncio": "rocketpy.client.aio", "blocking": "rocketpy.client.blocking"}
CONSUMING = ("consume", "pulls")


def main() -> int:
    """Run what the command line asks for; 0, or 2 with one message when it cannot be done."""
    parser = argparse.ArgumentParser(prog="python -m bench.clients", description="Our client beside others.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages, one round")
    parser.add_argument("--rounds", type=int, help="rounds per row (default 3; 1 with --quick)")
    parser.add_argument("--rows", nargs="+", metavar="TEXT", help="only rows whose name contains one of these")
    parser.add_argument(
        "--clients",
        nargs="+",
        metavar="NAME",
        help="only these: ours (Trio), asyncio, blocking (ours too), java, c++",
    )
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="compare our client with that of a work tree")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every round here")
    options = parser.parse_args()
    results = REPOSITORY / "bench" / "results"
    results.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix="clients-", dir=results) as work:
            return _run(options, Path(work))
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2


def _run(options: argparse.Namespace, work: Path) -> int:
    for name, fact in machine.describe(work).items():
        print(f"{name}: {fact}")
    scale = QUICK_SCALE if options.quick else 1.0
    rows = [row for row in ROWS if not options.rows or any(text in row.name for text in options.rows)]
    if options.against is not None:
        rows = [_against_earlier(row) for row in rows]
    workers = _workers(work, {name for row in rows for name in row.clients if _is_wanted(options, name)})
    figures: dict[tuple[str, str], list[dict[str, float]]] = {}
    failures: list[str] = []
    with nameserver(work / "namesrv") as address:
        broker = Broker("ours", work / "broker", {"namesrvAddr": address, "defaultTopicQueueNums": str(QUEUES)})
        broker.start()
        try:
            if any(row.worker_row in CONSUMING for row in rows):
                _fill(work, broker, int(CONSUMED * scale))
            for number in range(options.rounds or (1 if options.quick else 3)):
                for row in rows:
                    names = [name for name in row.clients if name in workers]
                    for name in names if number % 2 else reversed(names):
                        try:
                            repository = options.against.resolve() if name.startswith(EARLIER) else REPOSITORY
                            found = _measure(workers[name], row, address, scale, number, name, repository)
                        except BenchError as failure:
                            failures.append(f"{row.name}, {name}: {failure}")
                        else:
                            figures.setdefault((row.name, name), []).append(found)
        finally:
            broker.stop()
    print(_table(rows, figures) if options.against is None else _turns(rows, figures))
    for failure in failures:
        print(f"\nfailed: {failure}")
    if options.json:
        options.json.write_text(json.dumps({f"{row} / {name}": found for (row, name), found in figures.items()}))
    return 1 if failures else 0


def _is_wanted(options: argparse.Namespace, name: str) -> bool:
    return not options.clients or name.removeprefix(EARLIER) in options.clients


def _against_earlier(row: ClientRow) -> ClientRow:
    ours = [name for name in row.clients if name in IMPORTED]
    return replace(row, clients=[*ours, *(EARLIER + name for name in ours)])


def _workers(work: Path, names: set[str]) -> dict[str, list[str]]:
    """Return the command of each client's worker."""
    workers = {
        "ours": [sys.executable, "-m", "bench.clients.trio_worker"],
        "asyncio": [sys.executable, "-m", "bench.clients.asyncio_worker"],
        "blocking": [sys.executable, "-m", "bench.clients.blocking_worker"],
    }
    workers |= {EARLIER + name: command for name, command in workers.items()}
    if "java" in names:
        jars, classes = peer_jars(), work / "classes"
        _check(["javac", "-cp", f"{jars}/*", "-d", str(classes), str(HERE / "ClientBench.java")])
        heap = ["-Xms1g", "-Xmx1g", "-XX:+UseG1GC", f"-Duser.home={work}", "-Drocketmq.client.logLevel=ERROR"]
        workers["java"] = ["java", *heap, "-cp", f"{classes}:{jars}/*", "ClientBench"]
    if "c++" in names:
        from tests.interop import tools

        try:
            workers["c++"] = [str(tools.prepared("cpp")), str(HERE / "cpp_worker.py")]
        except (tools.ToolMissing, tools.BuildFailed) as error:
            print(f"without the C++ client: {error}")
    return {name: command for name, command in workers.items() if name in names}


def _fill(work: Path, broker: Broker, total: int) -> None:
    """Fill the topic that is consumed."""
    program = load.build(work)
    load.run(
        program,
        broker,
        "send",
        topic=CONSUME_TOPIC,
        queues=QUEUES,
        connections=1,
        depth=16,
        total=total // BATCH,
        body=BODY_BYTES,
        batch=BATCH,
    )


def _measure(
    worker: list[str], row: ClientRow, address: str, scale: float, number: int, name: str, repository: Path
) -> dict[str, float]:
    """Run one worker; return its figure in the row's unit, and its processor time in microseconds per message."""
    who = name.replace(" ", "_").strip("+")
    if row.worker_row == "import":
        return {"figure": _import_ms(IMPORTED[name.removeprefix(EARLIER)], repository)}
    if row.worker_row == "idle":
        arguments = ["idle", address, f"bench_idle_{number}_{who}", "1", str(IDLE_SECONDS), "0"]
        found = json.loads(_check([*worker, *arguments], repository))
        return {"figure": 100 * found["processor_s"] / found["seconds"]}
    total = int(row.total * scale)
    topic = CONSUME_TOPIC if row.worker_row in CONSUMING else f"bench_{row.worker_row}_{number}_{who}"
    arguments = [row.worker_row, address, topic, str(total // 3), str(total), str(BODY_BYTES)]
    done = _check([*worker, *arguments], repository)
    found = json.loads(done.splitlines()[-1])
    return {
        "figure": found["messages"] / found["seconds"],
        "processor_us": found["processor_s"] / found["messages"] * 1e6,
    }


def _import_ms(module: str, repository: Path) -> float:
    """Return the milliseconds of processor time that an import takes, at best, without the start of Python."""

    def processor_ms(code: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        _check([sys.executable, "-c", code], repository)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    _check([sys.executable, "-c", f"import {module}"], repository)  # writes the compiled modules
    rounds = [(processor_ms("pass"), processor_ms(f"import {module}")) for _ in range(IMPORTS)]
    return min(each[1] for each in rounds) - min(each[0] for each in rounds)


def _check(command: list[str], repository: Path = REPOSITORY) -> str:
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=RUN_SECONDS, check=False, cwd=repository, env=environment
        )
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"{' '.join(command)} took longer than {RUN_SECONDS:.0f} s") from error
    if done.returncode != 0:
        raise BenchError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout


def _table(rows: Sequence[ClientRow], figures: dict[tuple[str, str], list[dict[str, float]]]) -> str:
    """Return the table in Markdown: medians, the best, and our figure over that of each other client."""
    lines = [
        "| row | client | figure | unit | min..max | processor us, best | ours / it | best / best |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        ours = [each["figure"] for each in figures.get((row.name, "ours"), [])]
        for name in row.clients:
            rounds = figures.get((row.name, name), [])
            found = [each["figure"] for each in rounds]
            if not found:
                continue
            digits = 0 if row.unit == "per second" else 2
            processor = [each["processor_us"] for each in rounds if "processor_us" in each]
            best = max if row.unit == "per second" else min
            best_us = f"{min(processor):.1f}" if processor else "-"
            ratios = (median(ours) / median(found), best(ours) / best(found)) if ours else ()
            lines.append(
                f"| {row.name} | {name} | {median(found):,.{digits}f} | {row.unit} "
                f"| {min(found):,.{digits}f}..{max(found):,.{digits}f} | {best_us} "
                f"| {' | '.join(f'{each:.2f}' for each in ratios) or '- | -'} |"
            )
    return "\n".join(lines)


def _turns(rows: Sequence[ClientRow], figures: dict[tuple[str, str], list[dict[str, float]]]) -> str:
    """Return the table of two versions in Markdown: medians, and the median of the ratios of each turn."""
    lines = ["| row | client | figure, earlier | today | unit | ratio of a turn |", "|---|---|---|---|---|---|"]
    for row in rows:
        for name in row.clients[: len(row.clients) // 2]:
            before, now = (figures.get((row.name, each), []) for each in (EARLIER + name, name))
            if not before or len(before) != len(now):
                continue
            ratios = [_cost(each) / _cost(other) for each, other in zip(now, before, strict=True)]
            shown = [f"{median(each['figure'] for each in found):,.2f}" for found in (before, now)]
            lines.append(f"| {row.name} | {name} | {' | '.join(shown)} | {row.unit} | {median(ratios):.3f} |")
    return "\n".join(lines)


def _cost(found: dict[str, float]) -> float:
    return found.get("processor_us", found["figure"])


if __name__ == "__main__":
    sys.exit(main())
