"""Many histories over several sittings: ``python -m property_tests.history_slices FILE FIRST LAST SECONDS``.

Plays the histories of the seeds from FIRST on, before LAST, for about that many seconds of processor time; each
sitting goes on where the last one ended. FILE gets a line of JSON for each history: the commit, the seed, how long it
took, what was broken. A history that has passed counts for its commit alone; changes that are not committed are named
``+``, and count for nothing.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from pathlib import Path

from property_tests.cluster_checker import broken_promises
from property_tests.cluster_exemptions import exempt_count
from property_tests.cluster_history import run_history
from property_tests.cluster_plan import Plan, plan_of


def plan_of_slice(seed: int) -> Plan:
    """Return the plan of a seed: three of four have pairs, and two of them sequences that aim at changes of roles.

    In one of three old files of logs are deleted.
    """
    return plan_of(
        seed, pairs=seed % 4 > 0, aimed=seed % 4 > 1, wide=True, deletes=True, pools=True, expires=seed % 3 == 0
    )


def version() -> str:
    """Return the commit of the tree, with ``+`` where it has changes."""
    root = Path(__file__).parent
    commit = _git(root, "rev-parse", "--short=12", "HEAD")
    return commit + ("+" if _git(root, "status", "--porcelain") else "")


def passed(lines: str, commit: str) -> set[int]:
    """Return the seeds that have passed in a version."""
    records = [json.loads(line) for line in lines.splitlines()]
    return {each["seed"] for each in records if each["commit"] == commit and not each["broken"]} - (
        {each["seed"] for each in records} if commit.endswith("+") else set()
    )


def play(path: Path, seeds: range, seconds: float) -> int:
    """Play those that have not passed yet, and write them down; return how many broke something."""
    commit, failures = version(), 0
    done = passed(path.read_text() if path.exists() else "", commit)
    for seed in (each for each in seeds if each not in done):
        if time.process_time() >= seconds:
            break
        began = time.process_time()
        try:
            history = run_history(plan_of_slice(seed))
            broken, exempt = broken_promises(history), dict(exempt_count(history))
        except (Exception, BaseExceptionGroup) as failure:  # a program of the history has failed
            broken, exempt = [f"raised: {failure!r}"], {}
        took_s = round(time.process_time() - began, 2)
        record = {"commit": commit, "seed": seed, "seconds": took_s, "broken": broken, "exempt": exempt}
        with path.open("a") as file:
            file.write(json.dumps(record) + "\n")
        failures += bool(broken)
    return failures


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    file_name, first, last, budget = sys.argv[1:]
    sys.exit(play(Path(file_name), range(int(first), int(last)), float(budget)) > 0)
