"""Requests that brokers send to a client: each goes to the role of the group that it names.

A handler is a coroutine and runs in a task of its own, so it may wait; what it raises is answered as a broker would
answer it (:class:`~rocketpy.errors.RequestError` with its code, anything else with SYSTEM_ERROR and a line in the log).
What all of them hold is bounded: a request beyond :data:`BYTES_AT_WORK_MAX` is refused with SYSTEM_BUSY.

Compatibility: ``ClientRemotingProcessor`` (4.9.8). A request for a group that this client does not have is answered as
there: CHECK_TRANSACTION_STATE, NOTIFY_CONSUMER_IDS_CHANGED and RESET_CONSUMER_CLIENT_OFFSET not at all, the others with
an empty table or SYSTEM_ERROR. A client that has had no role for a code answers that it is not supported.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager

from rocketpy.errors import LocalProtocolError, RemoteProtocolError, RequestError
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.offset import GetConsumerStatusBody
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.headers.client import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetConsumerStatusRequestHeader,
    NotifyConsumerIdsChangedRequestHeader,
    ResetOffsetRequestHeader,
)
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.properties import PROPERTY_PRODUCER_GROUP
from rocketpy.protocol.stored_message import decode_message
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.limits.work_limit import WorkLimit

Handler = Callable[[Connection, RemotingCommand], Awaitable[RemotingCommand | None]]

ANY_GROUP = ""
"""The group of requests that name none: replies to request-reply."""

BYTES_AT_WORK_MAX = 64 << 20
"""Bytes of the requests of all brokers that handlers work on: they may wait for the program, or for their turn to be
decoded. One that is alone is always served."""


class BrokerRequests:
    """The handlers of one client, by request code and group."""

    def __init__(self, remoting: RemotingClient) -> None:
        self._remoting = remoting
        self._served: set[int] = set()
        self._handlers: dict[tuple[int, str], Handler] = {}
        self._at_work = WorkLimit("bytes of requests of brokers", BYTES_AT_WORK_MAX)

    @contextmanager
    def handling(self, group: str, handlers: Mapping[RequestCode, Handler]) -> Iterator[None]:
        """Pass requests of these codes, for this group, to their handlers while the block runs."""
        for code in handlers:
            assert code in _GROUP_OF, f"brokers do not send {code!r}"
            assert (code, group) not in self._handlers, f"two handlers for {code!r} of group {group}"
        added = {(int(code), group): handler for code, handler in handlers.items()}
        self._handlers |= added
        new = set(handlers) - self._served
        self._remoting.register_task(new, self._serve)
        self._served |= new
        try:
            yield
        finally:
            for key in added:
                del self._handlers[key]

    async def _serve(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        try:
            with self._at_work.counted(_size_of(request)):
                return await self._served_by_group(connection, request)
        except (RemoteProtocolError, LocalProtocolError) as failure:  # its body, not a bug of ours
            raise RequestError(ResponseCode.SYSTEM_ERROR, str(failure)) from failure

    async def _served_by_group(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        group = _GROUP_OF[RequestCode(request.code)](request)
        handler = self._handlers.get((request.code, group))
        if handler is not None:
            return await handler(connection, request)
        match request.code:
            case RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT:
                return make_response(request, body=encode_body(GetConsumerStatusBody()))
            case RequestCode.GET_CONSUMER_RUNNING_INFO | RequestCode.CONSUME_MESSAGE_DIRECTLY:
                raise RequestError(
                    ResponseCode.SYSTEM_ERROR, f"The Consumer Group <{group}> not exist in this consumer"
                )
            case RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT:
                raise RequestError(ResponseCode.SYSTEM_ERROR, "process reply message fail: nothing was requested")
        return None


def _size_of(request: RemotingCommand) -> int:
    fields = request.ext_fields or {}
    return len(request.body or b"") + sum(len(name) + len(text) for name, text in fields.items())


def _group_of_half_message(request: RemotingCommand) -> str:
    """Return the producer group of the half message that a broker asks about; empty when it names none."""
    if not request.body:
        return ""
    return decode_message(request.body, decompress=False).properties.get(PROPERTY_PRODUCER_GROUP, "")


_GROUP_OF: Mapping[int, Callable[[RemotingCommand], str]] = {
    RequestCode.CHECK_TRANSACTION_STATE: _group_of_half_message,
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: lambda request: (
        read_header(request, NotifyConsumerIdsChangedRequestHeader).consumer_group
    ),
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: lambda request: read_header(request, ResetOffsetRequestHeader).group,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: lambda request: (
        read_header(request, GetConsumerStatusRequestHeader).group
    ),
    RequestCode.GET_CONSUMER_RUNNING_INFO: lambda request: (
        read_header(request, GetConsumerRunningInfoRequestHeader).consumer_group
    ),
    RequestCode.CONSUME_MESSAGE_DIRECTLY: lambda request: (
        read_header(request, ConsumeMessageDirectlyResultRequestHeader).consumer_group
    ),
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: lambda request: ANY_GROUP,
}
