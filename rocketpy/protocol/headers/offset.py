"""Headers about a group's progress."""

from __future__ import annotations

import attrs

from rocketpy.protocol.headers.codec import Int32, Int64, wire
from rocketpy.protocol.value_methods import ValueMethods


@attrs.frozen(kw_only=True)
class QueryConsumerOffsetRequestHeader(ValueMethods):
    """Request 14."""

    consumer_group: str
    topic: str
    queue_id: Int32
    broker_name: str | None = attrs.field(default=None, metadata=wire("bname"))


@attrs.frozen
class QueryConsumerOffsetResponseHeader(ValueMethods):
    """Answer to 14: the next queue offset the group will consume."""

    offset: Int64


@attrs.frozen(kw_only=True)
class UpdateConsumerOffsetRequestHeader(ValueMethods):
    """Request 15, usually oneway; ``commit_offset`` is the next queue offset the group will consume.

    The last two are not in RocketMQ, which ignores them: a slave commits what a client has committed to it, so many
    milliseconds ago.
    """

    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64
    broker_name: str | None = attrs.field(default=None, metadata=wire("bname"))
    is_brought_home: bool | None = attrs.field(default=None, metadata=wire("broughtHome"))
    committed_ago: Int64 | None = None


@attrs.frozen
class UpdateConsumerOffsetResponseHeader(ValueMethods):
    """Answer to 15; it has no fields in RocketMQ.

    ``is_revoked`` answers a slave: the group was set back after that commit, which is not taken.
    """

    is_revoked: bool | None = attrs.field(default=None, metadata=wire("revoked"))
