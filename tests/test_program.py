"""Ports on command lines, and the end of a program; ``test_standard_output.py`` interrupts real ones."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Callable

import pytest

from rocketpy.program import INTERRUPTED, exit_with, port_between


@pytest.mark.parametrize("text", ["0", "8", "-1", "x", "", "\u0661", "1.0"])
def test_a_port_is_a_number_between_two(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected a port from 1 to 7"):
        port_between(1, 7)(text)
    assert [port_between(1, 7)(each) for each in ("1", "7")] == [1, 7]


def interrupted() -> int:
    raise KeyboardInterrupt


def interrupted_in_a_nursery() -> int:
    raise BaseExceptionGroup("", [KeyboardInterrupt()])


@pytest.mark.parametrize(
    ("main", "status"), [(lambda: 3, 3), (interrupted, INTERRUPTED), (interrupted_in_a_nursery, INTERRUPTED)]
)
def test_a_program_exits_with_its_status_or_that_of_an_interrupt(main: Callable[[], int], status: int) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        with pytest.raises(SystemExit) as raised:
            exit_with(main)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert raised.value.code == status
