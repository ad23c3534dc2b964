"""Request-reply: a message whose consumer answers it, and the table of those that wait for their answer.

A requester names itself in its message (REPLY_TO_CLIENT), a reply comes back through the broker
(PUSH_REPLY_MESSAGE_TO_CLIENT) and is matched by CORRELATION_ID. The table holds exactly the calls that wait; the first
reply to each counts, and what nothing waits for is dropped unread.

Compatibility: ``RequestFutureHolder``, ``ClientRemotingProcessor.receiveReplyMessage`` and ``MessageUtil`` (4.9.8). A
body that is marked as compressed and cannot be decompressed is passed on as it came: Go's client 2.1.2 marks replies of
4 KiB and more as compressed, and sends them plain. Replies go to the topic that every cluster has for them, also in a
namespace; in Java to one with the namespace before its name, which brokers without autoCreateTopicEnable refuse.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import attrs
import trio

from rocketpy.client.answers import Answers
from rocketpy.client.broker_requests import ANY_GROUP, BrokerRequests
from rocketpy.client.namespace import NO_NAMESPACE, Namespace
from rocketpy.clock import Clock
from rocketpy.errors import ClientError, ClientErrorCode, LocalProtocolError, RemoteProtocolError, RequestError
from rocketpy.log_files import is_logged
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.compression import compression_type, decompress
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.send import ReplyMessageRequestHeader
from rocketpy.protocol.message import Message, MessageExt
from rocketpy.protocol.properties import (
    PROPERTIES_TEXT_MAX,
    PROPERTY_CLUSTER,
    PROPERTY_CORRELATION_ID,
    PROPERTY_MESSAGE_REPLY_TO_CLIENT,
    PROPERTY_MESSAGE_TTL,
    PROPERTY_MESSAGE_TYPE,
    PROPERTY_REPLY_MESSAGE_ARRIVE_TIME,
    decode_properties,
)
from rocketpy.protocol.sysflag import COMPRESSED_FLAG, COMPRESSION_TYPE_MASK
from rocketpy.remoting.connection import Connection

REPLY_TOPIC_POSTFIX = "REPLY_TOPIC"
REPLY_MESSAGE_FLAG = "reply"

_SHOWN_MAX = 160

_log = logging.getLogger("rocketpy.client")


@attrs.define
class ReplyMessage(Message):
    """A reply, made by :func:`reply_to`; ``reply_properties`` are RocketMQ's own and say whose request it answers."""

    reply_properties: dict[str, str] = attrs.field(factory=dict, kw_only=True)


def reply_to(request: MessageExt, body: bytes) -> ReplyMessage:
    """Return the reply to a request, for any producer to send.

    ClientError 10007 for a message that no requester waits for.
    """
    cluster = request.properties.get(PROPERTY_CLUSTER)
    if cluster is None:
        raise ClientError(
            ClientErrorCode.CREATE_REPLY_MESSAGE_EXCEPTION,
            f"create reply message fail, requestMessage error, property[{PROPERTY_CLUSTER}] is null.",
        )
    names = (PROPERTY_CORRELATION_ID, PROPERTY_MESSAGE_REPLY_TO_CLIENT, PROPERTY_MESSAGE_TTL)
    copied = {name: request.properties[name] for name in names if name in request.properties}
    return ReplyMessage(
        f"{cluster}_{REPLY_TOPIC_POSTFIX}",
        body,
        reply_properties={PROPERTY_MESSAGE_TYPE: REPLY_MESSAGE_FLAG, **copied},
    )


class _Waiting:
    __slots__ = ("arrived", "is_answered", "reply")

    def __init__(self) -> None:
        self.arrived = trio.Event()
        self.is_answered = False  # a reply is here, or is being unpacked; others are too late
        self.reply: MessageExt | None = None


class Replies:
    """The calls of one client that wait for a reply, by correlation id."""

    def __init__(
        self, broker_requests: BrokerRequests, clock: Clock, answers: Answers, namespace: Namespace = NO_NAMESPACE
    ) -> None:
        self._answers = answers
        self._broker_requests = broker_requests
        self._namespace = namespace
        self._clock = clock
        self._waiting: dict[str, _Waiting] = {}
        self._roles = 0
        self._unwanted_count = 0

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Take replies while the block runs; blocks of several producers may overlap."""
        if self._roles == 0:
            self._handling = self._broker_requests.handling(
                ANY_GROUP, {RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: self._receive}
            )
            self._handling.__enter__()
        self._roles += 1
        try:
            yield
        finally:
            self._roles -= 1
            if self._roles == 0:
                self._handling.__exit__(None, None, None)

    @contextmanager
    def expecting(self, correlation_id: str) -> Iterator[_Waiting]:
        """Expect a reply while the block runs: its ``arrived`` is set once ``reply`` is there."""
        waiting = self._waiting[correlation_id] = _Waiting()
        try:
            yield waiting
        finally:
            del self._waiting[correlation_id]

    @property
    def waiting_count(self) -> int:
        """Number of calls that wait."""
        return len(self._waiting)

    async def _receive(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        try:
            header = read_header(request, ReplyMessageRequestHeader)
            properties = _properties_of(header)
            waiting = self._waiting.get(properties.get(PROPERTY_CORRELATION_ID, ""))
            if waiting is None or waiting.is_answered:
                self._note_unwanted(properties.get(PROPERTY_CORRELATION_ID, ""))
                return make_response(request)  # its body, which may be large, is not even unpacked
            waiting.is_answered = True
            try:
                waiting.reply = await self._reply_of(header, properties, request.body or b"")
            finally:
                waiting.is_answered = waiting.reply is not None
        except (RequestError, RemoteProtocolError, LocalProtocolError) as failure:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"process reply message fail: {failure}") from failure
        waiting.arrived.set()
        return make_response(request)

    def _note_unwanted(self, correlation_id: str) -> None:
        self._unwanted_count += 1
        if is_logged(self._unwanted_count):
            _log.warning("a reply came that nothing waits for, maybe too late, %d so far: correlation id %s",
                         self._unwanted_count, correlation_id[:_SHOWN_MAX])  # fmt: skip

    async def _reply_of(self, header: ReplyMessageRequestHeader, properties: dict[str, str], body: bytes) -> MessageExt:
        sys_flag = header.sys_flag
        compression = compression_type(sys_flag)
        if compression is not None:
            try:
                body = await self._answers.in_worker(decompress, body, compression)
            except RemoteProtocolError as failure:
                _log.warning("a reply is passed on as it came, though it is marked as compressed: %s", failure)
        return MessageExt(
            topic=self._namespace.unwrap(header.topic),
            body=body,
            properties=properties | {PROPERTY_REPLY_MESSAGE_ARRIVE_TIME: str(self._clock.timestamp_ms())},
            queue_id=header.queue_id,
            flag=header.flag,
            sys_flag=sys_flag & ~(COMPRESSED_FLAG | COMPRESSION_TYPE_MASK),
            born_timestamp=header.born_timestamp,
            born_host=header.born_host,
            store_timestamp=header.store_timestamp,
            store_host=header.store_host,
            reconsume_times=header.reconsume_times or 0,
        )


def _properties_of(header: ReplyMessageRequestHeader) -> dict[str, str]:
    text = header.properties or ""
    if len(text) > PROPERTIES_TEXT_MAX:
        raise RemoteProtocolError(f"properties: expected at most {PROPERTIES_TEXT_MAX} characters, found {len(text)}")
    return decode_properties(text)
