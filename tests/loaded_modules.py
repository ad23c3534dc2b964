"""Which modules some code loads, in an interpreter that has loaded nothing before."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
RUN_S = 300


def loaded_after(code: str, *names: str) -> list[str]:
    """Return which of these modules a new interpreter has loaded after some code, which must print nothing."""
    program = f"{code}\nimport sys\nprint([name for name in {names!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=RUN_S, cwd=REPOSITORY, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    loaded: list[str] = ast.literal_eval(done.stdout)
    return loaded
