"""Runs the stages of the test run, prints each one's time, and ends with a table.

``python -m tests.stages`` runs all, ``python -m tests.stages style types`` some. A failing stage does not stop the
others; the exit status is 1 when any has failed. ``ROCKETPY_TIER`` is ``dev`` (the default, minutes), ``ci`` or
``deep``; Hypothesis takes its profile from it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import attrs

ROOT = Path(__file__).resolve().parent.parent
TIER = os.environ.get("ROCKETPY_TIER", "dev")
BIN = Path(sys.executable).parent

SLOW_FOLDERS = ("tests/interop", "tests/blackbox", "tests/spark", "tests/test_notebooks.py", "tests/test_wheel.py")


@attrs.frozen
class Stage:
    """One step of the run: a name and the commands it consists of."""

    name: str
    commands: tuple[tuple[str, ...], ...] = ()
    side_by_side: tuple[tuple[str, ...], ...] = ()
    """Commands that run first, at the same time: nothing in them may care how fast it is."""

    by_default: bool = True


def pytest(*arguments: str) -> tuple[str, ...]:
    """A pytest command in this environment."""
    return (sys.executable, "-m", "pytest", "-q", "--no-header", "--durations=5", *arguments)


def stages(*names: str) -> tuple[str, ...]:
    """A run of other stages, one after the other."""
    return (sys.executable, "-m", "tests.stages", *names)


def tool(name: str, *arguments: str) -> tuple[str, ...]:
    """A console script of this environment."""
    return (str(BIN / name), *arguments)


ABOUT_THE_STORE = (
    "property_tests/crash",
    "property_tests/test_index_crash.py",
    "property_tests/test_store_bytes.py",
    "property_tests/test_store_machine.py",
)
NOT_ABOUT_THE_STORE = tuple(f"--ignore={path}" for path in ABOUT_THE_STORE)
HALF = ("tests/broker", "tests/cli", "tests/protocol")
OTHER_HALF = ("tests", *(f"--ignore={folder}" for folder in (*SLOW_FOLDERS, *HALF)))
MEASURES_COVERAGE = TIER == "deep"
"""It makes the unit tests take three times as long, and finds nothing that they do not."""


def unit_stage() -> Stage:
    """The tests of single modules, in two halves; in the tier ``deep`` with what they cover."""
    if not MEASURES_COVERAGE:
        return Stage("unit", side_by_side=(pytest(*HALF), pytest(*OTHER_HALF)))
    run = (sys.executable, "-m", "coverage", "run", "--parallel-mode")
    return Stage(
        "unit",
        side_by_side=(run + pytest(*HALF)[1:], run + pytest(*OTHER_HALF)[1:]),
        commands=(
            (sys.executable, "-m", "coverage", "combine", "--quiet"),
            (sys.executable, "-m", "coverage", "report", "--sort=cover"),
        ),
    )


STAGES = (
    Stage("style", (tool("ruff", "check", "."), tool("ruff", "format", "--check", "."))),
    Stage("floors", (tool("lint-imports", "--no-logo"),)),
    Stage("types", (tool("mypy"),)),
    unit_stage(),
    Stage("properties", side_by_side=(pytest(*ABOUT_THE_STORE), pytest("property_tests", *NOT_ABOUT_THE_STORE))),
    Stage("processes", side_by_side=(stages("interop", "notebooks"), stages("spark", "wheel", "blackbox"))),
    Stage("spark", (pytest("tests/spark"),), by_default=False),
    Stage("notebooks", (pytest("tests/test_notebooks.py"),), by_default=False),
    Stage("wheel", (pytest("tests/test_wheel.py"),), by_default=False),
    Stage("blackbox", (pytest("tests/blackbox"),), by_default=False),
    Stage("interop", (pytest("tests/interop"),), by_default=False),
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
    stages = [known[name] for name in names] or [stage for stage in STAGES if stage.by_default]
    rows = []
    for stage in stages:
        print(f"== {stage.name}", flush=True)
        begun = time.monotonic()
        passed = run_side_by_side(stage.side_by_side)
        passed = run_in_turn(stage.commands) and passed
        seconds = time.monotonic() - begun
        rows.append((stage.name, passed, seconds))
        print(f"== {stage.name}: {'passed' if passed else 'FAILED'} in {seconds:.1f} s\n", flush=True)
    print(f"{'stage':12} {'result':8} {'seconds':>8}   (tier {TIER})")
    for name, passed, seconds in rows:
        print(f"{name:12} {'passed' if passed else 'FAILED':8} {seconds:8.1f}")
    failed = sum(not passed for _, passed, _ in rows)
    print(f"{'total':12} {'':8} {sum(seconds for _, _, seconds in rows):8.1f}")
    print(f"stages: {len(rows) - failed} passed, {failed} failed")
    return 1 if failed else 0


def run_in_turn(commands: tuple[tuple[str, ...], ...]) -> bool:
    """Run commands in the project's folder, all of them, also after a failure.

    Pytest's "no tests" counts as failure like any other status.
    """
    results = [subprocess.run(command, cwd=ROOT, check=False).returncode == 0 for command in commands]
    return all(results)


def run_side_by_side(commands: tuple[tuple[str, ...], ...]) -> bool:
    """Run commands at the same time, and print what each has printed when all have ended."""
    with ExitStack() as files:
        outputs = [files.enter_context(tempfile.TemporaryFile()) for _ in commands]
        started = [
            subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
            for command, output in zip(commands, outputs, strict=True)
        ]
        statuses = [each.wait() for each in started]
        for output in outputs:
            output.seek(0)
            sys.stdout.write(output.read().decode(errors="replace"))
    return not any(statuses)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
