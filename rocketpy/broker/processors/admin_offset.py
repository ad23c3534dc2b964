"""Where queues begin and end, where they were at a time, and how far groups have come.

Compatibility: ``AdminBrokerProcessor`` (4.9.8); broker.md 18. A queue that does not exist has the offsets 0 and no
earliest time (-1); a negative queue id is refused, where Java makes a queue of it.
"""

from __future__ import annotations

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.consumer_manager import ConsumerManager
from rocketpy.broker.consumer_offset import ConsumerOffsetManager
from rocketpy.broker.processors.request_body import check_range
from rocketpy.broker.topic_config import TopicConfigManager
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.group import ConsumerOffsetSerializeWrapper
from rocketpy.protocol.bodies.stats import ConsumeStats, OffsetWrapper
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.headers.admin import GetConsumeStatsRequestHeader
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.offset import (
    GetEarliestMsgStoretimeRequestHeader,
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetRequestHeader,
    GetMinOffsetResponseHeader,
    SearchOffsetRequestHeader,
    SearchOffsetResponseHeader,
)
from rocketpy.protocol.message import MessageQueue
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.store.message_store import MessageStore


class AdminOffsetProcessor:
    """Serves the codes about offsets. One per broker."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        topic_config_manager: TopicConfigManager,
        consumer_manager: ConsumerManager,
        consumer_offset_manager: ConsumerOffsetManager,
        store: MessageStore,
    ) -> None:
        self._config = config
        self._topic_config_manager = topic_config_manager
        self._consumer_manager = consumer_manager
        self._consumer_offset_manager = consumer_offset_manager
        self._store = store

    def register(self, dispatcher: Dispatcher) -> None:
        """Take the codes."""
        dispatcher.register_task(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, self.process_search_offset_by_timestamp)
        dispatcher.register(RequestCode.GET_MAX_OFFSET, self.process_get_max_offset)
        dispatcher.register(RequestCode.GET_MIN_OFFSET, self.process_get_min_offset)
        dispatcher.register_task(RequestCode.GET_EARLIEST_MSG_STORETIME, self.process_get_earliest_msg_storetime)
        dispatcher.register(RequestCode.GET_ALL_CONSUMER_OFFSET, self.process_get_all_consumer_offset)
        dispatcher.register_task(RequestCode.GET_CONSUME_STATS, self.process_get_consume_stats)

    async def process_search_offset_by_timestamp(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        """Answer the queue offset nearest to a time."""
        header = read_header(request, SearchOffsetRequestHeader)
        check_range(header, "queueId", header.queue_id, 0)
        offset = await self._store.offset_in_queue_by_time(header.topic, header.queue_id, header.timestamp)
        return make_response(request, header=SearchOffsetResponseHeader(offset))

    def process_get_max_offset(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Answer the queue offset that the next message will get."""
        header = read_header(request, GetMaxOffsetRequestHeader)
        check_range(header, "queueId", header.queue_id, 0)
        offset = self._store.max_offset_in_queue(header.topic, header.queue_id)
        return make_response(request, header=GetMaxOffsetResponseHeader(offset))

    def process_get_min_offset(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Answer the smallest queue offset that is still there."""
        header = read_header(request, GetMinOffsetRequestHeader)
        check_range(header, "queueId", header.queue_id, 0)
        offset = self._store.min_offset_in_queue(header.topic, header.queue_id)
        return make_response(request, header=GetMinOffsetResponseHeader(offset))

    async def process_get_earliest_msg_storetime(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        """Answer when the oldest message of a queue was stored."""
        header = read_header(request, GetEarliestMsgStoretimeRequestHeader)
        check_range(header, "queueId", header.queue_id, 0)
        min_offset = self._store.min_offset_in_queue(header.topic, header.queue_id)
        timestamp = -1
        if self._store.max_offset_in_queue(header.topic, header.queue_id) > min_offset:
            timestamp = await self._store.store_timestamp_of(header.topic, header.queue_id, min_offset)
        return make_response(request, header=GetEarliestMsgStoretimeResponseHeader(timestamp))

    def process_get_all_consumer_offset(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Answer the whole table: what a slave copies."""
        body = ConsumerOffsetSerializeWrapper(offset_table=self._consumer_offset_manager.offset_table)
        return make_response(request, body=encode_body(body))

    async def process_get_consume_stats(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Answer how far a group is in one topic or in all in which it has offsets."""
        header = read_header(request, GetConsumeStatsRequestHeader)
        group = header.consumer_group
        topics = self._consumer_offset_manager.which_topic_by_consumer(group)
        if header.topic and header.topic.strip():
            topics = [header.topic]
        online = self._consumer_manager.get_consumer_group_info(group)
        offset_table: dict[MessageQueue, OffsetWrapper] = {}
        for topic in topics:
            topic_config = self._topic_config_manager.select_topic_config(topic)
            is_foreign = online is not None and online.subscription_table and topic not in online.subscription_table
            if topic_config is None or is_foreign:
                continue
            for queue_id in range(topic_config.read_queue_nums):
                queue = MessageQueue(topic, self._config.broker_name, queue_id)
                offset_table[queue] = await self._progress(group, topic, queue_id)
        # Rates are statistics, which are not kept yet: 0 is what RocketMQ answers before its first sample.
        return make_response(request, body=encode_body(ConsumeStats(consume_tps=0.0, offset_table=offset_table)))

    async def _progress(self, group: str, topic: str, queue_id: int) -> OffsetWrapper:
        broker_offset = max(0, self._store.max_offset_in_queue(topic, queue_id))
        consumer_offset = max(0, self._consumer_offset_manager.query_offset(group, topic, queue_id))
        timestamp = 0
        if consumer_offset > 0:
            timestamp = max(0, await self._store.store_timestamp_of(topic, queue_id, consumer_offset - 1))
        return OffsetWrapper(broker_offset=broker_offset, consumer_offset=consumer_offset, last_timestamp=timestamp)
