"""Gives messages that failed back to their broker, which delivers them to the group again later.

A broker that cannot take a message back gets a copy of it instead, as a message to ``%RETRY%GROUP``, and so does an
orderly consumer's queue that gives a message up.

Compatibility: ``DefaultMQPushConsumerImpl.sendMessageBack`` and ``ConsumeMessageOrderlyService.sendMessageBack``
(4.9.8). The copy keeps the first message id there is; in Java that property is overwritten. The copy of a dead letter
has no retries left, so that the broker makes it one; in Java it is delivered again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from random import Random

from rocketpy.client.instance import ClientInstance
from rocketpy.client.namespace import Namespace
from rocketpy.errors import RocketpyError
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.headers.send import ConsumerSendMsgBackRequestHeader, SendMessageRequestHeaderV2
from rocketpy.protocol.message import MessageExt, MessageQueue
from rocketpy.protocol.properties import (
    PROPERTY_DELAY_TIME_LEVEL,
    PROPERTY_MAX_RECONSUME_TIMES,
    PROPERTY_ORIGIN_MESSAGE_ID,
    PROPERTY_RECONSUME_TIME,
    PROPERTY_RETRY_TOPIC,
    PROPERTY_TRANSACTION_PREPARED,
    encode_properties,
)
from rocketpy.protocol.topic_name import AUTO_CREATE_TOPIC_KEY_TOPIC, RETRY_PREFIX

CLIENT_INNER_PRODUCER = "CLIENT_INNER_PRODUCER"
SEND_BACK_SECONDS = 5.0
COPY_SECONDS = 3.0
COPY_ATTEMPTS = 3
RETRY_DELAY_LEVEL = 3
"""The delay level of the first retry; each later one is a level higher."""
DEAD_LETTER = -1
"""In place of a delay level: not again, but into the group's dead letter queue."""
_STORED = (
    ResponseCode.SUCCESS,
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
)

_log = logging.getLogger("rocketpy.client")


class SendBack:
    """The way back for messages of one group."""

    def __init__(self, *, instance: ClientInstance, group: str, max_reconsume_times: int, randomness: Random) -> None:
        self._instance = instance
        self._namespace = Namespace(instance.namespace)
        self._group = group
        self._max_reconsume_times = max_reconsume_times
        self._randomness = randomness
        self.on_sent_back: Callable[[str], None] | None = None
        """Called with the name of a broker that has taken a message to the group's retry topic."""

    async def send_back(self, message: MessageExt, delay_level: int = 0) -> bool:
        """Give one message back; False when neither it nor a copy has been taken.

        ``delay_level`` 0 lets the broker choose (later with each retry), -1 makes the message a dead letter.
        """
        topic = self._namespace.wrap(message.topic)
        queue = MessageQueue(topic, message.broker_name, message.queue_id)
        header = ConsumerSendMsgBackRequestHeader(
            offset=message.physical_offset,
            group=self._group,
            delay_level=delay_level,
            origin_msg_id=message.msg_id,
            origin_topic=topic,
            max_reconsume_times=self._max_reconsume_times,
            broker_name=message.broker_name,
        )
        try:
            address = await self._instance.routes.publish_address(queue)
            await self._instance.request(
                self._instance.broker_port_of(address),
                make_request(RequestCode.CONSUMER_SEND_MSG_BACK, header),
                timeout_s=SEND_BACK_SECONDS,
            )
        except RocketpyError as failure:
            _log.warning("message %s was not taken back, a copy is sent: %s", message.msg_id, failure)
            is_dead = delay_level == DEAD_LETTER
            times = self._max_reconsume_times if is_dead else message.reconsume_times + 1
            return await self.send_copy(message, reconsume_times=times)
        self._note_sent_back(message.broker_name)
        return True

    async def send_copy(self, message: MessageExt, *, reconsume_times: int) -> bool:
        """Send a copy to the group's retry topic, from where the broker delivers it as if it had been sent back."""
        topic = RETRY_PREFIX + self._group
        properties = {
            **message.properties,
            PROPERTY_RETRY_TOPIC: self._namespace.wrap(message.topic),
            PROPERTY_ORIGIN_MESSAGE_ID: message.properties.get(PROPERTY_ORIGIN_MESSAGE_ID) or message.msg_id,
            PROPERTY_RECONSUME_TIME: str(reconsume_times),
            PROPERTY_MAX_RECONSUME_TIMES: str(self._max_reconsume_times),
            PROPERTY_DELAY_TIME_LEVEL: str(RETRY_DELAY_LEVEL + message.reconsume_times),
        }
        properties.pop(PROPERTY_TRANSACTION_PREPARED, None)
        for _ in range(COPY_ATTEMPTS):
            try:
                await self._send(topic, message, properties, reconsume_times)
            except RocketpyError as failure:
                _log.warning("a copy of message %s was not sent: %s", message.msg_id, failure)
            else:
                return True
        return False

    async def _send(self, topic: str, message: MessageExt, properties: Mapping[str, str], reconsume_times: int) -> None:
        queues = await self._instance.routes.publish_queues(topic)
        queue = self._randomness.choice(queues)
        header = SendMessageRequestHeaderV2(
            producer_group=CLIENT_INNER_PRODUCER,
            topic=topic,
            default_topic=AUTO_CREATE_TOPIC_KEY_TOPIC,
            default_topic_queue_nums=4,
            queue_id=queue.queue_id,
            sys_flag=0,
            born_timestamp=self._instance.clock.timestamp_ms(),
            flag=message.flag,
            properties=encode_properties(properties),
            reconsume_times=reconsume_times,
            max_reconsume_times=self._max_reconsume_times,
            unit_mode=False,
            batch=False,
            broker_name=queue.broker_name,
        )
        address = await self._instance.routes.publish_address(queue)
        await self._instance.request(
            address,
            make_request(RequestCode.SEND_MESSAGE_V2, header, message.body),
            _STORED,
            timeout_s=COPY_SECONDS,
        )
        self._note_sent_back(queue.broker_name)

    def _note_sent_back(self, broker_name: str) -> None:
        if self.on_sent_back is not None:
            self.on_sent_back(broker_name)
