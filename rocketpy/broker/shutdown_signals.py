"""The way from a signal to the end of a process: a clean shutdown, which has a time limit."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Callable

import trio

EXIT_FAILED = 1
SHUTDOWN_SECONDS = 30.0
"""Time for a clean shutdown after a signal; then the process exits at once, and its abort file stays."""

_log = logging.getLogger("rocketpy.broker")


async def obey_signals(
    signals: AsyncIterator[object], stop: trio.Event, *, before_exit: Callable[[], None] = lambda: None
) -> None:
    """Start the shutdown at the first signal; exit at once at the second, or after SHUTDOWN_SECONDS."""
    await signals.__anext__()
    stop.set()
    with trio.move_on_after(SHUTDOWN_SECONDS) as waiting:
        await signals.__anext__()
    why = f"not done after {SHUTDOWN_SECONDS:g} s" if waiting.cancelled_caught else "second signal"
    _log.critical("exiting without a clean shutdown, %s; the next start will recover", why)
    logging.shutdown()
    before_exit()
    os._exit(EXIT_FAILED)  # a worker thread in a sync cannot be ended in any other way
