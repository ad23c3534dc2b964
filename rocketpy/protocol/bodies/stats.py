"""Offsets and consumption rates of queues and groups: the tables behind ``topicStatus`` and ``consumerProgress``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo

import attrs

from rocketpy.protocol.headers.codec import Int64
from rocketpy.protocol.message import MessageQueue
from rocketpy.protocol.value_methods import ValueMethods


@attrs.frozen
class TopicOffset(ValueMethods):
    """Range of offsets of a queue; ``last_update_timestamp`` is when its last message was stored, 0 for none."""

    min_offset: Int64 = 0
    max_offset: Int64 = 0
    last_update_timestamp: Int64 = 0


@attrs.frozen
class TopicStatsTable(ValueMethods):
    """The queues of a topic on one broker."""

    offset_table: dict[MessageQueue, TopicOffset] = attrs.field(factory=dict)


@attrs.frozen
class OffsetWrapper(ValueMethods):
    """Progress of a group in a queue; ``last_timestamp`` is when the message before its offset was stored."""

    broker_offset: Int64 = 0
    consumer_offset: Int64 = 0
    last_timestamp: Int64 = 0


@attrs.frozen
class ConsumeStats(ValueMethods):
    """Progress of a group in its queues on one broker."""

    offset_table: dict[MessageQueue, OffsetWrapper] = attrs.field(factory=dict)
    consume_tps: float = 0.0


@attrs.frozen
class ConsumeStatsList(ValueMethods):
    """Progress of all groups of a broker; each entry of the list has one group."""

    consume_stats_list: Sequence[dict[str, Sequence[ConsumeStats]]] = attrs.field(factory=list)
    broker_addr: str | None = None
    total_diff: Int64 = 0


@attrs.frozen
class BrokerStatsItem(ValueMethods):
    """A counter over a span of time: its sum, the sum per second, and the average per call."""

    sum: Int64 = 0
    tps: float = 0.0
    avgpt: float = 0.0


@attrs.frozen
class BrokerStatsData(ValueMethods):
    """A counter over the last minute, hour and day."""

    stats_minute: BrokerStatsItem = attrs.field(factory=BrokerStatsItem)
    stats_hour: BrokerStatsItem = attrs.field(factory=BrokerStatsItem)
    stats_day: BrokerStatsItem = attrs.field(factory=BrokerStatsItem)


@attrs.frozen
class QueueTimeSpan(ValueMethods):
    """Store times of the first, the last and the last consumed message of a queue; see :func:`queue_time_span`."""

    message_queue: MessageQueue
    min_time_stamp: Int64 = 0
    max_time_stamp: Int64 = 0
    consume_time_stamp: Int64 = 0
    delay_time: Int64 = 0
    min_time_stamp_str: str | None = None
    max_time_stamp_str: str | None = None
    consume_time_stamp_str: str | None = None


@attrs.frozen
class QueryConsumeTimeSpanBody(ValueMethods):
    """The queues of a topic with their times for a group."""

    consume_time_span_set: Sequence[QueueTimeSpan] = attrs.field(factory=list)


def queue_time_span(span: QueueTimeSpan, zone: tzinfo | None = None) -> QueueTimeSpan:
    """Return ``span`` with the three texts that Java derives from its numbers; ``zone`` ``None`` is the machine's."""
    return attrs.evolve(
        span,
        min_time_stamp_str=_time_text(span.min_time_stamp, zone),
        max_time_stamp_str=_time_text(span.max_time_stamp, zone),
        consume_time_stamp_str=_time_text(span.consume_time_stamp, zone),
    )


def _time_text(timestamp_ms: int, zone: tzinfo | None) -> str:
    """``yyyy-MM-dd#HH:mm:ss:SSS``, as ``UtilAll.formatDate`` writes it."""
    moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC).astimezone(zone)
    return f"{moment:%Y-%m-%d#%H:%M:%S}:{timestamp_ms % 1000:03d}"
