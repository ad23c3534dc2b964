"""Hypothesis profiles: ``rocketpy-dev`` (seconds), ``rocketpy-ci`` (minutes), ``rocketpy-deep`` (an hour).

A profile is chosen by ROCKETPY_TIER. Hypothesis loads a profile named ``ci`` by itself where CI is set, so ours have
other names. In CI a test has the same examples in every run, so that what has passed passes again; the
others are for ``dev`` and ``deep`` to look for. Each test has an order of tasks, as in ``tests/``.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from tests.case_names import pytest_make_parametrize_id
from tests.frozen_heap import pytest_collection_finish, pytest_sessionstart
from tests.run_plugins import register_all
from tests.same_examples import are_same, draw_no_constants_of_modules
from tests.task_order import pytest_runtest_setup

__all__ = ["pytest_collection_finish", "pytest_make_parametrize_id", "pytest_runtest_setup", "pytest_sessionstart"]


def pytest_configure(config: pytest.Config) -> None:
    """Hold the run to the build that it claims to be of."""
    register_all(config)


_QUIET = (HealthCheck.too_slow, HealthCheck.data_too_large)

for _name, _examples, _steps in (("dev", 15, 30), ("ci", 60, 50), ("deep", 10_000, 100)):
    settings.register_profile(
        f"rocketpy-{_name}",
        max_examples=_examples,
        stateful_step_count=_steps,
        deadline=None,
        derandomize=are_same(),
        print_blob=True,
        suppress_health_check=_QUIET,
    )

if are_same():
    draw_no_constants_of_modules()
settings.load_profile(f"rocketpy-{os.environ.get('ROCKETPY_TIER', 'dev')}")
