"""Headers of look-ups: messages by key or id, ConsumeQueue units."""

from __future__ import annotations

import attrs

from rocketpy.protocol.headers.codec import Int32, Int64
from rocketpy.protocol.value_methods import ValueMethods

UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
"""An ext field of request 12 beside its header: ``true`` when ``key`` is a UNIQ_KEY (then ``max_num`` is ignored).
It is never part of a signature."""


@attrs.frozen(kw_only=True)
class QueryMessageRequestHeader(ValueMethods):
    """Request 12: messages with a key, stored between two times (ms)."""

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64


@attrs.frozen(kw_only=True)
class QueryMessageResponseHeader(ValueMethods):
    """Answer to 12, also with 22: how far the index has come."""

    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64


@attrs.frozen
class ViewMessageRequestHeader(ValueMethods):
    """Request 33: the message at a physical offset."""

    offset: Int64


@attrs.frozen(kw_only=True)
class CompareRecordRequestHeader(ValueMethods):
    """Fields of ours beside those of request 33: a slave asks whether the master's log has the same record there.

    Compatibility: RocketMQ ignores both, and answers the record itself.
    """

    record_size: Int32 | None = None
    """Bytes that are compared: a whole record, or the 8 of the head of a BLANK."""
    record_digest: str | None = None
    """Their SHA-256 in hexadecimal digits."""


@attrs.frozen(kw_only=True)
class CompareRecordResponseHeader(ValueMethods):
    """Answer to a comparison, without a body; missing in RocketMQ's answers."""

    record_is_equal: bool | None = None


@attrs.frozen
class ViewMessageResponseHeader(ValueMethods):
    """Answer to 33; it has no fields, the record is the body."""


@attrs.frozen(kw_only=True)
class QueryConsumeQueueRequestHeader(ValueMethods):
    """Request 321: ``count`` units of a ConsumeQueue from ``index`` on, matched against a group's subscription."""

    topic: str
    queue_id: Int32
    index: Int64
    count: Int32
    consumer_group: str | None = None
