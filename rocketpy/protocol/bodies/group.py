"""Consumer and producer groups: their settings, their members and their offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import attrs

from rocketpy.protocol.bodies.codec import JavaEnum, JavaSet, named
from rocketpy.protocol.bodies.heartbeat import (
    ConsumeFromWhereName,
    ConsumeTypeName,
    MessageModelName,
    SubscriptionData,
)
from rocketpy.protocol.bodies.topic import DataVersion
from rocketpy.protocol.codes import LanguageCode
from rocketpy.protocol.headers.codec import Int32, Int64

LanguageName = Annotated[str, JavaEnum.of(LanguageCode)]


@attrs.frozen
class SubscriptionGroupConfig:
    """Settings and permissions of a consumer group on one broker."""

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True  # read by no broker, ours or RocketMQ's (4.9.8)
    consume_broadcast_enable: bool = True
    retry_queue_nums: Int32 = 1
    retry_max_times: Int32 = 16
    broker_id: Int64 = 0
    which_broker_when_consume_slowly: Int64 = 1
    notify_consumer_ids_changed_enable: bool = True


@attrs.frozen
class SubscriptionGroupWrapper:
    """All groups of a broker: ``subscriptionGroup.json`` and GET_ALL_SUBSCRIPTIONGROUP_CONFIG."""

    subscription_group_table: dict[str, SubscriptionGroupConfig] = attrs.field(factory=dict)
    data_version: DataVersion = attrs.field(factory=DataVersion)


@attrs.frozen
class GetConsumerListByGroupResponseBody:
    """The client ids of a consumer group."""

    consumer_id_list: Sequence[str] = attrs.field(factory=list)


@attrs.frozen
class ConsumerOffsetSerializeWrapper:
    """Consumer offsets by ``topic@group`` and queue: ``consumerOffset.json`` and GET_ALL_CONSUMER_OFFSET."""

    offset_table: dict[str, dict[Int32, Int64]] = attrs.field(factory=dict)


@attrs.frozen
class LmqConsumerOffsetSerializeWrapper:
    """``lmqConsumerOffset.json``: the same, and offsets of light message queues by ``topic@group``."""

    lmq_offset_table: dict[str, Int64] = attrs.field(factory=dict)
    offset_table: dict[str, dict[Int32, Int64]] = attrs.field(factory=dict)


@attrs.frozen
class GroupList:
    """Names of groups."""

    group_list: JavaSet[str] = attrs.field(factory=list)


@attrs.frozen
class Connection:
    """A member of a group; ``client_addr`` is ``ip:port``."""

    client_id: str
    client_addr: str
    language: LanguageName | None = None
    version: Int32 = 0


@attrs.frozen
class ConsumerConnection:
    """The consumers of a group, and its settings."""

    connection_set: JavaSet[Connection] = attrs.field(factory=list)
    subscription_table: dict[str, SubscriptionData] = attrs.field(factory=dict)
    consume_type: ConsumeTypeName | None = None
    message_model: MessageModelName | None = None
    consume_from_where: ConsumeFromWhereName | None = None


@attrs.frozen
class ProducerConnection:
    """The producers of a group."""

    connection_set: JavaSet[Connection] = attrs.field(factory=list)


@attrs.frozen
class ProducerInfo:
    """A producer; ``remote_ip`` is ``/ip:port``, with Java's slash."""

    client_id: str
    remote_ip: str = attrs.field(metadata=named("remoteIP"))
    language: LanguageName | None = None
    version: Int32 = 0
    last_update_timestamp: Int64 = 0


@attrs.frozen
class ProducerTableInfo:
    """All producers of a broker by group."""

    data: dict[str, Sequence[ProducerInfo]] = attrs.field(factory=dict)
