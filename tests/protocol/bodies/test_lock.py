"""Locks on queues."""

from __future__ import annotations

from rocketpy.protocol.bodies.codec import decode_body, encode_text
from rocketpy.protocol.bodies.lock import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from rocketpy.protocol.message import MessageQueue

QUEUES = [MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)]


def test_the_answer_has_javas_name() -> None:
    text = encode_text(LockBatchResponseBody(QUEUES[:1]))
    assert text == '{"lockOKMQSet":[{"brokerName":"b","queueId":0,"topic":"T"}]}'
    assert decode_body(text, LockBatchResponseBody) == LockBatchResponseBody(QUEUES[:1])


def test_lock_and_unlock_have_one_form() -> None:
    text = encode_text(LockBatchRequestBody("G", "c", QUEUES))
    assert text == encode_text(UnlockBatchRequestBody("G", "c", tuple(QUEUES)))
    assert decode_body(text, UnlockBatchRequestBody) == UnlockBatchRequestBody("G", "c", QUEUES)
