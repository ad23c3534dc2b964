"""Looks known topics up again every 30 seconds, so that new queues and moved brokers are noticed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio


class RouteRefreshService:
    """Calls ``refresh`` at every interval; the first look-up is made by whoever needs the route."""

    def __init__(self, *, refresh: Callable[[], Awaitable[None]], interval_s: float) -> None:
        self._refresh = refresh
        self._interval_s = interval_s

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Refresh until cancelled."""
        task_status.started()
        while True:
            await trio.sleep(self._interval_s)
            await self._refresh()
