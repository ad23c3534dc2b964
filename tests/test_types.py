"""That the type check checks: Trio's own types are seen, not the old stubs that trio-typing brings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WRONG = """
import trio

async def takes_a_number(number: int) -> None: ...

async def main() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(takes_a_number, "text")
"""


def test_a_wrong_argument_of_start_soon_is_an_error(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """With the cache of the tests of the shells: what is checked by then is all but this program."""
    kept = request.config.cache.mkdir("mypy-of-the-shells")
    program = tmp_path / "wrong.py"
    program.write_text(WRONG)
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(kept), str(program)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1, result.stdout + result.stderr
    assert 'Argument 1 to "start_soon"' in result.stdout
    assert "Found 1 error" in result.stdout
