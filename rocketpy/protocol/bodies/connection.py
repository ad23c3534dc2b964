"""Members of consumer and producer groups, as administration shows them."""

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
from rocketpy.protocol.codes import LanguageCode
from rocketpy.protocol.headers.codec import Int32, Int64
from rocketpy.protocol.value_methods import ValueMethods

LanguageName = Annotated[str, JavaEnum.of(LanguageCode)]


@attrs.frozen
class Connection(ValueMethods):
    """A member of a group; ``client_addr`` is ``ip:port``."""

    client_id: str
    client_addr: str
    language: LanguageName | None = None
    version: Int32 = 0


@attrs.frozen
class ConsumerConnection(ValueMethods):
    """The consumers of a group, and its settings."""

    connection_set: JavaSet[Connection] = attrs.field(factory=list)
    subscription_table: dict[str, SubscriptionData] = attrs.field(factory=dict)
    consume_type: ConsumeTypeName | None = None
    message_model: MessageModelName | None = None
    consume_from_where: ConsumeFromWhereName | None = None


@attrs.frozen
class ProducerConnection(ValueMethods):
    """The producers of a group."""

    connection_set: JavaSet[Connection] = attrs.field(factory=list)


@attrs.frozen
class ProducerInfo(ValueMethods):
    """A producer; ``remote_ip`` is ``/ip:port``, with Java's slash."""

    client_id: str
    remote_ip: str = attrs.field(metadata=named("remoteIP"))
    language: LanguageName | None = None
    version: Int32 = 0
    last_update_timestamp: Int64 = 0


@attrs.frozen
class ProducerTableInfo(ValueMethods):
    """All producers of a broker by group."""

    data: dict[str, Sequence[ProducerInfo]] = attrs.field(factory=dict)
