"""When pulling stops."""

from __future__ import annotations

import pytest

from rocketpy.client.consumer.config import ConsumerConfig
from rocketpy.client.consumer.queue.flow_limits import FlowLimits, flow_limits
from rocketpy.client.consumer.queue.process_queue import ProcessQueue
from rocketpy.protocol.message import MessageExt, MessageQueue


def filled(*offsets: int, size: int = 1) -> ProcessQueue:
    process_queue = ProcessQueue(MessageQueue("T", "b", 0))
    process_queue.put([MessageExt("T", bytes(size), queue_offset=each) for each in offsets])
    return process_queue


def test_count_size_and_span_stop_pulling_above_their_limits() -> None:
    limits = FlowLimits(count_max=2, size_mib_max=1, span_max=10)
    assert not limits.is_exceeded(filled(0, 1))
    assert limits.is_exceeded(filled(0, 1, 2))
    assert not limits.is_exceeded(filled(0, size=(2 << 20) - 1)), "whole MiB are compared, as in Java"
    assert limits.is_exceeded(filled(0, size=2 << 20))
    assert not limits.is_exceeded(filled(0, 10))
    assert limits.is_exceeded(filled(0, 11))
    assert not FlowLimits(count_max=2, size_mib_max=1, span_max=None).is_exceeded(filled(0, 11))


@pytest.mark.parametrize(("queue_count", "expected"), [(0, 10), (1, 10), (3, 3), (20, 1)])
def test_limits_of_a_topic_are_shared_by_its_queues(queue_count: int, expected: int) -> None:
    config = ConsumerConfig(pull_threshold_for_topic=10, pull_threshold_size_for_topic=10)
    assert flow_limits(config, queue_count=queue_count, is_orderly=False) == FlowLimits(expected, expected, 2000)


def test_without_limits_of_the_topic_those_of_the_queue_count_and_order_has_no_span() -> None:
    assert flow_limits(ConsumerConfig(), queue_count=3, is_orderly=True) == FlowLimits(1000, 100, None)
