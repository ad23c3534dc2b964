"""The kind of a message, as hooks are told; what they may do is in ``tests/client/test_hooks.py``."""

from __future__ import annotations

import pytest

from rocketpy.client.hooks import MessageType, SendMessageContext
from rocketpy.client.producer.attempt_hooks import AttemptHooks
from rocketpy.client.producer.config import ProducerConfig
from rocketpy.client.producer.delivery import Delivery
from rocketpy.client.producer.retry_rules import sync_rules
from rocketpy.client.producer.send_request import SendRequestMaker
from rocketpy.protocol.message import Message, MessageQueue
from tests.client.opened import opened


@pytest.mark.parametrize(
    ("sys_flag", "properties", "kind"),
    [
        (0, {}, MessageType.NORMAL_MSG),
        (4, {"DELAY": "1"}, MessageType.TRANS_MSG_HALF),
        (0, {"DELAY": "1"}, MessageType.DELAY_MSG),
    ],
)
async def test_the_kind_of_a_message(sys_flag: int, properties: dict[str, str], kind: MessageType) -> None:
    async with opened("127.0.0.1:1") as instance:
        maker = SendRequestMaker(instance=instance, group="g", config=ProducerConfig())
        delivery = Delivery(
            maker.message(Message("T", b"x", properties), sys_flag=sys_flag), sync_rules(ProducerConfig())
        )
        delivery.chosen = MessageQueue("T", "a", 0)
        AttemptHooks(instance=instance, group="g").before(delivery)
    assert isinstance(delivery.hook_context, SendMessageContext)
    assert delivery.hook_context.message_type is kind


async def test_an_attempt_that_was_not_announced_has_no_end_either() -> None:
    """Its connection never came, so it has sent nothing."""
    async with opened("127.0.0.1:1") as instance:
        maker = SendRequestMaker(instance=instance, group="g", config=ProducerConfig())
        delivery = Delivery(maker.message(Message("T", b"x")), sync_rules(ProducerConfig()))
        AttemptHooks(instance=instance, group="g").after(delivery)
    assert delivery.hook_context is None
