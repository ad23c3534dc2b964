"""Waiting that can be cut short: what RocketMQ's ServiceThread calls ``wakeup`` and ``waitForRunning``."""

from __future__ import annotations

import trio


class WakeUp:
    """Wakes one service. A call that comes while it works makes its next wait return at once."""

    def __init__(self) -> None:
        self._event = trio.Event()

    def wake(self) -> None:
        """Wake it now, or from its next wait; cheap."""
        self._event.set()

    async def wait(self, seconds: float) -> None:
        """Return when that time is over or somebody calls ``wake``."""
        with trio.move_on_after(seconds):
            await self._event.wait()
        if self._event.is_set():
            self._event = trio.Event()
