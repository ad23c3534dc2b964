"""Helpers for tests of sends: what every answer to a producer has, and requests that are refused."""

from __future__ import annotations

from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.command import RemotingCommand
from tests.broker.message_broker import MessageBroker

EXTRA = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
"""Fields of every answer: Java's client dereferences them."""


async def refused(broker: MessageBroker, request: RemotingCommand) -> RemotingCommand:
    """Ask, and see that nothing was stored and that the answer is one a Java client can read."""
    before = broker.stored_bytes
    answer = await broker.ask(request)
    assert answer.code != ResponseCode.SUCCESS
    assert broker.stored_bytes == before
    assert answer.ext_fields == EXTRA
    assert answer.remark
    return answer
