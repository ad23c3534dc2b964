"""QUERY_MESSAGE and VIEW_MESSAGE_BY_ID: messages by key and by physical offset. Tasks, because both may read the disk.

Compatibility: ``QueryMessageProcessor`` (4.9.8). A message id must lead to a record that a unit of its
own queue points to; RocketMQ returns whatever bytes are at the offset. A slave may send size and digest of a record
too: it is answered whether the log has that record, which needs no unit. Records that do not fit into one frame are
omitted; RocketMQ sends them all, and its client closes the connection. Few queries by key run concurrently, because
each may hold a frame of records, and one address has half of them at most; RocketMQ has a thread pool for them with a
queue of 20,000. A query ends after a number of entries of the index, however many have its key. While the index is
built again after a crash a query waits for what was stored before it; an answer that may lack something says so in its
remark. RocketMQ answers what it has found.
"""

from __future__ import annotations

import logging
import math

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
from rocketpy.protocol.host import host_of, plain_host, site_of
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.store.index.query import STEPS_USED_UP
from rocketpy.store.message_store import MessageStore

QUERIES_RUNNING_MAX = 4
"""Concurrent queries by key: each may hold 16 MiB of records."""

QUERIES_WAITING_MAX = 64
"""Queries that may wait for a free slot; they hold no records."""

QUERIES_OF_ADDRESS_RUNNING_MAX = 2
"""Concurrent queries of one remote address: others find a slot."""

QUERIES_OF_ADDRESS_WAITING_MAX = 32

INDEX_WAIT_SECONDS = 3.0
"""How long a query waits for an index that is being built again: half the time that Java's admin tools give it."""

_TOO_MANY_QUERIES = f"[OVERLOAD]{QUERIES_RUNNING_MAX + QUERIES_WAITING_MAX} queries by key are running, try again later"
_TOO_MANY_OF_ADDRESS = (
    f"[OVERLOAD]{QUERIES_OF_ADDRESS_RUNNING_MAX + QUERIES_OF_ADDRESS_WAITING_MAX} queries by key are running "
    "for this address, try again later"
)
_NOT_FOUND = "can not find message, maybe time range not correct"
_REPLIES_WAIT = "[OVERLOAD]too many replies wait for their connections to read them, try again later"
_LOG_SECONDS = 60.0
"""At most one line in this time says that a query has looked at too many entries."""
_SHOWN_MAX = 128

_log = logging.getLogger("rocketpy.broker")


@attrs.define(eq=False)
class _OfAddress:
    """The queries of one remote address."""

    count: int = 0
    running: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(QUERIES_OF_ADDRESS_RUNNING_MAX))


@attrs.define(eq=False, kw_only=True)
class QueryMessageProcessor:
    """Serves the two query codes. One per broker."""

    _store: MessageStore
    _default_query_max_num: int
    _count: int = attrs.field(init=False, default=0)  # of queries that run or wait
    _of_addresses: dict[str, _OfAddress] = attrs.field(init=False, factory=dict)  # of those
    _logs_from: float = attrs.field(init=False, default=-math.inf)
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
        if self._count - self._running.borrowed_tokens >= QUERIES_WAITING_MAX:
            raise RequestError(ResponseCode.SYSTEM_BUSY, _TOO_MANY_QUERIES)
        host = site_of(plain_host(host_of(connection.peer)))
        of_address = self._of_addresses.setdefault(host, _OfAddress())
        if of_address.count - of_address.running.borrowed_tokens >= QUERIES_OF_ADDRESS_WAITING_MAX:
            raise RequestError(ResponseCode.SYSTEM_BUSY, _TOO_MANY_OF_ADDRESS)
        self._count += 1
        of_address.count += 1
        try:
            await self._wait_for_index()
            async with of_address.running, self._running:
                # It has gone, or does not read, or all peers together do not: the records would be read for nothing.
                if not connection.has_room(0):
                    raise RequestError(ResponseCode.SYSTEM_BUSY, _REPLIES_WAIT)
                result = await self._store.query_message(
                    header.topic, header.key, max_num, header.begin_timestamp, header.end_timestamp
                )
        finally:
            self._count -= 1
            of_address.count -= 1
            if not of_address.count:
                del self._of_addresses[host]
        if STEPS_USED_UP in result.why_incomplete:
            self._log_long_query(connection, header)
        response_header = QueryMessageResponseHeader(
            index_last_update_timestamp=result.index_last_update_timestamp,
            index_last_update_phyoffset=result.index_last_update_phyoffset,
        )
        if not result.body:
            remark = f"{_NOT_FOUND}; {result.why_incomplete}" if result.why_incomplete else _NOT_FOUND
            return make_response(request, ResponseCode.QUERY_NOT_FOUND, remark, header=response_header)
        return make_response(request, remark=result.why_incomplete or None, header=response_header, body=result.body)

    async def _wait_for_index(self) -> None:
        """Wait for what was stored before, a limited time and without a slot."""
        with trio.move_on_after(INDEX_WAIT_SECONDS):
            await self._store.wait_indexed()

    def _log_long_query(self, connection: Connection, header: QueryMessageRequestHeader) -> None:
        """Log a query that has looked at too many entries, at most one in _LOG_SECONDS."""
        now = trio.current_time()
        if now < self._logs_from:
            return
        self._logs_from = now + _LOG_SECONDS
        topic, key = header.topic[:_SHOWN_MAX], header.key[:_SHOWN_MAX]
        _log.warning("query of %s for key %r of topic %s: %s", connection.peer, key, topic, STEPS_USED_UP)

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
