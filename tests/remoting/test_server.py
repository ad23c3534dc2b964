"""The server over real loopback sockets, under both drivers."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import struct
import time
from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing

from rocketpy.errors import StoreError
from rocketpy.protocol.codes import ResponseCode, SerializeType
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.frame import FrameReader, decode_command, encode_frame
from rocketpy.remoting.config import NettyServerConfig, TlsMode, TlsServerConfig
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.limits.connection_budget import ConnectionBudget
from rocketpy.remoting.limits.held_bytes import program_bytes
from rocketpy.remoting.network import Address
from rocketpy.remoting.server import RemotingServer
from rocketpy.remoting.tls.contexts import ServerTls
from tests.patience import PATIENCE_SECONDS, until, until_blocked
from tests.remoting.conftest import BUG, DEFER, ECHO, REFUSE, SLOW, STORE_FAILURE, Program, Running, bound_server


class Peer:
    """A raw client that speaks frames and nothing else."""

    def __init__(self, stream: trio.abc.Stream) -> None:
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


@pytest.mark.parametrize(
    "garbage",
    [encode_frame(ask(ECHO, 3))[:8] + b"x" * (len(encode_frame(ask(ECHO, 3))) - 8), b"\xff" * 12],
    ids=["a whole frame with a header that is none", "a length that is none"],
)
async def test_whole_requests_before_garbage_are_answered(running: Running, garbage: bytes) -> None:
    """A producer whose next frame is damaged gets the answers to the frames before it."""
    peer = await connect(running)
    await peer.stream.send_all(encode_frame(ask(ECHO, 1)) + encode_frame(ask(ECHO, 2)) + garbage)
    assert [(await peer.answer()).opaque for _ in range(2)] == [1, 2]
    assert await peer.receive() is None
    assert running.program.ended_bursts > 0


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

    async def send() -> None:
        nonlocal sent
        while sent < 2000:  # 120 MB: far more than every buffer on the way
            await bad.stream.send_all(request)
            sent += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        await trio.testing.wait_all_tasks_blocked(0.05)
        nursery.cancel_scope.cancel()
    assert 0 < sent < 1000
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
        await trio.testing.wait_all_tasks_blocked(0.01)
        answers = [await peer.answer() for _ in range(count)]
    assert [a.opaque for a in answers] == list(range(count))


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


class TestSharedBudget:
    """``connectionsMax`` counts over all listeners of a program, ``connectionsPerAddressMax`` within it."""

    @pytest.fixture
    def server_config(self) -> NettyServerConfig:
        return NettyServerConfig(connections_max=100, connections_per_address_max=2)

    async def test_an_address_has_its_share_and_room_is_free_again(self, running: Running) -> None:
        first, _second = await served(running), await served(running)
        third = await connect(running)
        assert await third.receive() is None
        await first.stream.aclose()
        await until(lambda: len(running.server.connections) == 1)
        await served(running)


async def test_two_listeners_of_a_program_share_their_connections(use_hub: bool) -> None:
    program = Program()
    budget = ConnectionBudget(2, 2)
    servers = [await bound_server(program.dispatcher, budget=budget, use_hub=use_hub) for _ in range(2)]
    async with trio.open_nursery() as nursery:
        both = [Running(program, server, f"127.0.0.1:{server.port}") for server in servers]
        for server in servers:
            nursery.start_soon(server.run)
        first, _second = await served(both[0]), await served(both[1])
        for each in both:
            assert await (await connect(each)).receive() is None
        await first.stream.aclose()
        await until(lambda: budget.count == 1)
        await served(both[1])
        nursery.cancel_scope.cancel()
    assert budget.count == 0


async def served(running: Running) -> Peer:
    """A peer whose connection has been taken."""
    peer = await connect(running)
    await peer.send(ask(ECHO, 1))
    assert (await peer.answer()).opaque == 1
    return peer


class TestUnfinishedFrames:
    """Half a frame each, from many peers, is bounded over all of them (``incomingBytesMax``), under both drivers."""

    @pytest.fixture
    def server_config(self) -> NettyServerConfig:
        return NettyServerConfig(incoming_bytes_max=1 << 20)

    async def test_the_largest_pays(self, running: Running) -> None:
        small, large = await connect(running), await connect(running)
        frame = encode_frame(ask(ECHO, 1, body=b"x" * (2 << 20)))
        await small.stream.send_all(frame[: 100 << 10])
        await until(lambda: any(c.buffered_size == 100 << 10 for c in running.server.connections))
        # The server may have closed before the last of it is sent, which the sender then sees instead.
        with contextlib.suppress(trio.BrokenResourceError):
            await large.stream.send_all(frame[: 1100 << 10])
        assert await large.receive() is None
        await until(lambda: len(running.server.connections) == 1)
        assert running.server.connections[0].buffered_size == 100 << 10

    async def test_frames_that_come_in_small_pieces_count_as_well(self, running: Running) -> None:
        """A thousand peers that send 16 MiB in pieces of 60,000 bytes would hold 16 GB."""
        peers = [await connect(running) for _ in range(4)]
        frame = encode_frame(ask(ECHO, 1, body=b"x" * (2 << 20)))
        for piece in range(6):  # 4 * 360,000 bytes: more than a mebibyte, none of it of a full read
            for number, peer in enumerate(peers):
                with contextlib.suppress(trio.BrokenResourceError):
                    await peer.stream.send_all(frame[piece * 60_000 : (piece + 1) * 60_000])
                await until(
                    lambda piece=piece, number=number: (
                        len(running.server.connections) < 4
                        or running.server.connections[number].buffered_size == (piece + 1) * 60_000
                    )
                )
                if len(running.server.connections) < 4:
                    return
        raise AssertionError("1.4 MB of unfinished frames, and the limit is 1 MiB")

    async def test_whole_frames_do_not_count_however_long_they_are(self, running: Running) -> None:
        """Honest peers with large messages must not be closed for what has been served already."""
        peers = [await connect(running) for _ in range(4)]
        for opaque in range(3):
            for peer in peers:
                await peer.send(ask(ECHO, opaque, body=b"x" * (700 << 10)))
                assert (await peer.answer()).opaque == opaque
        # All that may wait over all connections waits here, and it closes nothing: no other has any part in it.
        rest = encode_frame(ask(ECHO, 3, body=b"x" * (2 << 20)))[: 1 << 20]
        await peers[0].stream.send_all(rest)
        await until(lambda: any(each.buffered_size == len(rest) for each in running.server.connections))
        assert len(running.server.connections) == 4


class TestUnreadAnswers:
    """What peers leave unread is bounded over all of them (``outgoingBytesMax``), under both drivers."""

    @pytest.fixture
    def server_config(self) -> NettyServerConfig:
        return NettyServerConfig(
            outgoing_bytes_max=9 << 20, connection_outgoing_bytes_max=8 << 20, server_socket_snd_buf_size=65_536
        )

    async def test_the_one_that_leaves_most_unread_is_closed(
        self, running: Running, caplog: pytest.LogCaptureFixture
    ) -> None:
        small, large, largest = [await owed(running) for _ in range(3)]
        for peer, size in ((small, 2), (large, 3), (largest, 3)):
            peer.answer_with(size << 20)
        await until(lambda: running.server.statistics().unread_bytes >= 8 << 20)
        assert len(running.server.connections) == 3
        largest.answer_with(2 << 20)
        await until(lambda: largest.connection.is_closed)
        assert not small.connection.is_closed
        assert not large.connection.is_closed
        line = next(each for each in caplog.messages if each.startswith("answers that are not read hold"))
        assert f"the limit is {9 << 20} (outgoingBytesMax); closing {largest.connection.peer}, which holds" in line
        # Those that are slow, and read in the end, get all of it; then nothing is left to count.
        assert len((await small.peer.answer()).body or b"") == 2 << 20
        assert len((await large.peer.answer()).body or b"") == 3 << 20
        await until(lambda: running.server.statistics().unread_bytes == 0)

    async def test_what_is_sent_in_part_counts_as_the_memory_that_it_keeps(self, running: Running) -> None:
        """A peer that reads all but the end of a long answer keeps the whole of it."""
        peer = await owed(running)
        peer.answer_with(4 << 20)
        await until(lambda: running.server.statistics().unread_bytes >= 4 << 20)
        got = 0
        while got < 1 << 20:
            got += len(await peer.peer.stream.receive_some(65_536))
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert running.server.statistics().unread_bytes >= 4 << 20

    async def test_nothing_is_left_of_connections_however_they_end(self, running: Running) -> None:
        def unread() -> int:
            return running.server.statistics().unread_bytes

        most = 0
        for turn in range(4):
            peers = [await owed(running) for _ in range(8)]
            for number, peer in enumerate(peers):
                peer.answer_with((number + 1) * 200_000 if number < 7 else 100)
            await trio.testing.wait_all_tasks_blocked(0.01)
            most = max(most, unread())
            reads, closes, resets, ends, garbled, ended, overfull, prompt = peers
            assert (await prompt.peer.answer()).body == bytes(100)
            assert len((await reads.peer.answer()).body or b"") == 200_000
            await closes.peer.stream.aclose()
            resets.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await resets.peer.stream.aclose()
            await ends.peer.stream.send_eof()  # type: ignore[attr-defined]
            with contextlib.suppress(trio.BrokenResourceError):
                await garbled.peer.stream.send_all(b"\x7f" * 64)
            ended.connection.close()
            overfull.answer_with(9 << 20)  # more than one connection may have, and than all may have
            await until(lambda overfull=overfull: overfull.connection.is_closed)
            if turn % 2:  # what is answered late has no one to read it
                for peer in peers:
                    peer.answer_with(300_000)
            for peer in peers:
                await peer.peer.stream.aclose()
            await until(lambda: not running.server.connections)
            assert unread() == 0
        assert most > 1 << 20

    async def test_what_is_left_when_the_server_ends_is_forgotten(self, use_hub: bool) -> None:
        program = Program()
        server = await bound_server(program.dispatcher, use_hub=use_hub)
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run)
            (await owed(Running(program, server, f"127.0.0.1:{server.port}"))).answer_with(12 << 20)
            await until(lambda: server.statistics().unread_bytes > 0)
            nursery.cancel_scope.cancel()
        assert server.statistics().unread_bytes == 0

    async def test_two_ports_of_a_program_have_one_sum(self, use_hub: bool, server_config: NettyServerConfig) -> None:
        held = program_bytes(server_config)
        programs = [Program(), Program()]
        servers = [
            await bound_server(each.dispatcher, use_hub=use_hub, config=server_config, held=held) for each in programs
        ]
        async with trio.open_nursery() as nursery:
            peers = []
            for program, server in zip(programs, servers, strict=True):
                await nursery.start(server.run)
                peers.append(await owed(Running(program, server, f"127.0.0.1:{server.port}")))
            peers[0].answer_with(5 << 20)
            await until(lambda: held.outgoing.size >= 5 << 20)
            peers[1].answer_with(4 << 20)
            await until(lambda: peers[0].connection.is_closed)
            assert not peers[1].connection.is_closed
            nursery.cancel_scope.cancel()


class OwedPeer:
    """A peer whose request waits, so that a test chooses when and with how much it is answered."""

    def __init__(self, peer: Peer, connection: Connection) -> None:
        self.peer = peer
        self.connection = connection

    @property
    def socket(self) -> trio.socket.SocketType:
        assert isinstance(self.peer.stream, trio.SocketStream)
        return self.peer.stream.socket

    def answer_with(self, size: int) -> None:
        self.connection.reply_frame(encode_frame(ask(ECHO, 1, body=bytes(size))))
        self.connection.flush()


async def owed(running: Running) -> OwedPeer:
    peer = await connect(running)
    count = len(running.program.deferred)
    await peer.send(ask(DEFER, 1))
    await until(lambda: len(running.program.deferred) > count)
    return OwedPeer(peer, running.program.deferred[-1][0])


class TestWholeFrames:
    """Only what is unfinished counts: a frame is served before what is left of the read is measured."""

    @pytest.fixture
    def server_config(self) -> NettyServerConfig:
        return NettyServerConfig(incoming_bytes_max=100_000)

    async def test_a_whole_frame_closes_no_other_connection(self, running: Running) -> None:
        unfinished, honest = await connect(running), await connect(running)
        await unfinished.stream.send_all(encode_frame(ask(ECHO, 1, body=bytes(70_000)))[:60_000])
        await until(lambda: any(each.buffered_size == 60_000 for each in running.server.connections))
        overhead = len(encode_frame(ask(ECHO, 1, body=b"x"))) - 1
        for _ in range(5):  # one byte more than there is room, but no part of it is
            await honest.send(ask(ECHO, 1, body=bytes(40_001 - overhead)))
            assert (await honest.answer()).opaque == 1
        assert len(running.server.connections) == 2


class TestSlowFrames:
    """``connectionFirstFrameSeconds`` and ``connectionFrameSeconds``: one byte now and then keeps no connection."""

    @pytest.fixture
    def server_config(self) -> NettyServerConfig:
        return NettyServerConfig(connection_first_frame_seconds=20, connection_frame_seconds=50)

    async def test_a_first_frame_that_does_not_come_in_time(
        self, running: Running, mock_clock: trio.testing.MockClock
    ) -> None:
        peer = await connect(running)
        frame = encode_frame(ask(ECHO, 1))
        for position in range(5):
            await peer.stream.send_all(frame[position : position + 1])
            await trio.testing.wait_all_tasks_blocked(0.01)
            mock_clock.jump(6)
        await until_blocked(lambda: not running.server.connections)
        assert running.server.statistics().late_closed_count == 1
        assert running.server.statistics().idle_closed_count == 0

    async def test_a_frame_that_is_never_whole(self, running: Running, mock_clock: trio.testing.MockClock) -> None:
        drip, busy = await served(running), await served(running)
        frame = encode_frame(ask(ECHO, 1, body=b"x" * 100))
        await trio.testing.wait_all_tasks_blocked(0.01)
        for position in range(12):
            await drip.stream.send_all(frame[position : position + 1])
            # The other one always has a part of a frame outstanding, but each becomes whole.
            await busy.stream.send_all(frame[:50] if position == 0 else frame[50:] + frame[:50])
            if position:
                assert (await busy.answer()).opaque == 1
            await trio.testing.wait_all_tasks_blocked(0.01)
            if len(running.server.connections) < 2:
                break
            mock_clock.jump(6)
            await trio.testing.wait_all_tasks_blocked(0.01)
        await until_blocked(lambda: len(running.server.connections) == 1)
        assert running.server.statistics().late_closed_count == 1
        await busy.stream.send_all(frame[50:])
        assert (await busy.answer()).opaque == 1


async def test_without_a_descriptor_peers_are_refused_and_the_server_goes_on(use_hub: bool) -> None:
    """Waiting peers are closed at once, and the listener, which stays readable, does not cause a busy loop."""
    program = Program()
    server = await bound_server(program.dispatcher, use_hub=use_hub)
    running = Running(program, server, f"127.0.0.1:{server.port}")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.ExitStack() as sockets:
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run)
            known = await served(running)
            waiting = [sockets.enter_context(socket.socket()) for _ in range(5)]
            for each in waiting:
                each.setblocking(False)
            highest = max(each.fileno() for each in waiting)
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free(highest), hard))
                for each in waiting:
                    each.connect_ex(("127.0.0.1", server.port))
                for each in waiting:
                    await until(lambda each=each: is_closed(each))
                await known.send(ask(ECHO, 2))
                assert (await known.answer()).opaque == 2
                began = time.process_time()
                await trio.sleep(0.3)
                assert time.process_time() - began < 0.25, "it waits, it does not spin"
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                while _GAPS:
                    os.close(_GAPS.pop())
            await served(running)
            nursery.cancel_scope.cancel()


def lowest_free(highest: int) -> int:
    """A limit of descriptors below which none is free: fill the gaps under it."""
    while True:
        free = os.dup(0)
        if free > highest:
            os.close(free)
            return free
        _GAPS.append(free)


_GAPS: list[int] = []


def is_closed(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


class StreamListener:
    """A listener of a network without sockets."""

    port = 10_911
    sock = None

    def __init__(self) -> None:
        self._put, self._streams = trio.open_memory_channel[tuple[trio.abc.Stream, Address]](8)

    async def accept(self) -> tuple[trio.abc.Stream, Address]:
        try:
            return await self._streams.receive()
        except trio.EndOfChannel:
            raise trio.ClosedResourceError from None

    def close(self) -> None:
        self._put.close()

    async def connect(self, host: str) -> Peer:
        ours, theirs = trio.testing.memory_stream_pair()
        await self._put.send((theirs, (host, 50_000)))
        return Peer(ours)


@contextlib.asynccontextmanager
async def streaming(
    mode: TlsMode = TlsMode.PERMISSIVE, budget: ConnectionBudget | None = None
) -> AsyncIterator[tuple[RemotingServer, StreamListener]]:
    """A server on a network without sockets, for one connection at a time."""
    listener = StreamListener()
    server = RemotingServer(
        listeners=[listener],
        dispatcher=Program().dispatcher,
        config=NettyServerConfig(connections_max=1),
        tls=ServerTls(TlsServerConfig(server_mode=mode.value)),
        budget=budget or ConnectionBudget(1, 1),
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        yield server, listener
        nursery.cancel_scope.cancel()


async def test_without_sockets_the_stream_driver_serves_within_the_same_bounds() -> None:
    budget = ConnectionBudget(1, 1)
    async with streaming(budget=budget) as (server, listener):
        for _ in range(2):
            ours, second = await listener.connect("10.0.0.1"), await listener.connect("10.0.0.2")
            await ours.send(ask(ECHO, 7))
            assert (await ours.answer()).opaque == 7
            assert await second.receive() is None
            await ours.stream.aclose()
            await until(lambda: not budget.count)  # released when the tasks of the connection have ended
        statistics = server.statistics()
    assert (statistics.accepted_count, statistics.refused_count) == (2, 2)


async def test_without_sockets_connections_outlive_their_listener() -> None:
    async with streaming() as (server, listener):
        peer = await listener.connect("10.0.0.1")
        await peer.send(ask(ECHO, 1))
        assert (await peer.answer()).opaque == 1
        server.stop_accepting()
        with pytest.raises(trio.ClosedResourceError):
            await listener.connect("10.0.0.1")
        await peer.send(ask(ECHO, 2))
        assert (await peer.answer()).opaque == 2


async def test_without_sockets_a_server_that_demands_tls_refuses_all_and_keeps_no_room_for_them() -> None:
    async with streaming(TlsMode.ENFORCING) as (server, listener):
        for count in range(1, 3):
            assert await (await listener.connect("10.0.0.1")).receive() is None
            assert server.statistics().tls_refused_count == count
        assert server.statistics().refused_count == 0


async def test_a_store_failure_ends_the_server(use_hub: bool) -> None:
    """It is not answered: a broker whose disk fails stops, it does not carry on."""
    program = Program()
    server = await bound_server(program.dispatcher, use_hub=use_hub)
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
