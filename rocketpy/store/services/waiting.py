"""Waiting in services: for a wake-up or a timeout, and for the end of a shortage of descriptors or space."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import trio

from rocketpy.errors import ShortageError
from rocketpy.runner import RunBlocking

T = TypeVar("T")

SHORTAGE_PAUSE_SECONDS = 1.0
"""The pause before an attempt is repeated after a shortage."""


class WakeUp:
    """Interruptible sleep of one service: ``wakeup`` and ``waitForRunning`` of RocketMQ's ServiceThread.

    No call is lost: one that comes while the service works makes its next wait return at once.
    """

    def __init__(self) -> None:
        self._event = trio.Event()

    def wake(self) -> None:
        """End the current wait, or the next one; cheap."""
        self._event.set()

    async def wait_until(self, deadline: float) -> None:
        """Return at a Trio time, or with a call of ``wake`` before."""
        with trio.move_on_at(deadline):
            await self._event.wait()
        if self._event.is_set():
            self._event = trio.Event()


async def call_until_done(run_blocking: RunBlocking, function: Callable[..., T], *arguments: object) -> T:
    """Return the result of a blocking call, which is repeated as long as it meets a shortage.

    For calls that a service cannot go on without. After an unlink, for example, the directory must be synced before the
    next file is deleted: there is no way back, and nothing else to do in the meantime.
    """
    return await until_done(partial(run_blocking, function, *arguments))


async def until_done(attempt: Callable[[], Awaitable[T]]) -> T:
    """Return the result of an attempt, which is repeated as long as it meets a shortage.

    For example the reads of its own queues that a service needs at its start. Each attempt resumes from the state that
    the previous one left.
    """
    while True:
        try:
            return await attempt()
        except ShortageError:
            await trio.sleep(SHORTAGE_PAUSE_SECONDS)
