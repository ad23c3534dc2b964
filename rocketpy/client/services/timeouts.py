"""Deadlines of many requests at the price of one timer: entries of one duration expire in the order they came in.

A cancel scope for each request would cost more than the request. Here a duration has a queue, and only the oldest entry
of each queue is looked at; starting and stopping an entry is one operation on a dict.
"""

from __future__ import annotations

import math
from typing import Protocol

import trio


class Expiring(Protocol):
    """A request with a deadline."""

    def expire(self) -> None:
        """React to the deadline; it may start entries, and does not await."""
        ...


class Timeouts:
    """The entries that have a deadline, and the service that calls those whose deadline has come."""

    def __init__(self) -> None:
        self._queues: dict[float, dict[Expiring, float]] = {}  # deadlines by entry, by duration; none is empty
        self._sleeps_until = math.inf
        self._earlier = trio.Event()

    def start(self, entry: Expiring, duration_s: float) -> None:
        """Expire an entry after so many seconds, unless it is stopped with the same duration before."""
        deadline = trio.current_time() + duration_s
        queue = self._queues.get(duration_s)
        if queue is None:
            self._queues[duration_s] = {entry: deadline}
            if deadline < self._sleeps_until:
                self._earlier.set()
        else:
            queue[entry] = deadline

    def stop(self, entry: Expiring, duration_s: float) -> None:
        """Forget an entry; a no-op when it has expired."""
        queue = self._queues.get(duration_s)
        if queue is not None and queue.pop(entry, None) is not None and not queue:
            del self._queues[duration_s]

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Expire entries until cancelled."""
        task_status.started()
        while True:
            self._sleeps_until = min((next(iter(each.values())) for each in self._queues.values()), default=math.inf)
            self._earlier = trio.Event()
            with trio.move_on_at(self._sleeps_until):
                await self._earlier.wait()
            self._expire_due(trio.current_time())

    def _expire_due(self, now: float) -> None:
        for duration_s, queue in list(self._queues.items()):
            while queue:
                entry, deadline = next(iter(queue.items()))
                if deadline > now:
                    break
                self.stop(entry, duration_s)
                entry.expire()
