"""Decides which queues of a consumer may be pulled now: not those that are paused, and none while the consumer is held.

A pull in flight when its queue is paused still delivers its messages.
"""

from __future__ import annotations

from collections.abc import Iterable

import trio

from rocketpy.protocol.message import MessageQueue


class PullGate:
    """Reasons to hold the readers of one consumer."""

    def __init__(self) -> None:
        self._is_suspended = False
        self._is_full = False
        self._paused: set[MessageQueue] = set()
        self._opened = trio.Event()

    @property
    def is_suspended(self) -> bool:
        """Whether the program has suspended the consumer."""
        return self._is_suspended

    @property
    def paused(self) -> frozenset[MessageQueue]:
        """The queues that are paused."""
        return frozenset(self._paused)

    def suspend(self) -> None:
        """Hold all queues."""
        self._is_suspended = True

    def resume(self) -> None:
        """Go on after :meth:`suspend`; paused queues stay paused."""
        self._is_suspended = False
        self._let_look()

    def set_full(self, is_full: bool) -> None:
        """Hold all queues while the consumer has pulled as much as it may."""
        if is_full != self._is_full:
            self._is_full = is_full
            self._let_look()

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Hold single queues."""
        self._paused.update(queues)

    def resume_queues(self, queues: Iterable[MessageQueue]) -> None:
        """Go on with queues after :meth:`pause`; others are ignored."""
        self._paused.difference_update(queues)
        self._let_look()

    def is_open(self, queue: MessageQueue) -> bool:
        """Return whether a queue may be pulled now."""
        return not self._is_suspended and not self._is_full and queue not in self._paused

    async def wait_open(self, queue: MessageQueue) -> None:
        """Return when a queue may be pulled."""
        while not self.is_open(queue):
            await self._opened.wait()

    def _let_look(self) -> None:
        opened, self._opened = self._opened, trio.Event()
        opened.set()
