"""SIGINT during a guest run: it is asyncio's, or Python's, and never Trio's.

Trio installs a handler of its own where it finds Python's default one. It would raise KeyboardInterrupt in the main
task of the guest, which ends the client, but not the program. ``asyncio.Runner`` has its own handler, so this happens
with ``run_until_complete`` only. There :class:`GuestInterrupts` takes the place of Trio's handler, and does what the
default one does, but not in the middle of a tick.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable


class GuestInterrupts:
    """Handler of SIGINT for one run, in the main thread, if nobody else has one."""

    def __init__(self, interrupt: Callable[[], None]) -> None:
        """``interrupt`` raises KeyboardInterrupt, at once or soon."""
        self._interrupt = interrupt

    def install(self) -> None:
        """Take the signal; before the run starts."""
        if self._is_held_by(signal.default_int_handler):
            signal.signal(signal.SIGINT, self._interrupted)

    def remove(self) -> None:
        """Give it back, unless the program has another handler by now."""
        if self._is_held_by(self._interrupted):
            signal.signal(signal.SIGINT, signal.default_int_handler)

    @staticmethod
    def _is_held_by(handler: object) -> bool:
        return threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) == handler

    def _interrupted(self, _: int, __: object) -> None:
        self._interrupt()
