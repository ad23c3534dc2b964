"""What tests cost: processor and wall time of each test, fixture and collection, and of what is built for tests.

A pytest plugin, active where ROCKETPY_COSTS names a directory: every process of pytest adds a file of JSON lines there.
``python -m tests.stages`` names ``build/costs``, which holds the last run of each stage. ``python -m tests.costs``
prints the tables: the stages, the dearest tests and fixtures, the longest waits, and what was built more than once.

Processor time counts the process and everything it has started, running or ended, so a test pays for a broker or a JVM
that works for it. Wall time beyond processor time is waiting: for a timer, for another program, or for a core.
A fixture that pytest-trio runs is part of the test's own call.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import attrs
import pytest

from rocketpy import BUILD
from tests import build_counts

COSTS = "ROCKETPY_COSTS"
NAME = "rocketpy-costs"
DEFAULT = Path(__file__).resolve().parent.parent / "build" / "costs"
_TICKS = os.sysconf("SC_CLK_TCK")

TEST, FIXTURE, COLLECTION, BUILT, STAGE, SPEED = "test", "fixture", "collection", "built", "stage", "speed"
LOOP = 1_000_000
LOOP_S = 0.025
"""What that many steps of an empty loop take on the processor that limits in seconds are meant for."""


@attrs.frozen
class Cost:
    """One line of the measurements."""

    kind: str
    name: str
    stage: str
    wall_s: float
    cpu_s: float

    @property
    def waited_s(self) -> float:
        """Wall time in which neither the process nor its children worked."""
        return max(0.0, self.wall_s - self.cpu_s)


class Meter:
    """Reads both clocks, and keeps what is measured inside of another measurement out of it."""

    def __init__(self, write: Callable[[str, str, float, float], None]) -> None:
        self._write = write
        self._nested: list[list[float]] = []

    @contextmanager
    def measured(self, kind: str, name: str, *, is_nested: bool = False) -> Iterator[None]:
        """Write what the block costs; with ``is_nested`` without what is measured so within it."""
        wall, cpu = time.perf_counter(), tree_cpu_s()
        if is_nested:
            self._nested.append([0.0, 0.0])
        try:
            yield
        finally:
            wall, cpu = time.perf_counter() - wall, tree_cpu_s() - cpu
            inner = self._nested.pop() if is_nested else [0.0, 0.0]
            if is_nested and self._nested:
                self._nested[-1][0] += wall
                self._nested[-1][1] += cpu
            self._write(kind, name, wall - inner[0], cpu - inner[1])


class Costs:
    """Measures one process of pytest."""

    def __init__(self, directory: Path, stage: str) -> None:
        self._stage = stage
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{stage or 'no-stage'}-{os.getpid()}.jsonl"
        self._file: IO[str] = path.open("a", encoding="utf-8", buffering=1)  # written also by a run that is killed
        self._meter = Meter(self._write)
        self._note_speed()

    def _write(self, kind: str, name: str, wall_s: float, cpu_s: float) -> None:
        self._file.write(_line(kind, name, self._stage, wall_s, cpu_s))

    def _note_speed(self) -> None:
        """Measure the same loop in each run: machines differ, and one machine from hour to hour."""
        with self._meter.measured(SPEED, f"{LOOP} steps"):
            for _ in range(LOOP):
                pass

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Iterator[None]:
        """Measure the collection of the whole run."""
        with self._meter.measured(COLLECTION, str(BUILD)):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Measure a test with its set-up and tear-down."""
        with self._meter.measured(TEST, item.nodeid):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[Any]:
        """Measure the set-up of a fixture, without that of fixtures which it asks for while it runs."""
        where = fixturedef.baseid or "a plugin"
        with self._meter.measured(FIXTURE, f"{where}::{fixturedef.argname} ({fixturedef.scope})", is_nested=True):
            return (yield)

    def pytest_sessionfinish(self) -> None:
        """Measure the loop once more."""
        self._note_speed()


@contextmanager
def built(name: str) -> Iterator[None]:
    """Measure something that several runs need and each may build for itself: a compilation, a package, a cluster."""
    if not os.environ.get(COSTS):
        yield
        return
    wall, cpu = time.perf_counter(), tree_cpu_s()
    yield
    write_line(BUILT, name, os.environ.get(build_counts.STAGE, ""), time.perf_counter() - wall, tree_cpu_s() - cpu)


def write_line(kind: str, name: str, stage: str, wall_s: float, cpu_s: float) -> None:
    """Add one measurement to a file of this process."""
    directory = Path(os.environ[COSTS])
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / f"{stage or 'no-stage'}-{os.getpid()}-{kind}.jsonl", "a", encoding="utf-8") as file:
        file.write(_line(kind, name, stage, wall_s, cpu_s))


def _line(kind: str, name: str, stage: str, wall_s: float, cpu_s: float) -> str:
    return json.dumps([kind, name, stage, round(wall_s, 4), round(cpu_s, 4)], ensure_ascii=False) + "\n"


def forget(directory: Path, stage: str) -> None:
    """Remove the measurements of earlier runs of a stage."""
    for path in directory.glob(f"{stage}-[0-9]*.jsonl"):
        path.unlink()


def register(config: pytest.Config) -> None:
    """Measure this run where ROCKETPY_COSTS says where to, once even where two conftests ask for it."""
    directory = os.environ.get(COSTS)
    if directory and not config.pluginmanager.has_plugin(NAME):
        config.pluginmanager.register(Costs(Path(directory), os.environ.get(build_counts.STAGE, "")), NAME)


def tree_cpu_s() -> float:
    """Return the processor time of this process, its ended children and its running descendants, in seconds."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime + sum(map(_cpu_s, _descendants(os.getpid())))


def _descendants(pid: int) -> Iterator[int]:
    """Yield the running descendants of a process; a process that ends meanwhile is left out."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return
    for thread in threads:
        try:
            children = Path(f"/proc/{pid}/task/{thread}/children").read_text(encoding="ascii").split()
        except OSError:
            continue
        for child in map(int, children):
            yield child
            yield from _descendants(child)


def _cpu_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS  # utime, stime, and both of its ended children


# ---- the tables -----------------------------------------------------------------------------------------------------


def read_costs(directory: Path) -> list[Cost]:
    """Read all measurements of a directory."""
    return [
        Cost(*json.loads(line))
        for path in sorted(directory.glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]


def tables(costs: Sequence[Cost], most: int = 50) -> Iterator[str]:
    """Yield the lines of all tables."""
    tests = [each for each in costs if each.kind == TEST]
    yield from _stages(costs)
    yield from _top("tests by processor time", tests, lambda each: each.cpu_s, most)
    yield from _top("tests by waiting", tests, lambda each: each.waited_s, most)
    yield from _repeated("fixtures by processor time", (each for each in costs if each.kind == FIXTURE), most // 2)
    yield from _repeated("built", (each for each in costs if each.kind == BUILT), most // 2)
    yield from _folders(tests)


def _stages(costs: Sequence[Cost]) -> Iterator[str]:
    yield f"{'stage':20} {'tests':>7} {'cpu s':>8} {'waited s':>8} {'collected':>9} {'slow':>5} {'their cpu s':>12}"
    for stage in sorted({each.stage for each in costs}):
        tests = [each for each in costs if each.stage == stage and each.kind == TEST]
        slow = [each.cpu_s for each in tests if each.cpu_s > 0.5]
        collected = sum(each.cpu_s for each in costs if each.stage == stage and each.kind == COLLECTION)
        cpu, waited = sum(each.cpu_s for each in tests), sum(each.waited_s for each in tests)
        yield f"{stage:20} {len(tests):7} {cpu:8.1f} {waited:8.1f} {collected:9.1f} {len(slow):5} {sum(slow):12.1f}"


def _top(title: str, costs: Iterable[Cost], key: Callable[[Cost], float], most: int) -> Iterator[str]:
    yield f"\n{title}\n{'cpu s':>8} {'waited s':>8}  stage: test"
    for each in sorted(costs, key=key, reverse=True)[:most]:
        yield f"{each.cpu_s:8.2f} {each.waited_s:8.2f}  {each.stage}: {each.name}"


def _repeated(title: str, costs: Iterable[Cost], most: int) -> Iterator[str]:
    """Sums by name: a fixture that is set up a thousand times is dear by its number."""
    cpu, waited, times = defaultdict[str, float](float), defaultdict[str, float](float), Counter[str]()
    stages = defaultdict[str, set[str]](set)
    for each in costs:
        cpu[each.name] += each.cpu_s
        waited[each.name] += each.waited_s
        times[each.name] += 1
        stages[each.name].add(each.stage)
    yield f"\n{title}\n{'cpu s':>8} {'waited s':>8} {'times':>7}  name (stages)"
    for name in sorted(cpu, key=lambda name: -cpu[name] - waited[name])[:most]:
        yield f"{cpu[name]:8.2f} {waited[name]:8.2f} {times[name]:7}  {name} ({', '.join(sorted(stages[name]))})"


def _folders(tests: Iterable[Cost]) -> Iterator[str]:
    sums = defaultdict[str, list[float]](lambda: [0, 0.0, 0.0])
    for each in tests:
        row = sums["/".join(each.name.split("::")[0].split("/")[:3])]
        row[0] += 1
        row[1] += each.cpu_s
        row[2] += each.waited_s
    yield f"\nfolders\n{'cpu s':>8} {'waited s':>8} {'tests':>7}  folder"
    for folder, (count, cpu, waited) in sorted(sums.items(), key=lambda item: -item[1][1])[:60]:
        yield f"{cpu:8.1f} {waited:8.1f} {count:7}  {folder}"


def main(arguments: list[str]) -> int:
    """Print the tables of a directory, by default of the last runs of all stages."""
    directory = Path(arguments[0]) if arguments else DEFAULT
    costs = read_costs(directory)
    if not costs:
        print(f"{directory}: expected measurements of python -m tests.stages, found none", file=sys.stderr)
        return 1
    print("\n".join(tables(costs)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
