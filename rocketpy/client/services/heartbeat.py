"""Tells the brokers every 30 seconds that a client lives: its own service, so a slow broker delays nothing else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio


class HeartbeatService:
    """Calls ``send`` at once and then at every interval."""

    def __init__(self, *, send: Callable[[], Awaitable[None]], interval_s: float) -> None:
        self._send = send
        self._interval_s = interval_s
        self._now = trio.Event()

    def wake(self) -> None:
        """Send one more heartbeat soon: a group or a subscription is new."""
        self._now.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Send until cancelled."""
        task_status.started()
        while True:
            await self._send()
            with trio.move_on_after(self._interval_s):
                await self._now.wait()
            self._now = trio.Event()
