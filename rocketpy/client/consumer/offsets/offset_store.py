"""A group's progress by queue: a table in memory, and the interface of the stores that make it durable.

Compatibility: ``OffsetStore`` (4.9.8).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from rocketpy.protocol.message import MessageQueue


class OffsetTable:
    """Offsets of queues in memory."""

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}

    def update(self, queue: MessageQueue, consumer_offset: int, *, increase_only: bool = True) -> None:
        """Note the next offset to consume; with ``increase_only`` a lower one than before is ignored."""
        if not increase_only or consumer_offset > self._offsets.get(queue, -1):
            self._offsets[queue] = consumer_offset

    def get(self, queue: MessageQueue) -> int | None:
        """Return the offset of a queue in memory."""
        return self._offsets.get(queue)

    def forget(self, queue: MessageQueue) -> None:
        """Forget a queue, because another member consumes it."""
        self._offsets.pop(queue, None)

    def of_topic(self, topic: str) -> dict[MessageQueue, int]:
        """Return the offsets of a topic, of every topic if it is empty."""
        return {queue: offset for queue, offset in self._offsets.items() if not topic or queue.topic == topic}


class OffsetStore(Protocol):
    """Storage of the offsets of a group: at the brokers, or in a file."""

    @property
    def table(self) -> OffsetTable:
        """The offsets in memory, which the store persists."""
        ...

    async def fetch(self, queue: MessageQueue) -> int | None:
        """Return the stored offset, None when the group has none; RocketpyError when that is not known."""
        ...

    async def persist(self, queues: Iterable[MessageQueue]) -> None:
        """Store the offsets of these queues now; failures are logged, for the next round stores them again."""
        ...

    async def persist_soon(self, queues: Iterable[MessageQueue]) -> None:
        """Store the offsets of these queues without waiting until they are."""
        ...
