"""Offsets on their way: resets, the progress of single clients, delay levels, files of broadcasting consumers."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from rocketpy.protocol.headers.codec import Int32, Int64
from rocketpy.protocol.message import MessageQueue
from rocketpy.protocol.value_methods import ValueMethods


@attrs.frozen
class ResetOffsetBody(ValueMethods):
    """The offset at which a consumer is to continue, by queue."""

    offset_table: dict[MessageQueue, Int64] = attrs.field(factory=dict)


@attrs.frozen
class MessageQueueForC(ValueMethods):
    """A queue and an offset in one, for clients that cannot read objects as keys."""

    topic: str
    broker_name: str
    queue_id: Int32
    offset: Int64


@attrs.frozen
class ResetOffsetBodyForC(ValueMethods):
    """The same as :class:`ResetOffsetBody` for C++ clients."""

    offset_table: Sequence[MessageQueueForC] = attrs.field(factory=list)


@attrs.frozen
class GetConsumerStatusBody(ValueMethods):
    """Progress of clients: ``message_queue_table`` in a client's answer, ``consumer_table`` in the broker's."""

    message_queue_table: dict[MessageQueue, Int64] = attrs.field(factory=dict)
    consumer_table: dict[str, dict[MessageQueue, Int64]] = attrs.field(factory=dict)


@attrs.frozen
class QueryCorrectionOffsetBody(ValueMethods):
    """The offset of each queue that all of some groups have passed; 2**63 - 1 needs no correction."""

    correction_offsets: dict[Int32, Int64] = attrs.field(factory=dict)


@attrs.frozen
class DelayOffsetSerializeWrapper(ValueMethods):
    """The next queue offset of each delay level: ``delayOffset.json`` and GET_ALL_DELAY_OFFSET."""

    offset_table: dict[Int32, Int64] = attrs.field(factory=dict)


@attrs.frozen
class OffsetSerializeWrapper(ValueMethods):
    """The file in which a broadcasting consumer keeps its own offsets."""

    offset_table: dict[MessageQueue, Int64] = attrs.field(factory=dict)


@attrs.frozen
class OffsetMovedEvent(ValueMethods):
    """The body of a message in OFFSET_MOVED_EVENT: a pull asked for an offset that is gone."""

    consumer_group: str
    message_queue: MessageQueue
    offset_request: Int64 = 0
    offset_new: Int64 = 0
