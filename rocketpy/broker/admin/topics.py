"""Administration of topics: create, change, delete, list, and the offsets of their queues.

A change is in the file and registered with the nameservers before it is answered, so clients may send at once.

Compatibility: ``AdminBrokerProcessor`` (4.9.8). Queue counts and permissions are bounded here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs
import trio

from rocketpy.broker.acl.needs import ADMIN, STRICT_ADMIN, STRICT_SUB_TOPIC
from rocketpy.broker.admin.slave_refusal import refuse_on_slave
from rocketpy.broker.clients.consumers import ConsumerManager
from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.metadata.offsets import ConsumerOffsetManager
from rocketpy.broker.metadata.persistence import persist_change
from rocketpy.broker.metadata.topic_deletions import TopicDeletions
from rocketpy.broker.metadata.topic_names import check_topic_name
from rocketpy.broker.metadata.topics import QUEUE_NUMS_MAX, TopicConfigManager
from rocketpy.broker.monitoring.broker_stats_manager import BrokerStatsManager
from rocketpy.broker.request_body import check_range
from rocketpy.errors import RequestError
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.group import GroupList
from rocketpy.protocol.bodies.route import TopicList
from rocketpy.protocol.bodies.stats import TopicOffset, TopicStatsTable
from rocketpy.protocol.bodies.topic import RecordMark, ReplicatedTopics, TopicConfig
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.topic import (
    CreateTopicRequestHeader,
    DeleteTopicRequestHeader,
    GetAllTopicConfigResponseHeader,
    GetTopicStatsInfoRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
)
from rocketpy.protocol.message import MessageQueue
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.remoting.whole_answer import WholeAnswers
from rocketpy.store.message_store import MessageStore

_QUEUES_PER_TURN = 500


@attrs.define(eq=False, kw_only=True)
class AdminTopicProcessor:
    """Serves the topic codes. One per broker. ``register_topics`` registers with every nameserver and never fails."""

    _config: BrokerConfig
    _topic_config_manager: TopicConfigManager
    _consumer_manager: ConsumerManager
    _consumer_offset_manager: ConsumerOffsetManager
    _deletions: TopicDeletions
    _store: MessageStore
    _stats: BrokerStatsManager
    _whole_answers: WholeAnswers
    _register_topics: Callable[[], Awaitable[None]]
    _is_slave: bool

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the request codes."""
        dispatcher.register_task(RequestCode.UPDATE_AND_CREATE_TOPIC, self.process_update_and_create_topic, needs=ADMIN)
        dispatcher.register_task(RequestCode.DELETE_TOPIC_IN_BROKER, self.process_delete_topic, needs=ADMIN)
        dispatcher.register_task(
            RequestCode.GET_ALL_TOPIC_CONFIG, self.process_get_all_topic_config, needs=STRICT_ADMIN
        )
        dispatcher.register_task(
            RequestCode.GET_TOPIC_STATS_INFO, self.process_get_topic_stats_info, needs=STRICT_SUB_TOPIC
        )
        dispatcher.register(
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, self.process_query_topic_consume_by_who, needs=STRICT_SUB_TOPIC
        )
        dispatcher.register(
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, self.process_get_system_topic_list, needs=STRICT_ADMIN
        )

    async def process_update_and_create_topic(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        """Create a topic or replace its configuration; ``order`` is ignored, as in RocketMQ."""
        refuse_on_slave(is_slave=self._is_slave)
        header = read_header(request, CreateTopicRequestHeader)
        self._check_may_change(header.topic)
        check_range(header, "readQueueNums", header.read_queue_nums, 0, QUEUE_NUMS_MAX)
        check_range(header, "writeQueueNums", header.write_queue_nums, 0, QUEUE_NUMS_MAX)
        check_range(header, "perm", header.perm, 0, 7)
        self._topic_config_manager.update_topic_config(
            TopicConfig(
                topic_name=header.topic,
                read_queue_nums=header.read_queue_nums,
                write_queue_nums=header.write_queue_nums,
                perm=header.perm,
                topic_filter_type=header.topic_filter_type,
                topic_sys_flag=header.topic_sys_flag or 0,
            )
        )
        await persist_change(self._topic_config_manager.stored)
        await self._register_topics()
        return make_response(request)

    async def process_delete_topic(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Delete a topic, its queues and the offsets of its groups, whether or not it exists; for slaves too."""
        refuse_on_slave(is_slave=self._is_slave)
        header = read_header(request, DeleteTopicRequestHeader)
        self._check_may_change(header.topic)
        self._topic_config_manager.delete_topic_config(header.topic)
        await self._deletions.delete(header.topic)
        await persist_change(*self._deletions.stored, self._topic_config_manager.stored)
        if self._config.auto_delete_unused_stats:
            self._stats.on_topic_deleted(header.topic)
        return make_response(request)

    async def process_get_all_topic_config(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Return the whole table, as a slave requests it."""
        body = await self._whole_answers.encode_table(connection, "all topics", self._version, self._all_topics)
        return make_response(request, header=GetAllTopicConfigResponseHeader(), body=body)

    async def process_get_topic_stats_info(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Return min offset, max offset and last store time of every write queue."""
        topic = read_header(request, GetTopicStatsInfoRequestHeader).topic
        topic_config = self._topic_config_manager.select_topic_config(topic)
        if topic_config is None:
            raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
        offset_table = {}
        for queue_id in range(topic_config.write_queue_nums):
            if queue_id % _QUEUES_PER_TURN == _QUEUES_PER_TURN - 1:
                await trio.lowlevel.checkpoint()
            max_offset = max(0, self._store.max_offset_in_queue(topic, queue_id))
            last_update = 0
            if max_offset > 0:
                last_update = await self._store.store_timestamp_of(topic, queue_id, max_offset - 1)
            offset_table[MessageQueue(topic, self._config.broker_name, queue_id)] = TopicOffset(
                min_offset=max(0, self._store.min_offset_in_queue(topic, queue_id)),
                max_offset=max_offset,
                last_update_timestamp=last_update,
            )
        body = await self._whole_answers.encode(
            connection, "the queues of the topic", TopicStatsTable(offset_table=offset_table)
        )
        return make_response(request, body=body)

    def process_query_topic_consume_by_who(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Return the groups that subscribe to a topic or have offsets in it."""
        topic = read_header(request, QueryTopicConsumeByWhoRequestHeader).topic
        groups = set(self._consumer_manager.query_topic_consume_by_who(topic))
        groups.update(self._consumer_offset_manager.which_group_by_topic(topic))
        return make_response(request, body=encode_body(GroupList(group_list=sorted(groups))))

    def process_get_system_topic_list(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Return the broker's own topics."""
        body = TopicList(topic_list=self._topic_config_manager.system_topics())
        return make_response(request, body=encode_body(body))

    # ---- private --------------------------------------------------------------------------------------------------

    def _version(self) -> object:
        return self._topic_config_manager.data_version, self._deletions.deleted.stored.change_count

    def _all_topics(self) -> object:
        wrapper = self._topic_config_manager.wrapper()
        if not self._deletions.deleted:
            return wrapper
        marks = {
            topic: RecordMark(mark.offset, mark.size, mark.digest)
            for topic, mark in self._deletions.deleted
            if not mark.is_beginning
        }
        return ReplicatedTopics(wrapper.topic_config_table, wrapper.data_version, marks)

    def _check_may_change(self, topic: str) -> None:
        check_topic_name(topic)
        if self._topic_config_manager.is_system_topic(topic):
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"The topic[{topic}] is conflict with system topic.")
