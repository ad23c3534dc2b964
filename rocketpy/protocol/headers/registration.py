"""Headers with which a broker registers itself at a nameserver."""

from __future__ import annotations

import attrs

from rocketpy.protocol.headers.codec import Int32, Int64
from rocketpy.protocol.value_methods import ValueMethods


@attrs.frozen(kw_only=True)
class RegisterBrokerRequestHeader(ValueMethods):
    """Request 103; ``body_crc32`` is over the body as sent, 0 is not checked."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str | None = None  # declared not-null in RocketMQ, and stored as it comes
    broker_id: Int64
    compressed: bool = False
    body_crc32: Int32 = 0


@attrs.frozen(kw_only=True)
class RegisterBrokerResponseHeader(ValueMethods):
    """Answer to 103; a slave learns its master's two addresses, a master neither."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


@attrs.frozen(kw_only=True)
class UnRegisterBrokerRequestHeader(ValueMethods):
    """Request 104."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


@attrs.frozen(kw_only=True)
class QueryDataVersionRequestHeader(ValueMethods):
    """Request 322; the version in question is the body."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


@attrs.frozen
class QueryDataVersionResponseHeader(ValueMethods):
    """Answer to 322: whether the nameserver wants a registration."""

    changed: bool
