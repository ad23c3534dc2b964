"""The table of processors. What it answers is tested over sockets in test_server; here is what is left."""

from __future__ import annotations

import pytest

from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.frame import FRAME_LENGTH_MAX, encode_frame
from rocketpy.remoting.dispatch import DEFERRED, Dispatcher
from tests.remoting.test_connection import make_connection, sent


def test_a_code_has_one_processor() -> None:
    dispatcher = Dispatcher()
    dispatcher.register((1, 2), lambda c, r: None)
    with pytest.raises(AssertionError, match="two processors for request code 2"):
        dispatcher.register(2, lambda c, r: None)


def test_the_vip_port_refuses_what_it_is_told_to_and_shares_the_rest() -> None:
    dispatcher = Dispatcher()
    dispatcher.register((10, 11), lambda c, r: make_response(r))
    dispatcher.register_fast_path(11, lambda c, h, b: True)
    dispatcher.register_fast_path(310, lambda c, h, b: True)
    fast = dispatcher.without([11])
    assert list(fast.fast_paths) == [b'{"code":310,']
    connection, _ = make_connection()
    for code in (10, 11):
        fast.dispatch(connection, 0, encode_frame(RemotingCommand(code=code, opaque=code))[8:], None)
    ten, eleven = sent(connection)
    assert ten.code == 0
    assert eleven.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


def test_unknown_codes_are_remembered_up_to_a_bound() -> None:
    """A peer that counts through all codes neither fills the log nor the memory."""
    seen: list[int] = []
    dispatcher = Dispatcher(unsupported_log=seen.append)
    connection, _ = make_connection()
    for code in (*range(2000, 4000), 2000):
        dispatcher.dispatch(connection, 0, encode_frame(RemotingCommand(code=code, flag=2))[8:], None)
    assert len(set(seen)) == len(dispatcher._unsupported_seen) + (2000 - 1024)
    assert len(dispatcher._unsupported_seen) == 1024
    assert connection.outgoing_size == 0


def test_too_many_slow_commands_are_refused_as_busy() -> None:
    connection, transport = make_connection()
    transport.start_task = lambda function, *arguments: False  # type: ignore[method-assign]
    dispatcher = Dispatcher()

    async def slow(connection: object, request: RemotingCommand) -> None:
        raise AssertionError("not reached")

    dispatcher.register_task(12, slow)
    dispatcher.dispatch(connection, 0, encode_frame(RemotingCommand(code=12))[8:], None)
    (busy,) = sent(connection)
    assert busy.code == ResponseCode.SYSTEM_BUSY
    assert busy.remark is not None
    assert busy.remark.startswith("[OVERLOAD]system busy")


def test_a_deferral_is_counted() -> None:
    connection, _ = make_connection()
    dispatcher = Dispatcher()
    dispatcher.register(10, lambda c, r: DEFERRED)
    dispatcher.dispatch(connection, 0, encode_frame(RemotingCommand(code=10))[8:], None)
    assert connection.deferred_count == 1
    assert repr(DEFERRED) == "DEFERRED"


def test_an_answer_that_no_frame_can_hold_is_an_error_answer() -> None:
    connection, _ = make_connection()
    dispatcher = Dispatcher()
    dispatcher.register(10, lambda c, r: make_response(r, body=bytes(FRAME_LENGTH_MAX)))
    dispatcher.dispatch(connection, 0, encode_frame(RemotingCommand(code=10, opaque=7))[8:], None)
    (answer,) = sent(connection)
    assert (answer.opaque, answer.code) == (7, ResponseCode.SYSTEM_ERROR)
    assert answer.remark is not None
    assert "expected at most 16777216 bytes" in answer.remark
