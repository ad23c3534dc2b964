"""A member of a consumer group: how it joins and leaves, its subscriptions, and what it tells brokers.

Its queues are :class:`~.assigned_queues.AssignedQueues`; which ones it has, the rebalance service decides.

Compatibility: ``DefaultMQPushConsumerImpl`` (4.9.8).
"""

from __future__ import annotations

import trio

from rocketpy.client.consumer.config import ConsumerConfig
from rocketpy.client.consumer.group.assigned_queues import AssignedQueues, MessageSink
from rocketpy.client.consumer.group.begin_offsets import BeginOffsets
from rocketpy.client.consumer.group.knowledge import GroupKnowledge
from rocketpy.client.consumer.group.membership import LEAVE_SECONDS, Membership
from rocketpy.client.consumer.group.queue_locks import QueueLocks
from rocketpy.client.consumer.group.rebalance import RebalanceService
from rocketpy.client.consumer.group.requests import GroupRequests
from rocketpy.client.consumer.group.retry_route import RetryRoute
from rocketpy.client.consumer.group.subscriptions import Subscriptions
from rocketpy.client.consumer.message_selector import MessageSelector
from rocketpy.client.consumer.offsets.offset_store import OffsetStore
from rocketpy.client.consumer.offsets.opening import persist_regularly
from rocketpy.client.consumer.queue.flow_limits import flow_limits
from rocketpy.client.consumer.queue.pull_gate import PullGate
from rocketpy.client.consumer.queue.pull_plan import pull_plan
from rocketpy.client.consumer.queue.requests import QueueRequests
from rocketpy.client.instance import ClientInstance
from rocketpy.protocol.bodies.heartbeat import ConsumerData
from rocketpy.protocol.topic_name import RETRY_PREFIX


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
        self.started_at_ms = instance.clock.timestamp_ms()
        self._instance = instance
        self._nursery = nursery
        self._scope = trio.CancelScope()
        self._locks = locks
        self.membership = Membership(
            instance=instance, group=group, subscriptions=subscriptions, data=self._consumer_data
        )
        self.queues = AssignedQueues(
            instance=instance,
            plan=pull_plan(config),
            limits=lambda count: flow_limits(config, queue_count=count, is_orderly=is_orderly),
            gate=PullGate(),
            subscriptions=subscriptions,
            store=store,
            progress=store.table,
            queue_requests=queue_requests,
            locks=locks,
            begin_offsets=BeginOffsets(config, store, queue_requests, self.started_at_ms, instance.states),
            sink=sink,
            nursery=nursery,
            is_orderly=is_orderly,
            announce=self.membership.announce,
            on_lost=lambda: self.rebalance.wake(),
        )
        self.rebalance = RebalanceService(
            group=group,
            client_id=instance.client_id,
            strategy=None if config.is_broadcasting else config.allocate_message_queue_strategy,
            knowledge=GroupKnowledge(subscriptions, instance, requests),
            assignment=self.queues,
            on_unlisted=instance.heartbeats.wake,
            is_paused=lambda: self.queues.gate.is_suspended,
        )

        self.retry_route = RetryRoute(
            routes=instance.routes, retry_topic=retry_topic_of(group), rebalance=self.rebalance.wake
        )

    def register(self) -> None:
        """Have heartbeats name the group; ClientError if the client has a consumer of it. Then :meth:`join`."""
        self.membership.register()

    async def join(self) -> None:
        """Join the group and begin to consume; BrokerError for a filter that a broker does not understand.

        A topic without a route is no failure: its queues are taken when it has one.
        """
        await self.membership.join()
        self._nursery.start_soon(self._run_services)

    async def leave(self) -> None:
        """Stop pulling, store the offsets, give locks back and unregister; bounded in time, also when cancelled."""
        self._scope.cancel()
        self.rebalance.changes.close()
        with trio.move_on_after(LEAVE_SECONDS, shield=True):
            await self.queues.leave()
        await self.membership.leave(keeps_locks=self.queues.is_consuming)

    def suspend(self) -> None:
        """Stop pulling and rebalancing; messages that are here are still consumed."""
        self.queues.suspend()

    def resume(self) -> None:
        """Go on after :meth:`suspend`."""
        self.queues.resume()
        self.rebalance.wake()

    def subscribe(self, topic: str, selector: str | MessageSelector) -> None:
        """Consume one more topic, or change what is wanted of it; ClientError for a bad expression."""
        self.subscriptions.add(topic, selector)
        self._nursery.start_soon(self._announce_change)

    def unsubscribe(self, topic: str) -> None:
        """Consume a topic no longer; its queues are given up with the next rebalance, which is soon."""
        self.subscriptions.remove(topic)
        self.membership.forget_topic(topic)
        self._nursery.start_soon(self._announce_change)

    # ---- private --------------------------------------------------------------------------------------------------

    async def _run_services(self) -> None:
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.rebalance.run)
                nursery.start_soon(self.retry_route.run)
                nursery.start_soon(self._instance.reconnects.notify, self.rebalance.wake)
                nursery.start_soon(
                    persist_regularly,
                    self.store.persist_soon,
                    lambda: self.queues.assigned,
                    self.config.persist_consumer_offset_interval,
                )
                if self._locks.is_needed:
                    nursery.start_soon(self._keep_locks)

    async def _keep_locks(self) -> None:
        with self._instance.remoting.reporting_ends(self._locks.connection_ended):
            await self._locks.run(lambda: self.queues.process_queues, self.queues.lose)

    async def _announce_change(self) -> None:
        await self.membership.announce_change()
        self.rebalance.wake()

    def _consumer_data(self) -> ConsumerData:
        return ConsumerData(
            group_name=self.group,
            message_model=self.config.message_model.value,
            consume_from_where=self.config.consume_from_where.value,
            subscription_data_set=self.subscriptions.values,
        )


def retry_topic_of(group: str) -> str:
    """Return the topic to which messages of a group come back."""
    return RETRY_PREFIX + group
