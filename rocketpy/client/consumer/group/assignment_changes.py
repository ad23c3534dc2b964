"""Notifies a program when a rebalance has changed the queues of its consumer.

Only the latest state of a topic is kept: a program that takes long sees the state that counts, not those between.

Compatibility: ``MessageQueueListener`` (4.9.8), a callback that runs within the rebalance. Here a program iterates over
the changes in a task of its own, so that it delays no rebalance and its failures are its own.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs
import trio

from rocketpy.client.callers import hands_over
from rocketpy.client.namespace import NO_NAMESPACE, Namespace
from rocketpy.protocol.message import MessageQueue

EMPTY_CHANGES_MAX = 100
"""Bound on the topics without queues whose last change is kept, for iterators that have not seen it."""


@attrs.frozen
class AssignmentChange:
    """The queues of a topic that the consumer has now, out of all that the topic has."""

    topic: str
    queues: tuple[MessageQueue, ...]
    assigned: tuple[MessageQueue, ...]


class AssignmentChanges:
    """The latest change of each topic, for any number of iterators."""

    def __init__(self) -> None:
        self._latest: dict[str, tuple[int, AssignmentChange]] = {}  # the one that changed longest ago first
        self._count = 0
        self._changed = trio.Event()
        self._is_closed = False

    def note(self, topic: str, queues: Iterable[MessageQueue], assigned: Iterable[MessageQueue]) -> None:
        """Notify the iterators, unless nothing has changed since the last time."""
        change = AssignmentChange(topic, tuple(queues), tuple(assigned))
        latest = self._latest.get(topic)
        if latest is None or latest[1] != change:
            self._count += 1
            self._latest.pop(topic, None)
            self._latest[topic] = (self._count, change)
            self._forget_empty()
            self._let_look()

    def close(self) -> None:
        """End the iterators: the consumer has left its group."""
        self._is_closed = True
        self._let_look()

    def latest(self, topic: str) -> AssignmentChange | None:
        """Return the latest change of a topic, None when there has been none."""
        latest = self._latest.get(topic)
        return None if latest is None else latest[1]

    def __aiter__(self) -> AssignmentIterator:
        """Iterate over the changes, beginning with what is assigned already."""
        return AssignmentIterator(self)

    def _forget_empty(self) -> None:
        """Forget the oldest of too many topics without queues, which are no longer subscribed or have gone."""
        empty = [topic for topic, (_, change) in self._latest.items() if not change.queues]
        for topic in empty[: max(0, len(empty) - EMPTY_CHANGES_MAX)]:
            del self._latest[topic]

    # ---- for iterators --------------------------------------------------------------------------------------------

    async def next_after(self, seen: int) -> tuple[int, AssignmentChange] | None:
        """Wait for the first change with a higher number; None when the consumer has left."""
        while True:
            newer = [each for each in self._latest.values() if each[0] > seen]
            if newer:
                return min(newer, key=lambda each: each[0])
            if self._is_closed:
                return None
            await self._changed.wait()

    def _let_look(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()


class AssignmentIterator:
    """Iterator over the changes of an assignment, for one task. It ends when the consumer has left its group."""

    def __init__(self, changes: AssignmentChanges, namespace: Namespace = NO_NAMESPACE) -> None:
        self._changes = changes
        self._namespace = namespace
        self._seen = 0

    def __aiter__(self) -> AssignmentIterator:
        return self

    @hands_over
    async def __anext__(self) -> AssignmentChange:
        """Wait for the next change."""
        found = await self._changes.next_after(self._seen)
        if found is None:
            raise StopAsyncIteration
        self._seen, change = found
        return AssignmentChange(
            self._namespace.unwrap(change.topic),
            tuple(self._namespace.unwrap_queues(change.queues)),
            tuple(self._namespace.unwrap_queues(change.assigned)),
        )
