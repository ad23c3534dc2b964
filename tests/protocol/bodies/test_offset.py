"""Offsets: the two forms of a reset, and correction."""

from __future__ import annotations

from rocketpy.protocol.bodies.codec import decode_body, encode_text
from rocketpy.protocol.bodies.offset import (
    OffsetMovedEvent,
)
from rocketpy.protocol.message import MessageQueue

QUEUE = MessageQueue("T", "b", 0)


def test_a_corrected_offset_is_reported() -> None:
    event = OffsetMovedEvent("G", QUEUE, 7, 3)
    assert encode_text(event) == (
        '{"consumerGroup":"G","messageQueue":{"brokerName":"b","queueId":0,"topic":"T"},"offsetNew":3,"offsetRequest":7}'
    )
    assert decode_body(encode_text(event), OffsetMovedEvent) == event
