"""The stream driver over an in-memory pair: what it shares with the hub is in test_server."""

from __future__ import annotations

import trio
import trio.testing

from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.frame import decode_frame, encode_frame
from rocketpy.remoting.config import ConnectionLimits
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.remoting.incoming_bytes import IncomingBytes
from rocketpy.remoting.refusal_log import RefusalLog
from rocketpy.remoting.stream_driver import StreamDriver


async def test_a_memory_stream_is_served_and_closing_it_ends_the_connection() -> None:
    dispatcher = Dispatcher()
    dispatcher.register(1, lambda c, r: make_response(r, remark=c.peer))
    ended: list[Connection] = []
    driver = StreamDriver(
        dispatcher=dispatcher,
        limits=ConnectionLimits(),
        start_task=lambda *a: False,
        on_end=ended.append,
        incoming=IncomingBytes(1 << 20),
        refusals=RefusalLog(),
    )
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        connection = await nursery.start(serve, driver, theirs)
        await ours.send_all(encode_frame(RemotingCommand(code=1, opaque=3)))
        answer = decode_frame(bytes(await ours.receive_some(65536)))
        assert (answer.opaque, answer.remark) == (3, "10.0.0.9:1234")
        assert driver.connections == [connection]
        await ours.aclose()
    assert ended == [connection]
    assert connection.is_closed


async def serve(driver: StreamDriver, stream: trio.abc.Stream, *, task_status: trio.TaskStatus[Connection]) -> None:
    await driver.serve_stream(stream, ("10.0.0.9", 1234), task_status=task_status)
