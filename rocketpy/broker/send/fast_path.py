"""Fast path for ordinary sends: SEND_MESSAGE_V2 in JSON. Batches have one of their own (:mod:`.fast_batch`).

It takes *plain* requests: a known ordinary topic, a valid queue, properties without special meaning, a broker that
accepts every send. It declines anything else without side effects, and the general path (:mod:`.processor`) serves it
with all checks. The tests send the same requests down both paths and compare records and responses.

Rule: the fact that a topic is plain is cached until ``data_version`` is replaced (compared by identity), so there is no
check per message. Code that closes the broker for sends (:class:`~rocketpy.broker.send.admission.SendGate`, a change of
``brokerPermission``) must therefore call :meth:`FastSend.invalidate`.

Compatibility: ``SendMessageProcessor`` (4.9.8).
"""

from __future__ import annotations

from functools import partial

from rocketpy.broker.metadata.topics import TopicConfigManager
from rocketpy.broker.monitoring.counters import TopicPutCounter
from rocketpy.broker.send.answers import Receipt
from rocketpy.broker.send.collaborators import SendCollaborators
from rocketpy.broker.send.fast_batch import READ_BATCH, FastBatch, NewHeader, ReadBatch
from rocketpy.broker.send.properties import (
    CLIENT_SYS_FLAGS,
    WAIT_TRUE,
    WAIT_TRUE_BACK,
    cached_tags_code,
    match_usual,
    plain_properties,
)
from rocketpy.protocol.codes import RequestCode, SerializeType
from rocketpy.protocol.command import ONEWAY_FLAG, RemotingCommand
from rocketpy.protocol.fast_path_headers import (
    FAST_HEADER_ERRORS,
    DecodeBatch,
    DecodeSend,
    decode_fast_batch,
    decode_fast_send,
)
from rocketpy.protocol.properties import PROPERTIES_TEXT_MAX, index_keys
from rocketpy.protocol.topic_name import topic_name_fault
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher, FastPath
from rocketpy.store.results import PutMessageStatus

_PUT_OK = PutMessageStatus.PUT_OK

PLAIN_TOPICS_MAX = 10_000


class FastSend:
    """Processor for plain sends. One per broker."""

    def __init__(
        self,
        shared: SendCollaborators,
        *,
        topic_config_manager: TopicConfigManager,
        decode: DecodeSend = decode_fast_send,
        decode_batch: DecodeBatch = decode_fast_batch,
        new_header: NewHeader | None = None,
        read_batch: ReadBatch | None = READ_BATCH,
    ) -> None:
        self._decode = decode
        store = shared.store
        self._store = store
        self._put = store.put
        self._waits_for_storing = store.waits_for_storing
        self._topic_config_manager = topic_config_manager
        self._topics_version = topic_config_manager.data_version  # under which _plain_topics was built
        self._appender = store.appender  # read for wrote_offset without a call: the difference is the size of a record
        # Cache of _note_plain_topic: by topic, the number of its queues and its put counter.
        self._plain_topics: dict[str, tuple[int, TopicPutCounter]] = {}
        self._check = shared.check
        self._gate = shared.gate
        self._answers = shared.answers
        self._outcome = shared.outcome
        self._stats = shared.stats
        self._config = shared.config
        self._cluster_suffix = f"\x02CLUSTER\x01{shared.config.broker_cluster_name}".encode()
        self._batches = FastBatch(
            shared,
            plain_topic=self.plain_topic,
            decode=decode_batch,
            new_header=new_header,
            read_batch=read_batch,
        )

    def register(self, dispatcher: Dispatcher, send: FastPath) -> None:
        """Register for both codes; the fast path, ``send`` for single ones, sees a request before it is decoded."""
        dispatcher.register_fast_path(RequestCode.SEND_MESSAGE_V2, send)
        dispatcher.register_fast_path(RequestCode.SEND_BATCH_MESSAGE, self._batches.process_fast)

    def invalidate(self) -> None:
        """Drop the cached topics; call after a change of anything that :meth:`_note_plain_topic` checks."""
        self._plain_topics.clear()
        self._topics_version = self._topic_config_manager.data_version

    def plain_topic(self, topic: str) -> tuple[int, TopicPutCounter] | None:
        """Return the number of a plain topic's queues and its put counter; None if the fast path may not serve it."""
        if self._topics_version is not self._topic_config_manager.data_version:
            self.invalidate()
        return self._plain_topics.get(topic) or self._note_plain_topic(topic)

    def process_fast(self, connection: Connection, header: bytes, body: bytes | None) -> bool:
        """Serve a plain JSON V2 send; return False, without side effects, for any other."""
        try:
            request = self._decode(header)
        except FAST_HEADER_ERRORS:
            return False
        fields = request.ext_fields
        topic = fields.topic
        queue_id = fields.queue_id
        plain = self.plain_topic(topic)
        if plain is None:
            return False
        queue_count, counter = plain
        if not 0 <= queue_id < queue_count or fields.batch:
            return False
        if self._waits_for_storing and not connection.may_defer:
            return False

        text = fields.properties
        match = match_usual(text)
        if match is not None:
            keys_text, unique_key, tags = match.groups()
            stored = text[:WAIT_TRUE_BACK] if tags is None else text.replace(WAIT_TRUE, "", 1)
            keys = (unique_key.encode(),) if keys_text is None else index_keys(unique_key, keys_text)
        elif len(text) > PROPERTIES_TEXT_MAX:
            return False
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
            0 if tags is None else cached_tags_code(tags),
            keys,
            fields.flag,
            fields.sys_flag & CLIENT_SYS_FLAGS,
            fields.born_timestamp,
            connection.born_host,
            fields.reconsume_times,
        )
        if status is not _PUT_OK:
            if not request.flag & ONEWAY_FLAG:
                self.refuse(connection, request.opaque, status, body, stored.encode() + self._cluster_suffix)
            return True
        counter.count += 1
        end_offset = self._appender.wrote_offset
        counter.size_bytes += end_offset - physical_offset
        if self._waits_for_storing:
            if not request.flag & ONEWAY_FLAG:
                connection.count_deferred()
                answer = partial(
                    self.answer_stored, connection, request.opaque, physical_offset, queue_id, queue_offset
                )
                self._store.wait_stored(end_offset, answer)
            else:
                self._store.flush_soon()
        elif not request.flag & ONEWAY_FLAG:
            connection.reply_frame(self._answers.success(request.opaque, physical_offset, queue_id, queue_offset))
        return True

    def answer_stored(
        self,
        connection: Connection,
        opaque: int,
        physical_offset: int,
        queue_id: int,
        queue_offset: int,
        status: PutMessageStatus,
    ) -> None:
        """Answer a plain send after its flush, or after the flush timed out."""
        answers = self._answers
        if status is _PUT_OK:
            frame = answers.success(opaque, physical_offset, queue_id, queue_offset)
        else:
            msg_id = answers.msg_id(physical_offset)
            frame = answers.stored(Receipt(opaque, SerializeType.JSON, msg_id, queue_id, queue_offset), status)
        connection.reply_deferred(frame)

    def _note_plain_topic(self, topic: str) -> tuple[int, TopicPutCounter] | None:
        config = self._topic_config_manager.select_topic_config(topic)
        if config is None or topic[0] == "%" or topic in self._check.forbidden_topics or topic_name_fault(topic):
            return None
        if not (self._gate.is_open and self._check.is_open) or config.topic_filter_type != "SINGLE_TAG":
            return None
        if len(self._plain_topics) >= PLAIN_TOPICS_MAX:
            self._plain_topics.clear()
        plain = self._plain_topics[topic] = config.write_queue_nums, self._stats.topic_put_counter(topic)
        return plain

    def refuse(
        self, connection: Connection, opaque: int, status: PutMessageStatus, body: bytes | None, properties: bytes
    ) -> None:
        """Answer a plain send that the store has refused; ``properties`` as it would have stored them."""
        request = RemotingCommand(code=RequestCode.SEND_MESSAGE_V2, opaque=opaque)
        connection.reply(self._outcome.not_stored(request, status, body or b"", properties))
