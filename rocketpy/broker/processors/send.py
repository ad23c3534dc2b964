"""SEND_MESSAGE, SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE: the way of a message from a request into the store.

Two roads lead into the store. The hot one (:mod:`.send_hot`) takes plain messages; whatever is unusual it declines, and
the whole road here serves it: checks in RocketMQ's order, topic creation, retry topics, random queues, half messages,
delays. The tests send the same requests down both and compare records and answers.

This module checks and rewrites; durability is the store's: under SYNC_FLUSH the answer is deferred to
GroupCommitService. It knows no sockets and no files.

Compatibility: ``SendMessageProcessor`` and ``AbstractSendMessageProcessor.msgCheck`` (4.9.8); broker.md 5.
"""

from __future__ import annotations

from random import Random

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.message_put import MessageExtBrokerInner, MessagePut
from rocketpy.broker.processors.retry_limit import known_group, retries_max
from rocketpy.broker.processors.send_answer import Receipt, SendAnswers
from rocketpy.broker.processors.send_check import SendCheck
from rocketpy.broker.processors.send_outcome import SendOutcome
from rocketpy.broker.processors.send_properties import (
    BATCH_COUNT_MAX,
    BROKERS_OWN,
    MULTI_QUEUE_OFFSET,
    READ_BY_DISPATCH,
    batch_records,
    refuse_delayed_batch,
    refuse_unsupported,
)
from rocketpy.broker.subscription_group import SubscriptionGroupManager
from rocketpy.errors import RemoteProtocolError, RequestError
from rocketpy.protocol.batch import split_batch_body
from rocketpy.protocol.bodies.topic import TopicConfig
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from rocketpy.protocol.properties import decode_properties, encode_properties
from rocketpy.protocol.sysflag import MULTI_TAGS_FLAG
from rocketpy.protocol.topic_name import DLQ_PREFIX, RETRY_PREFIX
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Deferred, Dispatcher
from rocketpy.store.message_store import MessageStore
from rocketpy.store.results import PutMessageStatus

_PUT_OK = PutMessageStatus.PUT_OK


class SendMessageProcessor:
    """Serves the three send codes. One per broker."""

    def __init__(
        self,
        *,
        store: MessageStore,
        message_put: MessagePut,
        subscription_group_manager: SubscriptionGroupManager,
        check: SendCheck,
        answers: SendAnswers,
        outcome: SendOutcome,
        config: BrokerConfig,
        randomness: Random,
    ) -> None:
        self._store = store
        self._message_put = message_put
        self._subscription_group_manager = subscription_group_manager
        self._check = check
        self._answers = answers
        self._outcome = outcome
        self._randomness = randomness
        self._cluster = config.broker_cluster_name

    def register(self, dispatcher: Dispatcher) -> None:
        """Take the send codes."""
        codes = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
        dispatcher.register(codes, self.process)

    def process(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | Deferred | None:
        """Serve any send, single or batch, in either header form."""
        try:
            header = _header_of(request)
            self._outcome.check_may_wait(connection, oneway=request.is_oneway)
            config = self._check.checked_topic_config(connection, header)
            if header.batch:
                return self._put_batch(connection, request, header, config)
            return self._put_single(connection, request, header, config)
        except RequestError as refusal:
            return self._answers.refused(request, refusal.response_code, refusal.remark)

    # ---- private --------------------------------------------------------------------------------------------------

    def _put_single(
        self,
        connection: Connection,
        request: RemotingCommand,
        header: SendMessageRequestHeader,
        config: TopicConfig,
    ) -> RemotingCommand | Deferred | None:
        properties = decode_properties(header.properties or "")
        refuse_unsupported(properties)
        topic, queue_id = header.topic, chosen_queue(header.queue_id, config, self._randomness)
        target_queue_id = queue_id
        if topic.startswith(RETRY_PREFIX) and self._is_over_retry_limit(header, request.version):
            dead_letter = DLQ_PREFIX + topic[len(RETRY_PREFIX) :]
            config = self._check.created_topic_config(dead_letter, queue_nums=1)
            topic, target_queue_id = dead_letter, 0
        properties["CLUSTER"] = self._cluster
        wait = properties.pop("WAIT", None)
        message = MessageExtBrokerInner(
            topic=topic,
            queue_id=target_queue_id,
            body=request.body or b"",
            properties=properties,
            flag=header.flag,
            sys_flag=header.sys_flag | (MULTI_TAGS_FLAG if config.topic_filter_type != "SINGLE_TAG" else 0),
            born_timestamp=header.born_timestamp,
            born_host=connection.born_host,
            reconsume_times=header.reconsume_times or 0,
        )
        result = self._message_put.put(message)
        if not result.is_ok:
            stored = encode_properties(message.properties).encode()
            return self._outcome.not_stored(request, result.status, message.body, stored)
        msg_id = self._answers.msg_id(result.physical_offset)
        receipt = Receipt(request.opaque, request.serialize_type, msg_id, queue_id, result.queue_offset)
        self._outcome.stored(connection, receipt, oneway=request.is_oneway, wait=wait)
        return None

    def _put_batch(
        self,
        connection: Connection,
        request: RemotingCommand,
        header: SendMessageRequestHeader,
        config: TopicConfig,
    ) -> RemotingCommand | Deferred | None:
        try:
            items = split_batch_body(request.body or b"")
        except RemoteProtocolError as failure:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"the batch body is malformed: {failure}") from failure
        if not items:
            raise RequestError(ResponseCode.MESSAGE_ILLEGAL, "the batch body holds no message, expected at least one")
        if len(items) > BATCH_COUNT_MAX:
            remark = f"the batch body holds {len(items)} messages, the limit is {BATCH_COUNT_MAX}"
            raise RequestError(ResponseCode.MESSAGE_ILLEGAL, remark)
        if MULTI_QUEUE_OFFSET in (request.body or b"") and any(MULTI_QUEUE_OFFSET in own for _, _, own in items):
            raise RequestError(ResponseCode.MESSAGE_ILLEGAL, BROKERS_OWN)
        shared = decode_properties(header.properties or "")
        refuse_unsupported(shared)
        refuse_delayed_batch(shared)
        shared["CLUSTER"] = self._cluster
        suffix = encode_properties(shared).encode()
        queue_id = chosen_queue(header.queue_id, config, self._randomness)
        says_nothing = READ_BY_DISPATCH.isdisjoint(shared)
        records = batch_records(items, suffix, suffix_says_nothing=says_nothing)
        status, physical_offsets, queue_offset = self._store.put_batch(
            header.topic,
            queue_id,
            records,
            header.sys_flag | (MULTI_TAGS_FLAG if config.topic_filter_type != "SINGLE_TAG" else 0),
            header.born_timestamp,
            connection.born_host,
            header.reconsume_times or 0,
        )
        if status is not _PUT_OK:
            longest = max((stored for _, _, stored, _, _ in records), key=len)
            return self._outcome.not_stored(request, status, request.body or b"", longest)
        msg_id = self._answers.batch_msg_id(physical_offsets)
        receipt = Receipt(request.opaque, request.serialize_type, msg_id, queue_id, queue_offset)
        self._outcome.stored(connection, receipt, oneway=request.is_oneway, wait=shared.get("WAIT"))
        return None

    def _is_over_retry_limit(self, header: SendMessageRequestHeader, version: int) -> bool:
        """Whether a message to a retry topic has used up its tries; RequestError when its group does not exist."""
        group = header.topic[len(RETRY_PREFIX) :]
        group_config = known_group(self._subscription_group_manager, group)
        limit = retries_max(group_config, version=version, asked=header.max_reconsume_times)
        return (header.reconsume_times or 0) >= limit


def chosen_queue(queue_id: int, config: TopicConfig, randomness: Random) -> int:
    """Return the queue that was asked for, or one by chance for a negative number."""
    if queue_id >= 0:
        return queue_id
    if config.write_queue_nums <= 0:
        raise RequestError(ResponseCode.SYSTEM_ERROR, f"topic[{config.topic_name}] has no write queue to choose from")
    return randomness.randrange(config.write_queue_nums)


def _header_of(request: RemotingCommand) -> SendMessageRequestHeader:
    if request.code == RequestCode.SEND_MESSAGE:
        return read_header(request, SendMessageRequestHeader)
    return read_header(request, SendMessageRequestHeaderV2).to_v1()
