"""Consumes topics as a member of a group: each message goes to one of its members, or to all if it is broadcasting.

::

    async with client.consumer("g", "T") as consumer:
        async for batch in consumer:           # acknowledged when the body of the loop has come round
            for message in batch:
                ...

    await consumer.run(handler, tasks=20)      # or: batches of all queues to concurrent handlers
    await consumer.run_orderly(handler)        # or: each queue in order

The consumer joins its group with the first of these, and leaves it with its block: then offsets are stored, locks given
back and brokers notified. Every message is handled at least once; it is redelivered if its handler fails, or if the
consumer ends before its offset is stored.

Compatibility: ``DefaultMQPushConsumer`` (4.9.8).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager

import attrs
import trio

from rocketpy.client.callers import hands_over
from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.client.consumer.concurrently import ConcurrentConsumption, ConcurrentHandler
from rocketpy.client.consumer.config import ConsumerConfig
from rocketpy.client.consumer.consume_hooks import ConsumeHooks
from rocketpy.client.consumer.consumer_stats import ConsumerStatistics, ConsumerStats
from rocketpy.client.consumer.direct_consumption import DirectConsumption
from rocketpy.client.consumer.group.assignment_changes import AssignmentIterator
from rocketpy.client.consumer.group.broker_commands import BrokerCommands
from rocketpy.client.consumer.group.consumer_group import ConsumerGroup, retry_topic_of
from rocketpy.client.consumer.group.queue_locks import QueueLocks
from rocketpy.client.consumer.group.requests import GroupRequests
from rocketpy.client.consumer.group.subscriptions import Subscriptions
from rocketpy.client.consumer.handler_failure import log_of_group
from rocketpy.client.consumer.message_selector import MessageSelector
from rocketpy.client.consumer.offsets.offset_store import OffsetStore
from rocketpy.client.consumer.offsets.opening import open_offset_store
from rocketpy.client.consumer.orderly import OrderlyConsumption, OrderlyHandler
from rocketpy.client.consumer.queue.requests import QueueRequests
from rocketpy.client.consumer.send_back import SendBack
from rocketpy.client.hooks import ConsumeMessageHook, FilterMessageHook
from rocketpy.client.instance import ClientInstance
from rocketpy.client.namespace import Namespace
from rocketpy.client.readiness import missing_membership, missing_name_server, missing_routes, wait_until_ready
from rocketpy.client.scope import unwrapped
from rocketpy.client.validators import UNSPECIFIED, check_async, check_group
from rocketpy.errors import ClientError, LocalProtocolError
from rocketpy.protocol.bodies.heartbeat import SUB_ALL
from rocketpy.protocol.message import MessageQueue

TASKS = 20
"""Handlers that may run at once, as Java has threads."""


@asynccontextmanager
async def consumer_role(
    instance: ClientInstance,
    group: str,
    topics: Mapping[str, str | MessageSelector],
    config: ConsumerConfig,
    *,
    consume_hooks: Sequence[ConsumeMessageHook] = (),
    filter_hooks: Sequence[FilterMessageHook] = (),
) -> AsyncIterator[Consumer]:
    """Open a consumer in a client; at the end of the block it leaves its group."""
    namespace = Namespace(instance.namespace)
    group = namespace.wrap(group)
    check_group(group)
    subscriptions = Subscriptions(instance.clock.timestamp_ms)
    for topic, selector in topics.items():
        subscriptions.add(namespace.wrap(topic), selector)
    if not config.is_broadcasting:
        subscriptions.add(retry_topic_of(group), SUB_ALL)
    async with unwrapped(trio.open_nursery()) as nursery:
        consumer = Consumer(
            instance=instance,
            group=group,
            config=config,
            subscriptions=subscriptions,
            namespace=namespace,
            consume_hooks=consume_hooks,
            filter_hooks=filter_hooks,
            nursery=nursery,
        )
        try:
            yield consumer
        finally:
            nursery.cancel_scope.cancel()
            await consumer._leave()


class Consumer:
    """Member of a group. Created by :meth:`Client.consumer`.

    Raises ClientError where it joins the group, if the client has a consumer of that group; BrokerError, if a broker
    does not understand an SQL92 expression.
    """

    def __init__(
        self,
        *,
        instance: ClientInstance,
        group: str,
        config: ConsumerConfig,
        subscriptions: Subscriptions,
        namespace: Namespace,
        consume_hooks: Sequence[ConsumeMessageHook],
        filter_hooks: Sequence[FilterMessageHook],
        nursery: trio.Nursery,
    ) -> None:
        self._instance = instance
        self._group_name = group
        self._config = config
        self._subscriptions = subscriptions
        self._namespace = namespace
        self._hooks = None
        if consume_hooks:
            self._hooks = ConsumeHooks(group=group, namespace=namespace.name, hooks=consume_hooks)
        self._filter_hooks = filter_hooks
        self._nursery = nursery
        self._stats = ConsumerStats()
        self._member: _Member | None = None
        # Joining awaits answers of brokers, and a consumer joins once.
        self._joining = trio.Lock()
        self._joining_scope = trio.CancelScope()  # of the join that is under way; the task may outlive the block
        self._has_ended = False
        # Leaving awaits answers of brokers, and the end of the block may come meanwhile.
        self._leaving = trio.Lock()
        self._has_left = False

    # ---- styles ---------------------------------------------------------------------------------------------------

    async def run(
        self,
        handler: ConcurrentHandler,
        *,
        tasks: int = TASKS,
        fail_fast_s: float | None = None,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Call a handler with each batch, so many at once, until cancelled.

        What the handler returns or raises is the acknowledgement; None is success. A handler that takes longer than
        ``consume_timeout`` is cancelled. Started with ``nursery.start``, it returns when the first queues are assigned.
        ValueError for fewer than one task. With ``fail_fast_s`` it raises as :meth:`wait_ready` does; without, it waits
        for nameservers and topics for as long as that takes.
        """
        check_async(handler)
        _check_tasks(tasks)
        member = await self._start(is_orderly=False, fail_fast_s=fail_fast_s)
        if member is None:
            task_status.started()
            return
        member.direct.handler = handler
        member.commands.tasks = tasks
        await member.group.queues.wait_assigned()
        task_status.started()
        assert isinstance(member.sink, ConcurrentConsumption), "it has joined as such"
        await member.sink.run(handler, tasks)

    async def run_orderly(
        self,
        handler: OrderlyHandler,
        *,
        tasks: int = TASKS,
        fail_fast_s: float | None = None,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Call a handler with the batches of each queue in their order, one at a time, until cancelled.

        Brokers lock the queues for this member. A batch that fails is handled again before any later one. Started with
        ``nursery.start``, it returns when the first queues are assigned. ValueError for fewer than one task.
        ``fail_fast_s`` is as for :meth:`run`.
        """
        check_async(handler)
        _check_tasks(tasks)
        member = await self._start(is_orderly=True, fail_fast_s=fail_fast_s)
        if member is None:
            task_status.started()
            return
        member.direct.handler = handler
        member.commands.tasks = tasks
        await member.group.queues.wait_assigned()
        task_status.started()
        assert isinstance(member.sink, OrderlyConsumption), "it has joined as such"
        await member.sink.run(handler, tasks, lambda: member.group.queues.process_queues)

    def __aiter__(self) -> BatchIterator:
        """Iterate over batches; each is acknowledged when the next is asked for, unless it is settled by then."""
        return self.batches()

    def batches(self, *, acknowledges: bool = True) -> BatchIterator:
        """Return an iterator of its own, for one task; without ``acknowledges`` the program settles each batch.

        A batch that is not settled within ``consume_timeout`` is sent back.
        """
        return BatchIterator(self, acknowledges=acknowledges)

    # ---- control --------------------------------------------------------------------------------------------------

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues that this member consumes now, in order."""
        if self._member is None:
            return []
        return self._namespace.unwrap_queues(sorted(self._member.group.queues.assigned))

    async def wait_assigned(self) -> list[MessageQueue]:
        """Join the group, if that has not happened, and return the queues of the first rebalance.

        Only for a consumer that is not orderly; an orderly one joins with :meth:`run_orderly`.
        """
        is_orderly = self._member is not None and self._member.group.is_orderly
        member = await self._join(is_orderly=is_orderly)
        if member is not None:
            await member.group.queues.wait_assigned()
        return self.assigned

    async def wait_ready(self, timeout_s: float) -> None:
        """Return when a nameserver answers, every topic has queues, and the group has given this member its share.

        NotReadyError if that is not so in time: its ``missing`` says what is not there, and why. The consumer goes on
        trying. It joins the group if nothing has made it join; an orderly one joins with :meth:`run_orderly`.
        """
        await wait_until_ready(self._instance, timeout_s, lambda: self._missing(is_orderly=None))

    def assignment_changes(self) -> AssignmentIterator:
        """Iterate over the changes of the assigned queues, beginning with those that are assigned now.

        It ends with the consumer. LocalProtocolError before the consumer has joined its group.
        """
        if self._member is None:
            raise LocalProtocolError("the consumer has not joined its group: expected wait_ready() or a run before")
        return AssignmentIterator(self._member.group.rebalance.changes, self._namespace)

    def statistics(self) -> ConsumerStatistics:
        """Return counters, and what is in memory: for metrics."""
        return self._stats.statistics(() if self._member is None else self._member.group.queues.process_queues)

    def subscribe(self, topic: str, selector: str | MessageSelector = SUB_ALL) -> None:
        """Consume one more topic, or change what is wanted of it; ClientError for a bad expression."""
        topic = self._namespace.wrap(topic)
        if self._member is None:
            self._subscriptions.add(topic, selector)
        else:
            self._member.group.subscribe(topic, selector)

    def unsubscribe(self, topic: str) -> None:
        """Consume a topic no longer."""
        topic = self._namespace.wrap(topic)
        if self._member is None:
            self._subscriptions.remove(topic)
        else:
            self._member.group.unsubscribe(topic)

    def suspend(self) -> None:
        """Pull nothing more; messages that are here are still handled. The assigned queues stay assigned."""
        if self._member is not None:
            self._member.group.suspend()

    def resume(self) -> None:
        """Go on after :meth:`suspend`."""
        if self._member is not None:
            self._member.group.resume()

    async def drain(self, timeout_s: float) -> bool:
        """Finish what is in hand and leave the group; True if all of it was finished within ``timeout_s``.

        No further batch is handed out, also of what has been pulled already: it is for other members. Batches that have
        begun come to their end, a loop by asking for the next. Then offsets are committed, queue locks are released and
        the member leaves, which takes four seconds at most, and runs and loops end without an error. What is not
        finished in time is cancelled, in plain code left to end, and delivered again. A handler must not wait for it:
        that would be its own end. ValueError for a negative time.
        """
        if not timeout_s >= 0:
            raise ValueError(f"timeout_s is {timeout_s}, expected a time")
        self._has_ended = True
        self._joining_scope.cancel()
        is_finished = True
        if self._member is not None:
            self._member.group.suspend()
            with trio.move_on_after(timeout_s) as limit:
                await self._member.sink.drain()
            is_finished = not limit.cancelled_caught
            self._member.sink.cancel_handlers()
        await self._leave()
        return is_finished

    # ---- private --------------------------------------------------------------------------------------------------

    async def _next_batch(self) -> MessageBatch:
        member = await self._join(is_orderly=False)
        if member is None:
            raise StopAsyncIteration
        assert isinstance(member.sink, ConcurrentConsumption), "it has joined as such"
        try:
            return await member.sink.next_in_hand()
        except trio.EndOfChannel:
            raise StopAsyncIteration from None

    async def _start(self, *, is_orderly: bool, fail_fast_s: float | None) -> _Member | None:
        if fail_fast_s is not None:
            await wait_until_ready(self._instance, fail_fast_s, lambda: self._missing(is_orderly=is_orderly))
        return await self._join(is_orderly=is_orderly)

    async def _missing(self, *, is_orderly: bool | None) -> list[str]:
        """Return what the member lacks, which joins as soon as its topics have routes."""
        topics = [each for each in self._subscriptions.topics if each != retry_topic_of(self._group_name)]
        missing = await missing_name_server(self._instance) or await missing_routes(self._instance, topics)
        if missing:
            return missing
        member = await self._join(is_orderly=is_orderly)
        return [] if member is None else missing_membership(self._instance, member.group.rebalance, topics)

    async def _join(self, *, is_orderly: bool | None) -> _Member | None:
        """Join the group, if that has not happened; None when the block of the consumer has ended meanwhile.

        ``is_orderly`` None takes a member of either style, and joins as a concurrent one.
        """
        if self._member is None:  # not under the lock otherwise: each batch comes by here
            if self._has_ended:
                raise ClientError(UNSPECIFIED, f"the consumer of group {self._group_name} has ended")
            async with self._joining:
                if self._member is None and not self._has_ended:
                    with trio.CancelScope() as self._joining_scope:
                        self._member = await self._new_member(bool(is_orderly))
        if self._member is None:
            return None
        if is_orderly is not None and self._member.group.is_orderly != is_orderly:
            raise ClientError(UNSPECIFIED, f"the consumer of group {self._group_name} cannot be orderly and concurrent")
        return self._member

    async def _new_member(self, is_orderly: bool) -> _Member:
        instance, config, name = self._instance, self._config, self._group_name
        queue_requests = QueueRequests(instance=instance, group=name, filter_hooks=self._filter_hooks)
        requests = GroupRequests(instance=instance, group=name, randomness=instance.randomness)
        locks = QueueLocks(requests=requests, clock=instance.clock, is_needed=is_orderly and not config.is_broadcasting)
        store = await open_offset_store(instance, name, queue_requests, config)
        send_back = self._send_back(is_orderly=is_orderly)
        sink = self._orderly(store, locks, send_back) if is_orderly else self._concurrent(store, send_back)
        group = ConsumerGroup(
            instance=instance,
            group=name,
            config=config,
            subscriptions=self._subscriptions,
            store=store,
            queue_requests=queue_requests,
            requests=requests,
            locks=locks,
            sink=sink,
            nursery=self._nursery,
            is_orderly=is_orderly,
        )
        direct = DirectConsumption(retry_topic_of(name), is_orderly, config.auto_commit, namespace=self._namespace)
        member = _Member(group, sink, direct, BrokerCommands(group, instance, self._stats, direct.consume))
        send_back.on_sent_back = group.retry_route.note_sent_back
        if isinstance(sink, OrderlyConsumption):
            sink.on_left = group.rebalance.wake
        with ExitStack() as stack:
            stack.callback(sink.close)
            group.register()
            stack.enter_context(instance.broker_requests.handling(name, member.commands.handlers))
            await group.join()
            member.leaving = stack.pop_all()
        self._nursery.start_soon(self._stats.run)
        if isinstance(sink, ConcurrentConsumption):
            self._nursery.start_soon(sink.send_expired_back)
        return member

    def _concurrent(self, store: OffsetStore, send_back: SendBack) -> ConcurrentConsumption:
        return ConcurrentConsumption(
            config=self._config,
            send_back=send_back,
            offsets=store.table,
            retry_topic=retry_topic_of(self._group_name),
            stats=self._stats,
            clock=self._instance.clock,
            nursery=self._nursery,
            hooks=self._hooks,
            namespace=self._namespace,
            log=log_of_group(self._group_name),
        )

    def _orderly(self, store: OffsetStore, locks: QueueLocks, send_back: SendBack) -> OrderlyConsumption:
        return OrderlyConsumption(
            config=self._config,
            send_back=send_back,
            offsets=store.table,
            locks=locks,
            retry_topic=retry_topic_of(self._group_name),
            stats=self._stats,
            clock=self._instance.clock,
            hooks=self._hooks,
            namespace=self._namespace,
            log=log_of_group(self._group_name),
        )

    def _send_back(self, *, is_orderly: bool) -> SendBack:
        return SendBack(
            instance=self._instance,
            group=self._group_name,
            max_reconsume_times=self._config.reconsume_times_max(is_orderly=is_orderly),
            randomness=self._instance.randomness,
        )

    async def _leave(self) -> None:
        self._has_ended = True
        self._joining_scope.cancel()
        with trio.CancelScope(shield=True):  # a join that is cancelled tells the brokers so, in a bounded time
            async with self._joining:
                pass
        with trio.CancelScope(shield=True):  # the end of the block waits for a drain that leaves, and bounds its time
            async with self._leaving:
                if self._member is not None and not self._has_left:
                    self._has_left = True
                    with self._member.leaving:
                        await self._member.group.leave()


class BatchIterator:
    """Iterator over the batches of a consumer, for one task. Created by :meth:`Consumer.batches`.

    It ends when the consumer has left its group.
    """

    def __init__(self, consumer: Consumer, *, acknowledges: bool) -> None:
        self._consumer = consumer
        self._acknowledges = acknowledges
        self._current: MessageBatch | None = None

    def __aiter__(self) -> BatchIterator:
        return self

    @hands_over
    async def __anext__(self) -> MessageBatch:
        """Acknowledge the batch before, and wait for the next."""
        if self._acknowledges and self._current is not None:
            self._current.done_nowait()
        self._current = None
        self._current = await self._consumer._next_batch()
        return self._current


@attrs.define(eq=False)
class _Member:
    """The consumer while it is in its group."""

    group: ConsumerGroup
    sink: ConcurrentConsumption | OrderlyConsumption
    direct: DirectConsumption
    commands: BrokerCommands
    leaving: ExitStack = attrs.field(factory=ExitStack)


def _check_tasks(tasks: int) -> None:
    if tasks < 1:
        raise ValueError(f"tasks is {tasks}, expected at least 1: no handler would ever be called")
