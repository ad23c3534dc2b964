"""The order of tasks that are ready together, the same for a test in each of its runs.

Trio shuffles such tasks, so that no code relies on an order; with a seed of its own each time, what fails in one order
of many fails on one machine in many, rarely under observation. Here each test has an order, taken from its name, and
``ROCKETPY_TASK_ORDER`` (a number, 0 unless it is set) gives all of them another one. Hypothesis seeds its own examples.
"""

from __future__ import annotations

import os
from random import Random

import pytest
import trio

TRIO_RANDOM: Random = trio._core._run._r
"""What Trio shuffles with; pytest-trio lets it shuffle from an order that is always the same."""

ORDER = int(os.environ.get("ROCKETPY_TASK_ORDER", "0"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give the test its order: a hook, which each ``conftest.py`` of a whole folder of tests imports."""
    TRIO_RANDOM.seed(f"{ORDER} {item.nodeid}")  # of a str the same in every process, unlike its hash
