"""Checks that a broker applies to a send, in RocketMQ's order, and the topic configuration that they yield.

Compatibility: ``AbstractSendMessageProcessor.msgCheck`` (4.9.8). Two remarks say more than Java's: the one
for an illegal queue id names the limit, the one for a topic name its length or its characters.
"""

from __future__ import annotations

import time
from random import Random

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.metadata.groups import SubscriptionGroupManager
from rocketpy.broker.metadata.topic_names import check_topic_name
from rocketpy.broker.metadata.topics import TopicConfigManager
from rocketpy.broker.send.retry_limit import known_group
from rocketpy.clock import Clock
from rocketpy.errors import RequestError
from rocketpy.protocol.bodies.topic import TopicConfig
from rocketpy.protocol.codes import PERM_READ_WRITE, PERM_WRITE, RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from rocketpy.protocol.properties import PROPERTIES_SIZE_MAX, PROPERTIES_TEXT_MAX
from rocketpy.protocol.sysflag import TOPIC_UNIT_FLAG, TOPIC_UNIT_SUB_FLAG
from rocketpy.protocol.topic_name import FAQ, NOT_ALLOWED_SEND_TOPICS, RETRY_PREFIX
from rocketpy.remoting.connection import Connection

_LONG_HEADER_CODES = (RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE)


class SendCheck:
    """The send checks of one broker."""

    forbidden_topics = NOT_ALLOWED_SEND_TOPICS
    """Topics to which clients may not send."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        topic_config_manager: TopicConfigManager,
        subscription_group_manager: SubscriptionGroupManager,
        clock: Clock,
    ) -> None:
        self._config = config
        self._subscription_group_manager = subscription_group_manager
        self._topic_config_manager = topic_config_manager
        self._clock = clock

    @property
    def is_open(self) -> bool:
        """Whether the broker accepts sends in general, so that only the topic can refuse one."""
        config = self._config
        return bool(config.broker_permission & PERM_WRITE) and not config.start_accept_send_request_time_stamp

    def checked_topic_config(self, connection: Connection, header: SendMessageRequestHeader) -> TopicConfig:
        """Return the configuration of the topic, creating it if that is allowed; RequestError otherwise."""
        if not self.is_open:
            self._check_broker(header.topic)
        topic = header.topic
        check_topic_name(topic)
        if header.properties is not None and len(header.properties) > PROPERTIES_TEXT_MAX:
            raise RequestError(
                ResponseCode.MESSAGE_ILLEGAL,
                "the message is illegal, maybe msg body or properties length not matched. properties have "
                f"{len(header.properties)} characters, the limit is {PROPERTIES_SIZE_MAX}",
            )
        if topic in self.forbidden_topics:
            raise RequestError(ResponseCode.NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden.")
        config = self._topic_config_manager.select_topic_config(topic)
        if config is None:
            config = self._created(connection, header)
        queues = max(config.write_queue_nums, config.read_queue_nums)
        if header.queue_id >= queues:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"request queueId[{header.queue_id}] is illegal, topic[{topic}] has {queues} queues "
                f"(0 to {queues - 1}), Producer: {connection.peer}",
            )
        return config

    def created_topic_config(self, topic: str, *, queue_nums: int, sys_flag: int = 0) -> TopicConfig:
        """Return the configuration of an internal topic (retry, dead letters), creating it if it is missing.

        Raise RequestError when there are too many topics.
        """
        topics = self._topic_config_manager
        config = topics.create_topic_in_send_message_back_method(topic, queue_nums, PERM_READ_WRITE, sys_flag)
        if config is None:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"topic[{topic}] not exist and is not made: {topics.full_because}"
            )
        return config

    def _created(self, connection: Connection, header: SendMessageRequestHeader) -> TopicConfig:
        topic = header.topic
        topics = self._topic_config_manager
        full_because = topics.full_because
        if full_because is not None:
            raise RequestError(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[{topic}] not exist, apply first please!{FAQ} No topic is made for a send: {full_because}.",
            )
        is_retry = topic.startswith(RETRY_PREFIX)
        sys_flag = 0
        if is_retry:
            known_group(self._subscription_group_manager, topic.removeprefix(RETRY_PREFIX))  # raises first
        if header.unit_mode:
            sys_flag = TOPIC_UNIT_SUB_FLAG if is_retry else TOPIC_UNIT_FLAG
        config = topics.create_topic_in_send_message_method(
            topic, header.default_topic, connection.peer, header.default_topic_queue_nums, sys_flag
        )
        if config is None and is_retry:
            config = topics.create_topic_in_send_message_back_method(topic, 1, PERM_READ_WRITE, sys_flag)
        if config is None:
            raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!{FAQ}")
        return config

    def _check_broker(self, topic: str) -> None:
        begins = self._config.start_accept_send_request_time_stamp
        if self._clock.timestamp_ms() < begins:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"broker unable to service, until {_local_time(begins)}")
        config = self._topic_config_manager.select_topic_config(topic)
        if not self._config.broker_permission & PERM_WRITE and config is not None and config.order:
            raise RequestError(
                ResponseCode.NO_PERMISSION, f"the broker[{self._config.broker_ip1}] sending message is forbidden"
            )


def read_send_header(request: RemotingCommand) -> SendMessageRequestHeader:
    """Return the header of a send or a reply, in the long or the V2 form according to its code."""
    if request.code in _LONG_HEADER_CODES:
        return read_header(request, SendMessageRequestHeader)
    return read_header(request, SendMessageRequestHeaderV2).to_v1()


def chosen_queue(queue_id: int, config: TopicConfig, randomness: Random) -> int:
    """Return the requested queue id, or a random one if it is negative."""
    if queue_id >= 0:
        return queue_id
    if config.write_queue_nums <= 0:
        raise RequestError(ResponseCode.SYSTEM_ERROR, f"topic[{config.topic_name}] has no write queue to choose from")
    return randomness.randrange(config.write_queue_nums)


def _local_time(timestamp_ms: int) -> str:
    """Return a time in RocketMQ's format, ``2023-11-14 22:13:20,000``, capped at the end of the year 9999."""
    seconds, milliseconds = divmod(min(timestamp_ms, _TIMESTAMP_MAX_MS), 1000)
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(seconds))},{milliseconds:03d}"


_TIMESTAMP_MAX_MS = 253_370_764_799_999
