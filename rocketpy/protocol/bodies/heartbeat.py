"""Heartbeats: the identity, groups and subscriptions of a client."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import attrs

from rocketpy.protocol.bodies.codec import JavaEnum, JavaSet, named
from rocketpy.protocol.headers.codec import Int32, Int64
from rocketpy.protocol.value_methods import ValueMethods

SUB_ALL = "*"
EXPRESSION_TYPE_TAG = "TAG"
EXPRESSION_TYPE_SQL92 = "SQL92"


class ConsumeType(StrEnum):
    """Pull and push, by what the group does to get messages."""

    CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
    CONSUME_PASSIVELY = "CONSUME_PASSIVELY"


class MessageModel(StrEnum):
    """Whether every member of a group gets a message or one."""

    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"


class ConsumeFromWhere(StrEnum):
    """Initial offset of a group without offsets; the second to fourth are legacy."""

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    CONSUME_FROM_MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    CONSUME_FROM_MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


ConsumeTypeName = Annotated[str, JavaEnum.of(ConsumeType)]
MessageModelName = Annotated[str, JavaEnum.of(MessageModel)]
ConsumeFromWhereName = Annotated[str, JavaEnum.of(ConsumeFromWhere)]


@attrs.frozen
class SubscriptionData(ValueMethods):
    """Subscription of a group to a topic; ``sub_version`` is a wall time in milliseconds, the newest counts."""

    topic: str
    sub_string: str = SUB_ALL
    sub_version: Int64 = 0
    tags_set: JavaSet[str] = attrs.field(factory=list)
    code_set: JavaSet[Int32] = attrs.field(factory=list)
    expression_type: str | None = EXPRESSION_TYPE_TAG
    class_filter_mode: bool = False


@attrs.frozen
class ConsumerData(ValueMethods):
    """A group that the client consumes in.

    Compatibility: what is missing or unknown of the three modes is null in Java and the usual value here.
    """

    group_name: str
    consume_type: ConsumeTypeName = ConsumeType.CONSUME_PASSIVELY.value
    message_model: MessageModelName = MessageModel.CLUSTERING.value
    consume_from_where: ConsumeFromWhereName = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET.value
    subscription_data_set: JavaSet[SubscriptionData] = attrs.field(factory=list)
    unit_mode: bool = False


@attrs.frozen
class ProducerData(ValueMethods):
    """A group that the client produces in."""

    group_name: str


@attrs.frozen
class HeartbeatData(ValueMethods):
    """The body of HEART_BEAT."""

    client_id: str = attrs.field(metadata=named("clientID"))
    producer_data_set: JavaSet[ProducerData] = attrs.field(factory=list)
    consumer_data_set: JavaSet[ConsumerData] = attrs.field(factory=list)


@attrs.frozen
class CheckClientRequestBody(ValueMethods):
    """The body of CHECK_CLIENT_CONFIG: would this subscription be understood."""

    client_id: str | None = None
    group: str | None = None
    subscription_data: SubscriptionData | None = None
