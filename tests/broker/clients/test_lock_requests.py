"""Locking queues over the wire."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketpy.protocol.bodies.codec import decode_body, encode_body
from rocketpy.protocol.bodies.lock import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.message import MessageQueue
from tests.broker.broker_on_bytes import BrokerOnBytes

Q0, Q1 = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1)


def lock(client_id: str, *queues: MessageQueue) -> RemotingCommand:
    return make_request(RequestCode.LOCK_BATCH_MQ, body=encode_body(LockBatchRequestBody("g", client_id, queues)))


def unlock(client_id: str, *queues: MessageQueue) -> RemotingCommand:
    return make_request(RequestCode.UNLOCK_BATCH_MQ, body=encode_body(UnlockBatchRequestBody("g", client_id, queues)))


def held(answer: RemotingCommand) -> list[MessageQueue]:
    assert answer.code == ResponseCode.SUCCESS
    return list(decode_body(answer.body, LockBatchResponseBody).lock_ok_mq_set)


async def test_a_queue_goes_to_who_asks_first_and_back(broker: BrokerOnBytes) -> None:
    assert held(await broker.ask(lock("c1", Q0, Q1))) == [Q0, Q1]
    assert held(await broker.ask(lock("c2", Q0))) == []
    assert (await broker.ask(unlock("c1", Q0))).code == ResponseCode.SUCCESS
    assert held(await broker.ask(lock("c2", Q0, Q1))) == [Q0]


@pytest.mark.parametrize("code", [RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ])
@pytest.mark.parametrize(
    ("body", "remark"),
    [
        (None, "expected a body, found none"),
        (b"[]", "expected an object, found []"),
        (b'{"clientId":"c"}', "consumerGroup: expected a value, found nothing"),
        (b'{"clientId":"c","consumerGroup":""}', "consumerGroup: expected a name, found a blank text"),
        (b'{"clientId":" ","consumerGroup":"g"}', "clientId: expected a name, found a blank text"),
        (b'{"clientId":"c","consumerGroup":"g","mqSet":[{"topic":"t"}]}', "MessageQueue.brokerName: expected a value"),
        (
            b'{"clientId":"c","consumerGroup":"g","mqSet":[{"topic":"t","brokerName":"b","queueId":"x"}]}',
            "MessageQueue.queueId: expected",
        ),
    ],
)
async def test_a_wrong_body_is_refused(broker: BrokerOnBytes, code: int, body: bytes | None, remark: str) -> None:
    answer = await broker.ask(make_request(code, body=body))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert remark in (answer.remark or "")


async def test_names_and_requests_have_a_length(broker_with: Callable[..., BrokerOnBytes]) -> None:
    """A lock is kept under the names of its queue, for ten minutes."""
    broker = broker_with(client_body_bytes_max=3000)
    for queue, fault in (
        (MessageQueue("t" * 128, "b", 0), "MessageQueue.topic: expected at most 127 characters, found 128"),
        (MessageQueue("t", "b" * 256, 0), "MessageQueue.brokerName: expected at most 255 characters, found 256"),
    ):
        answer = await broker.ask(lock("c", queue))
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, fault)
        assert broker.tables.locks.holder("g", queue) is None
    many = [MessageQueue("t", "b", number) for number in range(100)]
    for request in (lock("c", *many), unlock("c", *many)):
        answer = await broker.ask(request)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "expected at most 3000 bytes, found" in (answer.remark or "")
