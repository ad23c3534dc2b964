"""``--rounds N`` for the tests that kill brokers in a loop, and what they counted at the end of the run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.blackbox.processes import running_nameserver

_DEFAULTS = {"dev": 4, "ci": 16, "deep": 1000}
_counts = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option; it is known only when this folder, or a test in it, is named on the command line."""
    parser.addoption(
        "--rounds",
        type=int,
        metavar="N",
        help="how often brokers are killed in all (ROCKETPY_KILL9_ROUNDS; by ROCKETPY_TIER: dev 4, ci 16, deep 1000)",
    )


@pytest.fixture
def namesrv(tmp_path: Path) -> Iterator[str]:
    """The address of a running nameserver."""
    with running_nameserver(tmp_path / "namesrv") as address:
        yield address


@pytest.fixture
def rounds(pytestconfig: pytest.Config) -> int:
    """How many rounds a run shall have in all."""
    given = pytestconfig.getoption("rounds", None) or os.environ.get("ROCKETPY_KILL9_ROUNDS")
    return int(given or _DEFAULTS[os.environ.get("ROCKETPY_TIER", "dev")])


@pytest.fixture
def counts(pytestconfig: pytest.Config) -> list[str]:
    """Lines that are printed at the end of the run."""
    return pytestconfig.stash.setdefault(_counts, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print what was counted."""
    lines = config.stash.get(_counts, [])
    if lines:
        terminalreporter.section("kill -9")
    for line in lines:
        terminalreporter.write_line(line)
