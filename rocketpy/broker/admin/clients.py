"""Requests relayed to consumers: offset reset, status, running info, direct consume.

Compatibility: ``Broker2Client`` and ``AdminBrokerProcessor.callConsumer`` (4.9.8). Consumers are
asked concurrently, where Java asks one after the other, and an unsupported client version is detected before any
request is sent. A group that is not online is refused, where Java fails with a null pointer. The operator's signature
is removed before relaying; Java forwards it to the consumer. The status of a member is omitted beyond a size.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import attrs
import trio

from rocketpy.broker.acl.needs import STRICT_ADMIN, STRICT_SUB_TOPIC_AND_OTHER_GROUP
from rocketpy.broker.clients.channel import ClientChannelInfo
from rocketpy.broker.clients.consumers import ConsumerManager
from rocketpy.broker.clients.waiting import WaitingRequests
from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.metadata.offsets import ConsumerOffsetManager
from rocketpy.broker.metadata.topics import TopicConfigManager
from rocketpy.errors import RemoteProtocolError, RemotingError, RemotingTimeoutError, RequestError
from rocketpy.protocol.bodies.codec import decode_peer_body, encode_body
from rocketpy.protocol.bodies.offset import (
    GetConsumerStatusBody,
    MessageQueueForC,
    ResetOffsetBody,
    ResetOffsetBodyForC,
)
from rocketpy.protocol.codes import LanguageCode, RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request, make_response
from rocketpy.protocol.headers.client import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetConsumerStatusRequestHeader,
    ResetOffsetRequestHeader,
)
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.message import MessageQueue
from rocketpy.protocol.message_id import decode_offset_msg_id
from rocketpy.protocol.mq_version import V3_0_7_SNAPSHOT, V3_1_8_SNAPSHOT, version_desc
from rocketpy.protocol.signature import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.remoting.limits.work_limit import WorkLimit
from rocketpy.remoting.whole_answer import WholeAnswers
from rocketpy.runner import RunBlocking, run_decoder
from rocketpy.store.message_store import MessageStore

CALL_CONSUMER_SECONDS = 10.0
"""Timeout for a consumer's running info or direct consumption."""
GET_STATUS_SECONDS = 5.0
"""Timeout for a consumer's status."""

RELAYS_MAX = 100
"""Relayed requests that may wait for consumers at a time; further ones are refused."""
RELAYS_OF_CONNECTION_MAX = 10
"""Bound of the same per connection."""

DIRECT_BYTES_MAX = 64 << 20
"""Bytes of the messages that relayed requests have for consumers."""

QUESTIONS_MAX = 10_000
"""Members that are asked for their status at a time, each by a task; or all those of one request."""

STATUS_BYTES_MAX = 262_144
"""Size of a consumer's status, about 3,000 queues. A larger one is omitted."""
STATUSES_BYTES_MAX = 1_048_576
"""Size of the statuses of a group in one response; what exceeds it is omitted."""

_MEMBERS_PER_TURN = 32
_QUEUES_PER_TURN = 500

_SECRETS = (ACCESS_KEY, SIGNATURE, SECURITY_TOKEN)

_log = logging.getLogger("rocketpy.broker")


@attrs.define(eq=False)
class _Statuses:
    """What the members of a group have answered, as far as the bound on all of it allows."""

    group: str
    found: dict[str, bytes] = attrs.field(factory=dict)  # by client id
    _bytes_left: int = attrs.field(init=False, factory=lambda: STATUSES_BYTES_MAX)
    _omitted_count: int = attrs.field(init=False, default=0)

    def take(self, client_id: str, body: bytes) -> None:
        """Keep an answer, or count it as omitted."""
        if len(body) > self._bytes_left:
            self._omitted_count += 1
            return
        self._bytes_left -= len(body)
        self.found[client_id] = body

    def log_omitted(self) -> None:
        """Say how many answers there was no room for."""
        if self._omitted_count:
            _log.warning(
                "statuses of %d consumers of group %s omitted: those of a group may have %d bytes",
                self._omitted_count,
                self.group,
                STATUSES_BYTES_MAX,
            )


@attrs.define(eq=False, kw_only=True)
class AdminClientProcessor:
    """Serves the codes that consumers answer. One per broker."""

    _config: BrokerConfig
    _topic_config_manager: TopicConfigManager
    _consumer_manager: ConsumerManager
    _consumer_offset_manager: ConsumerOffsetManager
    _store: MessageStore
    _whole_answers: WholeAnswers
    _run_blocking: RunBlocking
    _relays: WaitingRequests = attrs.field(init=False)
    _records: WorkLimit = attrs.field(init=False)
    _questions: WorkLimit = attrs.field(init=False)
    _decoding: trio.Lock = attrs.field(init=False, factory=trio.Lock)

    @_relays.default
    def _(self) -> WaitingRequests:
        return WaitingRequests(
            "requests wait for consumers", total_max=RELAYS_MAX, of_connection_max=RELAYS_OF_CONNECTION_MAX
        )

    @_records.default
    def _(self) -> WorkLimit:
        return WorkLimit("bytes of messages that consumers are to consume at once", DIRECT_BYTES_MAX)

    @_questions.default
    def _(self) -> WorkLimit:
        return WorkLimit("questions to members of groups", QUESTIONS_MAX)

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the request codes."""
        dispatcher.register_task(
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, self.process_reset_offset, needs=STRICT_ADMIN
        )
        dispatcher.register_task(
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
            self.process_get_consumer_status,
            needs=STRICT_SUB_TOPIC_AND_OTHER_GROUP,
        )
        dispatcher.register_task(
            RequestCode.GET_CONSUMER_RUNNING_INFO, self.process_get_consumer_running_info, needs=STRICT_ADMIN
        )
        dispatcher.register_task(
            RequestCode.CONSUME_MESSAGE_DIRECTLY, self.process_consume_message_directly, needs=STRICT_ADMIN
        )

    async def process_reset_offset(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Send the new offsets to every member of a group and return them. The members commit them, not the broker."""
        header = read_header(request, ResetOffsetRequestHeader)
        table = await self._reset_table(header)
        members = self._members(header.group)
        if not members:
            raise RequestError(
                ResponseCode.CONSUMER_NOT_ONLINE,
                f"Consumer not online, so can not reset offset, Group: {header.group} Topic: {header.topic} "
                f"Timestamp: {header.timestamp}",
            )
        _check_versions(members)
        body = encode_body(ResetOffsetBody(offset_table=table))
        order_header = ResetOffsetRequestHeader(topic=header.topic, group=header.group, timestamp=header.timestamp)
        # A request whose own language is CPP asks for the body format of C++ clients.
        order = _body_for_c(table) if request.language is LanguageCode.CPP else body
        for number, member in enumerate(members, 1):
            if number % _MEMBERS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
            member.channel.oneway(
                make_request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, order_header, order, oneway=True)
            )
        _log.info(
            "offsets of group %s in topic %s reset for %s by %d members: %s",
            header.group,
            header.topic,
            connection.peer,
            len(members),
            {queue.queue_id: offset for queue, offset in table.items()},
        )
        return make_response(request, body=body)

    async def process_get_consumer_status(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Return the consumer offsets of a group's members, or of one, in a topic; failing members are omitted."""
        header = read_header(request, GetConsumerStatusRequestHeader)
        members = self._members(header.group)
        if not members:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"No Any Consumer online in the consumer group: [{header.group}]"
            )
        _check_versions(members)
        wanted = (header.client_addr or "").strip()
        asked = [member for member in members if not wanted or member.client_id == wanted]
        statuses = _Statuses(header.group)
        with self._relays.counted(connection), self._questions.counted(len(asked)):
            async with trio.open_nursery() as nursery:
                for member in asked:
                    nursery.start_soon(_ask_status, member, header, statuses)
            statuses.log_omitted()
            found = statuses.found
            in_order = {member.client_id: found[member.client_id] for member in asked if member.client_id in found}
            body = GetConsumerStatusBody(consumer_table=await self._decoded(header.group, in_order))
            return make_response(
                request, body=await self._whole_answers.encode(connection, "the statuses of the group", body)
            )

    async def process_get_consumer_running_info(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        """Return a consumer's running info."""
        header = read_header(request, GetConsumerRunningInfoRequestHeader)
        with self._relays.counted(connection):
            return await self._call_consumer(
                connection, request, header.consumer_group, header.client_id, _public_fields(request), None
            )

    async def process_consume_message_directly(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        """Ask a consumer to consume one message now, and return its result."""
        header = read_header(request, ConsumeMessageDirectlyResultRequestHeader)
        try:
            _, physical_offset = decode_offset_msg_id(header.msg_id or "")
        except RemoteProtocolError as failure:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"{type(header).__name__}.msgId: {failure}") from failure
        record = await self._store.look_message_by_offset(physical_offset)
        if record is None:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {physical_offset}")
        fields = _public_fields(request) | {"brokerName": self._config.broker_name}
        with self._relays.counted(connection), self._records.counted(len(record)):
            return await self._call_consumer(
                connection, request, header.consumer_group, header.client_id, fields, record
            )

    # ---- private --------------------------------------------------------------------------------------------------

    async def _decoded(self, group: str, bodies: Mapping[str, bytes]) -> dict[str, dict[MessageQueue, int]]:
        """Return what consumers have answered, read one at a time, with other requests served in between."""
        decoded: dict[str, dict[MessageQueue, int]] = {}
        for client_id, body in bodies.items():
            async with self._decoding:
                await trio.lowlevel.checkpoint()
                try:
                    decoded[client_id] = (
                        await run_decoder(_decode_status, body, self._run_blocking)
                    ).message_queue_table
                except RemoteProtocolError as failure:
                    _log_no_status(client_id, group, failure)
        return decoded

    def _members(self, group: str) -> list[ClientChannelInfo]:
        online = self._consumer_manager.get_consumer_group_info(group)
        return [] if online is None else list(online.channel_info_table.values())

    async def _reset_table(self, header: ResetOffsetRequestHeader) -> dict[MessageQueue, int]:
        """Return the new offset of each write queue: at a timestamp, or the max offset for -1.

        Without ``is_force`` an offset never moves forward.
        """
        topic_config = self._topic_config_manager.select_topic_config(header.topic)
        if topic_config is None:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"[reset-offset] reset offset failed, no topic in this broker. topic={header.topic}",
            )
        table: dict[MessageQueue, int] = {}
        for queue_id in range(topic_config.write_queue_nums):
            if queue_id % _QUEUES_PER_TURN == _QUEUES_PER_TURN - 1:
                await trio.lowlevel.checkpoint()
            consumer_offset = self._consumer_offset_manager.query_offset(header.group, header.topic, queue_id)
            if consumer_offset < 0:
                raise RequestError(ResponseCode.SYSTEM_ERROR, f"THe consumer group <{header.group}> not exist")
            if header.timestamp == -1:
                target = self._store.max_offset_in_queue(header.topic, queue_id)
            else:
                target = await self._store.offset_in_queue_by_time(header.topic, queue_id, header.timestamp)
            target = max(0, target)
            queue = MessageQueue(header.topic, self._config.broker_name, queue_id)
            table[queue] = target if header.is_force or target < consumer_offset else consumer_offset
        return table

    async def _call_consumer(
        self,
        connection: Connection,
        request: RemotingCommand,
        group: str,
        client_id: str | None,
        fields: Mapping[str, str],
        body: bytes | None,
    ) -> RemotingCommand:
        """Relay a request to one member of a group, and return its response, if there is room for it."""
        online = self._consumer_manager.get_consumer_group_info(group)
        member = None if online is None or client_id is None else online.find_channel(client_id)
        if member is None:
            shown = "null" if client_id is None else client_id
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{shown}> not online")
        if member.version < V3_1_8_SNAPSHOT:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"The Consumer <{client_id}> Version <{version_desc(member.version)}> too low to finish, "
                "please upgrade it to V3_1_8_SNAPSHOT",
            )
        question = RemotingCommand(code=request.code, ext_fields=dict(fields), body=body)
        try:
            answer = await member.channel.request(question, CALL_CONSUMER_SECONDS)
        except RemotingTimeoutError as failure:
            remark = f"consumer <{group}> <{client_id}> Timeout: {failure}"
            raise RequestError(ResponseCode.CONSUME_MSG_TIMEOUT, remark) from failure
        except RemotingError as failure:
            remark = f"invoke consumer <{group}> <{client_id}> Exception: {failure}"
            raise RequestError(ResponseCode.SYSTEM_ERROR, remark) from failure
        if not connection.has_room(len(answer.body or b"")):
            remark = f"no room for the answer of consumer <{group}> <{client_id}>"
            raise RequestError(ResponseCode.SYSTEM_BUSY, f"[OVERLOAD]{remark}: too many answers wait to be read")
        response = make_response(request, answer.code, answer.remark, body=answer.body)
        response.ext_fields = answer.ext_fields
        return response


def _decode_status(body: bytes) -> GetConsumerStatusBody:
    return decode_peer_body(body, GetConsumerStatusBody)


def _check_versions(members: Sequence[ClientChannelInfo]) -> None:
    for member in members:
        if member.version < V3_0_7_SNAPSHOT:
            remark = f"the client does not support this feature. version={version_desc(member.version)}"
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"{remark}, client {member.client_id}")


async def _ask_status(member: ClientChannelInfo, header: GetConsumerStatusRequestHeader, statuses: _Statuses) -> None:
    """Add the body of a member's answer to the statuses; a failure is only logged."""
    question_header = GetConsumerStatusRequestHeader(topic=header.topic, group=header.group)
    question = make_request(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, question_header)
    try:
        answer = await member.channel.request(question, GET_STATUS_SECONDS)
    except RemotingError as failure:
        _log_no_status(member.client_id, header.group, failure)
        return
    if answer.code == ResponseCode.SUCCESS and answer.body is not None:
        if len(answer.body) <= STATUS_BYTES_MAX:
            statuses.take(member.client_id, answer.body)
        else:
            expected = f"expected at most {STATUS_BYTES_MAX} bytes, found {len(answer.body)}"
            _log_no_status(member.client_id, header.group, RemoteProtocolError(expected))


def _log_no_status(client_id: str, group: str, failure: Exception) -> None:
    _log.warning("consumer %s of group %s returned no status: %s", client_id, group, failure)


def _body_for_c(table: Mapping[MessageQueue, int]) -> bytes:
    queues = [
        MessageQueueForC(queue.topic, queue.broker_name, queue.queue_id, offset) for queue, offset in table.items()
    ]
    return encode_body(ResetOffsetBodyForC(offset_table=queues))


def _public_fields(request: RemotingCommand) -> dict[str, str]:
    """Return the fields of a request without access key, signature and token."""
    return {key: value for key, value in (request.ext_fields or {}).items() if key not in _SECRETS}
