"""What all tests share: an order of tasks for each of them, how Hypothesis looks for examples, and that tests which are
named for settings vary them.

An example has no deadline: under coverage, beside other work, it may take many times its usual 200 ms. In CI
(ROCKETPY_TIER) a test has the same examples in every run, so that what has passed passes again.
"""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

from tests.case_names import pytest_make_parametrize_id
from tests.same_examples import draw_no_constants_of_modules
from tests.sent_codes import NamedFiles
from tests.task_order import pytest_runtest_setup
from tests.varied_settings import NamedTests

IN_CI = os.environ.get("ROCKETPY_TIER") == "ci"
__all__ = ["pytest_make_parametrize_id", "pytest_runtest_setup"]


def pytest_configure(config: pytest.Config) -> None:
    """Hold tests that the page of compatibility names for settings and codes to what they are named for."""
    config.pluginmanager.register(NamedTests(), "rocketpy-named-tests")
    config.pluginmanager.register(NamedFiles(), "rocketpy-named-files")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts background jobs so, and a test that interrupts itself would wait for ever.
        signal.signal(signal.SIGINT, signal.default_int_handler)


settings.register_profile(
    "rocketpy-unit",
    deadline=None,
    derandomize=IN_CI,
    print_blob=True,
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
)
if IN_CI:
    draw_no_constants_of_modules()
if not settings.get_current_profile_name().startswith("rocketpy-"):  # else property_tests has chosen one for its own
    settings.load_profile("rocketpy-unit")
