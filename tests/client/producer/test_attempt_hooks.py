"""Hooks of attempts that never began; what hooks are shown is in ``tests/client/test_hooks.py``."""

from __future__ import annotations

from rocketpy.client.producer.attempt_hooks import AttemptHooks
from rocketpy.client.producer.config import ProducerConfig
from rocketpy.client.producer.delivery import Delivery
from rocketpy.client.producer.retry_rules import sync_rules
from rocketpy.client.producer.send_request import SendRequestMaker
from rocketpy.protocol.message import Message
from tests.client.opened import opened


async def test_an_attempt_that_was_not_announced_has_no_end_either() -> None:
    """Its connection never came, so it has sent nothing."""
    async with opened("127.0.0.1:1") as instance:
        maker = SendRequestMaker(instance=instance, group="g", config=ProducerConfig())
        delivery = Delivery(maker.message(Message("T", b"x")), sync_rules(ProducerConfig()))
        AttemptHooks(instance=instance, group="g").after(delivery)
    assert delivery.hook_context is None
