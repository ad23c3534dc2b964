"""Headers about clients: leaving, who is in a group, and what a broker asks of a client.

HEART_BEAT (34), CHECK_CLIENT_CONFIG (46), LOCK_BATCH_MQ (41) and UNLOCK_BATCH_MQ (42) have no header, only a body.
"""

from __future__ import annotations

import attrs

from rocketpy.protocol.headers.codec import Int64, wire
from rocketpy.protocol.value_methods import ValueMethods


@attrs.frozen(kw_only=True)
class UnregisterClientRequestHeader(ValueMethods):
    """Request 35: a client leaves a producer group, a consumer group or both.

    Compatibility: ``keep_locks`` is ours, and only of a member whose handlers have not ended: the locks of its queues
    stay until they expire.
    """

    client_id: str = attrs.field(metadata=wire("clientID"))
    producer_group: str | None = None
    consumer_group: str | None = None
    keep_locks: bool | None = None


@attrs.frozen
class UnregisterClientResponseHeader(ValueMethods):
    """Answer to 35; it has no fields."""


@attrs.frozen
class GetConsumerListByGroupRequestHeader(ValueMethods):
    """Request 38."""

    consumer_group: str


@attrs.frozen
class GetConsumerListByGroupResponseHeader(ValueMethods):
    """Answer to 38; it has no fields, the list is the body."""


@attrs.frozen
class NotifyConsumerIdsChangedRequestHeader(ValueMethods):
    """Request 40, broker to consumer, oneway: the group has changed, rebalance now."""

    consumer_group: str


@attrs.frozen(kw_only=True)
class ResetOffsetRequestHeader(ValueMethods):
    """Request 222 (to a broker) and 220 (broker to consumer); ``timestamp`` in ms, -1 for the end of the queue."""

    topic: str
    group: str
    timestamp: Int64
    is_force: bool = False


@attrs.frozen(kw_only=True)
class GetConsumerStatusRequestHeader(ValueMethods):
    """Request 223 (to a broker) and 221 (broker to consumer); ``client_addr`` is a client id, blank for all."""

    topic: str
    group: str
    client_addr: str | None = None


@attrs.frozen(kw_only=True)
class GetConsumerRunningInfoRequestHeader(ValueMethods):
    """Request 307, to a broker and relayed to the consumer."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


@attrs.frozen(kw_only=True)
class ConsumeMessageDirectlyResultRequestHeader(ValueMethods):
    """Request 309, to a broker and relayed to the consumer; the broker fills in ``broker_name``, ``msg_id`` is an
    offset id."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
