"""QUERY_MESSAGE and VIEW_MESSAGE_BY_ID: messages by key and by place. Both may have to wait for the disk: tasks.

Compatibility: ``QueryMessageProcessor`` (4.9.8); broker.md 20. A message id that does not lead to a record which its
own queue names is refused here; RocketMQ returns whatever bytes lie there. Of records that do not fit into one frame
the first ones come; RocketMQ's client closes the connection over such an answer.
"""

from __future__ import annotations

from struct import Struct

import attrs

from rocketpy.errors import RequestError
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.frame import FRAME_LENGTH_MAX
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.query import (
    UNIQUE_KEY_QUERY,
    QueryMessageRequestHeader,
    QueryMessageResponseHeader,
    ViewMessageRequestHeader,
)
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.store.message_store import MessageStore

_BODY_MAX = FRAME_LENGTH_MAX - 4096
_RECORD_SIZE = Struct(">i")


@attrs.define(eq=False, kw_only=True)
class QueryMessageProcessor:
    """Serves the two query codes. One per broker."""

    _store: MessageStore
    _default_query_max_num: int

    def register(self, dispatcher: Dispatcher) -> None:
        """Take the query codes."""
        dispatcher.register_task(RequestCode.QUERY_MESSAGE, self.process_query)
        dispatcher.register_task(RequestCode.VIEW_MESSAGE_BY_ID, self.process_view)

    async def process_query(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Answer the records that the index has for ``topic#key`` in a time range."""
        header = read_header(request, QueryMessageRequestHeader)
        is_unique = (request.ext_fields or {}).get(UNIQUE_KEY_QUERY, "").lower() == "true"
        max_num = self._default_query_max_num if is_unique else header.max_num
        result = await self._store.query_message(
            header.topic, header.key, max_num, header.begin_timestamp, header.end_timestamp
        )
        response_header = QueryMessageResponseHeader(
            index_last_update_timestamp=result.index_last_update_timestamp,
            index_last_update_phyoffset=result.index_last_update_phyoffset,
        )
        body = _fitting(result.body)
        if not body:
            remark = "can not find message, maybe time range not correct"
            return make_response(request, ResponseCode.QUERY_NOT_FOUND, remark, header=response_header)
        return make_response(request, header=response_header, body=body)

    async def process_view(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Answer the record at a physical offset."""
        header = read_header(request, ViewMessageRequestHeader)
        record = await self._store.look_message_by_offset(header.offset)
        if record is None:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {header.offset}")
        return make_response(request, body=record)


def _fitting(records: bytes) -> bytes:
    """Return as many whole records as one frame can carry."""
    if len(records) <= _BODY_MAX:
        return records
    end = 0
    while (next_end := end + _RECORD_SIZE.unpack_from(records, end)[0]) <= _BODY_MAX:
        end = next_end
    return records[:end]
