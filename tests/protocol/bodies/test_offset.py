"""Offsets: the two forms of a reset, and correction."""

from __future__ import annotations

from rocketpy.protocol.bodies.codec import decode_body, encode_text
from rocketpy.protocol.bodies.offset import (
    MessageQueueForC,
    OffsetMovedEvent,
    QueryCorrectionOffsetBody,
    ResetOffsetBody,
    ResetOffsetBodyForC,
)
from rocketpy.protocol.message import MessageQueue

QUEUE = MessageQueue("T", "b", 0)


def test_a_reset_has_queues_as_keys_and_for_c_a_list() -> None:
    assert encode_text(ResetOffsetBody({QUEUE: 5})) == '{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:5}}'
    assert encode_text(ResetOffsetBodyForC([MessageQueueForC("T", "b", 0, 5)])) == (
        '{"offsetTable":[{"brokerName":"b","offset":5,"queueId":0,"topic":"T"}]}'
    )


def test_a_queue_that_needs_no_correction_has_the_largest_number() -> None:
    body = QueryCorrectionOffsetBody({0: 2**63 - 1})
    assert encode_text(body) == '{"correctionOffsets":{0:9223372036854775807}}'
    assert decode_body(encode_text(body), QueryCorrectionOffsetBody) == body


def test_a_corrected_offset_is_reported() -> None:
    event = OffsetMovedEvent("G", QUEUE, 7, 3)
    assert encode_text(event) == (
        '{"consumerGroup":"G","messageQueue":{"brokerName":"b","queueId":0,"topic":"T"},"offsetNew":3,"offsetRequest":7}'
    )
    assert decode_body(encode_text(event), OffsetMovedEvent) == event
