"""Headers of PULL_MESSAGE."""

from __future__ import annotations

import attrs

from rocketpy.protocol.headers.codec import Int32, Int64, wire
from rocketpy.protocol.value_methods import ValueMethods


@attrs.frozen(kw_only=True)
class PullMessageRequestHeader(ValueMethods):
    """Request 11. ``queue_offset`` is the first message wanted, ``commit_offset`` the group's progress (if bit 0 of
    ``sys_flag`` says so); ``sys_flag`` bits: 1 commit, 2 may be held, 4 subscription included, 8 class filter,
    16 lite pull."""

    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: Int64
    suspend_timeout_millis: Int64
    subscription: str | None = None
    sub_version: Int64
    expression_type: str | None = None
    broker_name: str | None = attrs.field(default=None, metadata=wire("bname"))


@attrs.frozen(kw_only=True)
class PullMessageResponseHeader(ValueMethods):
    """Answer to 11; the three offsets are queue offsets. Also sent with 19, 20 and 21, absent on early refusals."""

    suggest_which_broker_id: Int64
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64
