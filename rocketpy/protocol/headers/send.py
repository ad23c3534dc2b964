"""Headers of the message path into the broker: sends, batches, replies, send-backs and transactions.

10, 324 carry :class:`SendMessageRequestHeader`; 310, 320, 325 the same fields under one-letter names. Whether the body
is a batch follows from the field ``batch``, not from the code.
"""

from __future__ import annotations

import attrs

from rocketpy.protocol.headers.codec import Int32, Int64, wire
from rocketpy.protocol.value_methods import ValueMethods

TRANSACTION_NOT_TYPE = 0
TRANSACTION_COMMIT_TYPE = 8
TRANSACTION_ROLLBACK_TYPE = 12
TRANSACTION_TYPES = (TRANSACTION_NOT_TYPE, TRANSACTION_COMMIT_TYPE, TRANSACTION_ROLLBACK_TYPE)


@attrs.frozen(kw_only=True)
class SendMessageRequestHeader(ValueMethods):
    """Request 10 SEND_MESSAGE and 324 SEND_REPLY_MESSAGE; a negative ``queue_id`` lets the broker pick."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False
    batch: bool = False
    max_reconsume_times: Int32 | None = None
    broker_name: str | None = attrs.field(default=None, metadata=wire("bname"))


@attrs.frozen(kw_only=True)
class SendMessageRequestHeaderV2(ValueMethods):
    """Request 310 SEND_MESSAGE_V2, 320 SEND_BATCH_MESSAGE, 325 SEND_REPLY_MESSAGE_V2: one letter per field."""

    producer_group: str = attrs.field(metadata=wire("a"))
    topic: str = attrs.field(metadata=wire("b"))
    default_topic: str = attrs.field(metadata=wire("c"))
    default_topic_queue_nums: Int32 = attrs.field(metadata=wire("d"))
    queue_id: Int32 = attrs.field(metadata=wire("e"))
    sys_flag: Int32 = attrs.field(metadata=wire("f"))
    born_timestamp: Int64 = attrs.field(metadata=wire("g"))
    flag: Int32 = attrs.field(metadata=wire("h"))
    properties: str | None = attrs.field(default=None, metadata=wire("i"))
    reconsume_times: Int32 | None = attrs.field(default=None, metadata=wire("j"))
    unit_mode: bool = attrs.field(default=False, metadata=wire("k"))
    max_reconsume_times: Int32 | None = attrs.field(default=None, metadata=wire("l"))
    batch: bool = attrs.field(default=False, metadata=wire("m"))
    broker_name: str | None = attrs.field(default=None, metadata=wire("n"))

    def to_v1(self) -> SendMessageRequestHeader:
        """Return the same fields under their long names."""
        return SendMessageRequestHeader(**attrs.asdict(self, recurse=False))

    @classmethod
    def from_v1(cls, header: SendMessageRequestHeader) -> SendMessageRequestHeaderV2:
        """Return the fields of ``header`` under one-letter names."""
        return cls(**attrs.asdict(header, recurse=False))


@attrs.frozen(kw_only=True)
class SendMessageResponseHeader(ValueMethods):
    """Answer to every kind of send: the offset id and where the message lies (the first of a batch)."""

    msg_id: str
    queue_id: Int32
    queue_offset: Int64
    transaction_id: str | None = None


@attrs.frozen(kw_only=True)
class ConsumerSendMsgBackRequestHeader(ValueMethods):
    """Request 36: a consumer gives a message back to be retried; ``offset`` is its physical offset."""

    offset: Int64
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None
    broker_name: str | None = attrs.field(default=None, metadata=wire("bname"))


@attrs.frozen(kw_only=True)
class EndTransactionRequestHeader(ValueMethods):
    """Request 37: commit or roll back a half message. Not answered for ``commit_or_rollback`` 0."""

    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32 = attrs.field(metadata=wire(choices=TRANSACTION_TYPES))
    from_transaction_check: bool = False
    msg_id: str | None = None  # declared not-null in RocketMQ, and only ever logged there
    transaction_id: str | None = None
    broker_name: str | None = attrs.field(default=None, metadata=wire("bname"))


@attrs.frozen
class EndTransactionResponseHeader(ValueMethods):
    """Answer to 37; it has no fields."""


@attrs.frozen(kw_only=True)
class CheckTransactionStateRequestHeader(ValueMethods):
    """Request 39, broker to producer: what became of this half message? Both offsets are those of the half message."""

    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    broker_name: str | None = attrs.field(default=None, metadata=wire("bname"))


@attrs.frozen(kw_only=True)
class CheckTransactionStateResponseHeader(ValueMethods):
    """Declared by RocketMQ for an answer to 39 that is never sent (the producer sends 37 instead)."""

    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32 = attrs.field(metadata=wire(choices=TRANSACTION_TYPES))


@attrs.frozen(kw_only=True)
class ReplyMessageRequestHeader(ValueMethods):
    """Request 326, broker to the requester of a request-reply: the reply, with both hosts as ``ip:port``."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False
    born_host: str
    store_host: str
    store_timestamp: Int64


@attrs.frozen
class ResumeCheckHalfMessageRequestHeader(ValueMethods):
    """Request 323: check a half message again that was given up; ``msg_id`` is an offset id."""

    msg_id: str | None = None
