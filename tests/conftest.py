"""What all tests share: an order of tasks for each of them, and how Hypothesis looks for examples.

An example has no deadline: under coverage, beside other work, it may take many times its usual 200 ms. In CI
(ROCKETPY_TIER) a test has the same examples in every run, so that what has passed passes again.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from tests import spark_runtime
from tests.case_names import pytest_make_parametrize_id
from tests.frozen_heap import pytest_collection_finish, pytest_sessionstart
from tests.run_plugins import register_all
from tests.same_examples import are_same, draw_no_constants_of_modules
from tests.sent_codes import NamedFiles
from tests.task_order import pytest_runtest_setup

__all__ = ["pytest_collection_finish", "pytest_make_parametrize_id", "pytest_runtest_setup", "pytest_sessionstart"]


def pytest_configure(config: pytest.Config) -> None:
    """Hold files that the page of compatibility names for codes to asking for them, and the run to the build that it
    claims to be of.
    """
    register_all(config)
    config.pluginmanager.register(NamedFiles(), "rocketpy-named-files")


os.environ.setdefault(spark_runtime.DRIVER_OPTIONS, spark_runtime.SHORT_RUN)

settings.register_profile(
    "rocketpy-unit",
    deadline=None,
    derandomize=are_same(),
    print_blob=True,
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
)
if are_same():
    draw_no_constants_of_modules()
if not settings.get_current_profile_name().startswith("rocketpy-"):  # else property_tests has chosen one for its own
    settings.load_profile("rocketpy-unit")
