"""The stream driver over in-memory pairs and broken streams. Behaviour that both drivers share is in test_server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
import trio.testing

from rocketpy.protocol.command import RemotingCommand, make_request, make_response
from rocketpy.protocol.frame import FrameReader, decode_command, encode_frame
from rocketpy.remoting.config import ConnectionLimits
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.deferred import DEFERRED, Deferred
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.remoting.limits.held_bytes import ProgramBytes, unfinished_frames, unread_answers
from rocketpy.remoting.limits.refusal_log import RefusalLog
from rocketpy.remoting.stream_driver import FAREWELL_SECONDS, SLICE_FRAMES, WRITE_SIZE, StreamDriver

ECHO, SIZE, DEFER, NOTE, BUG = 1, 2, 4, 5, 8
GARBAGE = b"\xff" * 8


class FailingStream(trio.abc.Stream):
    """A stream to a peer that is gone: what it received before arrives, and every send fails."""

    def __init__(self, received: bytes) -> None:
        self._received = received
        self.is_closed = False

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        if not self._received:
            await trio.sleep_forever()
        received, self._received = self._received, b""
        return received

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        raise trio.BrokenResourceError

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        self.is_closed = True


@attrs.define
class World:
    """A driver, the program that it serves, and what has happened."""

    driver: StreamDriver
    dispatcher: Dispatcher
    nursery: trio.Nursery
    ended: list[Connection]
    deferred: list[tuple[Connection, RemotingCommand]]
    noted: list[str]
    _count: int = 0

    async def connect(self) -> tuple[trio.testing.MemoryStream, Connection]:
        """Return a peer whose stream never blocks, and the driver's connection to it."""
        ours, theirs = trio.testing.memory_stream_pair()
        return ours, await self.serve(theirs)

    async def connect_slowly(self) -> tuple[trio.abc.Stream, Connection]:
        """Return a peer whose stream holds nothing: each send waits until the peer reads."""
        ours, theirs = trio.testing.lockstep_stream_pair()
        return ours, await self.serve(theirs)

    async def serve(self, stream: trio.abc.Stream) -> Connection:
        self._count += 1
        connection: Connection = await self.nursery.start(self._serve, stream, ("10.0.0.1", self._count))
        return connection

    async def _serve(
        self, stream: trio.abc.Stream, address: tuple[str, int], *, task_status: trio.TaskStatus[Connection]
    ) -> None:
        await self.driver.serve_stream(stream, address, task_status=task_status)


def a_dispatcher(deferred: list[tuple[Connection, RemotingCommand]], noted: list[str]) -> Dispatcher:
    def defer(connection: Connection, request: RemotingCommand) -> Deferred:
        deferred.append((connection, request))
        return DEFERRED

    def note(connection: Connection, request: RemotingCommand) -> None:
        noted.append(connection.peer)

    dispatcher = Dispatcher()
    dispatcher.register(ECHO, lambda c, r: make_response(r, body=r.body))
    dispatcher.register(SIZE, lambda c, r: make_response(r, body=bytes(int(r.body or b"0"))))
    dispatcher.register(DEFER, defer)
    dispatcher.register(NOTE, note)
    dispatcher.register(BUG, lambda c, r: make_response(r, remark=5))  # type: ignore[arg-type]
    return dispatcher


@asynccontextmanager
async def a_world(limits: ConnectionLimits | None = None, incoming_max: int = 1 << 20) -> AsyncIterator[World]:
    ended: list[Connection] = []
    deferred: list[tuple[Connection, RemotingCommand]] = []
    noted: list[str] = []
    dispatcher = a_dispatcher(deferred, noted)
    driver = StreamDriver(
        dispatcher=dispatcher,
        limits=limits or ConnectionLimits(),
        start_task=lambda *_: False,
        on_end=ended.append,
        held=ProgramBytes(unfinished_frames(incoming_max, "incoming"), unread_answers(64 << 20, "outgoing")),
        refusals=RefusalLog(),
    )
    async with trio.open_nursery() as nursery:
        yield World(driver, dispatcher, nursery, ended, deferred, noted)
        nursery.cancel_scope.cancel()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A driver with the limits that it has by default."""
    async with a_world() as opened:
        yield opened


def ask(code: int, opaque: int = 1, body: bytes | None = None) -> bytes:
    request = make_request(code, body=body)
    request.opaque = opaque
    return encode_frame(request)


async def answers(peer: trio.abc.ReceiveStream, count: int) -> list[RemotingCommand]:
    reader, found = FrameReader(), []
    while len(found) < count:
        while (frame := reader.next_frame()) is not None:
            found.append(decode_command(*frame))
        if len(found) < count:
            chunk = await peer.receive_some(65_536)
            assert chunk, "the driver closed the connection"
            reader.receive(bytes(chunk))
    return found


async def test_replies_of_a_peer_that_has_ended_its_side_are_sent(world: World) -> None:
    """A client may shut down its sending side and read what is left."""
    peer, _ = await world.connect_slowly()
    assert isinstance(peer, trio.StapledStream)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(peer.send_all, ask(SIZE, 1, b"300000"))
        found = await answers(peer, 1)
    await peer.send_stream.aclose()
    assert len(found[0].body or b"") == 300_000
    assert await peer.receive_some(1) == b""


async def test_a_peer_that_sent_garbage_and_does_not_read_is_closed_in_time(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    """The replies have FAREWELL_SECONDS to leave: a peer that does not read must not hold its connection open."""
    peer, _ = await world.connect_slowly()
    await peer.send_all(ask(SIZE, 1, b"300000") + GARBAGE)
    await trio.sleep(FAREWELL_SECONDS / 2)
    assert world.ended == []
    await trio.sleep(FAREWELL_SECONDS)
    assert len(world.ended) == 1


async def test_a_failing_write_ends_the_connection_and_closes_its_stream(world: World) -> None:
    stream = FailingStream(ask(ECHO))
    connection = await world.serve(stream)
    good, _ = await world.connect()
    await good.send_all(ask(ECHO, 2))
    assert (await answers(good, 1))[0].opaque == 2
    await trio.testing.wait_all_tasks_blocked()
    assert world.ended == [connection]
    assert stream.is_closed


async def test_a_read_that_fails_ends_the_connection(world: World) -> None:
    peer, theirs = trio.testing.memory_stream_pair()
    connection = await world.serve(theirs)
    await theirs.aclose()
    await trio.testing.wait_all_tasks_blocked()
    assert world.ended == [connection]
    await peer.aclose()


async def test_a_large_reply_is_written_in_pieces() -> None:
    """TLS encrypts a piece on the event loop before any of it is sent: a whole reply would hold up everything else."""
    sizes: list[int] = []

    class Noting(FailingStream):
        async def send_all(self, data: bytes | bytearray | memoryview) -> None:
            await trio.lowlevel.checkpoint()
            sizes.append(len(data))

    async with a_world() as world:
        await world.serve(Noting(ask(SIZE, 1, b"%d" % (3 * WRITE_SIZE)) + ask(ECHO, 2)))
        await trio.testing.wait_all_tasks_blocked()
    assert max(sizes) == WRITE_SIZE
    assert sum(sizes) > 3 * WRITE_SIZE


async def test_a_peer_that_does_not_read_is_not_read_either_until_it_does(mock_clock: trio.testing.MockClock) -> None:
    """The clock stands still, so that both requests are served in one slice on a slow machine too.

    What the writer task is sending does not count as queued. The replies are longer than a piece that it takes.
    """
    size = b"%d" % (2 * WRITE_SIZE)
    async with a_world(ConnectionLimits(outgoing_bytes_pause=10_000)) as world:
        peer, connection = await world.connect_slowly()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(peer.send_all, ask(SIZE, 1, size) + ask(SIZE, 2, size))
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(peer.send_all, ask(ECHO, 3))
            await trio.testing.wait_all_tasks_blocked()
            assert connection.frames_received == 2
            assert [each.opaque for each in await answers(peer, 3)] == [1, 2, 3]


async def test_closing_a_connection_ends_its_two_tasks_and_once_only(world: World) -> None:
    peer, connection = await world.connect()
    connection.close()
    connection.close()
    world.driver.end(connection)
    assert world.ended == [connection]
    assert await peer.receive_some(1) == b""
    connection.flush()  # nothing is left to wake


async def test_others_are_served_between_two_slices_of_a_flood(world: World) -> None:
    flood, _ = await world.connect()
    other, _ = await world.connect()
    await flood.send_all(ask(NOTE) * (8 * SLICE_FRAMES))
    await other.send_all(ask(NOTE))
    await trio.testing.wait_all_tasks_blocked()
    assert len(world.noted) == 8 * SLICE_FRAMES + 1
    assert world.noted.index("10.0.0.1:2") <= 3 * SLICE_FRAMES


async def test_unfinished_frames_are_counted_over_all_connections() -> None:
    async with a_world(incoming_max=1000) as world:
        small, _ = await world.connect()
        large, connection = await world.connect()
        half = ask(ECHO, 1, bytes(2000))
        await small.send_all(half[:300])
        await large.send_all(half[:800])
        await trio.testing.wait_all_tasks_blocked()
        assert world.ended == [connection], "the connection that holds most"
        await small.send_all(half[300:])
        assert len(await answers(small, 1)) == 1


async def test_an_unexpected_failure_in_serving_ends_its_connection_only(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    bad, connection = await world.connect()
    good, _ = await world.connect()
    await bad.send_all(ask(BUG))
    await good.send_all(ask(ECHO, 2))
    assert (await answers(good, 1))[0].opaque == 2
    assert await bad.receive_some(1) == b""
    assert world.ended == [connection]
    assert "serving 10.0.0.1:1, whose connection is closed" in caplog.text
