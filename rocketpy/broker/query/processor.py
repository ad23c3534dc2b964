"""QUERY_MESSAGE and VIEW_MESSAGE_BY_ID: messages by key and by physical offset. Tasks, because both may read the disk.

Compatibility: ``QueryMessageProcessor`` (4.9.8). A message id must lead to a record that a unit of its
own queue points to; RocketMQ returns whatever bytes are at the offset. A slave may send size and digest of a record
too: it is answered whether the log has that record, which needs no unit. Records that do not fit into one frame are
omitted; RocketMQ sends them all, and its client closes the connection. Few queries by key run concurrently, because
each may hold a frame of records; RocketMQ has a thread pool for them with a queue of 20,000.
"""

from __future__ import annotations

import attrs
import trio

from rocketpy.broker.acl.needs import STRICT_ADMIN, SUB_TOPIC
from rocketpy.errors import RequestError
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.query import (
    UNIQUE_KEY_QUERY,
    CompareRecordRequestHeader,
    CompareRecordResponseHeader,
    QueryMessageRequestHeader,
    QueryMessageResponseHeader,
    ViewMessageRequestHeader,
)
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.store.message_store import MessageStore

QUERIES_RUNNING_MAX = 4
"""Concurrent queries by key: each may hold 16 MiB of records."""

QUERIES_WAITING_MAX = 64
"""Queries that may wait for a free slot; they hold no records."""

_TOO_MANY_QUERIES = f"[OVERLOAD]{QUERIES_RUNNING_MAX + QUERIES_WAITING_MAX} queries by key are running, try again later"
_REPLIES_WAIT = "[OVERLOAD]too many replies wait for this connection to read them, try again later"


@attrs.define(eq=False, kw_only=True)
class QueryMessageProcessor:
    """Serves the two query codes. One per broker."""

    _store: MessageStore
    _default_query_max_num: int
    _running: trio.CapacityLimiter = attrs.field(init=False, factory=lambda: trio.CapacityLimiter(QUERIES_RUNNING_MAX))

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the query codes."""
        dispatcher.register_task(RequestCode.QUERY_MESSAGE, self.process_query, needs=SUB_TOPIC)
        dispatcher.register_task(RequestCode.VIEW_MESSAGE_BY_ID, self.process_view, needs=STRICT_ADMIN)

    async def process_query(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Return the records that the index has for ``topic#key`` in a time range."""
        header = read_header(request, QueryMessageRequestHeader)
        is_unique = (request.ext_fields or {}).get(UNIQUE_KEY_QUERY, "").lower() == "true"
        max_num = self._default_query_max_num if is_unique else header.max_num
        if self._running.statistics().tasks_waiting >= QUERIES_WAITING_MAX:
            raise RequestError(ResponseCode.SYSTEM_BUSY, _TOO_MANY_QUERIES)
        async with self._running:
            if not connection.wants_reading:  # its send buffer is full of earlier responses
                raise RequestError(ResponseCode.SYSTEM_BUSY, _REPLIES_WAIT)
            result = await self._store.query_message(
                header.topic, header.key, max_num, header.begin_timestamp, header.end_timestamp
            )
        response_header = QueryMessageResponseHeader(
            index_last_update_timestamp=result.index_last_update_timestamp,
            index_last_update_phyoffset=result.index_last_update_phyoffset,
        )
        if not result.body:
            remark = "can not find message, maybe time range not correct"
            return make_response(request, ResponseCode.QUERY_NOT_FOUND, remark, header=response_header)
        return make_response(request, header=response_header, body=result.body)

    async def process_view(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Return the record at a physical offset; or, for a slave that compares its log, whether it has the same."""
        header = read_header(request, ViewMessageRequestHeader)
        compared = read_header(request, CompareRecordRequestHeader)
        if compared.record_size is not None and compared.record_digest is not None:
            self._store.end_burst()
            is_equal = await self._store.record_digests.has(header.offset, compared.record_size, compared.record_digest)
            return make_response(request, header=CompareRecordResponseHeader(record_is_equal=is_equal))
        record = await self._store.look_message_by_offset(header.offset)
        if record is None:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {header.offset}")
        return make_response(request, body=record)
