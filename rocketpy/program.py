"""What broker and nameserver share as programs: ports on their command lines, and their end by Control-C."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

INTERRUPTED = 130
"""Exit status after Control-C, as shells have it."""


def port_between(lowest: int, highest: int) -> Callable[[str], int]:
    """Return the ``type`` of an option that is a port; argparse.ArgumentTypeError for any other text."""

    def port(text: str) -> int:
        if not text.isascii() or not text.isdecimal() or not lowest <= int(text) <= highest:
            raise argparse.ArgumentTypeError(f"{text!r}: expected a port from {lowest} to {highest}")
        return int(text)

    return port


def exit_with(main: Callable[[], int]) -> NoReturn:
    """Run a program and exit with its status.

    Control-C counts from now on: imports end by it at once, without a traceback. It raises until the program takes
    signals itself.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        status = main()
    except* KeyboardInterrupt:
        status = INTERRUPTED
    sys.exit(status)
