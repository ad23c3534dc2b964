"""The window of ``send_nowait``: how many messages, and bytes of bodies, may be in flight.

Tasks that wait for room get it in the order in which they came, so that a large message is not overtaken for ever.
"""

from __future__ import annotations

import trio


class SendWindow:
    """Counts what is in flight. A message that is larger than the window gets in when the window is empty."""

    def __init__(self, *, count_max: int, size_max: int) -> None:
        self.count = 0
        self.size = 0
        self._count_max = count_max
        self._size_max = size_max
        self._turn = trio.Lock()  # its owner waits for room, the others for their turn: waiting awaits
        self._left = trio.Event()

    def has_room(self, size: int) -> bool:
        """Whether a message of this size gets in now, ahead of no task that waits for room."""
        fits = self.count < self._count_max and (self.size + size <= self._size_max or not self.count)
        return fits and not self._turn.locked()

    def enter(self, size: int) -> None:
        """Count a message."""
        self.count += 1
        self.size += size

    def leave(self, size: int, count: int = 1) -> None:
        """Count a message no longer, or several with these bytes together."""
        self.count -= count
        self.size -= size
        if self._turn.locked() or not self.count:
            self._left.set()

    async def wait_and_enter(self, size: int) -> None:
        """Wait for room, in turn, and count a message; if there is room, this only looks for cancellation."""
        if self.has_room(size):
            await trio.lowlevel.checkpoint_if_cancelled()
            self.enter(size)
            return
        async with self._turn:
            while not (self.count < self._count_max and (self.size + size <= self._size_max or not self.count)):
                await self._next_leaving()
            self.enter(size)

    async def wait_empty(self) -> None:
        """Wait until nothing is in flight."""
        while self.count:
            await self._next_leaving()

    async def _next_leaving(self) -> None:
        if self._left.is_set():
            self._left = trio.Event()
        await self._left.wait()

    def __repr__(self) -> str:
        return f"<SendWindow {self.count}/{self._count_max} messages, {self.size}/{self._size_max} bytes>"
