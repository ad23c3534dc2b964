"""The server over real loopback sockets, under both drivers."""

from __future__ import annotations

import contextlib
import socket
import struct

import pytest
import trio
import trio.testing

from rocketpy.errors import StartError, StoreError
from rocketpy.protocol.codes import ResponseCode, SerializeType
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.frame import FrameReader, decode_command, encode_frame
from rocketpy.remoting.config import NettyServerConfig
from rocketpy.remoting.server import RemotingServer, open_listeners
from tests.patience import PATIENCE_SECONDS, until
from tests.remoting.conftest import BUG, DEFER, ECHO, REFUSE, SLOW, STORE_FAILURE, Program, Running


class Peer:
    """A raw client that speaks frames and nothing else."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._reader = FrameReader()

    async def send(self, *commands: RemotingCommand) -> None:
        await self.stream.send_all(b"".join(map(encode_frame, commands)))

    async def receive(self) -> RemotingCommand | None:
        """The next command, or None at the end of the stream."""
        with trio.fail_after(PATIENCE_SECONDS):
            while (frame := self._reader.next_frame()) is None:
                try:
                    chunk = await self.stream.receive_some(65536)
                except trio.BrokenResourceError:  # closed with our bytes unread: the kernel says reset
                    return None
                if not chunk:
                    return None
                self._reader.receive(bytes(chunk))
            return decode_command(*frame)

    async def answer(self) -> RemotingCommand:
        command = await self.receive()
        assert command is not None, "the server closed the connection"
        return command


async def connect(running: Running) -> Peer:
    host, port = running.address.split(":")
    return Peer(await trio.open_tcp_stream(host, int(port)))


def ask(code: int, opaque: int, body: bytes | None = None, **fields: object) -> RemotingCommand:
    request = make_request(code, body=body)
    request.opaque = opaque
    for name, value in fields.items():
        setattr(request, name, value)
    return request


async def test_pipelined_requests_are_answered_each_with_its_opaque(running: Running) -> None:
    peer = await connect(running)
    await peer.send(*(ask(ECHO, opaque, body=b"%d" % opaque) for opaque in range(200)))
    answers = [await peer.answer() for _ in range(200)]
    assert [(a.opaque, a.body, a.flag) for a in answers] == [(i, b"%d" % i, 1) for i in range(200)]
    assert running.program.ended_bursts > 0


async def test_a_request_may_arrive_byte_by_byte(running: Running) -> None:
    peer = await connect(running)
    for byte in encode_frame(ask(ECHO, 7, body=b"drop by drop")):
        await peer.stream.send_all(bytes([byte]))
    assert (await peer.answer()).body == b"drop by drop"


async def test_the_answer_comes_in_the_form_of_the_request(running: Running) -> None:
    peer = await connect(running)
    await peer.send(ask(ECHO, 1, serialize_type=SerializeType.ROCKETMQ, body=b"b"))
    assert (await peer.answer()).serialize_type is SerializeType.ROCKETMQ


async def test_a_refusal_and_a_bug_are_answers_and_the_connection_lives(running: Running) -> None:
    peer = await connect(running)
    await peer.send(ask(REFUSE, 1), ask(BUG, 2), ask(ECHO, 3))
    refused, bug, echo = [await peer.answer() for _ in range(3)]
    assert (refused.code, refused.remark) == (ResponseCode.NO_PERMISSION, "the broker is shy")
    assert (bug.code, bug.remark) == (ResponseCode.SYSTEM_ERROR, "ZeroDivisionError: a bug")
    assert echo.code == 0


async def test_an_unknown_code_is_answered_as_rocketmq_does_and_logged_once(running: Running) -> None:
    peer = await connect(running)
    await peer.send(ask(9998, 1), ask(9998, 2))
    answers = [await peer.answer(), await peer.answer()]
    assert {a.code for a in answers} == {ResponseCode.REQUEST_CODE_NOT_SUPPORTED}
    assert {a.remark for a in answers} == {" request type 9998 not supported"}
    assert running.program.unsupported == [9998]


async def test_a_oneway_is_never_answered(running: Running) -> None:
    peer = await connect(running)
    await peer.send(*(ask(code, 1, flag=2) for code in (ECHO, REFUSE, BUG, 9998)), ask(ECHO, 2))
    assert (await peer.answer()).opaque == 2


async def test_a_deferred_reply_leaves_when_it_is_given(running: Running) -> None:
    peer = await connect(running)
    await peer.send(ask(DEFER, 5), ask(ECHO, 6))
    assert (await peer.answer()).opaque == 6
    ((connection, request),) = running.program.deferred
    assert connection.deferred_count == 1
    connection.reply_deferred(encode_frame(RemotingCommand(code=0, flag=1, opaque=request.opaque)))
    running.server.flush_replies()
    assert (await peer.answer()).opaque == 5
    assert connection.deferred_count == 0


async def test_a_deferred_reply_on_a_closed_connection_is_a_counted_no_op(running: Running) -> None:
    peer = await connect(running)
    await peer.send(ask(DEFER, 5))
    await until(lambda: running.program.deferred)
    connection, _ = running.program.deferred[0]
    await peer.stream.aclose()
    await until(lambda: connection.is_closed)
    connection.reply_deferred(b"late")
    assert connection.dropped_replies == 1
    await until(lambda: running.program.closed == [connection.peer])


async def test_a_slow_command_does_not_hold_up_the_next(running: Running) -> None:
    peer = await connect(running)
    await peer.send(ask(SLOW, 1), ask(ECHO, 2))
    assert (await peer.answer()).opaque == 2
    running.program.slow_may_end.set()
    assert (await peer.answer()).body == b"slow"


async def test_the_server_asks_the_client_on_the_same_connection(running: Running) -> None:
    """Opaques of the two directions collide on purpose: the flag bit decides."""
    peer = await connect(running)
    await peer.send(ask(DEFER, 0))
    await until(lambda: running.program.deferred)
    connection, _ = running.program.deferred[0]
    answers: list[RemotingCommand] = []

    async def ask_client() -> None:
        answers.append(await connection.request(make_request(40), PATIENCE_SECONDS))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask_client)
        asked = await peer.answer()
        assert (asked.code, asked.flag, asked.opaque) == (40, 0, 0)
        await peer.send(RemotingCommand(code=0, flag=1, opaque=0, remark="heard"))
    assert answers[0].remark == "heard"


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff",
        b"GET / HTTP/1.1\r\n",
        struct.pack(">iI", 20, 5 << 24),
        b"\0\0\0\x08\0\0\0\x04null",
    ],
)
async def test_garbage_ends_only_its_own_connection(running: Running, garbage: bytes) -> None:
    good, bad = await connect(running), await connect(running)
    await bad.send(ask(ECHO, 1))
    assert (await bad.answer()).opaque == 1
    await bad.stream.send_all(garbage)
    assert await bad.receive() is None
    await good.send(ask(ECHO, 2))
    assert (await good.answer()).opaque == 2


async def test_a_reset_in_the_middle_of_a_frame_ends_only_its_own_connection(running: Running) -> None:
    good, bad = await connect(running), await connect(running)
    await bad.stream.send_all(encode_frame(ask(ECHO, 1, body=b"x" * 1000))[:500])
    bad.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await bad.stream.aclose()
    await until(lambda: len(running.program.closed) == 1)
    await good.send(ask(ECHO, 2))
    assert (await good.answer()).opaque == 2


async def test_a_peer_that_never_reads_is_no_longer_read_and_memory_stays_bounded(running: Running) -> None:
    good, bad = await connect(running), await connect(running)
    request = encode_frame(ask(ECHO, 1, body=b"x" * 60_000))
    sent = 0
    with trio.move_on_after(2):
        while sent < 2000:  # 120 MB: far more than every buffer on the way
            await bad.stream.send_all(request)
            sent += 1
    assert sent < 1000
    assert max(c.outgoing_size for c in running.server.connections) < 8 << 20
    await good.send(ask(ECHO, 2))
    assert (await good.answer()).opaque == 2


async def test_a_peer_that_reads_again_gets_every_answer(running: Running) -> None:
    peer = await connect(running)
    count = 300

    async def send() -> None:
        for opaque in range(count):
            await peer.send(ask(ECHO, opaque, body=b"x" * 60_000))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        await trio.sleep(0.05)
        answers = [await peer.answer() for _ in range(count)]
    assert [a.opaque for a in answers] == list(range(count))


async def test_two_servers_cannot_share_a_port() -> None:
    (listener,) = await open_listeners("127.0.0.1", 0)
    with listener, pytest.raises(StartError, match="another process uses it"):
        await open_listeners("127.0.0.1", listener.getsockname()[1])
    with pytest.raises(StartError, match="from 0 to 65535"):
        await open_listeners("127.0.0.1", 70_000)


class TestFewConnections:
    """A bound on connections refuses the next one and nothing else."""

    @pytest.fixture
    def server_config(self) -> NettyServerConfig:
        return NettyServerConfig(connections_max=2)

    async def test_one_too_many_is_closed(self, running: Running) -> None:
        first, second = await connect(running), await connect(running)
        await first.send(ask(ECHO, 1))
        await second.send(ask(ECHO, 2))
        assert (await first.answer()).opaque == 1
        assert (await second.answer()).opaque == 2
        third = await connect(running)
        assert await third.receive() is None
        assert running.server.statistics().refused_count == 1


class TestUnfinishedFrames:
    """Half a frame each, from many peers, is bounded over all of them."""

    @pytest.fixture
    def use_hub(self) -> bool:
        return True

    @pytest.fixture
    def server_config(self) -> NettyServerConfig:
        return NettyServerConfig(incoming_bytes_max=1 << 20)

    async def test_the_largest_pays(self, running: Running) -> None:
        small, large = await connect(running), await connect(running)
        frame = encode_frame(ask(ECHO, 1, body=b"x" * (2 << 20)))
        await small.stream.send_all(frame[: 100 << 10])
        await until(lambda: any(c.buffered_size == 100 << 10 for c in running.server.connections))
        # The server may have closed before the last of it is sent, which the sender then hears instead.
        with contextlib.suppress(trio.BrokenResourceError):
            await large.stream.send_all(frame[: 1100 << 10])
        assert await large.receive() is None
        await until(lambda: len(running.server.connections) == 1)
        assert running.server.connections[0].buffered_size == 100 << 10


@pytest.mark.parametrize("use_hub", [True, False])
async def test_a_store_failure_ends_the_server(use_hub: bool) -> None:
    """It is not answered: a broker whose disk fails stops, it does not carry on."""
    program = Program()
    server = RemotingServer(
        listeners=await open_listeners("127.0.0.1", 0),
        dispatcher=program.dispatcher,
        config=NettyServerConfig(),
        use_hub=use_hub,
    )
    port = server.port

    async def provoke() -> None:
        peer = Peer(await trio.open_tcp_stream("127.0.0.1", port))
        await peer.send(ask(STORE_FAILURE, 1))
        assert await peer.receive() is None

    with pytest.raises(BaseExceptionGroup) as caught:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.run)
            nursery.start_soon(provoke)
    assert caught.group_contains(StoreError)


async def test_fairness_a_timer_is_on_time_while_one_peer_floods(running: Running) -> None:
    """Frames of one connection are served in slices, with other tasks in between."""
    peer = await connect(running)
    flood = b"".join(encode_frame(ask(ECHO, opaque)) for opaque in range(20_000))
    late: list[float] = []

    async def drain() -> None:
        for _ in range(20_000):
            await peer.answer()

    with trio.fail_after(PATIENCE_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(drain)
            nursery.start_soon(peer.stream.send_all, flood)
            await until(lambda: running.server.connections)
            while running.server.connections and running.server.connections[0].frames_received < 20_000:
                due = trio.current_time() + 0.001
                await trio.sleep_until(due)
                late.append(trio.current_time() - due)
    assert len(late) > 10


class TestIdle:
    """Nothing in either direction for the idle time closes a connection."""

    @pytest.fixture
    def server_config(self) -> NettyServerConfig:
        return NettyServerConfig(server_channel_max_idle_time_seconds=120)

    async def test_an_idle_connection_is_closed_after_its_time(
        self, running: Running, mock_clock: trio.testing.MockClock
    ) -> None:
        peer = await connect(running)
        await peer.send(ask(ECHO, 1))
        assert await peer.stream.receive_some(65536)
        await trio.testing.wait_all_tasks_blocked(0.01)
        for seconds, connections in ((60, 1), (59, 1), (12, 0)):
            mock_clock.jump(seconds)
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert len(running.server.connections) == connections
        assert running.server.statistics().idle_closed_count == 1


async def test_fairness_nobody_waits_while_others_keep_the_hub_busy(running: Running) -> None:
    """Each flooding peer alone fills a slice; the others must move on all the same."""
    peers = [await connect(running) for _ in range(4)]
    flood = b"".join(encode_frame(ask(ECHO, opaque, body=b"x" * 500)) for opaque in range(4000))
    answered = [0] * len(peers)
    when_first_was_done: list[int] = []

    async def use(index: int) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(peers[index].stream.send_all, flood)
            for _ in range(4000):
                await peers[index].answer()
                answered[index] += 1
        if not when_first_was_done:
            when_first_was_done.extend(answered)

    with trio.fail_after(PATIENCE_SECONDS):
        async with trio.open_nursery() as nursery:
            for index in range(len(peers)):
                nursery.start_soon(use, index)
    assert min(when_first_was_done) > 2000
