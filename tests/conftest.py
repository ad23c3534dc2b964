"""What all tests share: an order of tasks for each of them, and how Hypothesis looks for examples.

An example has no deadline: under coverage, beside other work, it may take many times its usual 200 ms. In CI
(ROCKETPY_TIER) the examples are the same in every run of the same code, so that what has passed passes again.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

from tests.task_order import pytest_runtest_setup

__all__ = ["pytest_runtest_setup"]

settings.register_profile(
    "rocketpy-unit",
    deadline=None,
    derandomize=os.environ.get("ROCKETPY_TIER") == "ci",
    print_blob=True,
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
)
if not settings.get_current_profile_name().startswith("rocketpy-"):  # else property_tests has chosen one for its own
    settings.load_profile("rocketpy-unit")
