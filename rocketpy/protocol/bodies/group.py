"""Consumer groups: their settings and their offsets."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from rocketpy.protocol.bodies.codec import JavaSet
from rocketpy.protocol.bodies.topic import DataVersion
from rocketpy.protocol.headers.codec import Int32, Int64
from rocketpy.protocol.value_methods import ValueMethods


@attrs.frozen
class SubscriptionGroupConfig(ValueMethods):
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
class SubscriptionGroupWrapper(ValueMethods):
    """All groups of a broker: ``subscriptionGroup.json`` and GET_ALL_SUBSCRIPTIONGROUP_CONFIG."""

    subscription_group_table: dict[str, SubscriptionGroupConfig] = attrs.field(factory=dict)
    data_version: DataVersion = attrs.field(factory=DataVersion)


@attrs.frozen
class GetConsumerListByGroupResponseBody(ValueMethods):
    """The client ids of a consumer group."""

    consumer_id_list: Sequence[str] = attrs.field(factory=list)


@attrs.frozen
class ConsumerOffsetSerializeWrapper(ValueMethods):
    """Consumer offsets by ``topic@group`` and queue: ``consumerOffset.json`` and GET_ALL_CONSUMER_OFFSET.

    ``committed_offsets`` is not in RocketMQ, which ignores it: those that clients have committed to a slave.
    """

    committed_offsets: dict[str, dict[Int32, Int64]] | None = None
    offset_table: dict[str, dict[Int32, Int64]] = attrs.field(factory=dict)


@attrs.frozen
class LmqConsumerOffsetSerializeWrapper(ValueMethods):
    """``lmqConsumerOffset.json``: the same, and offsets of light message queues by ``topic@group``."""

    lmq_offset_table: dict[str, Int64] = attrs.field(factory=dict)
    offset_table: dict[str, dict[Int32, Int64]] = attrs.field(factory=dict)


@attrs.frozen
class GroupList(ValueMethods):
    """Names of groups."""

    group_list: JavaSet[str] = attrs.field(factory=list)
