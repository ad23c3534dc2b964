"""Sends messages: ``async with open_producer("127.0.0.1:9876") as producer: await producer.send(Message("T", b"hi"))``.

Rules as in RocketMQ: a failed attempt is repeated on another broker while time is left (three attempts by default), but
only after a transport failure or one of the codes that mean "another broker may do it"; SYSTEM_BUSY is final. A status
other than SEND_OK still means that the message is stored. Another broker is tried after it only with
``retry_another_broker_when_not_store_ok``; if none stores the message better, the last such result is returned. A
message that was repeated may be stored twice: its unique key (``msg_id``) is the same.

Compatibility: ``DefaultMQProducerImpl`` (4.9.8). When all attempts have failed, the exception of the last
one is raised unwrapped, with a note that lists the brokers tried.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import attrs
import trio

from rocketpy.client.instance import ClientInstance, read_response
from rocketpy.client.producer.config import ProducerConfig
from rocketpy.client.results import SendResult, SendStatus
from rocketpy.client.route_finder import TopicTemplate
from rocketpy.client.validators import (
    check_body_size,
    check_group,
    check_message,
    check_properties_size,
)
from rocketpy.errors import BrokerError, ClientError, LocalProtocolError, RemotingError, RemotingTooMuchRequestError
from rocketpy.protocol.batch import encode_batch_body
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.compression import CompressionType, compress, compressed_sys_flag
from rocketpy.protocol.headers.send import SendMessageRequestHeaderV2, SendMessageResponseHeader
from rocketpy.protocol.message import Message, MessageQueue
from rocketpy.protocol.message_id import UniqKeyFactory
from rocketpy.protocol.properties import (
    PROPERTY_DELAY_TIME_LEVEL,
    PROPERTY_MSG_REGION,
    PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX,
    PROPERTY_WAIT_STORE_MSG_OK,
    encode_properties,
)
from rocketpy.remoting.local_address import packed_address

RETRY_TOPIC_PREFIX = "%RETRY%"
DEFAULT_REGION = "DefaultRegion"
COMPRESS_ON_LOOP_MAX = 64 * 1024
"""A larger body is compressed in a worker thread: zlib at level 5 takes about a millisecond for this much."""

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
async def producer_role(instance: ClientInstance, group: str, config: ProducerConfig) -> AsyncIterator[Producer]:
    """Open a producer in a client; at the end of the block it is unregistered from the brokers."""
    check_group(group)
    instance.heartbeats.add_producer(group)
    try:
        yield Producer(instance=instance, group=group, config=config)
    finally:
        await instance.heartbeats.remove_producer(group)


@attrs.frozen
class _Request:
    """The parts of a send that all of its attempts share."""

    code: RequestCode
    header: SendMessageRequestHeaderV2
    body: bytes
    msg_id: str


class Producer:
    """Sender of messages. Created by :meth:`Client.producer`; may be used by many tasks concurrently."""

    def __init__(self, *, instance: ClientInstance, group: str, config: ProducerConfig) -> None:
        self._instance = instance
        self._config = config
        self._template = TopicTemplate(config.create_topic_key, config.default_topic_queue_nums)
        self._group = group
        self._next_queue = instance.randomness.getrandbits(16)
        self._unique_keys = UniqKeyFactory(
            address=packed_address(instance.address),
            process_id=instance.process_id,
            constant=instance.randomness.getrandbits(32),
        )

    async def send(
        self, message: Message, *, queue: MessageQueue | None = None, timeout_s: float | None = None
    ) -> SendResult:
        """Send one message; return the queue and offset at which it is stored.

        Raises ClientError for a message that cannot be sent or a topic without route, BrokerError for a broker's
        refusal, RemotingError when no attempt got an answer (the message may be stored or not). With ``queue`` there is
        one attempt.
        """
        check_message(message, self._config.max_message_size)
        properties = self._with_own_properties(message)
        text = encode_properties(properties)
        check_properties_size(text)
        body, sys_flag = message.body, 0
        if len(body) >= self._config.compress_msg_body_over_howmuch:
            body, sys_flag = await _compressed(body), compressed_sys_flag(0, CompressionType.ZLIB)
        header = self._header(message.topic, text, sys_flag=sys_flag, flag=message.flag)
        msg_id = properties[PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX]
        return await self._send(_Request(RequestCode.SEND_MESSAGE_V2, header, body, msg_id), queue, timeout_s)

    async def send_batch(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = None, timeout_s: float | None = None
    ) -> SendResult:
        """Send messages of one topic as one request: all are stored, consecutively in one queue, or none.

        Raises as :meth:`send`; a batch cannot hold delayed messages or more than ``max_message_size`` bytes.
        """
        topic = self._check_batch(messages)
        keyed = [Message(topic, each.body, self._with_own_properties(each), each.flag) for each in messages]
        try:
            body = encode_batch_body(keyed)
        except LocalProtocolError as failure:
            raise _bad_batch(str(failure)) from failure
        check_body_size(len(body), self._config.max_message_size)
        wait = keyed[0].properties[PROPERTY_WAIT_STORE_MSG_OK]
        header = self._header(topic, encode_properties({PROPERTY_WAIT_STORE_MSG_OK: wait}), batch=True)
        msg_id = ",".join(message.properties[PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX] for message in keyed)
        return await self._send(_Request(RequestCode.SEND_BATCH_MESSAGE, header, body, msg_id), queue, timeout_s)

    async def publish_queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that :meth:`send` chooses from."""
        return list(await self._instance.routes.publish_queues(topic, self._template))

    # ---- private --------------------------------------------------------------------------------------------------

    async def _send(self, request: _Request, queue: MessageQueue | None, timeout_s: float | None) -> SendResult:
        topic = request.header.topic
        if queue is not None and queue.topic != topic:
            raise ClientError(
                ResponseCode.MESSAGE_ILLEGAL, f"message's topic not equal mq's topic: {topic} and {queue.topic}"
            )
        patience = self._config.send_msg_timeout / 1000 if timeout_s is None else timeout_s
        deadline = trio.current_time() + patience
        attempts = 1 if queue is not None else 1 + self._config.retry_times_when_send_failed
        brokers: list[str] = []
        failure: ClientError | BrokerError | RemotingError | None = None
        stored: SendResult | None = None
        while len(brokers) < attempts and trio.current_time() < deadline:
            chosen = queue or self._choose(
                await self._instance.routes.publish_queues(topic, self._template),
                last_broker=brokers[-1] if brokers else None,
            )
            brokers.append(chosen.broker_name)
            try:
                stored = await self._attempt(request, chosen, deadline)
                if stored.status is SendStatus.SEND_OK or not self._config.retry_another_broker_when_not_store_ok:
                    return stored
            except BrokerError as refusal:
                if refusal.response_code not in RETRY_CODES:
                    if stored is None:
                        raise
                    break
                failure = refusal
            except (ClientError, RemotingError) as trouble:
                self._instance.request_route_refresh()
                failure = trouble
        if stored is not None:
            return stored
        if failure is None:
            raise RemotingTooMuchRequestError(f"sending to {topic} was given no time ({patience:g} s)")
        failure.add_note(f"sent {len(brokers)} times to topic {topic}, brokers: {', '.join(brokers)}")
        raise failure

    async def _attempt(self, request: _Request, queue: MessageQueue, deadline: float) -> SendResult:
        address = await self._instance.routes.publish_address(queue)
        header = attrs.evolve(request.header, queue_id=queue.queue_id, broker_name=queue.broker_name)
        response = await self._instance.request(
            address,
            make_request(request.code, header, request.body),
            _STORED,
            timeout_s=max(0.0, deadline - trio.current_time()),
        )
        stored = read_response(response, SendMessageResponseHeader)
        return SendResult(
            status=_STORED[response.code],
            msg_id=request.msg_id,
            offset_msg_id=stored.msg_id,
            message_queue=MessageQueue(queue.topic, queue.broker_name, stored.queue_id),
            queue_offset=stored.queue_offset,
            region_id=(response.ext_fields or {}).get(PROPERTY_MSG_REGION) or DEFAULT_REGION,
        )

    def _header(
        self, topic: str, properties: str, *, sys_flag: int = 0, flag: int = 0, batch: bool = False
    ) -> SendMessageRequestHeaderV2:
        return SendMessageRequestHeaderV2(
            producer_group=self._group,
            topic=topic,
            default_topic=self._config.create_topic_key,
            default_topic_queue_nums=self._config.default_topic_queue_nums,
            queue_id=-1,  # set by each attempt
            sys_flag=sys_flag,
            born_timestamp=self._instance.clock.timestamp_ms(),
            flag=flag,
            properties=properties,
            reconsume_times=0,
            unit_mode=False,
            batch=batch,
        )

    def _choose(self, queues: Sequence[MessageQueue], *, last_broker: str | None) -> MessageQueue:
        """Choose round robin, skipping the broker that has just failed when there is another."""
        for _ in range(len(queues)):
            self._next_queue += 1
            queue = queues[self._next_queue % len(queues)]
            if queue.broker_name != last_broker:
                return queue
        self._next_queue += 1
        return queues[self._next_queue % len(queues)]

    def _with_own_properties(self, message: Message) -> dict[str, str]:
        properties = dict(message.properties)
        properties.setdefault(PROPERTY_WAIT_STORE_MSG_OK, "true")
        if PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX not in properties:
            unique_key = self._unique_keys.create(self._instance.clock.timestamp_ms())
            properties[PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX] = unique_key
        return properties

    def _check_batch(self, messages: Sequence[Message]) -> str:
        """Check that the messages can be one batch; return their topic."""
        if not messages:
            raise _bad_batch("it is empty, expected at least one message")
        first = messages[0]
        if first.topic.startswith(RETRY_TOPIC_PREFIX):
            raise _bad_batch(f"Retry Group is not supported for batching: {first.topic}")
        wait = first.properties.get(PROPERTY_WAIT_STORE_MSG_OK, "true")
        for message in messages:
            check_message(message, self._config.max_message_size)
            if message.topic != first.topic:
                raise _bad_batch(
                    f"The topic of the messages in one batch should be the same: {first.topic} and {message.topic}"
                )
            if message.properties.get(PROPERTY_WAIT_STORE_MSG_OK, "true") != wait:
                raise _bad_batch("The waitStoreMsgOK of the messages in one batch should the same")
            if message.properties.get(PROPERTY_DELAY_TIME_LEVEL, "0") != "0":
                raise _bad_batch("TimeDelayLevel is not supported for batching")
        return first.topic


async def _compressed(body: bytes) -> bytes:
    if len(body) <= COMPRESS_ON_LOOP_MAX:
        return compress(body, CompressionType.ZLIB)
    return await trio.to_thread.run_sync(compress, body, CompressionType.ZLIB)


def _bad_batch(reason: str) -> ClientError:
    return ClientError(ResponseCode.MESSAGE_ILLEGAL, f"Failed to initiate the MessageBatch: {reason}")
