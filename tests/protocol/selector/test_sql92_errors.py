"""The bounds of selectors, and the two ways in which one can be of no use."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rocketpy.protocol.selector.sql92 import compile_sql92
from rocketpy.protocol.selector.sql92_errors import (
    TOKENS_MAX,
    EvaluationError,
    SelectorError,
)


def test_a_selector_may_have_so_many_parts() -> None:
    """Every part here is three tokens and a sign between two: a = 1 OR a = 1 ..."""
    count = (TOKENS_MAX + 1) // 4
    compile_sql92(" OR ".join(["a=1"] * count))
    with pytest.raises(SelectorError, match=str(TOKENS_MAX)):
        compile_sql92(" OR ".join(["a=1"] * (count + 1)))


def test_a_selector_that_is_none_is_a_wrong_value_and_one_that_fits_no_message_is_not() -> None:
    """The first is refused where it is given; the second is met for each message, and matches none."""
    assert issubclass(SelectorError, ValueError)
    assert not issubclass(EvaluationError, ValueError)


def test_catching_them_does_not_load_the_parser() -> None:
    code = (
        "import sys, rocketpy.protocol.selector.sql92_errors; "
        "print([name for name in sys.modules if name.startswith('rocketpy.protocol.selector.sql92')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['rocketpy.protocol.selector.sql92_errors']"
