"""SEND_MESSAGE, SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE: the general path from a request into the store.

The fast path (:mod:`.fast_path`) takes plain messages and declines all others. The general path here serves those:
checks in RocketMQ's order, topic creation, retry topics, random queues, half messages, delays. The tests send the same
requests down both paths and compare records and responses.

This module checks and rewrites. Durability is the store's: under SYNC_FLUSH the response is deferred to
GroupCommitService. It knows no sockets and no files.

Compatibility: ``SendMessageProcessor`` and ``AbstractSendMessageProcessor.msgCheck`` (4.9.8).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import attrs

from rocketpy.broker.acl.needs import SEND_BATCH, SEND_V1, SEND_V2
from rocketpy.broker.acl.strict_accounts import StrictAccounts
from rocketpy.broker.hooks import SendHooks, SendMessageContext
from rocketpy.broker.metadata.groups import SubscriptionGroupManager
from rocketpy.broker.metadata.named_queues import NamedQueues
from rocketpy.broker.metadata.new_topics import NewTopics
from rocketpy.broker.send.answers import Receipt
from rocketpy.broker.send.checks import chosen_queue, read_send_header
from rocketpy.broker.send.collaborators import SendCollaborators
from rocketpy.broker.send.long_batch import LongBatches, is_long, stored_batch_in_slices
from rocketpy.broker.send.properties import (
    BATCH_BYTES_MAX,
    BATCH_PROPERTIES_MAX,
    BROKER_ONLY_MARK,
    CLIENT_SYS_FLAGS,
    READ_BY_DISPATCH,
    client_columns,
    client_properties,
    count_properties,
    fits_as_batch,
    is_transactional,
    refuse_special_batch,
    refuse_unreadable_delay,
    stored_batch,
)
from rocketpy.broker.send.put import MessageExtBrokerInner
from rocketpy.broker.send.retry_limit import known_group, retries_max
from rocketpy.broker.transaction.half_message import PROPERTY_ACCOUNT, half_message
from rocketpy.errors import RemoteProtocolError, RequestError
from rocketpy.log_files import is_logged
from rocketpy.protocol.batch import BatchColumns, BatchCountError, split_batch_body
from rocketpy.protocol.bodies.topic import TopicConfig
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.headers.send import SendMessageRequestHeader
from rocketpy.protocol.properties import (
    PROPERTIES_TEXT_MAX,
    PROPERTY_MSG_REGION,
    PROPERTY_TRACE_SWITCH,
    decode_properties,
    encode_properties,
)
from rocketpy.protocol.sysflag import MULTI_TAGS_FLAG
from rocketpy.protocol.topic_name import DLQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.deferred import DEFERRED, Deferred
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.store.append.batch import MessageBatch
from rocketpy.store.results import PutMessageStatus

_PUT_OK = PutMessageStatus.PUT_OK
_log = logging.getLogger("rocketpy.broker")
_TOO_MANY_OPEN = "[OVERLOAD]system busy, start flow control for a while: too many transactions are open"
_TOO_MANY_TASKS = "[OVERLOAD]system busy, start flow control for a while: too many long batches and reads are under way"


@attrs.frozen
class _BatchSend:
    """A checked batch that is still to be stored and answered."""

    connection: Connection
    request: RemotingCommand
    header: SendMessageRequestHeader
    context: SendMessageContext | None
    wait: str | None


class SendMessageProcessor:
    """Processor of the three send codes. One per broker."""

    def __init__(
        self,
        shared: SendCollaborators,
        *,
        subscription_group_manager: SubscriptionGroupManager,
        hooks: SendHooks,
        accounts: StrictAccounts,
        new_topics: NewTopics,
        named_queues: NamedQueues | None,
        long_batches: LongBatches,
        may_prepare: Callable[[], bool],
    ) -> None:
        """``may_prepare`` says whether one more transaction may begin."""
        self._store = shared.store
        self._message_put = shared.message_put
        self._subscription_group_manager = subscription_group_manager
        self._check = shared.check
        self._gate = shared.gate
        self._answers = shared.answers
        self._outcome = shared.outcome
        self._stats = shared.stats
        self._hooks = hooks
        self._accounts = accounts
        self._new_topics = new_topics
        self._named_queues = named_queues
        self._config = shared.config
        self._randomness = shared.randomness
        self._cluster = shared.config.broker_cluster_name
        self._long_batches = long_batches
        self._may_prepare = may_prepare
        self._dropped_count = 0  # oneway batches that were refused because too many wait

    def register(self, dispatcher: Dispatcher) -> None:
        """Register for the send codes."""
        dispatcher.register(RequestCode.SEND_MESSAGE, self.process, needs=SEND_V1)
        dispatcher.register(RequestCode.SEND_MESSAGE_V2, self.process, needs=SEND_V2)
        dispatcher.register(RequestCode.SEND_BATCH_MESSAGE, self.process, needs=SEND_BATCH)

    def process(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | Deferred | None:
        """Serve any send, single or batch, in either header form."""
        context = None
        answer: RemotingCommand | Deferred | None
        try:
            self._gate.check(connection)
            header = read_send_header(request)
            if self._hooks:
                context = self._hooks.before(header, request.ext_fields or {}, request.body, connection.peer)
                header = self._traced(header)
            self._outcome.check_may_wait(connection, oneway=request.is_oneway)
            config = self._check.checked_topic_config(connection, header)
            put = self._put_batch if header.batch else self._put_single
            answer = put(connection, request, header, config, context)
        except RequestError as refusal:
            answer = self._answers.refused(request, refusal.response_code, refusal.remark)
        if context is not None and isinstance(answer, RemotingCommand):
            self._hooks.refused(context, code=answer.code, remark=answer.remark)
        return answer

    # ---- private --------------------------------------------------------------------------------------------------

    def _put_single(
        self,
        connection: Connection,
        request: RemotingCommand,
        header: SendMessageRequestHeader,
        config: TopicConfig,
        context: SendMessageContext | None,
    ) -> RemotingCommand | None:
        """Store one message; return the response if it is refused, otherwise arrange for one and return None."""
        properties = client_properties(header.properties, is_retry=header.topic.startswith(RETRY_PREFIX))
        refuse_unreadable_delay(properties)
        if self._named_queues is not None:
            self._named_queues.check(properties)
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
            sys_flag=header.sys_flag & CLIENT_SYS_FLAGS
            | (MULTI_TAGS_FLAG if config.topic_filter_type != "SINGLE_TAG" else 0),
            born_timestamp=header.born_timestamp,
            born_host=connection.born_host,
            reconsume_times=header.reconsume_times or 0,
        )
        if is_transactional(properties):
            refused = self._make_half(connection, request, message)
            if refused is not None:
                return refused
        result = self._message_put.put(message)
        if not result.is_ok:
            stored = encode_properties(message.properties).encode()
            return self._outcome.not_stored(request, result.status, message.body, stored)
        size = self._store.wrote_offset - result.physical_offset
        self._stats.inc_topic_put(result.topic, 1, size)
        if result.topic == SCHEDULE_TOPIC:
            self._stats.inc_queue_put(result.topic, result.queue_id, 1, size)
        msg_id = self._answers.msg_id(result.physical_offset)
        receipt = Receipt(request.opaque, request.serialize_type, msg_id, queue_id, result.queue_offset)
        self._stored(connection, request, header.topic, receipt, wait, context, size)
        return None

    def _make_half(
        self, connection: Connection, request: RemotingCommand, message: MessageExtBrokerInner
    ) -> RemotingCommand | None:
        """Rewrite a prepared message; return the response if it could not be stored once it is committed."""
        self._check_transactions_are_taken()
        access_key = self._accounts.access_key(connection, request)
        if access_key is not None:
            message.properties[PROPERTY_ACCOUNT] = access_key
        half_message(message)
        stored = encode_properties(message.properties).encode()
        refusal = self._store.refusal_of_waiting(stored)
        return None if refusal is None else self._outcome.not_stored(request, refusal, message.body, stored)

    def _put_batch(
        self,
        connection: Connection,
        request: RemotingCommand,
        header: SendMessageRequestHeader,
        config: TopicConfig,
        context: SendMessageContext | None,
    ) -> RemotingCommand | Deferred | None:
        """Store a batch; return the response if it is refused, otherwise arrange for one."""
        body = request.body or b""
        columns = self._columns_of(body)
        shared = client_properties(header.properties)
        refuse_special_batch(shared)
        shared["CLUSTER"] = self._cluster
        suffix = encode_properties(shared).encode()
        if not fits_as_batch(columns, body, suffix):
            raise RequestError(ResponseCode.MESSAGE_ILLEGAL, _too_large(columns, suffix))
        if len(body) > self._store.message_size_max:  # RocketMQ, too, compares the body including properties
            return self._outcome.not_stored(request, PutMessageStatus.MESSAGE_ILLEGAL, body, suffix)
        send = _BatchSend(connection, request, header, context, shared.get("WAIT"))
        has_no_tags_or_keys = READ_BY_DISPATCH.isdisjoint(shared)
        if is_long(columns, body) or self._store.is_index_behind:
            self._put_later(send, columns, suffix, has_no_tags_or_keys)
            return DEFERRED
        if BROKER_ONLY_MARK in body:
            columns = client_columns(columns)
        batch = stored_batch(columns, suffix, suffix_has_no_tags_or_keys=has_no_tags_or_keys)
        return self._put_prepared(send, batch, config)

    def _put_later(self, send: _BatchSend, columns: BatchColumns, suffix: bytes, has_no_tags_or_keys: bool) -> None:
        """Leave a batch to a task; RequestError(SYSTEM_BUSY) when too many wait.

        A oneway has no reply that is deferred: as for a short one, the limit on those is not its limit. Where it is
        refused by another one, the log says so, because its producer does not learn of it.
        """
        request = send.request
        try:
            if not request.is_oneway and not send.connection.may_defer:
                raise RequestError(ResponseCode.SYSTEM_BUSY, _TOO_MANY_TASKS)
            size = self._long_batches.take(columns, request.body or b"")
            if not send.connection.answer_later(
                request, self._put_in_slices, send, columns, suffix, has_no_tags_or_keys, size
            ):
                self._long_batches.leave(size)
                raise RequestError(ResponseCode.SYSTEM_BUSY, _TOO_MANY_TASKS)
        except RequestError as refusal:
            if request.is_oneway:
                self._log_dropped(send, refusal.remark)
            raise

    def _log_dropped(self, send: _BatchSend, why: str | None) -> None:
        self._dropped_count += 1
        if is_logged(self._dropped_count):
            _log.warning("a oneway batch of %s for %r is dropped, %d so far: %s",
                         send.connection.peer, send.header.topic, self._dropped_count, why)  # fmt: skip

    async def _put_in_slices(
        self, send: _BatchSend, columns: BatchColumns, suffix: bytes, has_no_tags_or_keys: bool, size: int
    ) -> RemotingCommand | Deferred:
        """Store a batch in its turn. The checks are repeated, because their results may be outdated by then."""
        answer: RemotingCommand | None
        try:
            async with self._long_batches.turn(size):
                batch = await stored_batch_in_slices(
                    columns,
                    suffix,
                    suffix_has_no_tags_or_keys=has_no_tags_or_keys,
                    may_have_broker_only=BROKER_ONLY_MARK in (send.request.body or b""),
                )
                await self._store.wait_for_index()
                self._gate.check(send.connection)
                config = self._check.checked_topic_config(send.connection, send.header)
                answer = self._put_prepared(send, batch, config)
        except RequestError as refusal:
            answer = self._answers.refused(send.request, refusal.response_code, refusal.remark)
        if answer is None:
            send.connection.drop_deferred()  # answered already, or deferred once more until the flush
            return DEFERRED
        if send.context is not None:
            self._hooks.refused(send.context, code=answer.code, remark=answer.remark)
        return answer

    def _put_prepared(self, send: _BatchSend, batch: MessageBatch, config: TopicConfig) -> RemotingCommand | None:
        """Store the messages of a batch; return the response if the store refuses them."""
        header, connection, request = send.header, send.connection, send.request
        queue_id = chosen_queue(header.queue_id, config, self._randomness)
        status, physical_offsets, queue_offset = self._store.put_batch(
            header.topic,
            queue_id,
            batch,
            header.sys_flag | (MULTI_TAGS_FLAG if config.topic_filter_type != "SINGLE_TAG" else 0),
            header.born_timestamp,
            connection.born_host,
            header.reconsume_times or 0,
        )
        if status is not _PUT_OK:
            longest = max(batch.properties, key=len)
            return self._outcome.not_stored(request, status, request.body or b"", longest)
        size = self._store.wrote_offset - physical_offsets[0]
        self._stats.inc_topic_put(header.topic, len(physical_offsets), size)
        msg_id = self._answers.batch_msg_id(physical_offsets)
        receipt = Receipt(request.opaque, request.serialize_type, msg_id, queue_id, queue_offset)
        self._stored(connection, request, header.topic, receipt, send.wait, send.context, size)
        return None

    def _stored(
        self,
        connection: Connection,
        request: RemotingCommand,
        topic: str,
        receipt: Receipt,
        wait: str | None,
        context: SendMessageContext | None,
        size_bytes: int,
    ) -> None:
        """Answer, under SYNC_FLUSH after the flush, for a new topic after its registration; call the hooks now."""
        if topic not in self._new_topics or not self._answer_when_registered(connection, request, topic, receipt, wait):
            self._outcome.stored(connection, receipt, oneway=request.is_oneway, wait=wait)
        if context is not None:
            self._hooks.stored(
                context,
                code=ResponseCode.SUCCESS,
                msg_id=receipt.msg_id,
                queue_id=receipt.queue_id,
                queue_offset=receipt.queue_offset,
                size_bytes=size_bytes,
            )

    def _answer_when_registered(
        self, connection: Connection, request: RemotingCommand, topic: str, receipt: Receipt, wait: str | None
    ) -> bool:
        """Leave the answer to a task; False when there is none to give, or too many wait."""
        if request.is_oneway or not connection.may_defer:
            return False
        if not connection.answer_later(request, self._answer_registered, connection, topic, receipt, wait):
            return False
        connection.count_deferred()
        self._store.flush_soon()  # not only when the answer waits for the flush
        return True

    async def _answer_registered(
        self, connection: Connection, topic: str, receipt: Receipt, wait: str | None
    ) -> Deferred:
        await self._new_topics.wait_registered(topic)
        connection.drop_deferred()  # answered, or deferred once more until the flush
        self._outcome.stored(connection, receipt, oneway=False, wait=wait)
        return DEFERRED

    def _columns_of(self, body: bytes) -> BatchColumns:
        """Split a batch body; RequestError when it is malformed, empty or has too many messages."""
        count_max = self._config.batch_messages_max
        try:
            columns = split_batch_body(body, count_max=count_max)
        except BatchCountError as failure:
            remark = f"the batch body holds more than {count_max} messages, the limit that batchMessagesMax sets"
            raise RequestError(ResponseCode.MESSAGE_ILLEGAL, remark) from failure
        except RemoteProtocolError as failure:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"the batch body is malformed: {failure}") from failure
        if not columns.bodies:
            raise RequestError(ResponseCode.MESSAGE_ILLEGAL, "the batch body holds no message, expected at least one")
        return columns

    def _check_transactions_are_taken(self) -> None:
        if self._config.reject_transaction_message:
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._config.broker_ip1}] sending transaction message is forbidden",
            )
        if not self._may_prepare():
            raise RequestError(ResponseCode.SYSTEM_BUSY, _TOO_MANY_OPEN)

    def _traced(self, header: SendMessageRequestHeader) -> SendMessageRequestHeader:
        """Return the header with the properties for consumer traces, which RocketMQ adds when it has hooks."""
        if len(header.properties or "") > PROPERTIES_TEXT_MAX:
            return header  # refused by a later check
        properties = decode_properties(header.properties or "")
        properties[PROPERTY_MSG_REGION] = self._config.region_id
        properties[PROPERTY_TRACE_SWITCH] = "true" if self._config.trace_on else "false"
        return attrs.evolve(header, properties=encode_properties(properties))

    def _is_over_retry_limit(self, header: SendMessageRequestHeader, version: int) -> bool:
        """Return whether a message to a retry topic has used up its retries; RequestError for an unknown group."""
        group = header.topic[len(RETRY_PREFIX) :]
        group_config = known_group(self._subscription_group_manager, group)
        limit = retries_max(group_config, version=version, asked=header.max_reconsume_times)
        return (header.reconsume_times or 0) >= limit


def _too_large(columns: BatchColumns, suffix: bytes) -> str:
    count, properties_count = len(columns.bodies), count_properties(columns, suffix)
    if properties_count > BATCH_PROPERTIES_MAX:
        return f"the messages of the batch have {properties_count} properties, the limit is {BATCH_PROPERTIES_MAX}"
    return (
        f"the batch is too large: {count} messages with {len(suffix)} bytes of properties of the whole batch each, "
        f"the limit is {BATCH_BYTES_MAX} bytes"
    )
