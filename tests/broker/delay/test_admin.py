"""The progress of delayed messages for slaves and tools, in Java's format."""

from __future__ import annotations

from rocketpy.broker.delay.admin import AdminDelayProcessor
from rocketpy.broker.delay.offsets import DelayOffsetManager
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.frame import encode_frame
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.runner import run_inline
from rocketpy.testing.sim.disk import SimDisk
from tests.broker.broker_on_bytes import Transport, connect_to, received


def ask(offsets: DelayOffsetManager) -> bytes:
    dispatcher = Dispatcher()
    AdminDelayProcessor(delay_offset_manager=offsets).register(dispatcher)
    connection = connect_to(dispatcher, Transport(lambda _: None))
    connection.receive(encode_frame(make_request(RequestCode.GET_ALL_DELAY_OFFSET)))
    connection.serve(1)
    (answer,) = received(connection)
    assert answer.code == ResponseCode.SUCCESS
    assert answer.body is not None
    return answer.body


def test_the_offsets_by_level_in_one_line() -> None:
    offsets = DelayOffsetManager(path="/delayOffset.json", disk=SimDisk(), run_blocking=run_inline)
    assert ask(offsets) == b'{"offsetTable":{}}'
    offsets.offset_table |= {2: 1, 1: 2}
    assert ask(offsets) == b'{"offsetTable":{1:2,2:1}}'
