"""Runs the stages of the test run, prints each one's time, and ends with a table.

``python -m tests.stages`` runs all, ``python -m tests.stages style types`` some. A failing stage does not stop the
others; the exit status is 1 when any has failed. ``ROCKETPY_TIER`` is ``dev`` (the default, minutes), ``ci`` or
``deep``; Hypothesis takes its profile from it.

Two builds are tested: the stages compile all modules first and run on them, and those whose names end with ``-pure``
run the part of the tests that compiled code decides once more on the sources; in ``dev`` these are only the tests with
planted bugs. The run ends with the counts of both. Without a C compiler the sources run everywhere; ``compiler`` in
ROCKETPY_REQUIRE makes that a failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import attrs

import hatch_build
from tests import build_counts, costs, spark_runtime

ROOT = Path(__file__).resolve().parent.parent
TIER = os.environ.get("ROCKETPY_TIER", "dev")
BIN = Path(sys.executable).parent

WHY_ONE_BUILD = (
    f"{hatch_build.VARIABLE}=1"
    if os.environ.get(hatch_build.VARIABLE) == "1"
    else ""
    if "compiler" in os.environ.get("ROCKETPY_REQUIRE", "")
    else hatch_build.why_not()
)
"""Why nothing is compiled here: then the sources are tested, once."""

SLOW_FOLDERS = ("tests/interop", "tests/blackbox", "tests/spark", "tests/test_notebooks.py", "tests/test_wheel.py")


@attrs.frozen
class Stage:
    """One step of the run: a name and the commands it consists of."""

    name: str
    commands: tuple[tuple[str, ...], ...] = ()
    side_by_side: tuple[tuple[str, ...], ...] = ()
    """Commands that run first, at the same time: nothing in them may care how fast it is."""

    at_once: int | None = None
    """How many of these run at a time; the next one starts when one has ended. None: all of them."""

    by_default: bool = True
    variables: Mapping[str, str] = attrs.field(factory=dict)
    """More variables for the commands."""

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the commands."""
        return {**os.environ, build_counts.STAGE: self.name, **self.variables}

    @property
    def repeats(self) -> bool:
        """Whether it repeats on the sources what another stage does on compiled modules."""
        return self.name.endswith("-pure")


def pytest(*arguments: str) -> tuple[str, ...]:
    """A pytest command in this environment."""
    return (sys.executable, "-m", "pytest", "-q", "--no-header", "--durations=5", *arguments)


def stages(*names: str) -> tuple[str, ...]:
    """A run of other stages, one after the other."""
    return (sys.executable, "-m", "tests.stages", *names)


def tool(name: str, *arguments: str) -> tuple[str, ...]:
    """A console script of this environment."""
    return (str(BIN / name), *arguments)


HALF_OF_PROPERTIES = (
    "property_tests/crash",
    "property_tests/test_index_crash.py",
    "property_tests/test_replication_machine.py",
    "property_tests/test_retry_machine.py",
    "property_tests/test_store_bytes.py",
    "property_tests/test_store_machine.py",
    "property_tests/test_transaction_machine.py",
)
OTHER_PROPERTIES = ("property_tests", *(f"--ignore={path}" for path in HALF_OF_PROPERTIES))
HALF = ("tests/broker", "tests/cli", "tests/protocol")
OTHER_HALF = ("tests", *(f"--ignore={folder}" for folder in (*SLOW_FOLDERS, *HALF)))
PURE = {hatch_build.VARIABLE: "1"}
_FOLDERS = {Path("tests", *Path(source).parts[1:-1]) for source in hatch_build.ALL}
COMPILED_PACKAGES = sorted(str(folder) for folder in _FOLDERS if not _FOLDERS.intersection(folder.parents))
"""The tests of what is compiled: packages, because a module's neighbours call it.

Of these, test files whose imports lead to no compiled module are left out (:mod:`tests.compiled_reach`): readers of
JSON, bodies and headers, for instance. They run the same code in both builds.
"""

WITHOUT_BUGS = () if WHY_ONE_BUILD else ("-k", "not planted and not bug")
"""Planted bugs show what the machines find: once is enough, in plain Python, where every function can be replaced."""

AGAIN = ("-k", "planted or bug") if TIER == "dev" else ("-m", "not machinery")
"""Which properties plain Python runs: in the tier ``dev`` the planted bugs alone.

That a seed is a history, or that a failing history is made smaller, is about the tests: ``properties`` has seen it.
"""

REPEATED = () if TIER == "dev" else ("unit-pure", "interop-pure")
"""What plain Python runs again, beside ``properties-pure``, of what has run compiled: in the tier ``dev`` nothing."""

LONGEST_FIRST = ("spark", "properties-pure", "interop", "blackbox", *REPEATED, "notebooks", "wheel")
"""The stages of ``processes``, in an order in which the last of them end at about the same time."""

MEASURES_COVERAGE = TIER == "deep"
"""It makes the unit tests take three times as long, and finds nothing that they do not."""


def in_two_by_name(folder: str) -> tuple[tuple[str, ...], ...]:
    """Two runs of pytest that together have all test files of a folder: up to test_m, and from test_n on."""
    files = sorted(str(path.relative_to(ROOT)) for path in (ROOT / folder).glob("test_*.py"))
    first = [path for path in files if Path(path).name < "test_n"]
    return pytest(*first), pytest(*(path for path in files if path not in first))


def unit_stage() -> Stage:
    """The tests of single modules, in two halves; in the tier ``deep`` with what they cover."""
    if not MEASURES_COVERAGE:
        return Stage("unit", side_by_side=(pytest(*HALF), pytest(*OTHER_HALF)), by_default=False)
    run = (sys.executable, "-m", "coverage", "run", "--parallel-mode")
    return Stage(
        "unit",
        side_by_side=(run + pytest(*HALF)[1:], run + pytest(*OTHER_HALF)[1:]),
        commands=(
            (sys.executable, "-m", "coverage", "combine", "--quiet"),
            (sys.executable, "-m", "coverage", "report", "--sort=cover"),
        ),
        by_default=False,
    )


STAGES = (
    Stage("checks", side_by_side=(stages("style", "floors", "types", "spark-classes"), stages("compile"))),
    Stage("style", (tool("ruff", "check", "."), tool("ruff", "format", "--check", ".")), by_default=False),
    Stage("floors", (tool("lint-imports", "--no-logo"),), by_default=False),
    Stage("types", (tool("mypy"),), by_default=False),
    Stage("compile", ((sys.executable, "hatch_build.py", "all"),), by_default=False),
    Stage("spark-classes", ((sys.executable, "-m", "tests.spark_classes"),), by_default=False, variables=PURE),
    Stage("modules", side_by_side=(stages("unit"), stages("properties"))),
    unit_stage(),
    Stage(
        "properties",
        side_by_side=(
            pytest(*HALF_OF_PROPERTIES, *WITHOUT_BUGS),
            pytest(*OTHER_PROPERTIES, *WITHOUT_BUGS),
        ),
        by_default=False,
    ),
    Stage("processes", side_by_side=tuple(stages(name) for name in LONGEST_FIRST), at_once=3),
    Stage("spark", (pytest("tests/spark"),), by_default=False),
    Stage("notebooks", (pytest("tests/test_notebooks.py"),), by_default=False),
    Stage("wheel", (pytest("tests/test_wheel.py"),), by_default=False),
    Stage("blackbox", (pytest("tests/blackbox"),), by_default=False),
    Stage("interop", side_by_side=in_two_by_name("tests/interop"), by_default=False),
    Stage("unit-pure", (pytest("-p", "tests.compiled_reach", *COMPILED_PACKAGES),), by_default=False, variables=PURE),
    Stage(
        "properties-pure",
        (pytest("property_tests", *AGAIN),),
        by_default=False,
        variables=PURE | {"ROCKETPY_TIER": "dev", "ROCKETPY_SAME_EXAMPLES": str(int(TIER == "ci"))},
    ),
    Stage("interop-pure", (pytest("tests/interop/test_matrix.py"),), by_default=False, variables=PURE),
    Stage("java", (pytest("tests", "-m", "java"),), by_default=False),
    Stage("upstream", (pytest("-rA", "tests/interop/test_upstream.py"),), by_default=False),
)


def main(names: list[str]) -> int:
    """Run the named stages, or all that belong to ``make test``."""
    known = {stage.name: stage for stage in STAGES}
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no stage named {unknown[0]!r}, expected one of: {', '.join(known)}", file=sys.stderr)
        return 2
    chosen = [known[name] for name in names] or [stage for stage in STAGES if stage.by_default]
    with ExitStack() as cleanup:
        counts = os.environ.get(build_counts.COUNTS)
        if counts is None:
            counts = cleanup.enter_context(tempfile.NamedTemporaryFile(prefix="rocketpy-counts-")).name
            os.environ[build_counts.COUNTS] = counts
            cleanup.callback(print_counts, counts)
        if spark_runtime.CLASSES not in os.environ:
            directory = cleanup.enter_context(tempfile.TemporaryDirectory(prefix="rocketpy-classes-"))
            os.environ[spark_runtime.CLASSES] = str(Path(directory) / "spark.jsa")
        os.environ.setdefault(costs.COSTS, str(costs.DEFAULT))
        if not names and not WHY_ONE_BUILD:
            os.environ[hatch_build.VARIABLE] = "0"  # from here on, a program that does not run compiled modules ends
        return run_stages(chosen)


def run_stages(chosen: Sequence[Stage]) -> int:
    """Run stages one after the other, and print their table; 1 if one has failed."""
    rows = []
    for stage in chosen:
        if WHY_ONE_BUILD and (stage.repeats or stage.name == "compile"):
            print(f"== {stage.name}: left out, one build is tested: {WHY_ONE_BUILD}\n", flush=True)
            continue
        print(f"== {stage.name}", flush=True)
        begun = time.monotonic()
        with costs.written(costs.STAGE, stage.name, stage.name):
            passed = run_side_by_side(stage.side_by_side, stage.environment, stage.at_once)
            passed = run_in_turn(stage.commands, stage.environment) and passed
        seconds = time.monotonic() - begun
        rows.append((stage.name, passed, seconds))
        print(f"== {stage.name}: {'passed' if passed else 'FAILED'} in {seconds:.1f} s\n", flush=True)
    print(f"{'stage':16} {'result':8} {'seconds':>8}   (tier {TIER})")
    for name, passed, seconds in rows:
        print(f"{name:16} {'passed' if passed else 'FAILED':8} {seconds:8.1f}")
    failed = sum(not passed for _, passed, _ in rows)
    print(f"{'total':16} {'':8} {sum(seconds for _, _, seconds in rows):8.1f}")
    print(f"stages: {len(rows) - failed} passed, {failed} failed")
    return 1 if failed else 0


def print_counts(path: str) -> None:
    """Print how many tests have run on which build."""
    print("\n".join(build_counts.table(Path(path).read_text(encoding="utf-8").splitlines())))


def run_in_turn(commands: tuple[tuple[str, ...], ...], environment: Mapping[str, str]) -> bool:
    """Run commands in the project's folder, all of them, also after a failure.

    Pytest's "no tests" counts as failure like any other status.
    """
    results = [subprocess.run(each, cwd=ROOT, env=environment, check=False).returncode == 0 for each in commands]
    return all(results)


def run_side_by_side(
    commands: tuple[tuple[str, ...], ...], environment: Mapping[str, str], at_once: int | None = None
) -> bool:
    """Run commands at the same time, and print what each has printed when all have ended; True if all have passed.

    They begin in their order, at most ``at_once`` at a time.
    """

    def run(command: tuple[str, ...], output: IO[bytes]) -> bool:
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT, check=False)
        return done.returncode == 0

    with ExitStack() as cleanup:
        outputs = [cleanup.enter_context(tempfile.TemporaryFile()) for _ in commands]
        threads = cleanup.enter_context(ThreadPoolExecutor(at_once or len(commands) or 1))
        passed = list(threads.map(run, commands, outputs))
        for output in outputs:
            output.seek(0)
            sys.stdout.write(output.read().decode(errors="replace"))
    return all(passed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
