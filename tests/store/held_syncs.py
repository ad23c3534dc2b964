"""A runner of blocking calls whose syncs can be held back, so that a test sees what waits for the disk."""

from __future__ import annotations

from collections.abc import Callable

import trio


class HeldSyncs:
    """A runner of blocking calls; while it holds, the calls that sync wait to be let go one by one."""

    def __init__(self) -> None:
        self.held_count = 0
        self._is_holding = False
        self._gate = trio.Semaphore(0)

    async def run_blocking(self, function: Callable[..., object], *arguments: object) -> object:
        if self._is_holding and getattr(function, "__name__", "") == "sync":
            self.held_count += 1
            await self._gate.acquire()
        else:
            await trio.lowlevel.checkpoint()
        return function(*arguments)

    def hold(self) -> None:
        self._is_holding = True

    def release_one(self) -> None:
        self._gate.release()

    def release(self) -> None:
        self._is_holding = False
        self._gate.release()
