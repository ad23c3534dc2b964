"""Periodic calls that can also be triggered early: heartbeats, refreshes of routes.

Rule: an unexpected failure ends the call in which it happens, and no role of the client.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import trio

from rocketpy.containment import Contained

_log = logging.getLogger("rocketpy.client")


class RepeatedCallService:
    """Calls a function at every interval and soon after a wake-up, one call at a time.

    Each function has its own service, so that a broker that is slow to answer a heartbeat delays no route refresh.
    """

    def __init__(self, call: Callable[[], Awaitable[None]], *, interval_s: float, pause_s: float = 0.0) -> None:
        """``pause_s`` is the minimum time from the end of one call to the next, however many wake-ups there are."""
        self._call = call
        self._interval_s = interval_s
        self._pause_s = pause_s
        self._wanted = trio.Event()

    def wake(self) -> None:
        """Call once more soon; what is asked for during a call is for the next one."""
        self._wanted.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Call until cancelled."""
        task_status.started()
        while True:
            with trio.move_on_after(max(0.0, self._interval_s - self._pause_s)):
                await self._wanted.wait()
            self._wanted = trio.Event()
            with Contained(_log, "a periodic call of a client"):
                await self._call()
            await trio.sleep(self._pause_s)
