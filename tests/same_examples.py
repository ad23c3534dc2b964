"""Examples of Hypothesis that depend on the test alone.

With ``derandomize`` a test draws from a fixed seed, but also from constants that Hypothesis finds in the modules which
are imported at the moment: a number that is added anywhere, or a test that ran before, gives all tests other examples.
Then one that failed in CI passes alone, and a change of one module lets a rare case of another one fail.
"""

from __future__ import annotations

import os

from hypothesis.internal.conjecture import providers


def are_same() -> bool:
    """Whether a test has the same examples in every run: in the tier ``ci``, and in what CI runs of another tier."""
    return os.environ.get("ROCKETPY_TIER") == "ci" or os.environ.get("ROCKETPY_SAME_EXAMPLES") == "1"


def draw_no_constants_of_modules() -> None:
    """Let examples contain no constants of the tested code from now on; Hypothesis's own well-known ones remain."""
    nothing = providers.Constants()
    assert callable(providers._get_local_constants), "Hypothesis finds constants elsewhere: adapt this module"
    providers._get_local_constants = lambda: nothing
