"""The connection's state machine alone: no sockets, a transport that only takes notes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import trio
import trio.testing

from rocketpy.errors import RemotingSendRequestError
from rocketpy.protocol.command import RemotingCommand, make_request, make_response
from rocketpy.protocol.frame import FrameReader, decode_command, encode_frame
from rocketpy.remoting.config import ConnectionLimits
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import TOOK_LONG, Dispatcher
from rocketpy.remoting.task_pool import TaskKind

ECHO = 1001


class NotingTransport:
    """Sends nothing and records everything; ``sends_fail`` says which sends find that the peer is gone."""

    def __init__(self, sends_fail: Callable[[Connection], bool] = lambda connection: False) -> None:
        self.flushed = 0
        self.ended: list[Connection] = []
        self.tasks: list[Callable[[], Awaitable[None]]] = []
        self.kinds: list[TaskKind] = []
        self.takes_tasks = True
        self._sends_fail = sends_fail

    def flush(self, connection: Connection) -> None:
        self.flushed += 1
        if self._sends_fail(connection):
            self.end(connection)

    def end(self, connection: Connection) -> None:
        if connection not in self.ended:
            self.ended.append(connection)
            connection.mark_closed()

    def has_room(self, size: int) -> bool:
        return True

    def start_task(
        self, owner: object, kind: TaskKind, function: Callable[..., Awaitable[None]], *arguments: object
    ) -> bool:
        if self.takes_tasks:
            self.tasks.append(partial(function, *arguments))
            self.kinds.append(kind)
        return self.takes_tasks


def echo_dispatcher() -> Dispatcher:
    dispatcher = Dispatcher()
    dispatcher.register(ECHO, lambda c, r: make_response(r, body=r.body))
    return dispatcher


def make_connection(
    limits: ConnectionLimits | None = None,
    *,
    transport: NotingTransport | None = None,
    dispatcher: Dispatcher | None = None,
) -> tuple[Connection, NotingTransport]:
    transport = transport or NotingTransport()
    connection = Connection(
        address=("10.1.2.3", 4567),
        dispatcher=dispatcher or echo_dispatcher(),
        transport=transport,
        limits=limits or ConnectionLimits(),
        now=0.0,
    )
    return connection, transport


@pytest.fixture
def connection() -> Connection:
    """A connection whose requests are echoed."""
    return make_connection()[0]


def sent(connection: Connection) -> list[RemotingCommand]:
    reader = FrameReader()
    reader.receive(connection.take_outgoing())
    commands = []
    while (frame := reader.next_frame()) is not None:
        commands.append(decode_command(*frame))
    return commands


def test_it_says_who_the_peer_is(connection: Connection) -> None:
    assert connection.peer == "10.1.2.3:4567"
    assert connection.born_host == bytes([10, 1, 2, 3]) + (4567).to_bytes(4, "big")
    assert repr(connection) == "<Connection 10.1.2.3:4567>"


def test_serving_stops_at_the_budget_and_says_that_more_may_wait() -> None:
    dispatcher = echo_dispatcher()
    connection, transport = make_connection(dispatcher=dispatcher)
    connection.receive(b"".join(encode_frame(RemotingCommand(code=ECHO, opaque=i)) for i in range(5)))
    assert connection.serve(3)
    assert connection.frames_received == 3
    assert not connection.serve(3)
    dispatcher.burst.flush_replies()
    assert transport.flushed == 1  # once until it is drained
    assert [c.opaque for c in sent(connection)] == [0, 1, 2, 3, 4]


def test_slow_requests_leave_the_rest_for_the_next_slice(connection: Connection) -> None:
    """64 requests of a millisecond each must not be one turn: what was cut from the stream is kept, in order."""
    for number in range(6):
        connection.receive(encode_frame(RemotingCommand(code=ECHO, opaque=number)))
    time_is_up = iter([False, True, True, False])
    assert connection.serve(5, lambda: next(time_is_up))
    frame_size = len(encode_frame(RemotingCommand(code=ECHO)))
    assert connection.buffered_size == 4 * frame_size - 3 * 8, "three are cut out of the stream, without their prefix"
    assert [each.opaque for each in sent(connection)] == [0, 1]
    assert connection.frames_received == 2
    connection.receive(encode_frame(RemotingCommand(code=ECHO, opaque=6)))
    assert connection.serve(5, lambda: next(time_is_up))
    assert [each.opaque for each in sent(connection)] == [2]
    assert connection.serve(5), "there may be more after those that were kept"
    assert not connection.serve(5)
    assert [each.opaque for each in sent(connection)] == [3, 4, 5, 6]
    assert (connection.frames_received, connection.buffered_size) == (7, 0)


def test_pieces_go_out_in_order_and_are_joined_up_to_a_size(connection: Connection) -> None:
    for frame in (b"aaa", b"bb", b"c" * 10, b"d"):
        connection.reply_frame(frame)
    assert connection.outgoing_size == 16
    pieces = []
    while connection.outgoing_size:
        pieces.append(bytes(connection.take_piece(5)))
    assert pieces == [b"aaabb", b"c" * 10, b"d"]
    connection.reply_frame(b"later")
    connection.put_back_outgoing(memoryview(b"front"))
    assert connection.outgoing_size == 10
    assert connection.take_outgoing() == b"frontlater"


async def test_a_task_that_fails_ends_its_connection_only(caplog: pytest.LogCaptureFixture) -> None:
    connection, transport = make_connection()

    async def fail() -> None:
        raise ZeroDivisionError

    assert connection.start_task(fail)
    assert connection.start_command(fail)
    assert transport.kinds == [TaskKind.READ, TaskKind.COMMAND]
    await transport.tasks[0]()
    assert connection.is_closed
    assert "a task of 10.1.2.3:4567, whose connection is closed, failed unexpectedly" in caplog.text


def test_a_send_that_finds_the_peer_gone_ends_the_connection_in_the_middle_of_a_notification() -> None:
    connection, transport = make_connection(transport=NotingTransport(sends_fail=lambda connection: True))
    connection.oneway(make_request(40))
    connection.oneway(make_request(40))
    assert transport.ended == [connection]
    assert transport.flushed == 1
    assert connection.dropped_replies == 1


def test_the_time_is_looked_at_after_a_fast_path_that_took_long() -> None:
    """A pull that judges hundreds of messages is served as fast as others; sixty of them are not served in one go."""
    dispatcher = echo_dispatcher()
    connection, _ = make_connection(dispatcher=dispatcher)
    answers = iter((True, True, TOOK_LONG, True, TOOK_LONG, True))
    asked: list[int] = []
    dispatcher.register_fast_path(ECHO, lambda connection, header, body: next(answers))

    def is_over() -> bool:
        asked.append(connection.frames_received)
        return True

    frames = b"".join(encode_frame(RemotingCommand(code=ECHO, opaque=number)) for number in range(6))
    connection.receive(frames)
    assert connection.serve(64, is_over)
    assert (connection.frames_received, len(asked)) == (3, 1)
    assert connection.serve(64, is_over)
    assert (connection.frames_received, len(asked)) == (5, 2)
    assert connection.serve(64, is_over), "there may be more after those that were kept"
    assert (connection.frames_received, len(asked)) == (6, 2)


def test_a_fast_path_may_take_or_decline_a_request() -> None:
    dispatcher = echo_dispatcher()
    connection, _ = make_connection(dispatcher=dispatcher)
    taken: list[bytes] = []

    def fast_path(connection: Connection, header: bytes, body: bytes | None) -> bool:
        taken.append(header)
        return b"decline" not in header

    dispatcher.register_fast_path(ECHO % 1000 + 10, fast_path)
    connection.receive(encode_frame(RemotingCommand(code=11, ext_fields={"a": "b"})))
    connection.receive(encode_frame(RemotingCommand(code=11, ext_fields={"a": "decline"})))
    connection.serve(10)
    assert len(taken) == 2
    assert [c.code for c in sent(connection)] == [3]  # only the declined one came to the dispatcher


def test_a_fast_path_that_fails_is_answered_and_the_connection_lives() -> None:
    dispatcher = echo_dispatcher()
    connection, _ = make_connection(dispatcher=dispatcher)

    def fast_path(connection: Connection, header: bytes, body: bytes | None) -> bool:
        raise AssertionError("ours") if b"ours" in header else ZeroDivisionError("a bug")

    dispatcher.register_fast_path(11, fast_path)
    for flag in (0, 2):  # a oneway gets no answer
        connection.receive(encode_frame(RemotingCommand(code=11, opaque=7, flag=flag, ext_fields={"a": "b"})))
    connection.receive(encode_frame(RemotingCommand(code=ECHO, opaque=8, body=b"next")))
    connection.serve(10)
    failed, echoed = sent(connection)
    assert (failed.code, failed.opaque, failed.remark) == (1, 7, "ZeroDivisionError: a bug")
    assert (echoed.opaque, echoed.body) == (8, b"next")
    connection.receive(encode_frame(RemotingCommand(code=11, ext_fields={"a": "ours"})))
    with pytest.raises(AssertionError):
        connection.serve(10)


def test_reading_pauses_while_replies_wait() -> None:
    connection, _ = make_connection(ConnectionLimits(outgoing_bytes_pause=10))
    connection.reply_frame(b"x" * 10)
    assert connection.wants_reading
    connection.reply_frame(b"x")
    assert not connection.wants_reading
    connection.take_outgoing()
    assert connection.wants_reading


def test_a_oneway_is_dropped_when_the_buffer_is_full() -> None:
    connection, _ = make_connection(ConnectionLimits(outgoing_bytes_max=10))
    connection.reply_frame(b"x" * 11)
    connection.oneway(make_request(40))
    assert connection.dropped_replies == 1
    assert connection.outgoing_size == 11


def test_deferrals_are_counted_and_bounded() -> None:
    connection, _ = make_connection(ConnectionLimits(deferred_replies_max=2))
    connection.count_deferred()
    assert connection.may_defer
    connection.count_deferred()
    assert not connection.may_defer
    connection.drop_deferred()
    connection.reply_deferred(b"x")
    assert connection.deferred_count == 0


async def test_a_request_is_matched_by_opaque_and_flag() -> None:
    connection, transport = make_connection()
    async with trio.open_nursery() as nursery:
        remarks: dict[int, str | None] = {}

        async def ask(code: int) -> None:
            remarks[code] = (await connection.request(make_request(code), 1)).remark

        for code in (39, 40):
            nursery.start_soon(ask, code)
            await trio.testing.wait_all_tasks_blocked()
        asked = sorted(sent(connection), key=lambda c: c.opaque)
        assert [c.opaque for c in asked] == [0, 1]
        assert transport.flushed == 2
        connection.receive(encode_frame(RemotingCommand(code=0, flag=1, opaque=1, remark="one")))
        connection.receive(encode_frame(RemotingCommand(code=0, flag=1, opaque=99)))  # unknown opaque
        connection.receive(encode_frame(RemotingCommand(code=0, flag=1, opaque=0, remark="zero")))
        connection.serve(10)
    assert remarks == {39: "zero", 40: "one"}


async def test_closing_fails_what_is_in_flight_and_drops_what_is_queued() -> None:
    connection, transport = make_connection()
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            with pytest.raises(RemotingSendRequestError, match="ended before it answered"):
                await connection.request(make_request(40), 60)

        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        connection.close()
    assert connection.is_closed
    assert connection.outgoing_size == 0
    connection.close()
    assert transport.ended == [connection]
    connection.reply(RemotingCommand(code=0))
    assert connection.dropped_replies == 1
    with pytest.raises(RemotingSendRequestError, match="is closed"):
        await connection.request(make_request(40), 1)
