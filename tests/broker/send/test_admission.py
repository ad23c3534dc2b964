"""Admission control for sends: a closed gate refuses on both paths, an open one costs nothing."""

from __future__ import annotations

import pytest

from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
from tests.broker.message_broker import open_message_broker, send
from tests.broker.send.test_request_reply import reply
from tests.broker.send.test_send_back import send_back

BUSY = "[REJECTREQUEST]system busy, start flow control for a while"


@pytest.mark.parametrize(
    "request_of",
    [
        lambda: send(),
        lambda: send(code=RequestCode.SEND_MESSAGE),
        lambda: send(code=RequestCode.SEND_BATCH_MESSAGE, batch=True),
        lambda: reply(),
        lambda: send_back(),
    ],
    ids=["fast", "general", "batch", "reply", "send-back"],
)
async def test_both_paths_refuse_while_the_gate_is_closed(request_of: object) -> None:
    assert callable(request_of)
    async with open_message_broker() as broker:
        await broker.ask(send())  # so that the fast path has cached the topic
        request: RemotingCommand = request_of()
        stored = broker.stored_bytes
        broker.send_feature.gate.close(lambda connection: BUSY)
        answer = await broker.ask(request)
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_BUSY, BUSY)
        assert broker.stored_bytes == stored
        broker.send_feature.gate.open()
        assert (await broker.ask(send())).code == ResponseCode.SUCCESS
        assert broker.send_path.taken[-1]
