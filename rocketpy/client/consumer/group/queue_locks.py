"""Locks on the queues of an orderly consumer: renewed every 20 s, trusted for 30 s and while their connection lasts.

A broker lets a lock expire 30 seconds after its last renewal (RocketMQ's after 60), and a member trusts it for 30
seconds from its request, which was earlier: a trusted lock has no other owner. But a broker that restarts has forgotten
its locks. Two rules keep order over that:

- The end of the connection on which a lock was confirmed puts the lock in doubt. No handler begins until the broker has
  confirmed the lock again, which is asked for at once, and again and again while the broker is away.
- A broker that is back is asked for further locks only ``GRACE_SECONDS`` later: its holders come first. So a lock in
  doubt is kept for as long as its broker refuses connections: it does not run, and cannot give the lock away.

Rule that remains: a member that joins within these seconds cannot know of the restart, and may get a queue whose holder
is still busy with one batch.

Compatibility: ``ConsumeMessageOrderlyService.lockMQPeriodically`` and ``RebalanceImpl.lockAll`` (4.9.8). There a lock
is trusted over a restart of its broker, and the next member that asks gets it too, for up to 20 seconds. A queue whose
broker refuses the lock, or has not confirmed it in 30 seconds, is given up: another member may have consumed it.
A broadcasting consumer takes no locks; Java's takes them once, which keeps another member out until they expire.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

import attrs
import trio

from rocketpy.client.consumer.queue.process_queue import ProcessQueue
from rocketpy.clock import Clock
from rocketpy.containment import Contained
from rocketpy.errors import RemotingError, RemotingRefusedError, RocketpyError
from rocketpy.protocol.message import MessageQueue

LOCK_INTERVAL_SECONDS = 20.0
LOCK_LIVE_SECONDS = 30.0
GRACE_SECONDS = 3.0
"""How long a broker that is back is asked only for locks that were held before: longer than holders need to ask."""
AWAY_MAX = 1_000
"""Bound on the addresses whose connection has ended; beyond it the grace of the oldest is forgotten."""
RECLAIM_SECONDS = 0.5
"""Pause between two attempts to have locks in doubt confirmed; each attempt takes at most a second."""

_log = logging.getLogger("rocketpy.client")


class LockConnection(Protocol):
    """The connection on which a broker has confirmed locks."""

    @property
    def is_closed(self) -> bool:
        """Whether it has ended."""
        ...


class LockRequests(Protocol):
    """Interface to the masters of queues. Raises RocketpyError when one does not answer within a second."""

    async def master_address(self, queue: MessageQueue) -> str:
        """Return the address that locks a queue."""
        ...

    async def connect(self, address: str) -> LockConnection:
        """Return the connection to a master, opened if need be."""
        ...

    async def lock(self, address: str, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """Lock queues of one master; return those that this member holds now."""
        ...

    async def unlock(self, address: str, queues: Collection[MessageQueue]) -> None:
        """Give locks back to one master."""
        ...


@attrs.define
class _Answers:
    """What the masters of queues have said to one round of renewals."""

    locked: set[MessageQueue] = attrs.field(factory=set)
    refused: set[MessageQueue] = attrs.field(factory=set)
    away: set[MessageQueue] = attrs.field(factory=set)  # their master does not run


class QueueLocks:
    """The locks of one member. Without ``is_needed`` every queue counts as locked."""

    def __init__(self, *, requests: LockRequests, clock: Clock, is_needed: bool) -> None:
        self._requests = requests
        self._clock = clock
        self.is_needed = is_needed
        self._confirmed_on: dict[MessageQueue, LockConnection] = {}
        # Masters whose connection has ended, the first one longest ago, and when they were found to be back; None while
        # they are away.
        self._back_at: dict[str, float | None] = {}
        self._has_ended = trio.Event()

    # ---- for the queues of the member -----------------------------------------------------------------------------

    async def acquire(self, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """Lock queues at their masters; return those that are locked now. Waits for a grace period to end."""
        if not self.is_needed:
            return set(queues)
        locked: set[MessageQueue] = set()
        async with trio.open_nursery() as nursery:
            for broker_queues in _by_broker(queues):
                nursery.start_soon(self._acquire, broker_queues, locked)
        return locked

    async def release(self, queues: Collection[MessageQueue]) -> None:
        """Give locks back, and wait for the answers; a broker that does not answer lets them expire."""
        if not self.is_needed:
            return
        for queue in queues:
            self._confirmed_on.pop(queue, None)
        async with trio.open_nursery() as nursery:
            for broker_queues in _by_broker(queues):
                nursery.start_soon(self._release, broker_queues)

    def note_locked(self, process_queue: ProcessQueue) -> None:
        """Note that a broker has just confirmed a lock."""
        process_queue.is_locked = self.is_needed
        process_queue.locked_at = trio.current_time()
        process_queue.locked_at_ms = self._clock.timestamp_ms()

    def is_trusted(self, process_queue: ProcessQueue) -> bool:
        """Return whether no other member can have the queue now."""
        return not self.is_needed or (_is_fresh(process_queue) and not self._is_in_doubt(process_queue))

    # ---- renewal --------------------------------------------------------------------------------------------------

    def connection_ended(self, address: str) -> None:
        """Note that a connection of this client has ended."""
        self._note_away(address)
        self._has_ended.set()

    async def run(
        self, process_queues: Callable[[], Sequence[ProcessQueue]], lose: Callable[[ProcessQueue], None]
    ) -> None:
        """Renew the locks until cancelled; ``lose`` is called for each queue whose lock is gone."""
        renewed_at = trio.current_time()
        while True:
            self._has_ended = trio.Event()
            await self._renew_contained(self._in_doubt(process_queues()), lose)
            if self._in_doubt(process_queues()):
                await trio.sleep(RECLAIM_SECONDS)
            else:
                with trio.move_on_at(renewed_at + LOCK_INTERVAL_SECONDS):
                    await self._has_ended.wait()
            if trio.current_time() >= renewed_at + LOCK_INTERVAL_SECONDS:
                renewed_at = trio.current_time()
                await self._renew_contained(process_queues(), lose)

    async def renew(self, process_queues: Sequence[ProcessQueue], lose: Callable[[ProcessQueue], None]) -> None:
        """Renew locks once."""
        asked = {each.queue: each for each in process_queues if not each.is_dropped}
        # Taken before the request: the broker counts from when it answers, which is later.
        asked_at = trio.current_time()
        answers = _Answers()
        async with trio.open_nursery() as nursery:
            for broker_queues in _by_broker(asked):
                nursery.start_soon(self._renew, broker_queues, answers)
        for queue, process_queue in asked.items():
            if queue in answers.locked:
                self.note_locked(process_queue)
                process_queue.locked_at = asked_at
            elif queue in answers.away and _is_fresh(process_queue):
                # A broker that does not run has given the lock to no other member, nor will it in its grace period.
                process_queue.locked_at = max(process_queue.locked_at, asked_at + GRACE_SECONDS - LOCK_LIVE_SECONDS)
            elif queue in answers.refused or not _is_fresh(process_queue):
                process_queue.is_locked = False
                self._confirmed_on.pop(queue, None)
                lose(process_queue)

    # ---- private --------------------------------------------------------------------------------------------------

    async def _renew_contained(
        self, process_queues: Sequence[ProcessQueue], lose: Callable[[ProcessQueue], None]
    ) -> None:
        """Renew locks once; after an unexpected failure they are trusted for as long as they were."""
        with Contained(_log, "a renewal of queue locks"):
            await self.renew(process_queues, lose)

    def _in_doubt(self, process_queues: Sequence[ProcessQueue]) -> list[ProcessQueue]:
        return [each for each in process_queues if self._is_in_doubt(each)]

    def _is_in_doubt(self, process_queue: ProcessQueue) -> bool:
        connection = self._confirmed_on.get(process_queue.queue)
        return process_queue.is_locked and connection is not None and connection.is_closed

    async def _acquire(self, queues: list[MessageQueue], locked: set[MessageQueue]) -> None:
        try:
            address = await self._requests.master_address(queues[0])
            await self._wait_grace(address)
            locked |= await self._lock(address, queues)
        except RocketpyError:
            return

    async def _renew(self, queues: list[MessageQueue], answers: _Answers) -> None:
        try:
            held = await self._lock(await self._requests.master_address(queues[0]), queues)
        except RemotingRefusedError:
            answers.away.update(queues)
        except RocketpyError:
            return
        else:
            answers.locked |= held
            answers.refused |= set(queues) - held

    async def _lock(self, address: str, queues: list[MessageQueue]) -> set[MessageQueue]:
        """Ask one master; RocketpyError when it does not answer."""
        try:
            # It may end before the request is sent, on another one: then the locks are in doubt, and asked for again.
            connection = await self._requests.connect(address)
            held = (await self._requests.lock(address, queues)).intersection(queues)
        except RemotingError:
            self._note_away(address)
            raise
        self._note_back(address)
        self._confirmed_on.update(dict.fromkeys(held, connection))
        return held

    async def _wait_grace(self, address: str) -> None:
        if address not in self._back_at:
            return
        await self._requests.connect(address)
        back_at = self._note_back(address)
        await trio.sleep_until(back_at + GRACE_SECONDS)
        if self._back_at.get(address) == back_at:  # it has not gone again
            del self._back_at[address]

    def _note_away(self, address: str) -> None:
        self._back_at.pop(address, None)
        if len(self._back_at) >= AWAY_MAX:
            del self._back_at[next(iter(self._back_at))]
        self._back_at[address] = None

    def _note_back(self, address: str) -> float:
        """Note that a master answers; return since when it does."""
        back_at = self._back_at.get(address, 0.0)
        if back_at is None:
            back_at = self._back_at[address] = trio.current_time()
        return back_at

    async def _release(self, queues: list[MessageQueue]) -> None:
        try:
            await self._requests.unlock(await self._requests.master_address(queues[0]), queues)
        except RocketpyError:
            return


def _is_fresh(process_queue: ProcessQueue) -> bool:
    return process_queue.is_locked and trio.current_time() - process_queue.locked_at <= LOCK_LIVE_SECONDS


def _by_broker(queues: Iterable[MessageQueue]) -> list[list[MessageQueue]]:
    found: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        found.setdefault(queue.broker_name, []).append(queue)
    return list(found.values())
