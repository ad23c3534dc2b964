"""Wire form of a message or batch: checked, with the producer's own properties, compressed and escaped.

A :class:`SendRequest` does not change from attempt to attempt; only queue, broker and opaque do.

Compatibility: ``DefaultMQProducerImpl.sendKernelImpl`` and ``MessageBatch`` (4.9.8). The caller's message is left as it
is, where Java changes it and changes it back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import trio

from rocketpy.client.instance import ClientInstance
from rocketpy.client.producer.added_properties import AddedProperties
from rocketpy.client.producer.config import ProducerConfig
from rocketpy.client.producer.encoded_batch import EncodedBatch
from rocketpy.client.replies import ReplyMessage
from rocketpy.client.validators import body_size, check_body_size, check_message, check_properties_bytes, check_topic
from rocketpy.errors import ClientError, LocalProtocolError
from rocketpy.protocol.batch import decode_batch_body, encode_batch_item
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.compression import CompressionType, compress, compressed_sys_flag
from rocketpy.protocol.frame.send_frame import SendFields, SendFrames, escape_properties
from rocketpy.protocol.headers.send import SendMessageRequestHeaderV2
from rocketpy.protocol.message import Message, MessageQueue
from rocketpy.protocol.message_id import UniqKeyFactory
from rocketpy.protocol.namespace import wrap_namespace
from rocketpy.protocol.properties import (
    PROPERTY_DELAY_TIME_LEVEL,
    PROPERTY_INSTANCE_ID,
    PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX,
    PROPERTY_WAIT_STORE_MSG_OK,
    decode_properties,
    encode_properties,
)
from rocketpy.protocol.topic_name import RETRY_PREFIX
from rocketpy.remoting.local_address import packed_address

COMPRESS_ON_LOOP_MAX = 64 * 1024
"""A larger body is compressed in a worker thread: zlib at level 5 takes about a millisecond for this much."""


class SendRequest:
    """One request, the same for all of its attempts. ``message`` is the caller's, the first one of a batch."""

    __slots__ = (
        "_escaped",
        "_fields",
        "_maker",
        "_properties",
        "batch",
        "batch_messages",
        "body",
        "born_timestamp",
        "code",
        "compression",
        "message",
        "msg_id",
        "size",
        "sys_flag",
        "topic",
    )

    def __init__(
        self,
        maker: SendRequestMaker,
        *,
        code: RequestCode,
        topic: str,
        message: Message,
        properties: Mapping[str, str],
        escaped: str,
        body: bytes,
        sys_flag: int,
        msg_id: str,
        batch: bool,
    ) -> None:
        self._maker = maker
        self._escaped = escaped
        self._properties = properties
        self._fields: SendFields | None = None  # encoded once, at the first attempt
        self.code = code
        self.topic = topic
        self.message = message
        self.body = body
        self.sys_flag = sys_flag
        self.msg_id = msg_id
        self.batch = batch
        self.batch_messages: Sequence[tuple[Message, dict[str, str]]] | None = None
        self.born_timestamp = maker.timestamp_ms()
        self.size = len(body)
        """Bytes of the body before compression."""
        self.compression = maker.compression_of(body) if not batch else None
        """Compression that the body still needs."""
        if self.compression is not None and len(body) <= COMPRESS_ON_LOOP_MAX:
            self.compress()

    def hook_messages(self) -> Sequence[Message]:
        """Return the messages for hooks, with the properties that travel."""
        if self.batch and self.batch_messages is None:  # encoded by the program
            topic = self.message.topic
            items = decode_batch_body(self.body)
            return [Message(topic, body, decode_properties(text.decode()), flag) for flag, body, text in items]
        if self.batch_messages is not None:
            return [Message(each.topic, each.body, dict(own), each.flag) for each, own in self.batch_messages]
        return (Message(self.topic, self.message.body, dict(self._properties), self.message.flag),)

    @property
    def needs_thread(self) -> bool:
        """Whether the body has to be compressed first, in a worker thread: :meth:`compress_in_thread`."""
        return self.compression is not None

    def compress(self) -> None:
        """Compress the body."""
        assert self.compression is not None
        self.body = compress(self.body, self.compression, self._maker.compress_level)
        self.sys_flag = compressed_sys_flag(self.sys_flag, self.compression)
        self.compression = None

    async def compress_in_thread(self) -> None:
        """Compress the body in a worker thread; LocalProtocolError when the package for the algorithm is missing."""
        await trio.to_thread.run_sync(self.compress)

    def frame(self, queue: MessageQueue, opaque: int, *, flag: int = 0) -> bytes:
        """Return the frame of one attempt; ``flag`` is the command's."""
        fields = self._fields
        if fields is None:
            fields = self._fields = self._maker.frames.fields(
                self.code,
                self.topic,
                self._escaped,
                self.body,
                sys_flag=self.sys_flag,
                born_timestamp=self.born_timestamp,
                flag=0 if self.batch else self.message.flag,
                batch=self.batch,
            )
        return fields.frame(queue.queue_id, queue.broker_name, opaque, flag=flag)

    def command(self, queue: MessageQueue, *, oneway: bool = False) -> RemotingCommand:
        """Return the same request as a new command, for a client that signs its requests."""
        header = SendMessageRequestHeaderV2(
            producer_group=self._maker.group,
            topic=self.topic,
            default_topic=self._maker.config.create_topic_key,
            default_topic_queue_nums=self._maker.config.default_topic_queue_nums,
            queue_id=queue.queue_id,
            sys_flag=self.sys_flag,
            born_timestamp=self.born_timestamp,
            flag=0 if self.batch else self.message.flag,
            properties=encode_properties(self._properties),
            reconsume_times=0,
            unit_mode=self._maker.unit_mode,
            batch=self.batch,
            broker_name=queue.broker_name,
        )
        return make_request(self.code, header, self.body, oneway=oneway)


class SendRequestMaker:
    """Makes the requests of one producer."""

    def __init__(
        self,
        *,
        instance: ClientInstance,
        group: str,
        config: ProducerConfig,
        namespace: str | None = None,
        added: AddedProperties | None = None,
    ) -> None:
        """``namespace`` None is the client's. ``added`` is what hooks add to each message, None without hooks."""
        self.group = group
        self._added = added
        self.config = config
        self.unit_mode = instance.config.unit_mode
        self.namespace = instance.namespace if namespace is None else namespace
        self.compress_level = config.compress_level
        self.timestamp_ms = instance.clock.timestamp_ms
        self.frames = SendFrames(
            producer_group=group,
            default_topic=config.create_topic_key,
            default_topic_queue_nums=config.default_topic_queue_nums,
            unit_mode=self.unit_mode,
        )
        self._unique_keys = UniqKeyFactory(
            address=packed_address(instance.address),
            process_id=instance.process_id,
            constant=instance.randomness.getrandbits(32),
        )

    def message(
        self,
        message: Message,
        *,
        properties: Mapping[str, str] | None = None,
        sys_flag: int = 0,
        code: RequestCode = RequestCode.SEND_MESSAGE_V2,
        own: dict[str, str] | None = None,
    ) -> SendRequest:
        """Return the request of one message; ``properties`` are RocketMQ's own, and added. ClientError if illegal.

        ``own`` is what :meth:`with_own_properties` has returned for it, if it was asked before.
        """
        check_message(message, self.config.max_message_size)
        if own is None:
            own = self.with_own_properties(message)
        topic = message.topic
        if properties is not None:
            own.update(properties)
        if isinstance(message, ReplyMessage):
            code = RequestCode.SEND_REPLY_MESSAGE_V2
            own |= message.reply_properties
            if PROPERTY_WAIT_STORE_MSG_OK not in message.properties:
                del own[PROPERTY_WAIT_STORE_MSG_OK]  # Java makes a reply by the constructor that does not set it
        elif self.namespace:
            topic = wrap_namespace(self.namespace, topic)
        escaped, size = escape_properties(own)
        check_properties_bytes(size)
        return SendRequest(
            self,
            code=code,
            topic=topic,
            message=message,
            properties=own,
            escaped=escaped,
            body=message.body,
            sys_flag=sys_flag,
            msg_id=own[PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX],
            batch=False,
        )

    def batch(self, messages: Sequence[Message]) -> SendRequest:
        """Return the request of a batch; ClientError for messages that cannot be one."""
        self._check_batch(messages)
        keyed = [(each, self.with_own_properties(each)) for each in messages]
        return self.batch_of(keyed, [self.batch_item(message, properties) for message, properties in keyed])

    def batch_item(self, message: Message, properties: Mapping[str, str]) -> bytes:
        """Return one message of a batch, as it travels; ClientError for properties that do not fit."""
        try:
            return encode_batch_item(message.flag, message.body, properties)
        except LocalProtocolError as failure:
            raise bad_batch(str(failure)) from failure

    def batch_of(self, keyed: Sequence[tuple[Message, dict[str, str]]], items: Sequence[bytes]) -> SendRequest:
        """Return the request of messages that have been checked, with the properties that travel, and are encoded."""
        body = b"".join(items)
        check_body_size(len(body), self.config.max_message_size)
        first, own = keyed[0]
        properties = {PROPERTY_WAIT_STORE_MSG_OK: own[PROPERTY_WAIT_STORE_MSG_OK]}
        request = SendRequest(
            self,
            code=RequestCode.SEND_BATCH_MESSAGE,
            topic=wrap_namespace(self.namespace, first.topic),
            message=first,
            properties=properties,
            escaped=escape_properties(properties)[0],
            body=body,
            sys_flag=0,
            msg_id=",".join([each[PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX] for _, each in keyed]),
            batch=True,
        )
        request.batch_messages = keyed
        return request

    def encoded_batch(self, batch: EncodedBatch) -> SendRequest:
        """Return the request of a batch that its program has encoded; ClientError for its topic or size."""
        check_topic(batch.topic)
        check_not_retry_topic(batch.topic)
        first = Message(batch.topic, batch.body)
        check_body_size(body_size(first), self.config.max_message_size)
        properties = {PROPERTY_WAIT_STORE_MSG_OK: "true" if batch.wait_store_msg_ok else "false"}
        return SendRequest(
            self,
            code=RequestCode.SEND_BATCH_MESSAGE,
            topic=wrap_namespace(self.namespace, batch.topic),
            message=first,
            properties=properties,
            escaped=escape_properties(properties)[0],
            body=batch.body,
            sys_flag=0,
            msg_id="",
            batch=True,
        )

    def with_own_properties(self, message: Message) -> dict[str, str]:
        """Return the properties of a message with those of hooks, WAIT and UNIQ_KEY; the latter two are kept."""
        properties = dict(message.properties)
        if self._added is not None:
            properties |= self._added.of(message)
        if PROPERTY_WAIT_STORE_MSG_OK not in properties:
            properties[PROPERTY_WAIT_STORE_MSG_OK] = "true"
        if PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX not in properties:
            properties[PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX] = self._unique_keys.create(self.timestamp_ms())
        if self.namespace:
            properties[PROPERTY_INSTANCE_ID] = self.namespace
        return properties

    def wrapped(self, queue: MessageQueue) -> MessageQueue:
        """Return a queue with the namespace before its topic."""
        if not self.namespace:
            return queue
        return MessageQueue(wrap_namespace(self.namespace, queue.topic), queue.broker_name, queue.queue_id)

    def compression_of(self, body: bytes) -> CompressionType | None:
        """Return how a body is compressed, None for one below the threshold."""
        return self.config.compress_type if len(body) >= self.config.compress_msg_body_over_howmuch else None

    def _check_batch(self, messages: Sequence[Message]) -> None:
        """Refuse messages that cannot be one batch."""
        if not messages:
            raise bad_batch("it is empty, expected at least one message")
        first = messages[0]
        for message in messages:
            self.check_batchable(message)
            if message.topic != first.topic:
                raise bad_batch(
                    f"The topic of the messages in one batch should be the same: {first.topic} and {message.topic}"
                )
            wait = message.properties.get(PROPERTY_WAIT_STORE_MSG_OK, "true")
            if wait != first.properties.get(PROPERTY_WAIT_STORE_MSG_OK, "true"):
                raise bad_batch("The waitStoreMsgOK of the messages in one batch should the same")

    def check_batchable(self, message: Message) -> None:
        """Refuse a message that no batch can hold."""
        check_message(message, self.config.max_message_size)
        check_not_retry_topic(message.topic)
        if message.properties.get(PROPERTY_DELAY_TIME_LEVEL, "0") != "0":
            raise bad_batch("TimeDelayLevel is not supported for batching")


def check_not_retry_topic(topic: str) -> None:
    """Refuse a batch to a retry topic."""
    if topic.startswith(RETRY_PREFIX):
        raise bad_batch(f"Retry Group is not supported for batching: {topic}")


def bad_batch(reason: str) -> ClientError:
    """Return the error for messages that cannot be one batch."""
    return ClientError(ResponseCode.MESSAGE_ILLEGAL, f"Failed to initiate the MessageBatch: {reason}")
