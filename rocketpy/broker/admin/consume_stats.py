"""Consumption progress of groups by queue: offsets, lag and store times.

A broker may have a hundred thousand queues. The response is therefore encoded in pieces, with other tasks running in
between; joined, the pieces have exactly the bytes that the generic encoder produces.

GET_BROKER_CONSUME_STATS lists all groups with their topics and covers write queues; GET_CONSUME_STATS covers read
queues, as in RocketMQ. The lag of a group that has consumed a whole queue is 0, even if retention deleted the messages.

Compatibility: ``AdminBrokerProcessor`` (4.9.8).
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import trio

from rocketpy.broker.acl.needs import STRICT_ADMIN, STRICT_SUB_PROGRESS, STRICT_SUB_TOPIC_AND_OTHER_GROUP
from rocketpy.broker.clients.consumers import ConsumerManager
from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.metadata.groups import SubscriptionGroupManager
from rocketpy.broker.metadata.offsets import ConsumerOffsetManager
from rocketpy.broker.metadata.topics import TopicConfigManager
from rocketpy.broker.monitoring.broker_stats_manager import BrokerStatsManager
from rocketpy.clock import Clock
from rocketpy.errors import RequestError
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.stats import (
    ConsumeStats,
    ConsumeStatsList,
    OffsetWrapper,
    QueryConsumeTimeSpanBody,
    QueueTimeSpan,
    queue_time_span,
)
from rocketpy.protocol.bodies.topic import TopicConfig
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.fastjson import dumps
from rocketpy.protocol.headers.admin import GetConsumeStatsInBrokerHeader, GetConsumeStatsRequestHeader
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.topic import QueryConsumeTimeSpanRequestHeader
from rocketpy.protocol.message import MessageQueue
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.store.message_store import MessageStore

_ENTRIES_BEGIN, _ENTRIES_END = len(encode_body(ConsumeStats())) - 2, -2
"""Position for the offset table's entries in an encoded ConsumeStats: before the closing braces of table and object."""

QUEUES_PER_SLICE = 64
SHOWN_MAX = 255
"""Characters of a name that a remark repeats: a response must fit into a frame."""


@attrs.define(eq=False, kw_only=True)
class ConsumeStatsProcessor:
    """Serves GET_CONSUME_STATS, GET_BROKER_CONSUME_STATS and QUERY_CONSUME_TIME_SPAN. One per broker."""

    _config: BrokerConfig
    _broker_addr: str
    _topic_config_manager: TopicConfigManager
    _subscription_group_manager: SubscriptionGroupManager
    _consumer_manager: ConsumerManager
    _consumer_offset_manager: ConsumerOffsetManager
    _stats: BrokerStatsManager
    _store: MessageStore
    _clock: Clock

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the request codes, as tasks: each may read from disk."""
        dispatcher.register_task(
            RequestCode.GET_CONSUME_STATS, self.process_get_consume_stats, needs=STRICT_SUB_PROGRESS
        )
        dispatcher.register_task(
            RequestCode.GET_BROKER_CONSUME_STATS, self.process_get_broker_consume_stats, needs=STRICT_ADMIN
        )
        dispatcher.register_task(
            RequestCode.QUERY_CONSUME_TIME_SPAN,
            self.process_query_consume_time_span,
            needs=STRICT_SUB_TOPIC_AND_OTHER_GROUP,
        )

    async def process_get_consume_stats(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Return a group's progress in one topic, or in all with offsets, and its consumption rate per second."""
        header = read_header(request, GetConsumeStatsRequestHeader)
        group = header.consumer_group
        topics = self._consumer_offset_manager.which_topic_by_consumer(group)
        if header.topic and header.topic.strip():
            topics = [header.topic]
        tables: list[bytes] = []
        consume_tps = 0.0
        for config in self._consumed(group, topics):
            entries, _ = await self._offsets(group, config.topic_name, config.read_queue_nums)
            if entries:
                tables.append(entries)
            consume_tps += self._stats.tps_group_get_nums(group, config.topic_name)
        return make_response(request, body=_consume_stats(consume_tps, b",".join(tables)))

    async def process_get_broker_consume_stats(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        """Return the progress of every group by topic; only of ordered topics if the header says so."""
        header = read_header(request, GetConsumeStatsInBrokerHeader)
        groups: list[bytes] = []
        total_diff = 0
        for group in list(self._subscription_group_manager.subscription_group_table):
            stats_of_group: list[bytes] = []
            topics = self._consumer_offset_manager.which_topic_by_consumer(group)
            for config in self._consumed(group, topics):
                if header.is_order and not config.order:
                    continue
                entries, diff = await self._offsets(group, config.topic_name, config.write_queue_nums)
                total_diff += diff
                tps = self._stats.tps_group_get_nums(group, config.topic_name)
                stats_of_group.append(_consume_stats(tps, entries))
            groups.append(b"{" + dumps(group).encode() + b":[" + b",".join(stats_of_group) + b"]}")
        empty = encode_body(ConsumeStatsList(broker_addr=self._broker_addr, total_diff=total_diff))
        begin, key, end = empty.partition(b'"consumeStatsList":[')
        return make_response(request, body=begin + key + b",".join(groups) + end)

    async def process_query_consume_time_span(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        """Return each queue's store times: of the first and last message, and at the group's offset."""
        header = read_header(request, QueryConsumeTimeSpanRequestHeader)
        config = self._topic_config_manager.select_topic_config(header.topic)
        if config is None:
            raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic[:SHOWN_MAX]}] not exist")
        spans = [
            encode_body(await self._time_span(header.group, header.topic, queue_id))
            for queue_id in range(config.write_queue_nums)
        ]
        empty = encode_body(QueryConsumeTimeSpanBody())
        return make_response(request, body=empty[:-2] + b",".join(spans) + empty[-2:])

    # ---- private --------------------------------------------------------------------------------------------------

    def _consumed(self, group: str, topics: list[str]) -> Iterator[TopicConfig]:
        """Return the topics that exist and, when the group is online, that it subscribes to."""
        online = self._consumer_manager.get_consumer_group_info(group)
        subscribed = online.subscription_table if online is not None else None
        for topic in topics:
            config = self._topic_config_manager.select_topic_config(topic)
            if config is not None and (not subscribed or topic in subscribed):
                yield config

    async def _offsets(self, group: str, topic: str, queue_nums: int) -> tuple[bytes, int]:
        """Return the encoded entries of an offset table, and the group's total lag in them."""
        pieces: list[bytes] = []
        total_diff = 0
        for first in range(0, queue_nums, QUEUES_PER_SLICE):
            await trio.lowlevel.checkpoint()
            offsets = {
                MessageQueue(topic, self._config.broker_name, queue_id): await self._progress(group, topic, queue_id)
                for queue_id in range(first, min(first + QUEUES_PER_SLICE, queue_nums))
            }
            total_diff += sum(each.broker_offset - each.consumer_offset for each in offsets.values())
            pieces.append(encode_body(ConsumeStats(offset_table=offsets))[_ENTRIES_BEGIN:_ENTRIES_END])
        return b",".join(pieces), total_diff

    async def _progress(self, group: str, topic: str, queue_id: int) -> OffsetWrapper:
        broker_offset = max(0, self._store.max_offset_in_queue(topic, queue_id))
        consumer_offset = max(0, self._consumer_offset_manager.query_offset(group, topic, queue_id))
        timestamp = 0
        if consumer_offset > 0:
            timestamp = max(0, await self._store.store_timestamp_of(topic, queue_id, consumer_offset - 1))
        return OffsetWrapper(broker_offset=broker_offset, consumer_offset=consumer_offset, last_timestamp=timestamp)

    async def _time_span(self, group: str, topic: str, queue_id: int) -> QueueTimeSpan:
        consumer_offset = self._consumer_offset_manager.query_offset(group, topic, queue_id)
        times = await self._store.queue_time_span(topic, queue_id, consumer_offset)
        delay_ms = 0
        if times.next_timestamp_ms is not None:
            delay_ms = self._clock.timestamp_ms() - times.next_timestamp_ms
        return queue_time_span(
            QueueTimeSpan(
                message_queue=MessageQueue(topic, self._config.broker_name, queue_id),
                min_time_stamp=times.min_timestamp_ms,
                max_time_stamp=times.max_timestamp_ms,
                consume_time_stamp=times.consume_timestamp_ms,
                delay_time=delay_ms,
            )
        )


def _consume_stats(consume_tps: float, entries: bytes) -> bytes:
    empty = encode_body(ConsumeStats(consume_tps=consume_tps))
    return empty[:_ENTRIES_END] + entries + empty[_ENTRIES_END:]
