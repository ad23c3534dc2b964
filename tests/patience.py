"""How long a test waits for what must come, and how it waits.

Such a limit is no promise of anything: it ends a test that hangs. It is as long as a machine may be busy with something
else, because only a failing test waits so long: a JVM that starts in half a second has taken a minute beside others.
What must not come is not waited for at all: it is ordered before something else that is.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio
import trio.testing

PATIENCE_SECONDS = 150.0

PATIENCE_MS = int(1000 * PATIENCE_SECONDS)

PATIENT_BROKER = {"wait_time_mills_in_send_queue": PATIENCE_MS}
PATIENT_STORE = {"os_page_cache_busy_time_out_mills": PATIENCE_MS, "sync_flush_timeout": PATIENCE_MS}
"""Settings of a broker that refuses no send, and reports no time-out, because the machine has kept it waiting."""


async def until(condition: Callable[[], object]) -> None:
    """Wait until something is so that another task brings about."""
    with trio.fail_after(PATIENCE_SECONDS):
        while not condition():
            await trio.sleep(0.002)


def wait_until(
    condition: Callable[[], object], otherwise: Callable[[], object] = lambda: "it never came", pause_s: float = 0.005
) -> None:
    """As :func:`until`, for a thread that may block, about another thread or process; ``otherwise`` is asked why."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, otherwise()
        time.sleep(pause_s)


def starved_s(thread_id: int | str) -> float:
    """Return how long a thread was ready to run so far and others had the processor; 0 if the kernel does not say.

    A limit of real time holds without it, on the best of a few attempts.
    """
    try:
        return int(Path(f"/proc/{thread_id}/schedstat").read_text().split()[1]) / 1e9
    except (FileNotFoundError, ProcessLookupError):
        return 0.0


async def until_blocked(condition: Callable[[], object]) -> None:
    """As :func:`until`, under a clock that stands still: what is waited for may still be on its way in the kernel."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        await trio.testing.wait_all_tasks_blocked(0.01)
        if condition():
            return
        assert time.monotonic() < deadline, "it never came"


async def seconds_of(
    call: Callable[[], Awaitable[object]], is_asked: Callable[[], object], clock: trio.testing.MockClock
) -> float:
    """Return how long a call lasts whose request is not answered; time stands still until it has been asked.

    A clock that jumped before, whenever nothing happens for a while, would not wait for a connection to be made.
    """
    begun = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call)
        await until_blocked(is_asked)
        clock.autojump_threshold = 0.05
    clock.autojump_threshold = math.inf
    return trio.current_time() - begun
