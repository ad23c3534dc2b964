"""Units of a queue."""

from __future__ import annotations

from rocketpy.protocol.bodies.codec import decode_body, encode_text
from rocketpy.protocol.bodies.queue import ConsumeQueueData, QueryConsumeQueueResponseBody


def test_units_without_extension_or_fault_are_short() -> None:
    body = QueryConsumeQueueResponseBody(queue_data=[ConsumeQueueData(215, 200, -5)], max_queue_index=8)
    assert encode_text(body) == (
        '{"maxQueueIndex":8,"minQueueIndex":0,"queueData":[{"eval":false,"physicOffset":215,"physicSize":200,'
        '"tagsCode":-5}]}'
    )
    assert decode_body(encode_text(body), QueryConsumeQueueResponseBody) == body
