"""Headers about topics at a broker."""

from __future__ import annotations

import attrs

from rocketpy.protocol.headers.codec import Int32, wire
from rocketpy.protocol.value_methods import ValueMethods

TOPIC_FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")


@attrs.frozen(kw_only=True)
class CreateTopicRequestHeader(ValueMethods):
    """Request 17. ``default_topic`` and ``order`` are for clients' eyes: a broker ignores both."""

    topic: str
    default_topic: str | None = None  # declared not-null in RocketMQ, and never read
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str = attrs.field(metadata=wire(choices=TOPIC_FILTER_TYPES))
    topic_sys_flag: Int32 | None = None
    order: bool = False


@attrs.frozen
class DeleteTopicRequestHeader(ValueMethods):
    """Request 215."""

    topic: str


@attrs.frozen
class GetAllTopicConfigResponseHeader(ValueMethods):
    """Answer to 21; it has no fields, the table is the body."""


@attrs.frozen
class GetTopicStatsInfoRequestHeader(ValueMethods):
    """Request 202."""

    topic: str


@attrs.frozen
class QueryTopicConsumeByWhoRequestHeader(ValueMethods):
    """Request 300: which groups consume this topic?"""

    topic: str


@attrs.frozen(kw_only=True)
class QueryConsumeTimeSpanRequestHeader(ValueMethods):
    """Request 303: the lag of a group in time."""

    topic: str
    group: str
