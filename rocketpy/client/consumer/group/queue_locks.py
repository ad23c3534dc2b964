"""Locks on the queues of an orderly consumer: renewed every 20 seconds, trusted for 30.

A broker lets a lock expire after 60 seconds without renewal, so a lock that is trusted is nobody else's.

Compatibility: ``ConsumeMessageOrderlyService.lockMQPeriodically`` and ``RebalanceImpl.lockAll`` (4.9.8). A queue whose
broker refuses the lock, or has not confirmed it in 30 seconds, is given up: another member may have consumed it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import trio

from rocketpy.client.consumer.group.requests import GroupRequests
from rocketpy.client.consumer.queue.process_queue import ProcessQueue
from rocketpy.clock import Clock

LOCK_INTERVAL_SECONDS = 20.0
LOCK_LIVE_SECONDS = 30.0


class QueueLocks:
    """The locks of one member. Without ``is_needed`` every queue counts as locked."""

    def __init__(self, *, requests: GroupRequests, clock: Clock, is_needed: bool) -> None:
        self._requests = requests
        self._clock = clock
        self.is_needed = is_needed

    def note_locked(self, process_queue: ProcessQueue) -> None:
        """Note that a broker has just confirmed a lock."""
        process_queue.is_locked = self.is_needed
        process_queue.locked_at = trio.current_time()
        process_queue.locked_at_ms = self._clock.timestamp_ms()

    def is_trusted(self, process_queue: ProcessQueue) -> bool:
        """Return whether nobody else can have the queue now."""
        if not self.is_needed:
            return True
        return process_queue.is_locked and trio.current_time() - process_queue.locked_at <= LOCK_LIVE_SECONDS

    async def run(
        self, process_queues: Callable[[], Sequence[ProcessQueue]], lose: Callable[[ProcessQueue], None]
    ) -> None:
        """Renew the locks until cancelled; ``lose`` is called for each queue whose lock is gone."""
        while True:
            await trio.sleep(LOCK_INTERVAL_SECONDS)
            await self.renew(process_queues(), lose)

    async def renew(self, process_queues: Sequence[ProcessQueue], lose: Callable[[ProcessQueue], None]) -> None:
        """Renew the locks once."""
        asked = {each.queue: each for each in process_queues if not each.is_dropped}
        # Taken before the request: the broker counts from when it answers, which is later.
        asked_at = trio.current_time()
        locked, refused = await self._requests.lock(asked.keys())
        for queue, process_queue in asked.items():
            if queue in locked:
                self.note_locked(process_queue)
                process_queue.locked_at = asked_at
            elif queue in refused or not self.is_trusted(process_queue):
                process_queue.is_locked = False
                lose(process_queue)
