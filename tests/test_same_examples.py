"""In CI examples stay the same whatever else is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
PROGRAM = """
import os, {modules}
from hypothesis import given, settings, strategies as st
from tests.same_examples import draw_no_constants_of_modules

drawn = []

@settings(derandomize=True, database=None, max_examples=200)
@given(st.integers(0, 100_000), st.text())
def test(number, text):
    drawn.append((number, text))

if os.fork() == 0:
    test()  # as Hypothesis draws
else:
    os.wait()
    draw_no_constants_of_modules()
    test()
print(drawn)
"""


def examples(modules: str) -> list[str]:
    """Return what is drawn as Hypothesis does it, and what without constants of modules."""
    program = PROGRAM.format(modules=modules)
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT), "PYTHONHASHSEED": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=CHECKOUT, env=environment
    )
    return done.stdout.splitlines()


def test_examples_depend_on_what_is_imported_unless_that_is_off() -> None:
    codes, config = examples("rocketpy.protocol.codes"), examples("rocketpy.store.config")
    assert codes[0] != config[0]
    assert codes[1] == config[1]
