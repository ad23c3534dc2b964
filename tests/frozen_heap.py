"""Hooks of pytest: Python's collector does not run during the collection of tests, nor over what it made.

A run holds thousands of test items, and all that they import: half a second for each full pass of Python's collector.
The collection of tests frees next to nothing, and a third of its time went into such passes. Tests of what is forgotten
begin with a pass, hundreds of them in one run.
"""

from __future__ import annotations

import gc


def pytest_sessionstart() -> None:
    """Have no pass while modules are imported and items made."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Exclude modules and test items from all later passes; what tests make is collected as ever."""
    gc.collect()
    gc.freeze()
    gc.enable()
