"""Looks known topics up again every 30 seconds, so that new queues and moved brokers are noticed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

PAUSE_SECONDS = 1.0
"""The least time between two refreshes, however often somebody asks for one."""


class RouteRefreshService:
    """Calls ``refresh`` at every interval, and soon when somebody doubts what is known.

    The first look-up of a topic is made by whoever needs its route.
    """

    def __init__(self, *, refresh: Callable[[], Awaitable[None]], interval_s: float) -> None:
        self._refresh = refresh
        self._interval_s = interval_s
        self._wanted = trio.Event()

    def wake(self) -> None:
        """Refresh soon: a broker that a route names does not answer."""
        self._wanted.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Refresh until cancelled."""
        task_status.started()
        while True:
            with trio.move_on_after(max(0.0, self._interval_s - PAUSE_SECONDS)):
                await self._wanted.wait()
            self._wanted = trio.Event()
            await self._refresh()
            await trio.sleep(PAUSE_SECONDS)
