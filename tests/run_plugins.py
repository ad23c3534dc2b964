"""What each process of pytest of this project has: counts by build, costs, failures at once, the mark of slow cases."""

from __future__ import annotations

import signal

import pytest

from tests import build_counts, costs, first_failure, slow_cases
from tests.tree_under_test import lead_to_tree


def register_all(config: pytest.Config) -> None:
    """Register the plugins, once even where the conftests of tests and of properties both ask for it.

    Raises:
        pytest.UsageError: The run does not have the build that it was to test.
    """
    lead_to_tree()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts background jobs so, and a test that interrupts itself would wait for ever.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for plugin in (build_counts, costs, first_failure, slow_cases):
        plugin.register(config)
