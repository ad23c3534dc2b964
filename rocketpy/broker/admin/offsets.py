"""Requests for the min, max and timestamp offsets of queues.

Compatibility: ``AdminBrokerProcessor`` (4.9.8). A queue that does not exist has the offsets 0 and no
earliest time (-1); a negative queue id is refused, where Java creates a queue for it.
"""

from __future__ import annotations

from typing import Protocol

import attrs

from rocketpy.broker.acl.needs import STRICT_ADMIN, STRICT_SUB_TOPIC
from rocketpy.broker.metadata.offsets import ConsumerOffsetManager
from rocketpy.broker.metadata.stored_table import StoredTable
from rocketpy.broker.request_body import check_range
from rocketpy.protocol.bodies.group import ConsumerOffsetSerializeWrapper
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.queue_bounds import (
    GetEarliestMsgStoretimeRequestHeader,
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetRequestHeader,
    GetMinOffsetResponseHeader,
    SearchOffsetRequestHeader,
    SearchOffsetResponseHeader,
)
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.remoting.whole_answer import WholeAnswers
from rocketpy.store.message_store import MessageStore


class OffsetDifferences(Protocol):
    """The offsets in which a slave differs from its master."""

    stored: StoredTable

    @property
    def committed_offsets(self) -> dict[str, dict[int, int]]:
        """Those that clients have committed to the slave, by ``topic@group`` and queue id."""
        ...


@attrs.define(eq=False, kw_only=True)
class AdminOffsetProcessor:
    """Serves the offset codes. One per broker."""

    _consumer_offset_manager: ConsumerOffsetManager
    _offset_differences: OffsetDifferences | None  # None on a master
    _store: MessageStore
    _whole_answers: WholeAnswers

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the request codes."""
        dispatcher.register_task(
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, self.process_search_offset_by_timestamp, needs=STRICT_SUB_TOPIC
        )
        dispatcher.register(RequestCode.GET_MAX_OFFSET, self.process_get_max_offset, needs=STRICT_SUB_TOPIC)
        dispatcher.register(RequestCode.GET_MIN_OFFSET, self.process_get_min_offset, needs=STRICT_SUB_TOPIC)
        dispatcher.register_task(
            RequestCode.GET_EARLIEST_MSG_STORETIME, self.process_get_earliest_msg_storetime, needs=STRICT_SUB_TOPIC
        )
        dispatcher.register_task(
            RequestCode.GET_ALL_CONSUMER_OFFSET, self.process_get_all_consumer_offset, needs=STRICT_ADMIN
        )

    async def process_search_offset_by_timestamp(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        """Return the queue offset nearest to a timestamp."""
        header = read_header(request, SearchOffsetRequestHeader)
        check_range(header, "queueId", header.queue_id, 0)
        offset = await self._store.offset_in_queue_by_time(header.topic, header.queue_id, header.timestamp)
        return make_response(request, header=SearchOffsetResponseHeader(offset))

    def process_get_max_offset(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Return the max offset, which the next message will get."""
        header = read_header(request, GetMaxOffsetRequestHeader)
        check_range(header, "queueId", header.queue_id, 0)
        offset = self._store.max_offset_in_queue(header.topic, header.queue_id)
        return make_response(request, header=GetMaxOffsetResponseHeader(offset))

    def process_get_min_offset(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Return the min offset: the smallest queue offset that still exists."""
        header = read_header(request, GetMinOffsetRequestHeader)
        check_range(header, "queueId", header.queue_id, 0)
        offset = self._store.min_offset_in_queue(header.topic, header.queue_id)
        return make_response(request, header=GetMinOffsetResponseHeader(offset))

    async def process_get_earliest_msg_storetime(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        """Return the store time of a queue's oldest message."""
        header = read_header(request, GetEarliestMsgStoretimeRequestHeader)
        check_range(header, "queueId", header.queue_id, 0)
        min_offset = self._store.min_offset_in_queue(header.topic, header.queue_id)
        timestamp = -1
        if self._store.max_offset_in_queue(header.topic, header.queue_id) > min_offset:
            timestamp = await self._store.store_timestamp_of(header.topic, header.queue_id, min_offset)
        return make_response(request, header=GetEarliestMsgStoretimeResponseHeader(timestamp))

    async def process_get_all_consumer_offset(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        """Return the whole table, as a slave requests it, and as a master that starts requests it of its slaves."""
        body = await self._whole_answers.encode_table(connection, "all offsets", self._version, self._all_offsets)
        return make_response(request, body=body)

    def _version(self) -> tuple[int, int]:
        differences = self._offset_differences
        count = 0 if differences is None else differences.stored.change_count
        return self._consumer_offset_manager.stored.change_count, count

    def _all_offsets(self) -> ConsumerOffsetSerializeWrapper:
        differences = self._offset_differences
        committed = None if differences is None else differences.committed_offsets
        return ConsumerOffsetSerializeWrapper(
            committed_offsets=committed or None, offset_table=self._consumer_offset_manager.snapshot()
        )
