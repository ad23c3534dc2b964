"""A hook of pytest: whatever is there before the first test is not collected again.

A run holds thousands of test items, and all that they import: half a second for each full pass of Python's collector.
Tests of processor time, and those of what is forgotten, begin with such a pass, a thousand of them in one run.
"""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    """Exclude modules and test items from all later passes; what tests make is collected as ever."""
    gc.collect()
    gc.freeze()
