"""Admission control for sends: a closed gate refuses on both paths, an open one costs nothing."""

from __future__ import annotations

import pytest

from rocketpy.broker.send.admission import SendGate
from rocketpy.errors import RequestError
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.remoting.connection import Connection
from tests.broker.message_broker import open_message_broker, send
from tests.broker.send.test_request_reply import reply
from tests.broker.send.test_send_back import send_back

BUSY = "[REJECTREQUEST]system busy, start flow control for a while"


def is_java(connection: Connection) -> str | None:
    return BUSY if connection.peer.startswith("10.") else None


async def test_a_closed_gate_asks_about_each_connection() -> None:
    async with open_message_broker() as broker:
        gate = SendGate()
        refused, taken = broker.connect(("10.0.0.1", 1)), broker.connect(("11.0.0.1", 1))
        gate.check(refused)
        closed: list[bool] = []
        gate.on_close(lambda: closed.append(gate.is_open))
        gate.close(is_java)
        gate.check(taken)
        with pytest.raises(RequestError) as refusal:
            gate.check(refused)
        assert (refusal.value.response_code, refusal.value.remark) == (ResponseCode.SYSTEM_BUSY, BUSY)
        assert (closed, gate.refused_count) == ([False], 1)
        gate.open()
        gate.check(refused)


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
