"""A pytest plugin: the run is of the build that it claims to be, and the counts of its tests are kept by build.

``ROCKETPY_PURE=0`` claims compiled modules. Where they do not run, as after a change of a source, the run ends at
once: its tests would pass, of the other build. ``python -m tests.stages`` names a file in ROCKETPY_COUNTS, to which
every run adds a line, and prints the table that :func:`table` makes of them.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable

import pytest

from rocketpy import BUILD

COUNTS = "ROCKETPY_COUNTS"
STAGE = "ROCKETPY_STAGE"
OUTCOMES = ("passed", "failed", "skipped")
NAME = "rocketpy-build-counts"


class BuildCounts:
    """Counts the tests of one run."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test by its call, or by a set-up or tear-down that did not pass."""
        if report.when == "call" or not report.passed:
            self._counts[report.outcome] += 1

    def pytest_sessionfinish(self) -> None:
        """Add this run's line to the file, if one is named."""
        path = os.environ.get(COUNTS)
        if path:
            line = {"stage": os.environ.get(STAGE, ""), "build": str(BUILD), **self._counts}
            with open(path, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def register(config: pytest.Config) -> None:
    """Let a run count its tests, once even where two conftests ask for it; end it if it is of another build."""
    if BUILD.fault:
        raise pytest.UsageError(BUILD.fault)
    if not config.pluginmanager.has_plugin(NAME):
        config.pluginmanager.register(BuildCounts(), NAME)


def table(lines: Iterable[str]) -> list[str]:
    """Return the counts of all runs, by build and stage; a line of sums for each build."""
    runs = [json.loads(line) for line in lines]
    sums: dict[tuple[str, str], Counter[str]] = {}
    for run in runs:
        for stage in (run["stage"], "all"):
            counts = sums.setdefault((run["build"], stage), Counter())
            counts.update({outcome: run.get(outcome, 0) for outcome in OUTCOMES})
    rows = [f"{'build':36} {'stage':16} " + " ".join(f"{outcome:>8}" for outcome in OUTCOMES)]
    for (build, stage), counts in sorted(sums.items(), key=lambda item: (item[0][0], item[0][1] == "all")):
        rows.append(f"{build:36} {stage:16} " + " ".join(f"{counts[outcome]:8}" for outcome in OUTCOMES))
    return rows if runs else []
