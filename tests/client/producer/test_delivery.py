"""The state of one send; what is done with it is in ``test_pipeline`` and ``test_send_nowait``."""

from __future__ import annotations

import pytest

from rocketpy.client.producer.config import ProducerConfig
from rocketpy.client.producer.delivery import Delivery
from rocketpy.client.producer.retry_rules import sync_rules
from rocketpy.client.producer.selectors import QueueSelector
from rocketpy.client.producer.send_request import SendRequestMaker
from rocketpy.errors import ClientError
from rocketpy.protocol.message import Message, MessageQueue
from tests.client.opened import opened

QUEUES = [MessageQueue("T", "a", number) for number in range(2)]


async def delivery(selector: QueueSelector) -> Delivery:
    async with opened("127.0.0.1:1") as instance:
        maker = SendRequestMaker(instance=instance, group="g", config=ProducerConfig())
        return Delivery(maker.message(Message("T", b"body")), sync_rules(ProducerConfig()), selector=selector)


async def test_a_selector_that_fails_or_returns_nothing_is_a_client_error() -> None:
    with pytest.raises(ClientError, match="select message queue threw exception: ZeroDivisionError") as caught:
        (await delivery(lambda queues, message: queues[1 // 0])).select(QUEUES)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(ClientError, match="select message queue return null"):
        (await delivery(lambda queues, message: None)).select(QUEUES)  # type: ignore[arg-type,return-value]
    with pytest.raises(ClientError, match="select message queue returned 5, expected a MessageQueue"):
        (await delivery(lambda queues, message: 5)).select(QUEUES)  # type: ignore[arg-type,return-value]


async def test_an_attempt_that_was_given_up_no_longer_waits() -> None:
    one = await delivery(lambda queues, message: queues[0])
    assert not one.waits_in(0)
    one.is_waiting, one.attempts = True, 2
    assert one.waits_in(2)
    assert not one.waits_in(1)
