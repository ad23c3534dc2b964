"""GET_CONSUMER_LIST_BY_GROUP, UPDATE_CONSUMER_OFFSET and QUERY_CONSUMER_OFFSET: requests of rebalancing consumers.

Compatibility: ``ConsumerManageProcessor`` (4.9.8). A negative queue id or offset is refused, where
Java stores it. What a slave brings home is not stored once a reset has revoked it, and the slave is answered that. It
never lowers an offset.
"""

from __future__ import annotations

import attrs

from rocketpy.broker.acl.needs import STRICT_SUB_TOPIC_AND_GROUP, SUB_GROUP, SUB_TOPIC_AND_GROUP
from rocketpy.broker.clients.consumers import ConsumerManager
from rocketpy.broker.metadata.offset_resets import OffsetResets
from rocketpy.broker.metadata.offsets import ConsumerOffsetManager
from rocketpy.broker.request_body import check_name, check_range
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
from rocketpy.remoting.deferred import DEFERRED, Deferred
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.store.message_store import MessageStore

_TOO_MANY_READS = "[OVERLOAD]too many reads from disk are running, try again in a while"


@attrs.define(eq=False, kw_only=True)
class ConsumerManageProcessor:
    """Processor of the three codes. One per broker."""

    _consumer_manager: ConsumerManager
    _consumer_offset_manager: ConsumerOffsetManager
    _offset_resets: OffsetResets
    _store: MessageStore

    def register(self, dispatcher: Dispatcher) -> None:
        """Register for the codes."""
        dispatcher.register(
            RequestCode.GET_CONSUMER_LIST_BY_GROUP, self.process_get_consumer_list_by_group, needs=SUB_GROUP
        )
        dispatcher.register(
            RequestCode.UPDATE_CONSUMER_OFFSET, self.process_update_consumer_offset, needs=SUB_TOPIC_AND_GROUP
        )
        dispatcher.register(
            RequestCode.QUERY_CONSUMER_OFFSET, self.process_query_consumer_offset, needs=STRICT_SUB_TOPIC_AND_GROUP
        )

    def process_get_consumer_list_by_group(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Return the client ids of a group's members."""
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
        """Commit a group's offset; any topic and offset is accepted, up to the limit on their number."""
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
        if header.is_brought_home and self._offset_resets.revokes(
            f"{topic}@{group}", queue_id, header.commit_offset, header.committed_ago
        ):
            return make_response(request, header=UpdateConsumerOffsetResponseHeader(is_revoked=True))
        # The slave has asked for the group's offset before: a client may have committed a higher one meanwhile.
        own = self._consumer_offset_manager.query_offset(group, topic, queue_id) if header.is_brought_home else -1
        if header.commit_offset > own:
            self._consumer_offset_manager.commit_offset(connection.peer, group, topic, queue_id, header.commit_offset)
        return make_response(request, header=UpdateConsumerOffsetResponseHeader())

    def process_query_consumer_offset(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand | Deferred:
        """Return a group's offset; 0 for a group without one if the queue still has its first message in memory.

        That is known from the queue's first unit. If the unit is cold, a task reads it.
        """
        header = read_header(request, QueryConsumerOffsetRequestHeader)
        topic, queue_id = header.topic, header.queue_id
        offset = self._consumer_offset_manager.query_offset(header.consumer_group, topic, queue_id)
        if offset >= 0:
            return make_response(request, header=QueryConsumerOffsetResponseHeader(offset))
        if queue_id < 0 or self._store.min_offset_in_queue(topic, queue_id) > 0:
            raise _not_found()
        is_on_disk = self._store.check_in_disk_by_consume_offset_nowait(topic, queue_id, 0)
        if is_on_disk is not None:
            return _begin_of_group(request, is_on_disk=is_on_disk)
        if not connection.answer_later(request, self._look_on_disk, request, topic, queue_id):
            raise RequestError(ResponseCode.SYSTEM_BUSY, _TOO_MANY_READS)
        return DEFERRED

    async def _look_on_disk(self, request: RemotingCommand, topic: str, queue_id: int) -> RemotingCommand:
        is_on_disk = await self._store.check_in_disk_by_consume_offset(topic, queue_id, 0)
        return _begin_of_group(request, is_on_disk=is_on_disk)


def _begin_of_group(request: RemotingCommand, *, is_on_disk: bool) -> RemotingCommand:
    """Return offset 0 for a new group; RequestError if it has to choose its first offset itself."""
    if is_on_disk:
        raise _not_found()
    return make_response(request, header=QueryConsumerOffsetResponseHeader(0))


def _not_found() -> RequestError:
    return RequestError(ResponseCode.QUERY_NOT_FOUND, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first")
