"""In CI examples stay the same whatever else is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
PROGRAM = """
import {modules}
from hypothesis import given, settings, strategies as st
from tests.same_examples import draw_no_constants_of_modules

if {same}:
    draw_no_constants_of_modules()
drawn = []

@settings(derandomize=True, database=None, max_examples=200)
@given(st.integers(0, 100_000), st.text())
def test(number, text):
    drawn.append((number, text))

test()
print(drawn)
"""


def examples(modules: str, *, same: bool) -> str:
    program = PROGRAM.format(modules=modules, same=same)
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT), "PYTHONHASHSEED": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=CHECKOUT, env=environment
    )
    return done.stdout


@pytest.mark.parametrize("same", [True, False])
def test_examples_depend_on_what_is_imported_unless_that_is_off(same: bool) -> None:
    found = examples("rocketpy.protocol.codes", same=same), examples("rocketpy.store.config", same=same)
    assert (found[0] == found[1]) is same
