"""The queues that a member of a group has: how it takes them, reads them, gives them up and loses them.

A queue has a reader, whose messages go to a :class:`MessageSink`: what is done with them is for the layer above.

Rule: a queue is consumed only while it is in :attr:`AssignedQueues.process_queues`, and an acknowledgement counts only
for the process queue that it came from.

Compatibility: ``RebalancePushImpl`` (4.9.8). A queue of an orderly consumer is handed over when its handler has come to
its end, whose result counts; in Java the result is lost. A queue whose lock was lost is given up and locked again, and
its messages are pulled again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Protocol

import attrs
import trio

from rocketpy.client.consumer.group.queue_locks import QueueLocks
from rocketpy.client.consumer.group.subscriptions import Subscriptions
from rocketpy.client.consumer.offsets.offset_store import OffsetStore, OffsetTable
from rocketpy.client.consumer.queue.continuity import Continuity
from rocketpy.client.consumer.queue.flow_limits import FlowLimits
from rocketpy.client.consumer.queue.process_queue import ProcessQueue
from rocketpy.client.consumer.queue.pull_gate import PullGate
from rocketpy.client.consumer.queue.pull_plan import PullPlan
from rocketpy.client.consumer.queue.reader import QueueReader
from rocketpy.client.consumer.queue.requests import QueueRequests
from rocketpy.client.instance import ClientInstance
from rocketpy.client.validators import UNSPECIFIED
from rocketpy.errors import BrokerError, ClientError, RocketpyError
from rocketpy.protocol.bodies.heartbeat import SubscriptionData
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.message import MessageExt, MessageQueue

IDLE_SECONDS = 1.0
"""How long a rebalance waits for the handler of an orderly queue that is given up."""


class MessageSink(Protocol):
    """Receiver of pulled messages: concurrent, orderly or polled."""

    def deliver(self, process_queue: ProcessQueue, messages: Sequence[MessageExt], pull_seconds: float) -> None:
        """Take messages that have been pulled; they are in the process queue."""
        ...

    async def wait_idle(self, process_queue: ProcessQueue) -> None:
        """Return when no handler has messages of this queue."""
        ...

    def close(self) -> None:
        """Cancel handlers of an orderly consumer, and let no batch begin any more. Idempotent."""
        ...


class Beginnings(Protocol):
    """Start offsets of queues."""

    async def find(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """Return the offsets of those queues for which they are known."""
        ...


@attrs.frozen
class _Assigned:
    process_queue: ProcessQueue
    scope: trio.CancelScope  # of its reader


class AssignedQueues:
    """The queues of one member. Readers run in a nursery that the owner passes in.

    ``announce`` makes the member known to brokers before it pulls; ``on_lost`` is called when a queue was lost.
    ``limits`` returns those of one queue when so many are assigned. ``progress`` is how far the queues are consumed:
    the table of ``store``, or another one where consumed is not yet committed.
    """

    def __init__(
        self,
        *,
        instance: ClientInstance,
        plan: PullPlan,
        limits: Callable[[int], FlowLimits],
        gate: PullGate,
        subscriptions: Subscriptions,
        store: OffsetStore,
        progress: OffsetTable,
        queue_requests: QueueRequests,
        locks: QueueLocks,
        begin_offsets: Beginnings,
        sink: MessageSink,
        nursery: trio.Nursery,
        is_orderly: bool,
        announce: Callable[[], Awaitable[None]],
        on_lost: Callable[[], None],
    ) -> None:
        self.gate = gate
        self._instance = instance
        self._plan = plan
        self._limits = limits
        self._subscriptions = subscriptions
        self._store = store
        self._progress = progress
        self._queue_requests = queue_requests
        self._locks = locks
        self._begin_offsets = begin_offsets
        self._sink = sink
        self._nursery = nursery
        self._is_orderly = is_orderly
        self._announce = announce
        self._on_lost = on_lost
        self._assigned: dict[MessageQueue, _Assigned] = {}
        self._locking: Sequence[MessageQueue] = ()  # perhaps locked, not assigned yet
        self._first_change = trio.Event()

    # ---- which queues there are -----------------------------------------------------------------------------------

    @property
    def assigned(self) -> Collection[MessageQueue]:
        """The queues that this member has."""
        return self._assigned.keys()

    @property
    def process_queues(self) -> list[ProcessQueue]:
        """Messages in flight, queue by queue."""
        return [each.process_queue for each in self._assigned.values()]

    @property
    def is_consuming(self) -> bool:
        """Whether a handler of an orderly consumer has messages of a queue."""
        return any(each.process_queue.is_consuming for each in self._assigned.values())

    async def wait_assigned(self) -> None:
        """Return when the first rebalance is over, or the member leaves."""
        await self._first_change.wait()

    async def change(self, dropped: Sequence[MessageQueue], added: Sequence[MessageQueue]) -> bool:
        """Give queues up, then take others; False when something remains to be done."""
        unfinished = [each for each in self._assigned.values() if each.process_queue.is_leaving]
        leaving = [self._assigned[each] for each in dropped if each in self._assigned]
        leaving += [each for each in unfinished if each not in leaving]
        is_complete = not unfinished  # one of them may be this member's again, but not in this round
        if leaving:
            is_complete = await self._give_up(leaving) and is_complete
        if added:
            # Brokers refuse pulls of members that they do not know, and of a subscription that is new to them.
            await self._announce()
            is_complete = await self._take(added) and is_complete
        self._first_change.set()
        return is_complete

    def hand_on_nothing(self, queues: Iterable[MessageQueue]) -> None:
        """Stop reading queues that the next rebalance gives up; what has been pulled of them is not consumed."""
        for queue in queues:
            assigned = self._assigned.get(queue)
            if assigned is not None:
                assigned.scope.cancel()
                assigned.process_queue.is_leaving = True

    def move_to(self, queue: MessageQueue, queue_offset: int) -> None:
        """Begin an assigned queue anew at an offset: what is in flight is forgotten, results no longer count."""
        assigned = self._assigned.get(queue)
        if assigned is None:
            return
        assigned.process_queue.is_dropped = True
        assigned.process_queue.clear()
        assigned.scope.cancel()
        self._progress.update(queue, queue_offset, increase_only=False)
        self._begin(queue, queue_offset, like=assigned.process_queue)

    def lose(self, process_queue: ProcessQueue) -> None:
        """Give up a queue that another member may have: without a word about its offset."""
        assigned = self._assigned.get(process_queue.queue)
        if assigned is None or assigned.process_queue is not process_queue:
            return
        self._forget(assigned)
        self._on_lost()

    async def leave(self) -> None:
        """Stop pulling, end the handlers, store the offsets and give locks back. The caller bounds the time.

        A handler of an orderly queue has a little time to come to its end, and then its result counts. A lock is given
        back only when no handler has messages of its queue: one that resists its cancellation keeps the lock.
        """
        self._first_change.set()
        leaving = list(self._assigned.values())
        for assigned in leaving:
            assigned.scope.cancel()
            assigned.process_queue.is_leaving = True
        busy = await self._wait_idle(leaving) if self._is_orderly else []
        for assigned in leaving:
            assigned.process_queue.is_dropped = True
        self._sink.close()
        busy = await self._wait_idle(busy) if busy else []
        await self._store.persist([each.process_queue.queue for each in leaving])
        idle = [each.process_queue.queue for each in leaving if each not in busy]
        await self._locks.release([*idle, *self._locking])
        for queue in idle:
            del self._assigned[queue]

    def suspend(self) -> None:
        """Stop pulling; messages that are here are still consumed."""
        self.gate.suspend()

    def resume(self) -> None:
        """Go on after :meth:`suspend`."""
        self.gate.resume()

    # ---- for readers ----------------------------------------------------------------------------------------------

    def subscription_of(self, topic: str) -> SubscriptionData | None:
        """Return the subscription to a topic."""
        return self._subscriptions.get(topic)

    def memory_offset(self, queue: MessageQueue) -> int | None:
        """Return the offset that may be committed."""
        return self._progress.get(queue)

    def note_fruitless(self, process_queue: ProcessQueue, next_offset: int) -> None:
        """Note that nothing below this offset concerns the group."""
        if not process_queue.is_dropped:
            self._progress.update(process_queue.queue, next_offset)

    def deliver(self, process_queue: ProcessQueue, messages: Sequence[MessageExt], pull_seconds: float) -> None:
        """Hand messages of a queue that is still assigned to the layer above."""
        if not process_queue.is_dropped:
            self._sink.deliver(process_queue, messages, pull_seconds)

    def read_anew(self, process_queue: ProcessQueue, queue_offset: int) -> None:
        """Go on where the broker says, because the offset does not exist."""
        if not process_queue.is_dropped:
            self.move_to(process_queue.queue, queue_offset)

    def fall_back(self, process_queue: ProcessQueue, queue_offset: int) -> None:
        """Begin an assigned queue again where its broker has the group's progress: its tail is gone."""
        if not process_queue.is_dropped:
            if self._store.table.get(process_queue.queue) is not None:
                self._store.table.update(process_queue.queue, queue_offset, increase_only=False)
            self.move_to(process_queue.queue, queue_offset)

    async def wait_known(self, failure: RocketpyError) -> None:
        """Return when a broker has come back, or knows the group that it did not know."""
        reconnects = self._instance.reconnects
        if (
            isinstance(failure, BrokerError)
            and failure.response_code == ResponseCode.SUBSCRIPTION_NOT_EXIST
            and await reconnects.introduced(failure.address)
        ):
            return
        await reconnects.wait_back()

    # ---- private --------------------------------------------------------------------------------------------------

    async def _give_up(self, leaving: Sequence[_Assigned]) -> bool:
        for assigned in leaving:
            assigned.scope.cancel()
            assigned.process_queue.is_leaving = True
        busy = await self._wait_idle(leaving) if self._is_orderly else []
        idle = [each for each in leaving if each not in busy]
        for assigned in idle:
            assigned.process_queue.is_dropped = True
        queues = [each.process_queue.queue for each in idle]
        await self._store.persist(queues)
        await self._locks.release(queues)
        for assigned in idle:
            self._forget(assigned)
        return not busy

    async def _wait_idle(self, leaving: Sequence[_Assigned]) -> list[_Assigned]:
        """Wait a little for handlers; return the queues that are still with one.

        The lock keeps other members out until the handler has ended; its result counts.
        """
        with trio.move_on_after(IDLE_SECONDS):
            async with trio.open_nursery() as nursery:
                for assigned in leaving:
                    nursery.start_soon(self._sink.wait_idle, assigned.process_queue)
        busy = [each for each in leaving if each.process_queue.is_consuming]
        for assigned in busy:
            assigned.process_queue.try_unlock_count += 1
        return busy

    def _forget(self, assigned: _Assigned) -> None:
        process_queue = assigned.process_queue
        process_queue.is_dropped = True
        process_queue.clear()
        assigned.scope.cancel()
        if self._assigned.get(process_queue.queue) is assigned:
            del self._assigned[process_queue.queue]
            self._store.table.forget(process_queue.queue)
            self._progress.forget(process_queue.queue)
            self.gate.resume_queues([process_queue.queue])
            self._queue_requests.forget(process_queue.queue)

    async def _take(self, queues: Sequence[MessageQueue]) -> bool:
        self._locking = tuple(queues)
        begins = await self._begin_offsets.find(await self._locks.acquire(queues))
        for queue in sorted(begins):
            self._begin(queue, begins[queue])
        self._locking = ()
        return len(begins) == len(queues)

    def _begin(self, queue: MessageQueue, queue_offset: int, *, like: ProcessQueue | None = None) -> None:
        now_ms = self._instance.clock.timestamp_ms()
        # Operators take a queue that nothing has happened with for blocked since then, as in Java.
        process_queue = ProcessQueue(queue, pulled_at_ms=now_ms, consumed_at_ms=now_ms, locked_at_ms=now_ms)
        if like is None:
            self._locks.note_locked(process_queue)
        else:
            process_queue.is_locked, process_queue.locked_at_ms = like.is_locked, like.locked_at_ms
            process_queue.locked_at = like.locked_at
        continuity = Continuity(queue, queue_offset, self._queue_requests, self._begin_offset)
        continuity.assume()
        self._queue_requests.watch(continuity)
        reader = QueueReader(
            process_queue=process_queue,
            continuity=continuity,
            limits=lambda: self._limits(len(self._assigned)),
            plan=self._plan,
            exception_pause_s=self._instance.config.pull_time_delay_when_exception / 1000,
            puller=self._queue_requests,
            owner=self,
            clock=self._instance.clock,
            is_moved=like is not None,
        )
        scope = trio.CancelScope()
        self._assigned[queue] = _Assigned(process_queue, scope)
        self._nursery.start_soon(self._read, reader, scope)

    async def _begin_offset(self, queue: MessageQueue) -> int:
        """Return where a member begins that takes a queue now; RocketpyError when that is not known."""
        begins = await self._begin_offsets.find([queue])
        if queue not in begins:
            raise ClientError(UNSPECIFIED, f"the offset to begin {queue} at is not known")
        return begins[queue]

    async def _read(self, reader: QueueReader, scope: trio.CancelScope) -> None:
        with scope:
            await reader.run()
