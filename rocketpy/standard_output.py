"""Standard output that is a pipe whose reader has seen enough (``... | head``): that is no failure of the program."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def print_to_reader(lines: Sequence[str]) -> None:
    """Print lines, as many of them as the reader takes."""
    try:
        print("\n".join(lines), flush=True)
    except BrokenPipeError:
        abandon_output()


def abandon_output() -> None:
    """Discard buffered output, about which the interpreter would otherwise complain at exit."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)
