"""Sends messages: ``async with open_producer("127.0.0.1:9876") as producer: await producer.send(Message("T", b"hi"))``.

Rules as in RocketMQ: a failed attempt is repeated on another broker while time is left (three attempts by default), but
only after a transport failure or one of the codes that mean "another broker may do it"; SYSTEM_BUSY is final. A status
other than SEND_OK still means that the message is stored. A message that was repeated may be stored twice: its unique
key (``msg_id``) is the same.

Compatibility: ``DefaultMQProducerImpl`` (4.9.8); client.md 3.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import attrs
import trio

from rocketpy.client.config import ClientConfig
from rocketpy.client.instance import ClientInstance, open_client_instance
from rocketpy.client.results import SendResult, SendStatus
from rocketpy.errors import BrokerError, ClientError, RemotingError, RemotingTooMuchRequestError
from rocketpy.protocol.batch import encode_batch_body
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.compression import CompressionType, compress, compressed_sys_flag
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.send import SendMessageRequestHeaderV2, SendMessageResponseHeader
from rocketpy.protocol.message import Message, MessageQueue
from rocketpy.protocol.message_id import UniqKeyFactory
from rocketpy.protocol.properties import encode_properties
from rocketpy.protocol.topic_name import NOT_ALLOWED_SEND_TOPICS, topic_name_fault

MESSAGE_ILLEGAL = 13
UNSPECIFIED = -1
RETRY_CODES = frozenset(
    (
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.NO_PERMISSION,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
    )
)
_STORED = {int(status.value): status for status in SendStatus}


@asynccontextmanager
async def open_producer(
    name_servers: str | Sequence[str], *, group: str = "rocketpy_producer", config: ClientConfig | None = None
) -> AsyncIterator[Producer]:
    """Open a producer; when the block ends it has taken leave of the brokers and nothing runs any more."""
    settings = config or ClientConfig(name_servers=name_servers)
    async with open_client_instance(settings) as instance:
        instance.add_producer(group)
        yield Producer(instance=instance, group=group)


class Producer:
    """Made by :func:`open_producer`. Its methods may be called from many tasks at once."""

    def __init__(self, *, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._config = instance.config
        self._group = group
        self._next_queue = instance.randomness.getrandbits(16)
        self._unique_keys = UniqKeyFactory(
            address=bytes([127, 0, 0, 1]),
            process_id=os.getpid(),
            constant=instance.randomness.getrandbits(32),
        )

    async def send(
        self, message: Message, *, queue: MessageQueue | None = None, timeout_s: float | None = None
    ) -> SendResult:
        """Send one message and return where it is stored.

        Raises ClientError for a message that cannot be sent or a topic without route, BrokerError for a broker's
        refusal, RemotingError when no attempt got an answer (the message may be stored or not).
        """
        _check_topic(message.topic)
        self._check_size(message.body)
        properties = self._with_unique_key(message)
        body, sys_flag = message.body, 0
        if len(body) >= self._config.compress_msg_body_over_howmuch:
            body = compress(body, CompressionType.ZLIB)
            sys_flag = compressed_sys_flag(0, CompressionType.ZLIB)
        header = self._header(message.topic, encode_properties(properties), sys_flag=sys_flag, flag=message.flag)
        return await self._send(RequestCode.SEND_MESSAGE_V2, header, body, properties["UNIQ_KEY"], queue, timeout_s)

    async def send_batch(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = None, timeout_s: float | None = None
    ) -> SendResult:
        """Send messages of one topic as one request: all of them are stored, side by side in one queue, or none.

        Raises as :meth:`send`; a batch cannot hold delayed messages or more than ``max_message_size`` bytes.
        """
        if not messages:
            raise ClientError(MESSAGE_ILLEGAL, "the batch is empty, expected at least one message")
        topic = messages[0].topic
        _check_topic(topic)
        for message in messages:
            if message.topic != topic:
                raise ClientError(
                    MESSAGE_ILLEGAL, f"the topics of a batch differ: {topic} and {message.topic}, expected one"
                )
            if message.properties.get("DELAY", "0") != "0":
                raise ClientError(MESSAGE_ILLEGAL, "a batch cannot hold delayed messages (property DELAY)")
            self._check_size(message.body)
        keyed = [Message(topic, message.body, self._with_unique_key(message), message.flag) for message in messages]
        body = encode_batch_body(keyed)
        self._check_size(body)
        header = self._header(topic, "", batch=True)
        msg_id = ",".join(message.properties["UNIQ_KEY"] for message in keyed)
        return await self._send(RequestCode.SEND_BATCH_MESSAGE, header, body, msg_id, queue, timeout_s)

    async def publish_queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that :meth:`send` chooses from."""
        return await self._instance.publish_queues(topic)

    # ---- private --------------------------------------------------------------------------------------------------

    async def _send(
        self,
        code: RequestCode,
        header: SendMessageRequestHeaderV2,
        body: bytes,
        msg_id: str,
        queue: MessageQueue | None,
        timeout_s: float | None,
    ) -> SendResult:
        patience = self._config.send_msg_timeout / 1000 if timeout_s is None else timeout_s
        deadline = trio.current_time() + patience
        attempts = 1 if queue is not None else 1 + self._config.retry_times_when_send_failed
        last_broker: str | None = None
        failure: Exception | None = None
        for _ in range(attempts):
            left = deadline - trio.current_time()
            if left <= 0:
                break
            chosen = queue or self._choose(await self._instance.publish_queues(header.topic), last_broker)
            last_broker = chosen.broker_name
            try:
                return await self._attempt(code, header, body, msg_id, chosen, left)
            except BrokerError as refusal:
                if refusal.response_code not in RETRY_CODES:
                    raise
                failure = refusal
            except RemotingError as trouble:
                failure = trouble
        if failure is None:
            raise RemotingTooMuchRequestError(f"sending to {header.topic} was given no time ({patience:g} s)")
        raise failure

    async def _attempt(
        self,
        code: RequestCode,
        header: SendMessageRequestHeaderV2,
        body: bytes,
        msg_id: str,
        queue: MessageQueue,
        timeout_s: float,
    ) -> SendResult:
        address = await self._instance.master_address(queue.broker_name)
        request = make_request(code, attrs.evolve(header, queue_id=queue.queue_id), body)
        response = await self._instance.request(address, request, tuple(_STORED), timeout_s=timeout_s)
        stored = read_header(response, SendMessageResponseHeader)
        return SendResult(
            status=_STORED[response.code],
            msg_id=msg_id,
            offset_msg_id=stored.msg_id,
            message_queue=MessageQueue(queue.topic, queue.broker_name, stored.queue_id),
            queue_offset=stored.queue_offset,
            region_id=(response.ext_fields or {}).get("MSG_REGION", "DefaultRegion"),
        )

    def _header(
        self, topic: str, properties: str, *, sys_flag: int = 0, flag: int = 0, batch: bool = False
    ) -> SendMessageRequestHeaderV2:
        return SendMessageRequestHeaderV2(
            producer_group=self._group,
            topic=topic,
            default_topic=self._config.create_topic_key,
            default_topic_queue_nums=self._config.default_topic_queue_nums,
            queue_id=-1,
            sys_flag=sys_flag,
            born_timestamp=self._instance.clock.timestamp_ms(),
            flag=flag,
            properties=properties,
            reconsume_times=0,
            unit_mode=False,
            batch=batch,
        )

    def _choose(self, queues: list[MessageQueue], last_broker: str | None) -> MessageQueue:
        """Round robin, passing over the broker that has just failed when there is another."""
        for _ in range(len(queues)):
            self._next_queue += 1
            queue = queues[self._next_queue % len(queues)]
            if queue.broker_name != last_broker:
                return queue
        self._next_queue += 1
        return queues[self._next_queue % len(queues)]

    def _with_unique_key(self, message: Message) -> dict[str, str]:
        properties = dict(message.properties)
        if "UNIQ_KEY" not in properties:
            properties["UNIQ_KEY"] = self._unique_keys.create(self._instance.clock.timestamp_ms())
        properties.setdefault("WAIT", "true")
        return properties

    def _check_size(self, body: bytes) -> None:
        if not body:
            raise ClientError(MESSAGE_ILLEGAL, "the message body length is zero")
        if len(body) > self._config.max_message_size:
            raise ClientError(
                MESSAGE_ILLEGAL,
                f"the message body has {len(body)} bytes, the limit is {self._config.max_message_size}",
            )


def _check_topic(topic: str) -> None:
    fault = topic_name_fault(topic)
    if fault is None and topic in NOT_ALLOWED_SEND_TOPICS:
        fault = f"Sending message to topic[{topic}] is forbidden."
    if fault is not None:
        raise ClientError(UNSPECIFIED, fault)
