"""Headers about the bounds of a queue: its first, last and nearest offsets."""

from __future__ import annotations

import attrs

from rocketpy.protocol.headers.codec import Int32, Int64, wire
from rocketpy.protocol.value_methods import ValueMethods


@attrs.frozen(kw_only=True)
class SearchOffsetRequestHeader(ValueMethods):
    """Request 29: the first message stored at or after ``timestamp`` (ms)."""

    topic: str
    queue_id: Int32
    timestamp: Int64
    broker_name: str | None = attrs.field(default=None, metadata=wire("bname"))


@attrs.frozen
class SearchOffsetResponseHeader(ValueMethods):
    """Answer to 29: a queue offset; 0 for an unknown queue."""

    offset: Int64


@attrs.frozen(kw_only=True)
class GetMaxOffsetRequestHeader(ValueMethods):
    """Request 30."""

    topic: str
    queue_id: Int32
    broker_name: str | None = attrs.field(default=None, metadata=wire("bname"))


@attrs.frozen
class GetMaxOffsetResponseHeader(ValueMethods):
    """Answer to 30: the queue offset the next message will get; 0 for an unknown queue."""

    offset: Int64


@attrs.frozen(kw_only=True)
class GetMinOffsetRequestHeader(ValueMethods):
    """Request 31."""

    topic: str
    queue_id: Int32
    broker_name: str | None = attrs.field(default=None, metadata=wire("bname"))


@attrs.frozen
class GetMinOffsetResponseHeader(ValueMethods):
    """Answer to 31: the oldest queue offset still there; 0 for an unknown queue."""

    offset: Int64


@attrs.frozen(kw_only=True)
class GetEarliestMsgStoretimeRequestHeader(ValueMethods):
    """Request 32."""

    topic: str
    queue_id: Int32
    broker_name: str | None = attrs.field(default=None, metadata=wire("bname"))


@attrs.frozen
class GetEarliestMsgStoretimeResponseHeader(ValueMethods):
    """Answer to 32: when the oldest message of the queue was stored (ms); -1 for an unknown queue."""

    timestamp: Int64
