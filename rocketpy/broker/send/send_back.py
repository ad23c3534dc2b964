"""CONSUMER_SEND_MSG_BACK: a consumer returns a message, to have it redelivered later or moved to the dead letters.

The message is read from the log and put again: under the group's retry topic with a delay that grows with its retries,
or, when they are used up, under the group's dead letter topic. The response does not wait for the disk (WAIT=false), as
in RocketMQ, so it never takes longer than the page cache.

A record in memory is read and put in the same turn. A cold one is read by a task, and the response is deferred.

Compatibility: ``SendMessageProcessor.asyncConsumerSendMsgBack`` (4.9.8). Java stores the new message with
the store host of the old one, so an id derived from it points to the wrong record after a store has moved; ours carries
this broker's. A message of light queues goes back to its group only; Java puts it into all of them again. The
transaction type of a message that a transaction delivered is cleared.
"""

from __future__ import annotations

import attrs

from rocketpy.broker.acl.needs import SEND_BACK
from rocketpy.broker.acl.permission import SUB
from rocketpy.broker.acl.strict_accounts import StrictAccounts
from rocketpy.broker.hooks import ConsumeHooks
from rocketpy.broker.metadata.groups import SubscriptionGroupManager
from rocketpy.broker.send.collaborators import SendCollaborators
from rocketpy.broker.send.properties import remove_broker_only_properties, remove_named_queues
from rocketpy.broker.send.put import MessageExtBrokerInner
from rocketpy.broker.send.retry_limit import known_group, retries_max
from rocketpy.errors import RemoteProtocolError, RequestError
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from rocketpy.protocol.codes import PERM_WRITE, RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.send import ConsumerSendMsgBackRequestHeader
from rocketpy.protocol.host import encode_host
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.message_id import encode_offset_msg_id
from rocketpy.protocol.properties import (
    PROPERTY_DELAY_TIME_LEVEL,
    PROPERTY_ORIGIN_MESSAGE_ID,
    PROPERTY_RETRY_TOPIC,
    PROPERTY_WAIT_STORE_MSG_OK,
)
from rocketpy.protocol.stored_message import decode_message
from rocketpy.protocol.sysflag import TOPIC_UNIT_SUB_FLAG, TRANSACTION_NOT_TYPE, with_transaction_type
from rocketpy.protocol.topic_name import DLQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, topic_name_fault
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.deferred import DEFERRED, Deferred
from rocketpy.remoting.dispatch import Dispatcher

DLQ_NUMS_PER_GROUP = 1
FIRST_RETRY_LEVEL = 3
"""Delay level of the first retry when the consumer does not choose one: 10 s with the default levels."""

_TOO_MANY_READS = "[OVERLOAD]system busy, start flow control for a while: too many reads from disk are running"


@attrs.frozen
class _SendBack:
    """A request that has passed the checks; its message is still to be read."""

    connection: Connection
    request: RemotingCommand
    header: ConsumerSendMsgBackRequestHeader
    retry_topic: str
    queue_id: int
    retries_max: int


class SendBackProcessor:
    """Processor of CONSUMER_SEND_MSG_BACK. One per broker."""

    def __init__(
        self,
        shared: SendCollaborators,
        *,
        subscription_group_manager: SubscriptionGroupManager,
        hooks: ConsumeHooks,
        accounts: StrictAccounts,
    ) -> None:
        self._store = shared.store
        self._message_put = shared.message_put
        self._subscription_group_manager = subscription_group_manager
        self._check = shared.check
        self._gate = shared.gate
        self._stats = shared.stats
        self._hooks = hooks
        self._accounts = accounts
        self._config = shared.config
        self._randomness = shared.randomness

    def register(self, dispatcher: Dispatcher) -> None:
        """Register for CONSUMER_SEND_MSG_BACK."""
        dispatcher.register(RequestCode.CONSUMER_SEND_MSG_BACK, self.process, needs=SEND_BACK)

    def process(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | Deferred | None:
        """Put the message again; RequestError when that is refused."""
        self._gate.check(connection)
        header = read_header(request, ConsumerSendMsgBackRequestHeader)
        if self._hooks:
            self._hooks.sent_back(header, request.ext_fields or {})
        send_back = self._checked(connection, request, header)
        if send_back is None:
            return make_response(request, ResponseCode.SUCCESS)
        record = self._store.look_message_by_offset_nowait(header.offset)
        if record is not None:
            return self._put_again(send_back, record)
        if not connection.answer_later(request, self._read_cold, send_back):
            raise RequestError(ResponseCode.SYSTEM_BUSY, _TOO_MANY_READS)
        return DEFERRED

    # ---- private --------------------------------------------------------------------------------------------------

    def _checked(
        self, connection: Connection, request: RemotingCommand, header: ConsumerSendMsgBackRequestHeader
    ) -> _SendBack | None:
        """Apply RocketMQ's checks in its order; None when the group has no retry queues and the message is dropped."""
        retry_topic = RETRY_PREFIX + header.group
        if not header.group:
            raise RequestError(ResponseCode.SYSTEM_ERROR, "the group of a message that comes back is blank")
        fault = topic_name_fault(retry_topic)
        if fault is not None:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"{fault}, the retry topic of the group")
        group_config = known_group(self._subscription_group_manager, header.group)
        if not self._config.broker_permission & PERM_WRITE:
            raise RequestError(
                ResponseCode.NO_PERMISSION, f"the broker[{self._config.broker_ip1}] sending message is forbidden"
            )
        if group_config.retry_queue_nums <= 0:
            return None
        topic_config = self._check.created_topic_config(
            retry_topic,
            queue_nums=group_config.retry_queue_nums,
            sys_flag=TOPIC_UNIT_SUB_FLAG if header.unit_mode else 0,
        )
        if not topic_config.perm & PERM_WRITE:
            raise RequestError(ResponseCode.NO_PERMISSION, f"the topic[{retry_topic}] sending message is forbidden")
        # The topic is as old as the group's first message that came back, the number as new as its last change.
        queue_nums = min(group_config.retry_queue_nums, topic_config.write_queue_nums, topic_config.read_queue_nums)
        queue_id = self._randomness.randrange(max(1, queue_nums))
        limit = self._limit_of(request, header, group_config)
        return _SendBack(connection, request, header, retry_topic, queue_id, limit)

    def _limit_of(
        self,
        request: RemotingCommand,
        header: ConsumerSendMsgBackRequestHeader,
        group_config: SubscriptionGroupConfig,
    ) -> int:
        return retries_max(group_config, version=request.version, asked=header.max_reconsume_times)

    async def _read_cold(self, send_back: _SendBack) -> RemotingCommand:
        """Read a record that is not in memory, or does not exist, then continue as usual."""
        return self._put_again(send_back, await self._store.look_message_by_offset(send_back.header.offset))

    def _put_again(self, send_back: _SendBack, record: bytes | None) -> RemotingCommand:
        message = _decoded(record, send_back.header.offset)
        self._accounts.check(send_back.connection, send_back.request, message.topic, SUB)
        retry = self._rewritten(send_back, message)
        result = self._message_put.put(retry)
        if not result.is_ok:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"{result.status.name}{_because(self._store.writable_or_why())}"
            )
        self._store.flush_soon()
        if result.topic == SCHEDULE_TOPIC:  # dead letters are not counted, as in RocketMQ
            size = self._store.wrote_offset - result.physical_offset
            self._stats.inc_topic_put(result.topic, 1, size)
            self._stats.inc_queue_put(result.topic, result.queue_id, 1, size)
        self._stats.inc_send_back(send_back.header.group, retry.properties[PROPERTY_RETRY_TOPIC])
        return make_response(send_back.request, ResponseCode.SUCCESS)

    def _rewritten(self, send_back: _SendBack, message: MessageExt) -> MessageExtBrokerInner:
        """Return the message to store: a retry, or a dead letter."""
        topic, queue_id = send_back.retry_topic, send_back.queue_id
        delay_level = send_back.header.delay_level
        if message.reconsume_times >= send_back.retries_max or delay_level < 0:
            topic, queue_id, delay_level = DLQ_PREFIX + send_back.header.group, 0, 0
            self._check.created_topic_config(topic, queue_nums=DLQ_NUMS_PER_GROUP)
        elif delay_level == 0:
            delay_level = FIRST_RETRY_LEVEL + message.reconsume_times
        properties = dict(message.properties)
        properties.setdefault(PROPERTY_RETRY_TOPIC, message.topic)
        properties[PROPERTY_WAIT_STORE_MSG_OK] = "false"
        properties[PROPERTY_DELAY_TIME_LEVEL] = str(delay_level)
        if not properties.get(PROPERTY_ORIGIN_MESSAGE_ID, "").strip():
            msg_id = encode_offset_msg_id(encode_host(message.store_host), message.physical_offset)
            properties[PROPERTY_ORIGIN_MESSAGE_ID] = msg_id
        remove_named_queues(properties)
        remove_broker_only_properties(properties)
        retry = MessageExtBrokerInner.of_stored(message, topic=topic, queue_id=queue_id, properties=properties)
        retry.sys_flag = with_transaction_type(message.sys_flag, TRANSACTION_NOT_TYPE)
        retry.reconsume_times = min(message.reconsume_times + 1, _INT32_MAX)
        return retry


def _decoded(record: bytes | None, physical_offset: int) -> MessageExt:
    remark = f"look message by offset failed, {physical_offset}"
    if record is None:
        raise RequestError(ResponseCode.SYSTEM_ERROR, remark)
    try:
        return decode_message(record, decompress=False, check_crc=True)
    except RemoteProtocolError as failure:
        raise RequestError(ResponseCode.SYSTEM_ERROR, f"{remark}: {failure}") from failure


def _because(why: str | None) -> str:
    return "" if why is None else f": {why}"


_INT32_MAX = 0x7FFF_FFFF
