"""The result DEFERRED, and what an answer that is given later repeats of its request."""

from __future__ import annotations

from rocketpy.protocol.codes import SerializeType
from rocketpy.protocol.command import ONEWAY_FLAG, RemotingCommand
from rocketpy.remoting.deferred import Owed
from rocketpy.remoting.dispatch import Dispatcher
from tests.remoting.test_connection import make_connection, sent


async def test_an_answer_that_comes_later_repeats_opaque_and_encoding_of_its_request() -> None:
    """A request is owed as it is: what holds it for long needs to keep no more than these fields."""
    dispatcher = Dispatcher()
    connection, _ = make_connection(dispatcher=dispatcher)

    async def fail() -> bytes:
        raise ZeroDivisionError("a bug")

    for serialize_type in SerializeType:
        owed: Owed = RemotingCommand(code=11, opaque=7 + serialize_type, serialize_type=serialize_type)
        connection.count_deferred()
        await dispatcher.run_deferred(connection, owed, fail)
        (answer,) = sent(connection)
        assert (answer.opaque, answer.serialize_type) == (7 + serialize_type, serialize_type)
        assert answer.remark == "ZeroDivisionError: a bug"


async def test_a_oneway_is_owed_no_answer() -> None:
    dispatcher = Dispatcher()
    connection, _ = make_connection(dispatcher=dispatcher)

    async def answer() -> bytes:
        return b"nobody waits for this"

    connection.count_deferred()
    await dispatcher.run_deferred(connection, RemotingCommand(code=11, flag=ONEWAY_FLAG), answer)
    assert (connection.outgoing_size, connection.deferred_count) == (0, 0)
