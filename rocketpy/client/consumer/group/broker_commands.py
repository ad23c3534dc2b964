"""Requests of brokers to a member with handlers: rebalance, reset offsets, report, consume one message.

Compatibility: ``ClientRemotingProcessor`` and ``DefaultMQPushConsumerImpl`` (4.9.8). Offsets are reset at once; in Java
the consumer stops for ten seconds before. A report has no ``jstack``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial

import attrs
import trio

from rocketpy.client.broker_requests import Handler
from rocketpy.client.consumer.config import ConsumerConfig
from rocketpy.client.consumer.consumer_stats import ConsumerStats
from rocketpy.client.consumer.group.consumer_group import ConsumerGroup
from rocketpy.client.consumer.group.member_commands import (
    QUEUES_PER_TURN,
    MemberCommands,
    encoded_queues,
    member_properties,
)
from rocketpy.client.consumer.queue.flow_limits import MIB
from rocketpy.client.consumer.queue.process_queue import ProcessQueue
from rocketpy.client.instance import ClientInstance
from rocketpy.errors import RequestError
from rocketpy.protocol.bodies.codec import decode_peer_body, encode_body
from rocketpy.protocol.bodies.heartbeat import ConsumeType
from rocketpy.protocol.bodies.offset import ResetOffsetBody
from rocketpy.protocol.bodies.running import (
    PROP_CONSUME_ORDERLY,
    PROP_THREADPOOL_CORE_SIZE,
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    ProcessQueueInfo,
)
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.headers.client import (
    ConsumeMessageDirectlyResultRequestHeader,
    ResetOffsetRequestHeader,
)
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.message import MessageExt, MessageQueue
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.remoting.connection import Connection

ConsumeDirectly = Callable[[MessageExt], Awaitable[ConsumeMessageDirectlyResult]]


@attrs.define(eq=False)
class BrokerCommands:
    """The handlers of one member; ``consume`` hands one message to the program's handler."""

    group: ConsumerGroup
    instance: ClientInstance
    stats: ConsumerStats
    consume: ConsumeDirectly
    tasks: int = 0
    """How many handlers may run at once."""

    @property
    def handlers(self) -> Mapping[RequestCode, Handler]:
        """The handlers by request code."""
        return {
            **MemberCommands(self.group.rebalance, self.group.store.table, self.instance.answers).handlers,
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self._reset_offset,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self._consume_directly,
        }

    async def _reset_offset(self, connection: Connection, request: RemotingCommand) -> None:
        header = read_header(request, ResetOffsetRequestHeader)
        wanted = [each for each in self.group.queues.assigned if each.topic == header.topic]
        if not wanted:
            return
        offsets = await self.instance.answers.decoded(request.body, partial(_offsets_of, wanted))
        for queue, offset in offsets.items():
            self.group.queues.move_to(queue, offset)
        await self.group.store.persist(offsets)

    async def _running_info(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        now = trio.current_time()
        subscriptions = self.group.subscriptions
        queues: dict[MessageQueue, ProcessQueueInfo] = {}
        for number, each in enumerate(self.group.queues.process_queues, 1):
            queues[each.queue] = self._queue_info(each)
            if number % QUEUES_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
        info = ConsumerRunningInfo(
            properties=self._properties(),
            subscription_set=subscriptions.values,
            mq_table=queues,
            status_table={topic: self.stats.status(topic, now) for topic in subscriptions.topics},
        )
        body = await encoded_queues(self.instance.answers, info, len(queues))
        return make_response(request, body=body)

    async def _consume_directly(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        header = read_header(request, ConsumeMessageDirectlyResultRequestHeader)
        decode = partial(decode_messages, broker_name=header.broker_name or "", count_max=1)
        messages = await self.instance.answers.unpacked(request.body, decode)
        if len(messages) != 1:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"expected one message, found {len(messages)}")
        return make_response(request, body=encode_body(await self.consume(messages[0])))

    def _properties(self) -> dict[str, str]:
        return {
            **{name: str(value) for name, value in _facade_fields(self.group.group, self.group.config).items()},
            PROP_CONSUME_ORDERLY: str(self.group.is_orderly).lower(),
            PROP_THREADPOOL_CORE_SIZE: str(self.tasks),
            **member_properties(self.instance, self.group.started_at_ms, ConsumeType.CONSUME_PASSIVELY),
        }

    def _queue_info(self, process_queue: ProcessQueue) -> ProcessQueueInfo:
        lowest, highest = process_queue.bounds or (0, 0)
        taken = [each.queue_offset for each in process_queue.taken]
        return ProcessQueueInfo(
            commit_offset=self.group.queues.memory_offset(process_queue.queue) or 0,
            cached_msg_min_offset=lowest,
            cached_msg_max_offset=highest,
            cached_msg_count=process_queue.message_count - len(taken),
            cached_msg_size_in_mib=process_queue.size_bytes // MIB,
            transaction_msg_min_offset=min(taken, default=0),
            transaction_msg_max_offset=max(taken, default=0),
            transaction_msg_count=len(taken),
            locked=process_queue.is_locked,
            try_unlock_times=process_queue.try_unlock_count,
            last_lock_timestamp=process_queue.locked_at_ms,
            dropped=process_queue.is_dropped or process_queue.is_leaving,
            last_pull_timestamp=process_queue.pulled_at_ms,
            last_consume_timestamp=process_queue.consumed_at_ms,
        )


def _offsets_of(queues: Collection[MessageQueue], body: bytes) -> dict[MessageQueue, int]:
    """Return the offsets of these queues in a reset; the table of a broker may have a hundred thousand of others."""
    table = decode_peer_body(body, ResetOffsetBody).offset_table
    return {queue: table[queue] for queue in queues if table.get(queue, -1) >= 0}


def _facade_fields(group: str, config: ConsumerConfig) -> dict[str, object]:
    """Return the settings under the names of Java's fields."""
    return {
        "consumerGroup": group,
        "messageModel": config.message_model.value,
        "consumeFromWhere": config.consume_from_where.value,
        "consumeConcurrentlyMaxSpan": config.consume_concurrently_max_span,
        "pullThresholdForQueue": config.pull_threshold_for_queue,
        "pullThresholdSizeForQueue": config.pull_threshold_size_for_queue,
        "pullThresholdForTopic": config.pull_threshold_for_topic,
        "pullThresholdSizeForTopic": config.pull_threshold_size_for_topic,
        "pullInterval": config.pull_interval,
        "consumeMessageBatchMaxSize": config.consume_message_batch_max_size,
        "pullBatchSize": config.pull_batch_size,
        "postSubscriptionWhenPull": str(config.post_subscription_when_pull).lower(),
        "maxReconsumeTimes": config.max_reconsume_times,
        "suspendCurrentQueueTimeMillis": config.suspend_current_queue_time_millis,
        "consumeTimeout": f"{config.consume_timeout:g}",
        "allocateMessageQueueStrategy": config.allocate_message_queue_strategy.name,
    }
