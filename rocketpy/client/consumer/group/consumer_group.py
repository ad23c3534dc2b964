"""A member of a consumer group: its subscriptions, its queues, and what it tells brokers.

The layers below know nothing of it: readers pull single queues, offset stores keep progress, the rebalance service
decides which queues there are. What is done with messages is for the layer above, a :class:`MessageSink`.

Rule: a queue is consumed only while it is in :attr:`ConsumerGroup.process_queues`, and an acknowledgement counts only
for the process queue that it came from.

Compatibility: ``DefaultMQPushConsumerImpl`` and ``RebalancePushImpl`` (4.9.8). A queue of an orderly consumer is handed
over when its handler has come to its end, whose result counts; in Java the result is lost. A queue whose lock was lost
is given up and locked again, and its messages are pulled again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Protocol

import attrs
import trio

from rocketpy.client.consumer.config import ConsumerConfig
from rocketpy.client.consumer.group.queue_locks import QueueLocks
from rocketpy.client.consumer.group.rebalance import RebalanceService
from rocketpy.client.consumer.group.requests import GroupRequests
from rocketpy.client.consumer.group.subscriptions import Subscriptions
from rocketpy.client.consumer.message_selector import MessageSelector
from rocketpy.client.consumer.offsets.offset_store import OffsetStore
from rocketpy.client.consumer.queue.flow_limits import FlowLimits, flow_limits
from rocketpy.client.consumer.queue.process_queue import ProcessQueue
from rocketpy.client.consumer.queue.reader import QueueReader
from rocketpy.client.consumer.queue.requests import QueueRequests
from rocketpy.client.consumer.start import offset_without_progress
from rocketpy.client.instance import ClientInstance
from rocketpy.errors import RocketpyError
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.heartbeat import (
    EXPRESSION_TYPE_TAG,
    CheckClientRequestBody,
    ConsumerData,
    SubscriptionData,
)
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.message import MessageExt, MessageQueue
from rocketpy.protocol.topic_name import RETRY_PREFIX

HALF_AN_HOUR_MS = 30 * 60 * 1000
LEAVE_SECONDS = 3.0
"""How long storing offsets and giving locks back may take when a member leaves."""
ANNOUNCE_SECONDS = 1.0
"""How long a first heartbeat may take before the queues are pulled all the same."""
IDLE_SECONDS = 1.0
"""How long a rebalance waits for the handler of an orderly queue that is given up."""


class MessageSink(Protocol):
    """What is done with messages."""

    def deliver(self, process_queue: ProcessQueue, messages: Sequence[MessageExt], pull_seconds: float) -> None:
        """Take messages that have been pulled; they are in the process queue."""
        ...

    async def wait_idle(self, process_queue: ProcessQueue) -> None:
        """Return when no handler has messages of this queue."""
        ...


@attrs.frozen
class _Assigned:
    process_queue: ProcessQueue
    scope: trio.CancelScope  # of its reader


class ConsumerGroup:
    """One member of a group. Its tasks run in a nursery that its owner passes in."""

    def __init__(
        self,
        *,
        instance: ClientInstance,
        group: str,
        config: ConsumerConfig,
        subscriptions: Subscriptions,
        store: OffsetStore,
        queue_requests: QueueRequests,
        requests: GroupRequests,
        locks: QueueLocks,
        sink: MessageSink,
        nursery: trio.Nursery,
        is_orderly: bool,
    ) -> None:
        self.group = group
        self.config = config
        self.subscriptions = subscriptions
        self.store = store
        self.is_orderly = is_orderly
        self.may_pull = trio.Event()
        self.may_pull.set()
        self.started_at_ms = instance.clock.timestamp_ms()
        self._instance = instance
        self._queue_requests = queue_requests
        self._sink = sink
        self._nursery = nursery
        self._scope = trio.CancelScope()
        self._assigned: dict[MessageQueue, _Assigned] = {}
        self._locking: frozenset[MessageQueue] = frozenset()  # perhaps locked, not assigned yet
        self._first_change = trio.Event()
        self._requests = requests
        self._locks = locks
        self.rebalance = RebalanceService(
            group=group,
            client_id=instance.client_id,
            strategy=None if config.is_broadcasting else config.allocate_message_queue_strategy,
            knowledge=_Knowledge(subscriptions, instance, requests),
            assignment=self,
            on_unlisted=instance.heartbeats.wake,
            is_paused=lambda: not self.may_pull.is_set(),
        )

    # ---- membership -----------------------------------------------------------------------------------------------

    def register(self) -> None:
        """Have heartbeats name the group; ClientError if the client has a consumer of it. Then :meth:`join`."""
        self._instance.heartbeats.add_consumer(self.group, self._consumer_data)

    async def join(self) -> None:
        """Join the group and begin to consume; BrokerError for a filter that a broker does not understand.

        A topic without a route is no failure: its queues are taken when it has one.
        """
        has_joined = False
        try:
            for topic in self.subscriptions.topics:
                with suppress(RocketpyError):
                    await self._instance.routes.look_up_again(topic)
            for subscription in self.subscriptions.values:
                await self._check_filter(subscription)
            await self.announce()
            has_joined = True
        finally:
            if not has_joined:
                await self._instance.heartbeats.remove_consumer(self.group)
        self._nursery.start_soon(self._run_services)

    async def leave(self) -> None:
        """Stop pulling, store the offsets, give locks back and unregister; bounded in time, also when cancelled."""
        self._scope.cancel()
        with trio.move_on_after(LEAVE_SECONDS, shield=True):
            queues = list(self._assigned)
            for assigned in self._assigned.values():
                assigned.process_queue.is_dropped = True
                assigned.scope.cancel()
            await self.store.persist(queues)
            if self._locks.is_needed:
                await self._requests.unlock({*queues, *self._locking})
            self._assigned.clear()
        await self._instance.heartbeats.remove_consumer(self.group)

    async def wait_assigned(self) -> None:
        """Return when the first rebalance is over."""
        await self._first_change.wait()

    async def announce(self) -> None:
        """Send a heartbeat, and wait a little for its answers."""
        with trio.move_on_after(ANNOUNCE_SECONDS) as waiting:
            await self._instance.heartbeats.send()
        if waiting.cancelled_caught:
            self._instance.heartbeats.wake()

    def suspend(self) -> None:
        """Stop pulling and rebalancing; messages that are here are still consumed."""
        if self.may_pull.is_set():
            self.may_pull = trio.Event()

    def resume(self) -> None:
        """Go on after :meth:`suspend`."""
        self.may_pull.set()
        self.rebalance.wake()

    def subscribe(self, topic: str, selector: str | MessageSelector) -> None:
        """Consume one more topic, or change what is wanted of it; ClientError for a bad expression."""
        self.subscriptions.add(topic, selector)
        self._nursery.start_soon(self._announce_change)

    def unsubscribe(self, topic: str) -> None:
        """Consume a topic no longer; its queues are given up with the next rebalance, which is soon."""
        self.subscriptions.remove(topic)
        self._nursery.start_soon(self._announce_change)

    # ---- the queues -----------------------------------------------------------------------------------------------

    @property
    def assigned(self) -> Collection[MessageQueue]:
        """The queues that this member has."""
        return self._assigned.keys()

    @property
    def process_queues(self) -> list[ProcessQueue]:
        """What is in flight, queue by queue."""
        return [each.process_queue for each in self._assigned.values()]

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
            await self.announce()
            is_complete = await self._take(added) and is_complete
        self._first_change.set()
        return is_complete

    def move_to(self, queue: MessageQueue, queue_offset: int) -> None:
        """Begin an assigned queue anew at an offset: what is in flight is forgotten, results no longer count."""
        assigned = self._assigned.get(queue)
        if assigned is None:
            return
        assigned.process_queue.is_dropped = True
        assigned.process_queue.clear()
        assigned.scope.cancel()
        self.store.table.update(queue, queue_offset, increase_only=False)
        self._begin(queue, queue_offset, like=assigned.process_queue)

    def lose(self, process_queue: ProcessQueue) -> None:
        """Give up a queue that another member may have: without a word about its offset."""
        assigned = self._assigned.get(process_queue.queue)
        if assigned is None or assigned.process_queue is not process_queue:
            return
        self._forget(assigned)
        self.rebalance.wake()

    # ---- for readers and the layer above --------------------------------------------------------------------------

    def subscription_of(self, topic: str) -> SubscriptionData | None:
        """Return the subscription to a topic."""
        return self.subscriptions.get(topic)

    def memory_offset(self, queue: MessageQueue) -> int | None:
        """Return the offset that may be committed."""
        return self.store.table.get(queue)

    def note_fruitless(self, process_queue: ProcessQueue, next_offset: int) -> None:
        """Note that nothing below this offset concerns the group."""
        if not process_queue.is_dropped:
            self.store.table.update(process_queue.queue, next_offset)

    def deliver(self, process_queue: ProcessQueue, messages: Sequence[MessageExt], pull_seconds: float) -> None:
        """Hand messages of a queue that is still assigned to the layer above."""
        if not process_queue.is_dropped:
            self._sink.deliver(process_queue, messages, pull_seconds)

    def read_anew(self, process_queue: ProcessQueue, queue_offset: int) -> None:
        """Go on where the broker says, because the offset does not exist."""
        if not process_queue.is_dropped:
            self.move_to(process_queue.queue, queue_offset)

    # ---- private --------------------------------------------------------------------------------------------------

    async def _run_services(self) -> None:
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.rebalance.run)
                nursery.start_soon(self._persist_regularly)
                if self._locks.is_needed:
                    nursery.start_soon(self._locks.run, lambda: self.process_queues, self.lose)

    async def _persist_regularly(self) -> None:
        while True:
            await trio.sleep(self.config.persist_consumer_offset_interval / 1000)
            await self.store.persist_soon(list(self._assigned))

    async def _announce_change(self) -> None:
        for topic in self.subscriptions.topics:
            if self._instance.routes.table.subscribe_queues(topic) is None:
                with suppress(RocketpyError):
                    await self._instance.routes.look_up_again(topic)
        await self.announce()
        self.rebalance.wake()

    def _consumer_data(self) -> ConsumerData:
        return ConsumerData(
            group_name=self.group,
            message_model=self.config.message_model.value,
            consume_from_where=self.config.consume_from_where.value,
            subscription_data_set=self.subscriptions.values,
        )

    async def _check_filter(self, subscription: SubscriptionData) -> None:
        """Ask a broker whether it understands an expression; BrokerError if not."""
        addresses = self._instance.routes.table.addresses_of_topic(subscription.topic)
        if subscription.expression_type == EXPRESSION_TYPE_TAG or not addresses:
            return
        body = CheckClientRequestBody(self._instance.client_id, self.group, subscription)
        request = make_request(RequestCode.CHECK_CLIENT_CONFIG, body=encode_body(body))
        await self._instance.request(self._instance.randomness.choice(addresses), request)

    async def _give_up(self, leaving: Sequence[_Assigned]) -> bool:
        for assigned in leaving:
            assigned.scope.cancel()
            assigned.process_queue.is_leaving = True
        if self.is_orderly:
            # The lock keeps other members out until the handler has ended; its result counts.
            with trio.move_on_after(IDLE_SECONDS):
                async with trio.open_nursery() as nursery:
                    for assigned in leaving:
                        nursery.start_soon(self._sink.wait_idle, assigned.process_queue)
            busy = [each for each in leaving if each.process_queue.is_consuming]
            for each in busy:
                each.process_queue.try_unlock_count += 1
        else:
            busy = []
        idle = [each for each in leaving if each not in busy]
        for assigned in idle:
            assigned.process_queue.is_dropped = True
        queues = [each.process_queue.queue for each in idle]
        await self.store.persist(queues)
        if self._locks.is_needed:
            await self._requests.unlock(queues)
        for assigned in idle:
            self._forget(assigned)
        return not busy

    def _forget(self, assigned: _Assigned) -> None:
        process_queue = assigned.process_queue
        process_queue.is_dropped = True
        process_queue.clear()
        assigned.scope.cancel()
        if self._assigned.get(process_queue.queue) is assigned:
            del self._assigned[process_queue.queue]
            self.store.table.forget(process_queue.queue)
            self._queue_requests.forget(process_queue.queue)

    async def _take(self, queues: Sequence[MessageQueue]) -> bool:
        wanted = set(queues)
        if self._locks.is_needed:
            self._locking = frozenset(queues)
            wanted, _ = await self._requests.lock(queues)
        begins: dict[MessageQueue, int] = {}
        async with trio.open_nursery() as nursery:
            for queue in wanted:
                self.store.table.forget(queue)
                nursery.start_soon(self._find_begin, queue, begins)
        for queue in sorted(begins):
            self._begin(queue, begins[queue])
        self._locking = frozenset()
        return len(begins) == len(queues)

    async def _find_begin(self, queue: MessageQueue, begins: dict[MessageQueue, int]) -> None:
        config = self.config
        with suppress(RocketpyError):  # it is tried again with the next rebalance
            stored = await self.store.fetch(queue)
            if stored is not None and stored >= 0:
                self.store.table.update(queue, stored, increase_only=False)
                begins[queue] = stored
                return
            timestamp_ms = config.consume_timestamp
            if timestamp_ms is None:
                timestamp_ms = self.started_at_ms - HALF_AN_HOUR_MS
            begins[queue] = await offset_without_progress(
                queue, self._queue_requests, config.consume_from_where, timestamp_ms
            )

    def _begin(self, queue: MessageQueue, queue_offset: int, *, like: ProcessQueue | None = None) -> None:
        process_queue = ProcessQueue(queue)
        if like is None:
            self._locks.note_locked(process_queue)
        else:
            process_queue.is_locked, process_queue.locked_at_ms = like.is_locked, like.locked_at_ms
            process_queue.locked_at = like.locked_at
        reader = QueueReader(
            process_queue=process_queue,
            next_offset=queue_offset,
            limits=self._limits,
            config=self.config,
            exception_pause_s=self._instance.config.pull_time_delay_when_exception / 1000,
            puller=self._queue_requests,
            owner=self,
            clock=self._instance.clock,
        )
        scope = trio.CancelScope()
        self._assigned[queue] = _Assigned(process_queue, scope)
        self._nursery.start_soon(self._read, reader, scope)

    async def _read(self, reader: QueueReader, scope: trio.CancelScope) -> None:
        with scope:
            await reader.run()

    def _limits(self) -> FlowLimits:
        return flow_limits(self.config, queue_count=len(self._assigned), is_orderly=self.is_orderly)


@attrs.frozen
class _Knowledge:
    """Topics, queues and members, as far as they are known."""

    subscriptions: Subscriptions
    instance: ClientInstance
    requests: GroupRequests

    def topics(self) -> list[str]:
        return self.subscriptions.topics

    async def queues(self, topic: str) -> list[MessageQueue] | None:
        queues = self.instance.routes.table.subscribe_queues(topic)
        if queues is None:
            with suppress(RocketpyError):
                await self.instance.routes.look_up_again(topic)
            queues = self.instance.routes.table.subscribe_queues(topic)
        return queues

    async def member_ids(self, topic: str) -> list[str] | None:
        return await self.requests.member_ids(topic)


def retry_topic_of(group: str) -> str:
    """Return the topic to which messages of a group come back."""
    return RETRY_PREFIX + group
