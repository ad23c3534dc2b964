"""SEND_REPLY_MESSAGE and its V2: a reply is pushed to its requester, and stored.

::

    replier --324/325--> broker --326 PUSH_REPLY_MESSAGE_TO_CLIENT--> requester
                           |  (10 s at most)                             |
                           |<--------------- accepted, or not -----------+
                         store (storeReplyMessageEnable)
    replier <---response---+

The requester is the producer whose client id the reply names (REPLY_TO_CLIENT). It must be connected to this broker.
Each reply is a task: it waits for the requester, and under SYNC_FLUSH for the disk.

Compatibility: ``ReplyMessageProcessor`` (4.9.8). The response code says whether the push succeeded, even
if the copy was not stored; the log has the reason for that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import attrs
import trio

from rocketpy.broker.acl.needs import REPLY_V1, REPLY_V2
from rocketpy.broker.clients.waiting import WaitingRequests
from rocketpy.broker.hooks import SendHooks, SendMessageContext
from rocketpy.broker.metadata.named_queues import NamedQueues
from rocketpy.broker.send.checks import chosen_queue, read_send_header
from rocketpy.broker.send.collaborators import SendCollaborators
from rocketpy.broker.send.properties import (
    CLIENT_SYS_FLAGS,
    client_properties,
    refuse_unreadable_delay,
)
from rocketpy.broker.send.put import MessageExtBrokerInner, PutMessageResult
from rocketpy.clock import Clock
from rocketpy.errors import LocalProtocolError, RemotingError, RequestError
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.codec import write_header
from rocketpy.protocol.headers.send import (
    ReplyMessageRequestHeader,
    SendMessageRequestHeader,
    SendMessageResponseHeader,
)
from rocketpy.protocol.host import decode_host
from rocketpy.protocol.properties import (
    PROPERTY_MESSAGE_REPLY_TO_CLIENT,
    PROPERTY_PUSH_REPLY_TIME,
    PROPERTY_WAIT_STORE_MSG_OK,
    encode_properties,
)
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.remoting.limits.work_limit import WorkLimit

PUSH_TIMEOUT_SECONDS = 10.0
"""Time in which the requester must acknowledge the reply."""

WAITING_MAX = 400
"""Replies that may wait for their requesters at a time; more are refused."""
WAITING_FOR_ONE_MAX = 128
"""The same for one requester, so that one that never answers does not use up the total."""

REPLY_BYTES_MAX = 64 << 20
"""Bytes of the bodies of replies that wait for their requesters, or for the disk."""

_SHOWN_MAX = 255

FindChannel = Callable[[str], Connection | None]
"""Return the connection of a producer by its client id."""

_log = logging.getLogger("rocketpy.broker")


@attrs.frozen
class _Pushed:
    """Whether the requester has acknowledged the reply, and if not why."""

    is_ok: bool
    remark: str | None = None


class ReplyMessageProcessor:
    """Processor of both reply codes. One per broker."""

    def __init__(
        self,
        shared: SendCollaborators,
        *,
        find_channel: FindChannel,
        hooks: SendHooks,
        named_queues: NamedQueues | None,
        store_host: bytes,
        clock: Clock,
    ) -> None:
        self._store = shared.store
        self._message_put = shared.message_put
        self._find_channel = find_channel
        self._check = shared.check
        self._gate = shared.gate
        self._answers = shared.answers
        self._stats = shared.stats
        self._hooks = hooks
        self._named_queues = named_queues
        self._config = shared.config
        self._store_host = decode_host(store_host)
        self._clock = clock
        self._randomness = shared.randomness
        self._waiting = WaitingRequests(
            "replies wait for those who asked", total_max=WAITING_MAX, of_connection_max=WAITING_FOR_ONE_MAX
        )

        self._at_work = WorkLimit("bytes of replies", REPLY_BYTES_MAX)

    def register(self, dispatcher: Dispatcher) -> None:
        """Register for both reply codes."""
        dispatcher.register_task(RequestCode.SEND_REPLY_MESSAGE, self.process, needs=REPLY_V1)
        dispatcher.register_task(RequestCode.SEND_REPLY_MESSAGE_V2, self.process, needs=REPLY_V2)

    async def process(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Push and store a reply; refusals have the form of a send's."""
        context = None
        try:
            self._gate.check(connection)
            header = read_send_header(request)
            if self._hooks:
                context = self._hooks.before(header, request.ext_fields or {}, request.body, connection.peer)
            with self._at_work.counted(len(request.body or b"")):
                answer, result = await self._push_and_put(connection, request, header)
        except RequestError as refusal:
            answer, result = self._answers.refused(request, refusal.response_code, refusal.remark), None
        if context is not None:
            self._run_hooks(context, answer, result)
        return answer

    # ---- private --------------------------------------------------------------------------------------------------

    async def _push_and_put(
        self, connection: Connection, request: RemotingCommand, header: SendMessageRequestHeader
    ) -> tuple[RemotingCommand, PutMessageResult | None]:
        config = self._check.checked_topic_config(connection, header)
        queue_id = chosen_queue(header.queue_id, config, self._randomness)
        properties = client_properties(header.properties)
        refuse_unreadable_delay(properties)
        if self._named_queues is not None:
            self._named_queues.check(properties)
        pushed = await self._push(connection, request, header, properties)
        answer = self._answers.refused(request, ResponseCode.SUCCESS, None)
        if pushed.is_ok:
            _locate(answer, SendMessageResponseHeader(msg_id="0", queue_id=queue_id, queue_offset=0))
        else:
            answer.code, answer.remark = ResponseCode.SYSTEM_ERROR, pushed.remark
        if not self._config.store_reply_message_enable:
            return answer, None
        message = MessageExtBrokerInner(
            topic=header.topic,
            queue_id=queue_id,
            body=request.body or b"",
            properties=properties,
            flag=header.flag,
            sys_flag=header.sys_flag & CLIENT_SYS_FLAGS,
            born_timestamp=header.born_timestamp,
            born_host=connection.born_host,
            reconsume_times=header.reconsume_times or 0,
        )
        result = await self._put(message)
        if result is not None:
            msg_id = self._answers.msg_id(result.physical_offset)
            _locate(
                answer,
                SendMessageResponseHeader(msg_id=msg_id, queue_id=queue_id, queue_offset=result.queue_offset),
            )
        return answer, result

    async def _push(
        self,
        connection: Connection,
        request: RemotingCommand,
        header: SendMessageRequestHeader,
        properties: dict[str, str],
    ) -> _Pushed:
        """Push the reply to its requester, and wait for the acknowledgement."""
        client_id = properties.get(PROPERTY_MESSAGE_REPLY_TO_CLIENT)
        if client_id is None:
            return _Pushed(False, f"reply message properties[{PROPERTY_MESSAGE_REPLY_TO_CLIENT}] is null")
        shown = client_id if len(client_id) <= _SHOWN_MAX else client_id[:_SHOWN_MAX] + "..."
        channel = self._find_channel(client_id)
        if channel is None:
            remark = f"push reply message fail, channel of <{shown}> not found."
            _log.warning("%s", remark)
            return _Pushed(False, remark)
        now_ms = self._clock.timestamp_ms()
        try:
            push = make_request(
                RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
                self._push_header(connection, header, properties, now_ms),
                request.body,
            )
            with self._waiting.counted(channel):
                answer = await channel.request(push, PUSH_TIMEOUT_SECONDS)
        except (RemotingError, LocalProtocolError) as failure:
            return _not_taken(shown, str(failure))
        if answer.code != ResponseCode.SUCCESS:
            return _not_taken(shown, f"it answered code {answer.code}: {(answer.remark or '')[:_SHOWN_MAX]}")
        return _Pushed(True)

    def _push_header(
        self, connection: Connection, header: SendMessageRequestHeader, properties: dict[str, str], now_ms: int
    ) -> ReplyMessageRequestHeader:
        return ReplyMessageRequestHeader(
            producer_group=header.producer_group,
            topic=header.topic,
            default_topic=header.default_topic,
            default_topic_queue_nums=header.default_topic_queue_nums,
            queue_id=header.queue_id,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            flag=header.flag,
            properties=encode_properties({PROPERTY_PUSH_REPLY_TIME: str(now_ms)} | properties),
            reconsume_times=header.reconsume_times,
            unit_mode=header.unit_mode,
            born_host=connection.peer,
            store_host=self._store_host,
            store_timestamp=now_ms,
        )

    async def _put(self, message: MessageExtBrokerInner) -> PutMessageResult | None:
        """Store a copy, and wait for the flush unless WAIT=false; None, after logging why, when it is refused."""
        topic = message.topic
        result = self._message_put.put(message)
        if not result.is_ok:
            why = self._store.writable_or_why() or "the message is illegal, maybe too long"
            _log.warning("a reply for topic %s is not stored: %s, %s", topic, result.status.name, why)
            return None
        end = self._store.wrote_offset
        self._stats.inc_topic_put(result.topic, 1, end - result.physical_offset)
        if self._store.waits_for_storing and message.properties.get(PROPERTY_WAIT_STORE_MSG_OK) != "false":
            stored = trio.Event()
            self._store.wait_stored(end, lambda _: stored.set())
            self._store.end_burst()  # no burst is open around a task that waits, and only what is written is stored
            await stored.wait()
        else:
            self._store.flush_soon()
        return result

    def _run_hooks(self, context: SendMessageContext, answer: RemotingCommand, result: PutMessageResult | None) -> None:
        if result is None:
            self._hooks.refused(context, code=answer.code, remark=answer.remark)
            return
        self._hooks.stored(
            context,
            code=answer.code,
            msg_id=self._answers.msg_id(result.physical_offset),
            queue_id=result.queue_id,
            queue_offset=result.queue_offset,
            size_bytes=context.body_length,
        )


def _locate(answer: RemotingCommand, header: SendMessageResponseHeader) -> None:
    answer.ext_fields = (answer.ext_fields or {}) | write_header(header)


def _not_taken(client_id: str, why: str) -> _Pushed:
    """Return RocketMQ's remark, which lacks a space, followed by the reason."""
    _log.warning("push reply message to <%s> failed: %s", client_id, why)
    return _Pushed(False, f"push reply message to {client_id}fail. {why}")
