"""A pytest plugin: a test that fails is printed when it fails, wherever the output of the run goes meanwhile.

``tests.jobs`` keeps what a run prints until it has ended, and names the descriptor of its own output in
ROCKETPY_CONSOLE. Without that variable pytest prints as ever.
"""

from __future__ import annotations

import os

import pytest

from tests import build_counts
from tests.jobs import CONSOLE

NAME = "rocketpy-first-failure"


class FirstFailure:
    """Writes each failure of one run."""

    def __init__(self, descriptor: int, stage: str) -> None:
        self._descriptor = descriptor
        self._stage = stage

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write a test that failed, or whose set-up or tear-down did."""
        self._write(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Write a file that cannot be collected."""
        self._write(report)

    def _write(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed:
            text = f"\n!! {self._stage}: {report.nodeid} failed\n{report.longreprtext}\n\n"
            os.write(self._descriptor, text.encode(errors="replace"))


def register(config: pytest.Config) -> None:
    """Print failures at once where the run belongs to ``tests.jobs``, once even where two conftests ask for it.

    A program that a test starts does not have the descriptor, so it does not get its number either.
    """
    descriptor = os.environ.pop(CONSOLE, "")
    if descriptor:
        config.pluginmanager.register(FirstFailure(int(descriptor), os.environ.get(build_counts.STAGE, "")), NAME)
