"""Tells the brokers every 30 seconds that a client lives: its own service, so a slow broker delays nothing else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio


class HeartbeatService:
    """Calls ``send`` at every interval, and soon when it is woken."""

    def __init__(self, *, send: Callable[[], Awaitable[None]], interval_s: float) -> None:
        self._send = send
        self._interval_s = interval_s
        self._wanted = trio.Event()

    def wake(self) -> None:
        """Send one more heartbeat soon: a group, a subscription or a broker is new."""
        self._wanted.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Send until cancelled."""
        task_status.started()
        while True:
            with trio.move_on_after(self._interval_s):
                await self._wanted.wait()
            self._wanted = trio.Event()  # a wake-up while sending asks for one more
            await self._send()
