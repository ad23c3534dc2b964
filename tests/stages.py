"""Runs the stages of the test run, a few commands at a time, and ends with a table of their times.

``python -m tests.stages`` runs those of the tier, ``python -m tests.stages unit types`` some. A failing stage does not
stop the others; the exit status is 1 when any has failed. ROCKETPY_TIER chooses the tier:

- ``dev`` (the default), for people: the sources, no case that is slow, few examples, one process of each kind.
- ``ci``, for landing: everything, on compiled modules; what compares the two builds on both. A stage of ``RECORDED``
  whose inputs are those of a run that passed is left out (:mod:`tests.stage_inputs`).
- ``deep``: as ``ci`` with hours of examples, and nothing left out.

Where nothing can be compiled ``ci`` runs on the sources; ``compiler`` in ROCKETPY_REQUIRE makes that a failure.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import attrs

import hatch_build
from tests import build_counts, costs, slow_cases, stage_inputs
from tests.both_builds import both_build_files
from tests.jobs import ROOT, Ended, Job, run_jobs

TIER = os.environ.get("ROCKETPY_TIER", "dev")
BIN = Path(sys.executable).parent
CORES = len(os.sched_getaffinity(0))
SLOTS = CORES + 1
"""Jobs at a time. One a core computes; the others are of stages that mostly wait for the programs that they start."""

WHY_ONE_BUILD = (
    f"{hatch_build.VARIABLE}=1"
    if os.environ.get(hatch_build.VARIABLE) == "1"
    else "the tier dev"
    if TIER == "dev"
    else ""
    if "compiler" in os.environ.get("ROCKETPY_REQUIRE", "")
    else hatch_build.why_not()
)
"""Why nothing is compiled here: then the sources are tested, once."""

PURE = {hatch_build.VARIABLE: "1"}
COMPILED = PURE if WHY_ONE_BUILD else {hatch_build.VARIABLE: "0"}
"""With 0 a program that does not run compiled modules ends: no build can be tested twice by mistake."""

Command = tuple[str, ...]


@attrs.frozen
class Stage:
    """One subject of the run: a name and the commands, each a job that may run beside all others."""

    name: str
    commands: tuple[Command, ...]
    tiers: frozenset[str] = frozenset({"dev", "ci", "deep"})
    """In which tiers it runs by default."""

    after: frozenset[str] = frozenset()
    waits: bool = False
    """Whether its programs mostly wait for each other, so that it takes no core from another."""

    variables: Mapping[str, str] = attrs.field(factory=lambda: COMPILED)
    left_out: str = ""
    """What the tier ``dev`` leaves out of it, for the last lines of the run."""

    def jobs(self) -> list[Job]:
        """Return its commands, with their environment."""
        environment = {**os.environ, build_counts.STAGE: self.name, **self.variables}
        return [Job(self.name, command, environment, self.after, self.waits) for command in self.commands]


def pytest(*arguments: str) -> Command:
    """A pytest command in this environment."""
    return (sys.executable, "-m", "pytest", "-q", "--no-header", *arguments)


def covered(command: Command) -> Command:
    """A run of pytest that measures coverage in the tier ``deep``: it takes three times as long, and finds nothing."""
    python, *rest = command
    return (python, "-m", "coverage", "run", "--parallel-mode", *rest) if TIER == "deep" else command


def tool(name: str, *arguments: str) -> Command:
    """A console script of this environment."""
    return (str(BIN / name), *arguments)


def marked_files(mark: str, *folders: str) -> list[str]:
    """Return the test files in folders that name a mark, so that pytest need not import the others."""
    paths = (path for folder in folders for path in sorted((ROOT / folder).rglob("test_*.py")))
    return [str(path.relative_to(ROOT)) for path in paths if f"mark.{mark}" in path.read_text(encoding="utf-8")]


def files_of(folder: str, *borders: str) -> Iterator[list[str]]:
    """Yield the test files of a folder in lists, each of which ends where the names come to ``test_BORDER``."""
    names = sorted(path.name for path in (ROOT / folder).glob("test_*.py"))
    for begin, end in pairwise(("", *(f"test_{border}" for border in borders), "test_~")):
        yield [f"{folder}/{name}" for name in names if begin <= name < end]


DEV = frozenset({"dev"})
CI = frozenset({"ci", "deep"})
BY_NAME = frozenset[str]()
TWO_BUILDS = BY_NAME if WHY_ONE_BUILD else CI
AFTER_COMPILING = frozenset() if WHY_ONE_BUILD else frozenset({"compile"})

PROCESSES = ("tests/interop", "tests/blackbox", "tests/test_notebooks.py", "tests/test_wheel.py")
"""What the unit tests leave out, beside the tests that need a session of Spark."""

UNIT_FOLDERS = ("tests/broker", "tests/store")
"""They are one run of the unit tests, everything else is the other."""

HALF_OF_PROPERTIES = (
    "property_tests/crash",
    "property_tests/test_index_crash.py",
    "property_tests/test_replication_machine.py",
    "property_tests/test_retry_machine.py",
    "property_tests/test_store_bytes.py",
    "property_tests/test_store_machine.py",
    "property_tests/test_transaction_machine.py",
)

CHOSEN_UNIT = ("-m", "not spark and not slow" if TIER == "dev" else "not spark")
WITHOUT_BUGS = () if WHY_ONE_BUILD else ("-k", "not planted and not bug and not by_chance")
"""A bug is planted in plain Python, where every function can be replaced: ``bugs`` and ``hunts`` do."""

CHOSEN_PROPERTIES = ("-m", "not by_chance and not deep_enumeration and not slow") if TIER == "dev" else WITHOUT_BUGS
CHOSEN_BUGS = ("-k", "(planted or bug) and not by_chance", *(() if TIER == "deep" else ("-m", "not deep_enumeration")))
UNIT = (
    covered(pytest(*CHOSEN_UNIT, *UNIT_FOLDERS)),
    covered(pytest(*CHOSEN_UNIT, "tests", *(f"--ignore={path}" for path in (*PROCESSES, *UNIT_FOLDERS)))),
)
PROPERTIES = (
    pytest(*CHOSEN_PROPERTIES, *HALF_OF_PROPERTIES),
    pytest(*CHOSEN_PROPERTIES, "property_tests", *(f"--ignore={path}" for path in HALF_OF_PROPERTIES)),
)
INTEROP = tuple(pytest(*files) for files in files_of("tests/interop", "l", "s"))
COVERAGE = ("/bin/sh", "-c", f"{BIN}/coverage combine --quiet && {BIN}/coverage report --sort=cover")
ONE_OF_EACH = pytest("-m", "sample", *marked_files("sample", "tests/blackbox", "tests/interop", "tests/spark"))

STAGES = (
    Stage("style", (tool("ruff", "check", "."), tool("ruff", "format", "--check", "."))),
    Stage("compile", ((sys.executable, "hatch_build.py", "all"),), TWO_BUILDS),
    Stage("types", (tool("mypy"),)),
    Stage("floors", (tool("lint-imports", "--no-logo"),)),
    Stage("unit", UNIT, after=AFTER_COMPILING, left_out="cases above some 0.3 s of processor time"),
    Stage("properties", PROPERTIES, after=AFTER_COMPILING, left_out="hunts by chance, long enumerations"),
    Stage("samples", (ONE_OF_EACH,), DEV, waits=True, left_out="all processes but one of a kind"),
    Stage("interop", INTEROP, CI, AFTER_COMPILING, waits=True),
    Stage("spark", (pytest("tests/spark", "-m", "spark"),), CI, AFTER_COMPILING, waits=True),
    Stage("blackbox", (pytest("tests/blackbox"),), CI, AFTER_COMPILING, waits=True),
    Stage("bugs", (pytest("property_tests", *CHOSEN_BUGS),), TWO_BUILDS, variables=PURE),
    Stage("hunts", (pytest("property_tests", "-m", "by_chance"),), TWO_BUILDS, variables=PURE),
    Stage("both-builds", (pytest(*both_build_files()),), TWO_BUILDS, AFTER_COMPILING, variables=PURE),
    Stage("notebooks", (pytest("tests/test_notebooks.py"),), CI, AFTER_COMPILING | {"spark"}, waits=True),
    Stage("wheel", (pytest("tests/test_wheel.py"),), CI, AFTER_COMPILING),
    Stage("coverage", (COVERAGE,), frozenset({"deep"}), frozenset({"unit"})),
    Stage("java", (pytest("tests", "-m", "java"),), BY_NAME),
    Stage("upstream", (pytest("-rA", "tests/interop/test_upstream.py"),), BY_NAME),
)


def main(names: list[str]) -> int:
    """Run the named stages, or those of the tier."""
    known = {stage.name: stage for stage in STAGES}
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no stage named {unknown[0]!r}, expected one of: {', '.join(known)}", file=sys.stderr)
        return 2
    chosen = [known[name] for name in names] or [stage for stage in STAGES if TIER in stage.tiers]
    skipped = set() if names or TIER != "ci" else stage_inputs.unchanged()
    begun = time.monotonic()
    with ExitStack() as cleanup:
        prepare(chosen, cleanup)
        counts = Path(os.environ[build_counts.COUNTS])
        ended = run_jobs(
            [job for stage in chosen if stage.name not in skipped for job in stage.jobs()], SLOTS, CORES, note_cost
        )
        print("\n".join(build_counts.table(counts.read_text(encoding="utf-8").splitlines())))
    print("\n".join(table(chosen, ended, skipped)))
    print(f"all stages took {time.monotonic() - begun:.0f} s (tier {TIER})")
    if not names:
        print("\n".join(left_out(chosen)))
    if not names and TIER == "ci":
        print("\n".join(slow_cases.report(Path(os.environ[costs.COSTS]))))
    failed = {each.job.stage for each in ended if not each.passed}
    if TIER in CI and not names and not failed:
        stage_inputs.record({stage.name for stage in chosen} - skipped)
    print(f"stages: {len(chosen) - len(failed) - len(skipped)} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if failed else 0


def prepare(chosen: Sequence[Stage], cleanup: ExitStack) -> None:
    """Set the variables that all stages share, and remove the measurements of their last runs."""
    environment = os.environ
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # with it every program would compile all that it imports
    environment.setdefault(costs.COSTS, str(costs.DEFAULT))
    for stage in chosen:
        costs.forget(Path(environment[costs.COSTS]), stage.name)
    directory = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="rocketpy-stages-")))
    environment[build_counts.COUNTS] = str(directory / "counts")
    (directory / "counts").touch()


def note_cost(ended: Ended) -> None:
    """Add a job to the measurements."""
    costs.write_line(costs.STAGE, ended.job.stage, ended.job.stage, ended.end_s - ended.begin_s, ended.cpu_s)


def table(chosen: Sequence[Stage], ended: Sequence[Ended], skipped: set[str]) -> list[str]:
    """Return a row for each stage: its result, from its first to its last moment, and its processor time."""
    rows = [f"{'stage':16} {'result':8} {'seconds':>8} {'cpu s':>8}"]
    for stage in chosen:
        jobs = [each for each in ended if each.job.stage == stage.name]
        if stage.name in skipped:
            rows.append(f"{stage.name:16} skipped: its inputs are those of a run that passed")
            continue
        seconds = max(each.end_s for each in jobs) - min(each.begin_s for each in jobs)
        state = "passed" if all(each.passed for each in jobs) else "FAILED"
        rows.append(f"{stage.name:16} {state:8} {seconds:8.1f} {sum(each.cpu_s for each in jobs):8.1f}")
    return rows


def left_out(chosen: Sequence[Stage]) -> list[str]:
    """Return what the tier has left out, and how that is run; nothing in ``deep``."""
    if TIER == "deep":
        return []
    names = {stage.name for stage in chosen}
    parts = [f"{stage.name}: {stage.left_out}" for stage in chosen if stage.left_out and TIER == "dev"]
    parts += [f"{stage.name}: all of it" for stage in STAGES if "deep" in stage.tiers and stage.name not in names]
    if TIER == "ci":
        return ["left out: hours of examples, and coverage. ROCKETPY_TIER=deep make test runs them"]
    return ["left out (ROCKETPY_TIER=ci make test runs all of it):", *(f"  {part}" for part in parts)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
