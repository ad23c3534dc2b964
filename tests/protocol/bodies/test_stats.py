"""The texts of times that Java derives from numbers."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone

from rocketpy.protocol.bodies.stats import QueueTimeSpan, queue_time_span
from rocketpy.protocol.message import MessageQueue

SPAN = QueueTimeSpan(MessageQueue("T", "b", 0), 1, 1_700_000_000_123, 86_399_999, 5)


def test_times_are_written_as_java_writes_them() -> None:
    span = queue_time_span(SPAN, UTC)
    assert span.min_time_stamp_str == "1970-01-01#00:00:00:001"
    assert span.max_time_stamp_str == "2023-11-14#22:13:20:123"
    assert span.consume_time_stamp_str == "1970-01-01#23:59:59:999"
    assert (span.message_queue, span.delay_time, span.min_time_stamp) == (SPAN.message_queue, 5, 1)


def test_times_are_those_of_the_zone() -> None:
    assert queue_time_span(SPAN, timezone(timedelta(hours=8))).min_time_stamp_str == "1970-01-01#08:00:00:001"
