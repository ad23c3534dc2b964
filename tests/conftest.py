"""What all tests share: an order of tasks for each of them."""

from tests.task_order import pytest_runtest_setup

__all__ = ["pytest_runtest_setup"]
