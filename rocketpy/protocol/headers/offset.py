"""Headers about offsets: a group's progress, and the bounds of a queue."""

from __future__ import annotations

import attrs

from rocketpy.protocol.headers.codec import Int32, Int64, wire


@attrs.frozen(kw_only=True)
class QueryConsumerOffsetRequestHeader:
    """Request 14."""

    consumer_group: str
    topic: str
    queue_id: Int32
    broker_name: str | None = attrs.field(default=None, metadata=wire("bname"))


@attrs.frozen
class QueryConsumerOffsetResponseHeader:
    """Answer to 14: the next queue offset the group will consume."""

    offset: Int64


@attrs.frozen(kw_only=True)
class UpdateConsumerOffsetRequestHeader:
    """Request 15, usually oneway; ``commit_offset`` is the next queue offset the group will consume."""

    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64
    broker_name: str | None = attrs.field(default=None, metadata=wire("bname"))


@attrs.frozen
class UpdateConsumerOffsetResponseHeader:
    """Answer to 15; it has no fields."""


@attrs.frozen(kw_only=True)
class SearchOffsetRequestHeader:
    """Request 29: the first message stored at or after ``timestamp`` (ms)."""

    topic: str
    queue_id: Int32
    timestamp: Int64
    broker_name: str | None = attrs.field(default=None, metadata=wire("bname"))


@attrs.frozen
class SearchOffsetResponseHeader:
    """Answer to 29: a queue offset; 0 for an unknown queue."""

    offset: Int64


@attrs.frozen(kw_only=True)
class GetMaxOffsetRequestHeader:
    """Request 30."""

    topic: str
    queue_id: Int32
    broker_name: str | None = attrs.field(default=None, metadata=wire("bname"))


@attrs.frozen
class GetMaxOffsetResponseHeader:
    """Answer to 30: the queue offset the next message will get; 0 for an unknown queue."""

    offset: Int64


@attrs.frozen(kw_only=True)
class GetMinOffsetRequestHeader:
    """Request 31."""

    topic: str
    queue_id: Int32
    broker_name: str | None = attrs.field(default=None, metadata=wire("bname"))


@attrs.frozen
class GetMinOffsetResponseHeader:
    """Answer to 31: the oldest queue offset still there; 0 for an unknown queue."""

    offset: Int64


@attrs.frozen(kw_only=True)
class GetEarliestMsgStoretimeRequestHeader:
    """Request 32."""

    topic: str
    queue_id: Int32
    broker_name: str | None = attrs.field(default=None, metadata=wire("bname"))


@attrs.frozen
class GetEarliestMsgStoretimeResponseHeader:
    """Answer to 32: when the oldest message of the queue was stored (ms); -1 for an unknown queue."""

    timestamp: Int64
