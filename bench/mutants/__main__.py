"""Runs mutants against tests: ``python -m bench.mutants [NAME ...]``; ``S01``, or ``S`` for all that begin so.

A copy of the checkout is made in a temporary directory, where each mutant in turn takes its place and tests run as
plain Python, level by level, until a level kills it. Each mutant gives a line of JSON: which level and which tests
killed it, and what each level cost. ``--levels`` names others than mirror, users and machines: ``folder`` and
``properties`` for survivors, ``crash`` and ``setting`` for all levels about one promise, which with ``--every-level``
make a matrix. ``--unchanged`` runs the levels without a fault: they must pass, and it shows what they cost.

How the functions were drawn: ``draw.py``. The faults: ``mutants.toml``. What killed them: ``killed.jsonl``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs

from bench.mutants.mutants import CRASH, LEVELS, NARROW, ROOT, SETTING, Mutant, load_mutants

KILLED, SURVIVED, TIMEOUT, ABSENT = "killed", "survived", "timeout", "no longer applies"
RECORDED = Path(__file__).with_name("killed.jsonl")
LIMIT_S = 300.0
TESTS_MAX = 5
"""Failing tests that are noted of a level, at most."""
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", re.MULTILINE)
_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv*", ".hypothesis", ".*_cache", "__pycache__", "*.so", "compiled.txt", "build", "dist", "results"
)
_GROUPS = {"crash": tuple(CRASH), "setting": tuple(SETTING)}


@attrs.frozen
class LevelRun:
    """What one level of tests said of a mutant."""

    outcome: str
    seconds: float
    cpu_seconds: float
    tests: tuple[str, ...] = ()
    """The first that failed."""


def main() -> int:
    """Run what the command line asks for; 0, or 1 if a mutant that was killed no longer is, or unchanged code fails."""
    options = _parser().parse_args()
    chosen = [mutant for name, mutant in load_mutants().items() if name.startswith(tuple(options.names) or ("",))]
    recorded = read_recorded()
    if options.list:
        for mutant in chosen:
            print(f"{mutant.name}  {recorded.get(mutant.name, '?'):<11}  {mutant.path}: {mutant.fault}")
        return 0
    levels = [level for name in options.levels for level in _GROUPS.get(name, (name,))]
    status = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as work:
        copy = Path(work, "rocketpy")
        shutil.copytree(ROOT, copy, ignore=_LEFT_OUT)
        for mutant in chosen[: 1 if options.unchanged else None]:
            with planted(mutant, copy, is_planted=not options.unchanged) as applies:
                runs = run_levels(mutant, levels, copy, options) if applies else {}
            line = report("unchanged" if options.unchanged else mutant.name, runs)
            print(json.dumps(line), flush=True)
            if options.to:
                with options.to.open("a") as file:
                    file.write(json.dumps(line) + "\n")
            if options.unchanged:
                status |= line["outcome"] != SURVIVED
            elif not applies or (recorded.get(mutant.name) in levels and line["outcome"] == SURVIVED):
                print(f"{mutant.name} was killed by {recorded.get(mutant.name)}", file=sys.stderr, flush=True)
                status = 1
    return status


def read_recorded() -> dict[str, str]:
    """Return by mutant the first level that killed it, or its outcome, in the run to compare with."""
    lines = [json.loads(line) for line in RECORDED.read_text().splitlines()] if RECORDED.exists() else []
    return {line["name"]: line["level"] or line["outcome"] for line in lines}


def report(name: str, runs: dict[str, LevelRun]) -> dict[str, object]:
    """Return the line about a mutant: the level that killed it first, and what each level said."""
    killers = [level for level, run in runs.items() if run.outcome != SURVIVED]
    return {
        "name": name,
        "outcome": ABSENT if not runs else runs[killers[0]].outcome if killers else SURVIVED,
        "level": killers[0] if killers else "",
        "levels": {level: attrs.asdict(run) for level, run in runs.items()},
    }


@contextmanager
def planted(mutant: Mutant, copy: Path, *, is_planted: bool) -> Iterator[bool]:
    """Plant a mutant in the copy while the block runs; gives whether it applies."""
    path = copy / mutant.path
    source = path.read_text() if path.exists() else ""
    changed = mutant.changed(source) if is_planted else source
    if changed is None:
        yield False
        return
    path.write_text(changed)
    try:
        yield True
    finally:
        path.write_text(source)
        shutil.rmtree(copy / ".hypothesis", ignore_errors=True)  # examples of this mutant are no other's


def run_levels(mutant: Mutant, levels: Sequence[str], copy: Path, options: argparse.Namespace) -> dict[str, LevelRun]:
    """Run the tests of each level until one does not pass, or all of them."""
    runs: dict[str, LevelRun] = {}
    seen: set[str] = set()
    for level in levels:
        tests = [path for path in dict.fromkeys(mutant.tests(level)) if path not in seen]
        seen |= set(tests)
        if tests:
            runs[level] = run_tests(tests, copy, limit_s=options.limit, failures_max=0 if options.all_kills else 1)
            if runs[level].outcome != SURVIVED and not (options.every_level or options.all_kills):
                break
    return runs


def run_tests(tests: Sequence[str], copy: Path, *, limit_s: float, failures_max: int) -> LevelRun:
    """Run tests in the copy, in a session of their own that is ended after the time limit."""
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider", f"--maxfail={failures_max}"]
    command += ["-p", "bench.mutants.unshrunk", "-k", "not planted_bug"]  # planted bugs show what the machines find
    environment = {**os.environ, "ROCKETPY_PURE": "1", "PYTHONPATH": str(copy), "PYTHONHASHSEED": "0"}
    began, cpu_began = time.monotonic(), _cpu_seconds()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [*command, *tests],
            cwd=copy,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            _end(process)
        output.seek(0)
        failed = tuple(_FAILED.findall(output.read()))
    outcome = TIMEOUT if status is None else SURVIVED if status in (0, 5) else KILLED  # 5: nothing was collected
    seconds, cpu_seconds = time.monotonic() - began, _cpu_seconds() - cpu_began
    return LevelRun(outcome, round(seconds, 1), round(cpu_seconds, 1), failed[:TESTS_MAX])


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what is left of a session of tests."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.mutants", description="Mutants, and what kills them.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants whose names begin so; all if left out")
    parser.add_argument("--list", action="store_true", help="print them instead")
    parser.add_argument("--levels", nargs="+", default=NARROW, choices=(*LEVELS, *_GROUPS), metavar="LEVEL")
    parser.add_argument("--every-level", action="store_true", help="also those after the first that kills")
    parser.add_argument("--all-kills", action="store_true", help="every test of every level")
    parser.add_argument("--unchanged", action="store_true", help="run the levels of the first one without its fault")
    parser.add_argument("--limit", type=float, default=LIMIT_S, metavar="SECONDS", help="for one level of one mutant")
    parser.add_argument("--to", type=Path, metavar="FILE", help="add a line of JSON for each mutant")
    return parser


if __name__ == "__main__":
    sys.exit(main())
