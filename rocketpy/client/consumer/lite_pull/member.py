"""A lite pull consumer in its group: the layers that it shares with other members, put together for polls.

Its queues come from a rebalance, as those of every member, or from the program itself (:class:`ChosenQueues`): then
heartbeats name no subscription, so that no other member counts on this one.

Compatibility: ``DefaultLitePullConsumerImpl`` and ``RebalanceLitePullImpl`` (4.9.8).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import trio

from rocketpy.client.broker_requests import Handler
from rocketpy.client.consumer.group.assigned_queues import AssignedQueues
from rocketpy.client.consumer.group.begin_offsets import BeginOffsets
from rocketpy.client.consumer.group.knowledge import GroupKnowledge
from rocketpy.client.consumer.group.member_commands import MemberCommands, PullMemberReport
from rocketpy.client.consumer.group.membership import LEAVE_SECONDS, Membership
from rocketpy.client.consumer.group.queue_locks import QueueLocks
from rocketpy.client.consumer.group.rebalance import RebalanceService
from rocketpy.client.consumer.group.requests import GroupRequests
from rocketpy.client.consumer.group.subscriptions import Subscriptions
from rocketpy.client.consumer.lite_pull.chosen_queues import ChosenQueues, SoughtOffsets
from rocketpy.client.consumer.lite_pull.config import LitePullConfig, lite_flow_limits, lite_pull_plan
from rocketpy.client.consumer.lite_pull.pulled_messages import PulledMessages
from rocketpy.client.consumer.offsets.offset_store import OffsetStore, OffsetTable
from rocketpy.client.consumer.offsets.opening import persist_regularly
from rocketpy.client.consumer.queue.pull_gate import PullGate
from rocketpy.client.consumer.queue.requests import QueueRequests
from rocketpy.client.instance import ClientInstance
from rocketpy.protocol.bodies.heartbeat import ConsumerData, ConsumeType
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.message import MessageQueue


class LitePullMember:
    """One member. Its tasks run in a nursery that its owner passes in."""

    def __init__(
        self,
        *,
        instance: ClientInstance,
        group: str,
        config: LitePullConfig,
        subscriptions: Subscriptions,
        chosen: ChosenQueues | None,
        store: OffsetStore,
        queue_requests: QueueRequests,
        gate: PullGate,
        progress: OffsetTable,
        pulled: PulledMessages,
        nursery: trio.Nursery,
    ) -> None:
        """``progress`` is what polls have returned, ``store`` what is committed. Without ``chosen`` it rebalances."""
        self.chosen = chosen
        self._group = group
        self._config = config
        self._instance = instance
        self._subscriptions = subscriptions
        self._store = store
        self._progress = progress
        self._pulled = pulled
        self._nursery = nursery
        self._scope = trio.CancelScope()
        requests = GroupRequests(instance=instance, group=group, randomness=instance.randomness)
        started_at_ms = instance.clock.timestamp_ms()
        self.membership = Membership(
            instance=instance, group=group, subscriptions=subscriptions, data=self._consumer_data
        )
        self.sought = SoughtOffsets(
            BeginOffsets(config, store, queue_requests, started_at_ms, instance.states), progress
        )
        self.queues = AssignedQueues(
            instance=instance,
            plan=lite_pull_plan(config),
            limits=lambda count: lite_flow_limits(config),
            gate=gate,
            subscriptions=subscriptions,
            store=store,
            progress=progress,
            queue_requests=queue_requests,
            locks=QueueLocks(requests=requests, clock=instance.clock, is_needed=False),
            begin_offsets=self.sought,
            sink=pulled,
            nursery=nursery,
            is_orderly=False,
            announce=self.membership.announce,
            on_lost=lambda: self.rebalance.wake(),
        )
        takes_all = chosen is not None or config.is_broadcasting
        self.rebalance = RebalanceService(
            group=group,
            client_id=instance.client_id,
            strategy=None if takes_all else config.allocate_message_queue_strategy,
            knowledge=chosen or GroupKnowledge(subscriptions, instance, requests),
            assignment=self.queues,
            on_unlisted=instance.heartbeats.wake,
            is_paused=lambda: False,
        )
        self._report = PullMemberReport(instance, subscriptions, started_at_ms, self._settings)

    @property
    def handlers(self) -> Mapping[RequestCode, Handler]:
        """Handlers of requests from brokers, by request code."""
        return {
            **MemberCommands(self.rebalance, self._store.table, self._instance.answers).handlers,
            **self._report.handlers,
        }

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues that the program may seek, in order."""
        return sorted(self.queues.assigned) if self.chosen is None else self.chosen.chosen

    async def join(self) -> None:
        """Join the group and begin to pull; BrokerError for a filter that a broker does not understand."""
        await self.membership.join()
        self._nursery.start_soon(self._run_services)

    async def leave(self) -> None:
        """Stop pulling, store what is committed and unregister; bounded in time, also when cancelled."""
        self._scope.cancel()
        self.rebalance.changes.close()
        with trio.move_on_after(LEAVE_SECONDS, shield=True):
            await self.queues.leave()
        await self.membership.leave()

    def commit_polled(self, queues: Iterable[MessageQueue]) -> None:
        """Commit in memory what polls have returned of those of the queues that are assigned."""
        for queue in queues:
            queue_offset = self._progress.get(queue)
            if queue_offset is not None:
                self.commit_offset(queue, queue_offset)

    def commit_offset(self, queue: MessageQueue, queue_offset: int) -> None:
        """Commit an offset in memory, if the queue is assigned: what another member has committed must stay."""
        if queue in self.queues.assigned:
            self._store.table.update(queue, queue_offset, increase_only=False)

    def seek(self, queue: MessageQueue, queue_offset: int) -> None:
        """Go on at an offset: what has been pulled is forgotten, and a pull that waits is abandoned."""
        if queue in self.queues.assigned:
            self.queues.move_to(queue, queue_offset)
        else:
            self.sought.seek(queue, queue_offset)

    # ---- private --------------------------------------------------------------------------------------------------

    async def _run_services(self) -> None:
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.rebalance.run)
                nursery.start_soon(self._instance.reconnects.notify, self.rebalance.wake)
                nursery.start_soon(
                    persist_regularly,
                    self._store.persist_soon,
                    lambda: self.queues.assigned,
                    self._config.persist_consumer_offset_interval,
                )

    def _consumer_data(self) -> ConsumerData:
        return ConsumerData(
            group_name=self._group,
            consume_type=ConsumeType.CONSUME_ACTIVELY.value,
            message_model=self._config.message_model.value,
            subscription_data_set=self._subscriptions.values if self.chosen is None else [],
        )

    @property
    def _settings(self) -> Mapping[str, object]:
        config = self._config
        return {
            "consumerGroup": self._group,
            "messageModel": config.message_model.value,
            "consumeFromWhere": config.consume_from_where.value,
            "allocateMessageQueueStrategy": config.allocate_message_queue_strategy.name,
            "autoCommit": str(config.auto_commit).lower(),
            "autoCommitIntervalMillis": config.auto_commit_interval,
            "pollTimeoutMillis": config.poll_timeout,
            "pullBatchSize": config.pull_batch_size,
            "pullThresholdForAll": config.pull_threshold_for_all,
            "pullThresholdForQueue": config.pull_threshold_for_queue,
            "pullThresholdSizeForQueue": config.pull_threshold_size_for_queue,
            "consumeMaxSpan": config.consume_max_span,
            "brokerSuspendMaxTimeMillis": config.broker_suspend_max_time,
            "consumerTimeoutMillisWhenSuspend": config.consumer_timeout_when_suspend,
            "topicMetadataCheckIntervalMillis": config.topic_metadata_check_interval,
        }
