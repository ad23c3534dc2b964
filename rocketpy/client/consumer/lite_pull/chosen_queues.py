"""Queues that a program chooses for itself, and offsets that it seeks before they are read.

Compatibility: ``AssignedMessageQueue`` (4.9.8).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from rocketpy.client.consumer.group.assigned_queues import Beginnings
from rocketpy.client.consumer.offsets.offset_store import OffsetTable
from rocketpy.protocol.message import MessageQueue


class ChosenQueues:
    """The knowledge of a rebalance whose result is what the program has chosen."""

    def __init__(self) -> None:
        self._by_topic: dict[str, list[MessageQueue]] = {}

    def choose(self, queues: Iterable[MessageQueue]) -> None:
        """Choose these queues and no others."""
        self._by_topic = {}
        for queue in sorted(set(queues)):
            self._by_topic.setdefault(queue.topic, []).append(queue)

    @property
    def chosen(self) -> list[MessageQueue]:
        """All of them, in order."""
        return [queue for topic in sorted(self._by_topic) for queue in self._by_topic[topic]]

    def topics(self) -> list[str]:
        """Return the topics of the queues."""
        return list(self._by_topic)

    async def queues(self, topic: str) -> list[MessageQueue] | None:
        """Return the queues of a topic."""
        return self._by_topic.get(topic, [])

    async def member_ids(self, topic: str) -> list[str] | None:
        """Return None: the program divides the queues, and other members do not count."""
        return None


class SoughtOffsets:
    """Where queues begin: at the offset that the program has sought, or else where ``otherwise`` says."""

    def __init__(self, otherwise: Beginnings, progress: OffsetTable) -> None:
        self._otherwise = otherwise
        self._progress = progress
        self._sought: dict[MessageQueue, int] = {}

    def seek(self, queue: MessageQueue, queue_offset: int) -> None:
        """Begin a queue at an offset when it is taken."""
        self._sought[queue] = queue_offset

    def keep_only(self, queues: Collection[MessageQueue]) -> None:
        """Forget what was sought of other queues."""
        self._sought = {queue: offset for queue, offset in self._sought.items() if queue in queues}

    async def find(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """Return the offsets of those queues for which they are known."""
        wanted = list(queues)
        begins = await self._otherwise.find([each for each in wanted if each not in self._sought])
        for queue in wanted:  # also what was sought meanwhile
            if queue in self._sought:
                begins[queue] = self._sought.pop(queue)
                self._progress.update(queue, begins[queue], increase_only=False)
        return begins
