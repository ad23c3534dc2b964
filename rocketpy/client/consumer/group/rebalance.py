"""Decides which queues this member of a group consumes, again and again.

Every 20 seconds, and soon when a broker says that the group has changed, the service compares what the strategy gives
this member with what it has. Rule: where the queues or the members of a topic are not known, everything of the topic
stays as it is.

Compatibility: ``RebalanceService`` and ``RebalanceImpl`` (4.9.8). What could not be done (a queue that another member
still has locked, an offset that is not known, a handler that has not come to its end) is tried again after a second,
two, four, four ... instead of 20, and what is not known (queues, members) after one, two, four ... up to 20. A member
that the broker does not list sends a heartbeat at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

import trio

from rocketpy.client.consumer.group.assignment_changes import AssignmentChanges
from rocketpy.containment import Contained
from rocketpy.errors import RocketpyError
from rocketpy.protocol.allocation.strategy import AllocateMessageQueueStrategy
from rocketpy.protocol.message import MessageQueue

WAIT_SECONDS = 20.0
RETRY_SECONDS = 1.0
CHANGE_RETRY_SECONDS = 4.0
"""Longest pause before a change is tried again: a queue is taken so soon after the lock of its last owner expires."""
PAUSE_SECONDS = 0.1
"""Minimum time between two rounds, however many wake-ups there are."""

_log = logging.getLogger("rocketpy.client")


class Assignment(Protocol):
    """The queues that a member has, and how they change."""

    @property
    def assigned(self) -> Collection[MessageQueue]:
        """The queues of all topics, also those that are being given up."""
        ...

    async def change(self, dropped: Sequence[MessageQueue], added: Sequence[MessageQueue]) -> bool:
        """Give queues up, then take others; False when something remains to be done."""
        ...


class Knowledge(Protocol):
    """Input of a rebalance."""

    def topics(self) -> list[str]:
        """The topics that it consumes."""
        ...

    async def queues(self, topic: str) -> list[MessageQueue] | None:
        """The sorted queues of a topic, None when they are not known."""
        ...

    async def member_ids(self, topic: str) -> list[str] | None:
        """The sorted client ids, None when they are not known."""
        ...


class RebalanceService:
    """The rebalancing of one member. ``strategy`` None: it consumes all queues (broadcasting)."""

    def __init__(
        self,
        *,
        group: str,
        client_id: str,
        strategy: AllocateMessageQueueStrategy | None,
        knowledge: Knowledge,
        assignment: Assignment,
        on_unlisted: Callable[[], None],
        is_paused: Callable[[], bool],
    ) -> None:
        self._group = group
        self._client_id = client_id
        self._strategy = strategy
        self._knowledge = knowledge
        self._assignment = assignment
        self._on_unlisted = on_unlisted
        self._is_paused = is_paused
        self.changes = AssignmentChanges()
        """Changes that rebalances have made, for the program."""
        self.divided: frozenset[str] = frozenset()
        """The topics of which this member had its whole share after the last round, and is listed by the brokers."""
        self._unlisted: set[str] = set()  # topics whose brokers do not list this member
        self._wanted = trio.Event()
        self._retry_seconds_max = WAIT_SECONDS

    def wake(self) -> None:
        """Rebalance soon; what is asked for during a round is for the next one."""
        self._wanted.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Rebalance until cancelled."""
        task_status.started()
        retry_s = RETRY_SECONDS
        while True:
            self._wanted = trio.Event()
            before, is_complete = self.divided, False
            with Contained(_log, "a rebalance of %s", self._group):  # a strategy may be the program's own
                is_complete = await self.rebalance()
            if self.divided != before:  # which may bring more: a broker that has met the group makes its retry topic
                retry_s = RETRY_SECONDS
            await trio.sleep(PAUSE_SECONDS)
            with trio.move_on_after(WAIT_SECONDS if is_complete else retry_s) as waiting:
                await self._wanted.wait()
            is_repeated = not is_complete and waiting.cancelled_caught
            retry_s = min(2 * retry_s, self._retry_seconds_max) if is_repeated else RETRY_SECONDS

    async def rebalance(self) -> bool:
        """Rebalance all topics once; False when something remains to be done soon."""
        if self._is_paused():
            return True
        topics = self._knowledge.topics()
        self._unlisted.clear()
        dropped = [queue for queue in self._assignment.assigned if queue.topic not in topics]
        added: list[MessageQueue] = []
        known: dict[str, list[MessageQueue]] = {}
        is_complete = True
        for topic in topics:
            queues = await self._knowledge.queues(topic)
            share = None if queues is None else await self._share(topic, queues)
            if queues is None or share is None:
                is_complete = False
                continue
            known[topic] = queues
            mine = {queue for queue in self._assignment.assigned if queue.topic == topic}
            dropped += sorted(mine.difference(share))
            added += [queue for queue in share if queue not in mine]
        # No await between here and the change: what is dropped and added fits to what is assigned.
        assigned = self._assignment.assigned
        still_dropped = [queue for queue in dropped if queue in assigned]
        still_added = [queue for queue in added if queue not in assigned]
        is_changed = await self._assignment.change(still_dropped, still_added)
        self.divided = frozenset(known) - self._unlisted if is_changed else frozenset()
        self._retry_seconds_max = WAIT_SECONDS if is_changed else CHANGE_RETRY_SECONDS
        is_complete = is_complete and is_changed
        for topic in {queue.topic for queue in dropped} - set(topics):
            self.changes.note(topic, [], [])
        for topic, queues in known.items():
            self.changes.note(topic, queues, sorted(each for each in self._assignment.assigned if each.topic == topic))
        return is_complete

    async def _share(self, topic: str, queues: list[MessageQueue]) -> list[MessageQueue] | None:
        if self._strategy is None:
            return queues
        member_ids = await self._knowledge.member_ids(topic)
        if member_ids is None:
            return None
        if self._client_id not in member_ids:
            self._unlisted.add(topic)
            self._on_unlisted()
        try:
            return self._strategy.allocate(self._group, self._client_id, queues, member_ids)
        except (ValueError, RocketpyError) as failure:
            _log.warning("allocating the queues of %s: %s", topic, failure)
            return None
