"""GET_CONSUMER_LIST_BY_GROUP, UPDATE_CONSUMER_OFFSET and QUERY_CONSUMER_OFFSET: what rebalancing consumers ask.

Compatibility: ``ConsumerManageProcessor`` (4.9.8); broker.md 9 and 11. A negative queue id or offset is refused, where
Java stores it.
"""

from __future__ import annotations

import attrs

from rocketpy.broker.consumer_manager import ConsumerManager
from rocketpy.broker.consumer_offset import ConsumerOffsetManager
from rocketpy.broker.processors.request_body import check_name, check_range
from rocketpy.errors import RequestError
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.group import GetConsumerListByGroupResponseBody
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.headers.client import GetConsumerListByGroupRequestHeader, GetConsumerListByGroupResponseHeader
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.offset import (
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    UpdateConsumerOffsetRequestHeader,
    UpdateConsumerOffsetResponseHeader,
)
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.store.message_store import MessageStore


@attrs.define(eq=False, kw_only=True)
class ConsumerManageProcessor:
    """Serves the three codes. One per broker."""

    _consumer_manager: ConsumerManager
    _consumer_offset_manager: ConsumerOffsetManager
    _store: MessageStore

    def register(self, dispatcher: Dispatcher) -> None:
        """Take the codes."""
        dispatcher.register(RequestCode.GET_CONSUMER_LIST_BY_GROUP, self.process_get_consumer_list_by_group)
        dispatcher.register(RequestCode.UPDATE_CONSUMER_OFFSET, self.process_update_consumer_offset)
        dispatcher.register(RequestCode.QUERY_CONSUMER_OFFSET, self.process_query_consumer_offset)

    def process_get_consumer_list_by_group(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Answer the ids of a group's members."""
        header = read_header(request, GetConsumerListByGroupRequestHeader)
        group = self._consumer_manager.get_consumer_group_info(header.consumer_group)
        if group is None:
            return make_response(
                request,
                ResponseCode.SYSTEM_ERROR,
                f"no consumer for this group, {header.consumer_group}",
                header=GetConsumerListByGroupResponseHeader(),
            )
        body = GetConsumerListByGroupResponseBody(consumer_id_list=group.client_ids)
        return make_response(request, header=GetConsumerListByGroupResponseHeader(), body=encode_body(body))

    def process_update_consumer_offset(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Remember how far a group is; any topic and any offset is believed, as long as there are not too many."""
        header = read_header(request, UpdateConsumerOffsetRequestHeader)
        check_name(header, "consumerGroup", header.consumer_group)
        check_name(header, "topic", header.topic)
        check_range(header, "queueId", header.queue_id, 0)
        check_range(header, "commitOffset", header.commit_offset, 0)
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        if not self._consumer_offset_manager.has_room_for(group, topic, queue_id):
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"no offset is kept for consumerGroup {group}, topic {topic}, queueId {queue_id}: there are too many",
            )
        self._consumer_offset_manager.commit_offset(connection.peer, group, topic, queue_id, header.commit_offset)
        return make_response(request, header=UpdateConsumerOffsetResponseHeader())

    def process_query_consumer_offset(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Answer how far a group is; a group without offset begins at 0 while the queue still begins there."""
        header = read_header(request, QueryConsumerOffsetRequestHeader)
        offset = self._consumer_offset_manager.query_offset(header.consumer_group, header.topic, header.queue_id)
        if offset < 0:
            offset = 0
            if header.queue_id < 0 or not self._is_young(header.topic, header.queue_id):
                raise RequestError(
                    ResponseCode.QUERY_NOT_FOUND, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
                )
        return make_response(request, header=QueryConsumerOffsetResponseHeader(offset))

    def _is_young(self, topic: str, queue_id: int) -> bool:
        if self._store.min_offset_in_queue(topic, queue_id) > 0:
            return False
        return not self._store.check_in_disk_by_consume_offset(topic, queue_id, 0)
