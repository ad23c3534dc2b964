"""SEND_MESSAGE, SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE: the way of a message from a request into the store.

Two roads lead to the same ``store.put``. The hot one takes a JSON V2 header of the plain kind (known ordinary topic,
valid queue, properties without special meaning) and does nothing that this kind does not need; whatever is unusual it
declines, and the whole road below serves it: checks in RocketMQ's order, topic creation, retry topics, random queues.
The tests send the same requests down both and compare records and answers.

This module checks and rewrites; durability is the store's: under SYNC_FLUSH the answer is deferred to
GroupCommitService. It knows no sockets and no files.

Compatibility: ``SendMessageProcessor`` and ``AbstractSendMessageProcessor.msgCheck`` (4.9.8); broker.md 5.
"""

from __future__ import annotations

from functools import partial
from random import Random

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.processors.send_answer import Receipt, SendAnswers
from rocketpy.broker.processors.send_check import SendCheck
from rocketpy.broker.processors.send_properties import (
    BROKERS_OWN,
    MULTI_QUEUE_OFFSET,
    NOT_PLAIN,
    READ_BY_DISPATCH,
    WAIT_TRUE,
    WAIT_TRUE_BACK,
    batch_records,
    match_usual,
    plain_properties,
    refuse_unsupported,
    remembered_tags_code,
)
from rocketpy.broker.subscription_group import SubscriptionGroupManager
from rocketpy.broker.topic_config import TopicConfigManager
from rocketpy.errors import RemoteProtocolError, RequestError
from rocketpy.protocol.batch import split_batch_body
from rocketpy.protocol.bodies.topic import TopicConfig
from rocketpy.protocol.codes import RequestCode, ResponseCode, SerializeType
from rocketpy.protocol.command import ONEWAY_FLAG, RemotingCommand
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from rocketpy.protocol.hot_headers import HOT_HEADER_ERRORS, decode_hot_send
from rocketpy.protocol.java_hash import tags_code
from rocketpy.protocol.properties import (
    decode_properties,
    encode_properties,
    index_keys,
)
from rocketpy.protocol.sysflag import MULTI_TAGS_FLAG
from rocketpy.protocol.topic_name import DLQ_PREFIX, FAQ, RETRY_PREFIX, topic_name_fault
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Deferred, Dispatcher
from rocketpy.store.message_store import MessageStore
from rocketpy.store.results import PutMessageStatus

_PUT_OK = PutMessageStatus.PUT_OK

_PLAIN_TOPICS_MAX = 10_000

_BATCH_COUNT_MAX = 250_000
"""The answer to more, with an id for each, would not fit into a frame."""


class SendMessageProcessor:
    """Serves the three send codes. One per broker."""

    def __init__(
        self,
        *,
        store: MessageStore,
        topic_config_manager: TopicConfigManager,
        subscription_group_manager: SubscriptionGroupManager,
        check: SendCheck,
        answers: SendAnswers,
        config: BrokerConfig,
        randomness: Random,
    ) -> None:
        self._store = store
        self._put = store.put
        self._sync_flush = store.sync_flush
        self._topics = topic_config_manager.topic_config_table
        self._plain_topics: dict[str, TopicConfig] = {}  # what _note_plain_topic has found, by topic
        self._topic_config_manager = topic_config_manager
        self._subscription_group_manager = subscription_group_manager
        self._check = check
        self._answers = answers
        self._randomness = randomness
        self._unwaited_end = 0  # of the last message that nobody waits for; only under SYNC_FLUSH
        self._is_flush_asked = False  # for such messages
        self._cluster = config.broker_cluster_name
        self._cluster_suffix = f"\x02CLUSTER\x01{self._cluster}".encode()

    def register(self, dispatcher: Dispatcher) -> None:
        """Take the send codes, and the hot road of V2."""
        codes = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
        dispatcher.register(codes, self.process)
        dispatcher.register_fast_path(RequestCode.SEND_MESSAGE_V2, self.process_hot)
        dispatcher.register_fast_path(RequestCode.SEND_BATCH_MESSAGE, self.process_hot_batch)

    # ---- the hot road ---------------------------------------------------------------------------------------------

    def process_hot(self, connection: Connection, header: bytes, body: bytes | None) -> bool:
        """Serve a plain JSON V2 send; False, with nothing done, when it is of any other kind."""
        try:
            request = decode_hot_send(header)
        except HOT_HEADER_ERRORS:
            return False
        fields = request.ext_fields
        topic = fields.topic
        queue_id = fields.queue_id
        config = self._topics.get(topic)
        if config is None or config is not self._plain_topics.get(topic):
            if not self._note_plain_topic(topic, config):
                return False
            assert config is not None
        if not 0 <= queue_id < config.write_queue_nums or fields.batch:
            return False
        if self._sync_flush and not connection.may_defer:
            return False

        text = fields.properties
        match = match_usual(text)
        if match is not None:
            keys_text, unique_key, tags = match.groups()
            stored = text[:WAIT_TRUE_BACK] if tags is None else text.replace(WAIT_TRUE, "", 1)
            keys = (unique_key.encode(),) if keys_text is None else index_keys(unique_key, keys_text)
        else:
            unusual = plain_properties(text)
            if unusual is None:
                return False
            stored, keys, tags = unusual

        status, physical_offset, queue_offset = self._put(
            topic,
            queue_id,
            body or b"",
            stored.encode() + self._cluster_suffix,
            0 if tags is None else remembered_tags_code(tags),
            keys,
            fields.flag,
            fields.sys_flag,
            fields.born_timestamp,
            connection.born_host,
            fields.reconsume_times,
        )
        if status is not _PUT_OK:
            if not request.flag & ONEWAY_FLAG:
                self._refuse_hot(connection, request.opaque, status, body, stored)
        elif self._sync_flush:
            if not request.flag & ONEWAY_FLAG:
                connection.count_deferred()
                answer = partial(self._answer_hot, connection, request.opaque, physical_offset, queue_id, queue_offset)
                self._store.wait_durable(self._store.wrote_offset, answer)
            else:
                self._flush_soon()
        elif not request.flag & ONEWAY_FLAG:
            connection.reply_frame(self._answers.success(request.opaque, physical_offset, queue_id, queue_offset))
        return True

    def process_hot_batch(self, connection: Connection, header: bytes, body: bytes | None) -> bool:
        """Serve a plain JSON batch; False, with nothing done, when it is of any other kind."""
        try:
            request = decode_hot_send(header)
            items = split_batch_body(body or b"")
        except (*HOT_HEADER_ERRORS, RemoteProtocolError):
            return False
        fields = request.ext_fields
        topic, queue_id = fields.topic, fields.queue_id
        config = self._topics.get(topic)
        if config is None or (
            config is not self._plain_topics.get(topic) and not self._note_plain_topic(topic, config)
        ):
            return False
        if not 0 <= queue_id < config.write_queue_nums or not fields.batch or not 0 < len(items) <= _BATCH_COUNT_MAX:
            return False
        if MULTI_QUEUE_OFFSET in (body or b"") or (self._sync_flush and not connection.may_defer):
            return False
        shared = decode_properties(fields.properties)
        if not NOT_PLAIN.isdisjoint(shared) or not READ_BY_DISPATCH.isdisjoint(shared):
            return False
        shared["CLUSTER"] = self._cluster
        records = batch_records(items, encode_properties(shared).encode(), suffix_says_nothing=True)
        status, physical_offsets, queue_offset = self._store.put_batch(
            topic,
            queue_id,
            records,
            fields.sys_flag,
            fields.born_timestamp,
            connection.born_host,
            fields.reconsume_times,
        )
        is_oneway = bool(request.flag & ONEWAY_FLAG)
        if status is not _PUT_OK:
            if not is_oneway:
                refused = RemotingCommand(code=RequestCode.SEND_BATCH_MESSAGE, opaque=request.opaque)
                longest = max((stored for _, _, stored, _, _ in records), key=len)
                connection.reply(self._not_stored(refused, status, body or b"", longest))
            return True
        msg_id = self._answers.batch_msg_id(physical_offsets)
        if self._sync_flush:
            receipt = Receipt(request.opaque, SerializeType.JSON, msg_id, queue_id, queue_offset)
            self._answered(connection, receipt, oneway=is_oneway, wait=shared.get("WAIT"))
        elif not is_oneway:
            connection.reply_frame(self._answers.batch_success(request.opaque, msg_id, queue_id, queue_offset))
        return True

    def _answer_hot(
        self,
        connection: Connection,
        opaque: int,
        physical_offset: int,
        queue_id: int,
        queue_offset: int,
        status: PutMessageStatus,
    ) -> None:
        """Answer a plain send whose flush has come, or not in time."""
        answers = self._answers
        if status is _PUT_OK:
            frame = answers.success(opaque, physical_offset, queue_id, queue_offset)
        else:
            msg_id = answers.msg_id(physical_offset)
            frame = answers.stored(Receipt(opaque, SerializeType.JSON, msg_id, queue_id, queue_offset), status)
        connection.reply_deferred(frame)

    def _note_plain_topic(self, topic: str, config: TopicConfig | None) -> bool:
        """Whether the hot road may serve a topic in its present configuration; remembered until that changes."""
        if config is None or topic[0] == "%" or topic in self._check.forbidden_topics or topic_name_fault(topic):
            return False
        if not self._check.is_open or config.topic_filter_type != "SINGLE_TAG":
            return False
        if len(self._plain_topics) >= _PLAIN_TOPICS_MAX:
            self._plain_topics.clear()
        self._plain_topics[topic] = config
        return True

    def _refuse_hot(
        self, connection: Connection, opaque: int, status: PutMessageStatus, body: bytes | None, stored: str
    ) -> None:
        request = RemotingCommand(code=RequestCode.SEND_MESSAGE_V2, opaque=opaque)
        properties = stored.encode() + self._cluster_suffix
        connection.reply(self._not_stored(request, status, body or b"", properties))

    # ---- the whole road -------------------------------------------------------------------------------------------

    def process(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | Deferred | None:
        """Serve any send, single or batch, in either header form."""
        try:
            header = _header_of(request)
            if self._sync_flush and not request.is_oneway and not connection.may_defer:
                raise RequestError(ResponseCode.SYSTEM_BUSY, _TOO_MANY_WAIT)
            config = self._check.checked_topic_config(connection, header)
            if header.batch:
                return self._put_batch(connection, request, header, config)
            return self._put_single(connection, request, header, config)
        except RequestError as refusal:
            return self._answers.refused(request, refusal.response_code, refusal.remark)

    def _put_single(
        self,
        connection: Connection,
        request: RemotingCommand,
        header: SendMessageRequestHeader,
        config: TopicConfig,
    ) -> RemotingCommand | Deferred | None:
        properties = decode_properties(header.properties or "")
        refuse_unsupported(properties)
        topic, queue_id = header.topic, self._chosen_queue(header.queue_id, config)
        target_queue_id = queue_id
        if topic.startswith(RETRY_PREFIX) and self._is_over_retry_limit(header, request.version):
            dead_letter = DLQ_PREFIX + topic[len(RETRY_PREFIX) :]
            config = self._check.created_topic_config(dead_letter, queue_nums=1)
            topic, target_queue_id = dead_letter, 0
        properties["CLUSTER"] = self._cluster
        wait = properties.pop("WAIT", None)
        body, stored = request.body or b"", encode_properties(properties).encode()
        status, physical_offset, queue_offset = self._put(
            topic,
            target_queue_id,
            body,
            stored,
            tags_code(properties.get("TAGS")),
            index_keys(properties.get("UNIQ_KEY"), properties.get("KEYS")),
            header.flag,
            header.sys_flag | (MULTI_TAGS_FLAG if config.topic_filter_type != "SINGLE_TAG" else 0),
            header.born_timestamp,
            connection.born_host,
            header.reconsume_times or 0,
        )
        if status is not _PUT_OK:
            return self._not_stored(request, status, body, stored)
        receipt = Receipt(
            request.opaque, request.serialize_type, self._answers.msg_id(physical_offset), queue_id, queue_offset
        )
        return self._answered(connection, receipt, oneway=request.is_oneway, wait=wait)

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
        if len(items) > _BATCH_COUNT_MAX:
            remark = f"the batch body holds {len(items)} messages, the limit is {_BATCH_COUNT_MAX}"
            raise RequestError(ResponseCode.MESSAGE_ILLEGAL, remark)
        if MULTI_QUEUE_OFFSET in (request.body or b"") and any(MULTI_QUEUE_OFFSET in own for _, _, own in items):
            raise RequestError(ResponseCode.MESSAGE_ILLEGAL, BROKERS_OWN)
        shared = decode_properties(header.properties or "")
        refuse_unsupported(shared)
        shared["CLUSTER"] = self._cluster
        suffix = encode_properties(shared).encode()
        queue_id = self._chosen_queue(header.queue_id, config)
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
            return self._not_stored(request, status, request.body or b"", longest)
        msg_id = self._answers.batch_msg_id(physical_offsets)
        receipt = Receipt(request.opaque, request.serialize_type, msg_id, queue_id, queue_offset)
        return self._answered(connection, receipt, oneway=request.is_oneway, wait=shared.get("WAIT"))

    def _not_stored(
        self, request: RemotingCommand, status: PutMessageStatus, body: bytes, properties: bytes
    ) -> RemotingCommand:
        why = self._store.writable_or_why()
        code, remark = self._answers.refusal(status, why=why, body=body, properties=properties)
        return self._answers.refused(request, code, remark)

    def _answered(
        self, connection: Connection, receipt: Receipt, *, oneway: bool, wait: str | None
    ) -> RemotingCommand | Deferred | None:
        if self._sync_flush and wait != "false" and not oneway:
            connection.count_deferred()
            self._store.wait_durable(self._store.wrote_offset, partial(self._answer_stored, connection, receipt))
            return None
        if self._sync_flush:
            self._flush_soon()
        if not oneway:
            connection.reply_frame(self._answers.stored(receipt, _PUT_OK))
        return None

    def _answer_stored(self, connection: Connection, receipt: Receipt, status: PutMessageStatus) -> None:
        connection.reply_deferred(self._answers.stored(receipt, status))

    def _flush_soon(self) -> None:
        """See to it that a message for which nobody waits does not stay in memory under SYNC_FLUSH.

        One request at a time is enough: what came meanwhile is asked for when it is answered.
        """
        self._unwaited_end = self._store.wrote_offset
        if not self._is_flush_asked:
            self._is_flush_asked = True
            self._store.wait_durable(self._unwaited_end, partial(self._flushed_unwaited, self._unwaited_end))

    def _flushed_unwaited(self, physical_end: int, status: PutMessageStatus) -> None:
        self._is_flush_asked = False
        if self._unwaited_end > physical_end:
            self._flush_soon()

    def _chosen_queue(self, queue_id: int, config: TopicConfig) -> int:
        if queue_id >= 0:
            return queue_id
        if config.write_queue_nums <= 0:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"topic[{config.topic_name}] has no write queue to choose from"
            )
        return self._randomness.randrange(config.write_queue_nums)

    def _is_over_retry_limit(self, header: SendMessageRequestHeader, version: int) -> bool:
        """Whether a message to a retry topic has used up its tries; RequestError when its group does not exist."""
        group = header.topic[len(RETRY_PREFIX) :]
        config = self._subscription_group_manager.find_subscription_group_config(group)
        if config is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {group} {FAQ}"
            )
        retries_max = config.retry_max_times
        if version >= _FIRST_VERSION_WITH_RETRY_LIMIT and header.max_reconsume_times is not None:
            retries_max = header.max_reconsume_times
        return (header.reconsume_times or 0) >= retries_max


def _header_of(request: RemotingCommand) -> SendMessageRequestHeader:
    if request.code == RequestCode.SEND_MESSAGE:
        return read_header(request, SendMessageRequestHeader)
    return read_header(request, SendMessageRequestHeaderV2).to_v1()


_FIRST_VERSION_WITH_RETRY_LIMIT = 121  # V3_4_9
_TOO_MANY_WAIT = "[OVERLOAD]system busy, start flow control for a while: too many sends wait for the disk"
