"""A pull consumer in its group: its share of the topics that it is registered for, its offsets, what brokers ask.

A pull consumer that is registered for no topic has no share, and divides no queues.

Compatibility: ``DefaultMQPullConsumerImpl`` and ``RebalancePullImpl`` (4.9.8). Heartbeats name version 0 for the
registered topics, so that they never replace what members with handlers subscribe to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack

import attrs
import trio

from rocketpy.client.consumer.config import PullConfig
from rocketpy.client.consumer.group.knowledge import GroupKnowledge
from rocketpy.client.consumer.group.member_commands import MemberCommands, PullMemberReport
from rocketpy.client.consumer.group.membership import LEAVE_SECONDS, Membership
from rocketpy.client.consumer.group.rebalance import RebalanceService
from rocketpy.client.consumer.group.requests import GroupRequests
from rocketpy.client.consumer.group.subscriptions import Subscriptions
from rocketpy.client.consumer.offsets.offset_store import OffsetStore
from rocketpy.client.consumer.offsets.opening import persist_regularly
from rocketpy.client.instance import ClientInstance
from rocketpy.protocol.bodies.heartbeat import SUB_ALL, ConsumerData, ConsumeType, SubscriptionData
from rocketpy.protocol.message import MessageQueue


class BalancedQueues:
    """The queues that a rebalance has given to a program that pulls them itself."""

    def __init__(self, store: OffsetStore) -> None:
        self._store = store
        self._assigned: set[MessageQueue] = set()
        self._first_change = trio.Event()

    @property
    def assigned(self) -> Collection[MessageQueue]:
        """The queues of all topics."""
        return self._assigned

    async def wait_assigned(self) -> None:
        """Return when the first rebalance is over, or the member leaves."""
        await self._first_change.wait()

    def let_go(self) -> None:
        """Wait for no rebalance any more: the member leaves."""
        self._first_change.set()

    async def change(self, dropped: Sequence[MessageQueue], added: Sequence[MessageQueue]) -> bool:
        """Give queues up, their offsets stored, then take others."""
        self._assigned.difference_update(dropped)
        await self._store.persist(dropped)
        for queue in (*dropped, *added):  # another member may have consumed it meanwhile
            self._store.table.forget(queue)
        self._assigned.update(added)
        self._first_change.set()
        return True


class PullMember:
    """One member. Its tasks run in a nursery that its owner passes in."""

    def __init__(
        self,
        *,
        instance: ClientInstance,
        group: str,
        topics: Sequence[str],
        config: PullConfig,
        store: OffsetStore,
        pulled: Callable[[], Mapping[str, SubscriptionData]],
        nursery: trio.Nursery,
    ) -> None:
        """``pulled`` returns what has been pulled of other topics, for heartbeats."""
        self._instance = instance
        self._group = group
        self._config = config
        self._store = store
        self._pulled = pulled
        self._nursery = nursery
        self._leaving = ExitStack()
        self._subscriptions = Subscriptions(instance.clock.timestamp_ms)
        for topic in topics:
            self._subscriptions.add(topic, SUB_ALL)
        requests = GroupRequests(instance=instance, group=group, randomness=instance.randomness)
        self._membership = Membership(
            instance=instance, group=group, subscriptions=self._subscriptions, data=self._consumer_data
        )
        self.queues = BalancedQueues(store)
        self.rebalance = RebalanceService(
            group=group,
            client_id=instance.client_id,
            strategy=None if config.is_broadcasting else config.allocate_message_queue_strategy,
            knowledge=GroupKnowledge(self._subscriptions, instance, requests),
            assignment=self.queues,
            on_unlisted=instance.heartbeats.wake,
            is_paused=lambda: False,
        )
        self._report = PullMemberReport(
            instance, self._subscriptions, instance.clock.timestamp_ms(), self._settings(config)
        )

    @property
    def topics(self) -> list[str]:
        """The topics that the member is registered for."""
        return self._subscriptions.topics

    async def join(self) -> None:
        """Join the group; ClientError if the client has a consumer of it."""
        with ExitStack() as stack:
            self._membership.register()
            handlers = {
                **MemberCommands(self.rebalance, self._store.table, self._instance.answers).handlers,
                **self._report.handlers,
            }
            stack.enter_context(self._instance.broker_requests.handling(self._group, handlers))
            if self.topics:
                await self._membership.join()
                self._nursery.start_soon(self.rebalance.run)
                self._nursery.start_soon(self._instance.reconnects.notify, self.rebalance.wake)
            self._leaving = stack.pop_all()
        self._nursery.start_soon(
            persist_regularly, self._store.persist_soon, self._storable, self._config.persist_consumer_offset_interval
        )

    async def leave(self) -> None:
        """Store what is committed and unregister; bounded in time, also when cancelled."""
        with self._leaving:
            self.rebalance.changes.close()
            self.queues.let_go()
            with trio.move_on_after(LEAVE_SECONDS, shield=True):
                await self._store.persist(self._storable())
            await self._membership.leave()

    # ---- private --------------------------------------------------------------------------------------------------

    def _storable(self) -> list[MessageQueue]:
        """Return the queues whose offsets are this member's: not those that a rebalance has given to another."""
        topics, assigned = self.topics, self.queues.assigned
        return [each for each in self._store.table.of_topic("") if each.topic not in topics or each in assigned]

    def _consumer_data(self) -> ConsumerData:
        registered = [attrs.evolve(each, sub_version=0) for each in self._subscriptions.values]
        others = [each for topic, each in self._pulled().items() if topic not in self.topics]
        return ConsumerData(
            group_name=self._group,
            consume_type=ConsumeType.CONSUME_ACTIVELY.value,
            message_model=self._config.message_model.value,
            subscription_data_set=[*registered, *others],
        )

    def _settings(self, config: PullConfig) -> Mapping[str, object]:
        return {
            "consumerGroup": self._group,
            "messageModel": config.message_model.value,
            "allocateMessageQueueStrategy": config.allocate_message_queue_strategy.name,
            "consumerPullTimeoutMillis": config.consumer_pull_timeout,
            "maxReconsumeTimes": config.max_reconsume_times,
        }
