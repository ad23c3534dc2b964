"""The hub over socket pairs, with sends that fail as planned. Behaviour that both drivers share is in test_server."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from itertools import pairwise

import attrs
import pytest
import trio
import trio.testing

from rocketpy.protocol.command import RemotingCommand, make_request, make_response
from rocketpy.protocol.frame import FrameReader, decode_command, encode_frame
from rocketpy.remoting import hub as hub_module
from rocketpy.remoting.burst import no_hook
from rocketpy.remoting.config import ConnectionLimits, NettyServerConfig
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.deferred import DEFERRED, Deferred
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.remoting.hub import Hub
from rocketpy.remoting.limits.held_bytes import program_bytes
from rocketpy.remoting.limits.refusal_log import RefusalLog
from rocketpy.remoting.lull import LULL_SECONDS, SPIN_SECONDS
from tests.forgotten import is_forgotten
from tests.patience import PATIENCE_SECONDS, until, until_blocked
from tests.remoting.stepping_clock import SteppingClock

Allows = Callable[[bytes, tuple[str, int]], bool]
"""Whether a connection is served, by its first byte and the address of its peer."""

ECHO, DEFER = 1001, 1004
SIZE = 1002
"""Answers with as many bytes as the body says."""


class PlannedSocket:
    """A socket whose sends go as planned: how many bytes are taken, or what is raised; then as they do."""

    def __init__(self, sock: socket.socket, plan: list[int | BaseException]) -> None:
        self.sock = sock
        self.plan = plan
        self.given: list[int] = []
        """The sizes of what it was asked to send."""
        self.before_send: Callable[[], None] = lambda: None
        self.fails_to_read = False
        """Whether reading meets a bug; looking at the first byte does not."""
        self.fileno, self.close = sock.fileno, sock.close
        self.setblocking = sock.setblocking

    def getsockname(self) -> tuple[str, int]:
        return ("127.0.0.1", 10911)

    def recv(self, size: int, flags: int = 0) -> bytes:
        if self.fails_to_read and not flags & socket.MSG_PEEK:
            raise KeyError("a bug")
        return self.sock.recv(size, flags)

    def send(self, data: bytes | memoryview) -> int:
        self.before_send()
        self.given.append(len(data))
        if not self.plan:
            return self.sock.send(data)
        step = self.plan.pop(0)
        if isinstance(step, BaseException):
            raise step
        return self.sock.send(memoryview(data)[:step])


@attrs.define
class World:
    """A hub, the program that it serves, and the sockets at its two ends."""

    hub: Hub
    dispatcher: Dispatcher
    ended: list[Connection]
    taken_for_tls: list[socket.socket]
    refused_bytes: set[bytes]
    deferred: list[tuple[Connection, RemotingCommand]]
    _sockets: contextlib.ExitStack
    _count: int = 0

    def connect(self, *plan: int | BaseException, buffer: int | None = None) -> tuple[socket.socket, PlannedSocket]:
        """Return a peer, and the hub's end of its connection."""
        ours, theirs = socket.socketpair()
        self._sockets.enter_context(ours)
        self._sockets.enter_context(theirs)
        ours.setblocking(False)
        if buffer is not None:
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
        planned = PlannedSocket(theirs, list(plan))
        self._count += 1
        self.hub.add(planned, ("10.0.0.1", self._count))  # type: ignore[arg-type]
        return ours, planned


def answer_size(connection: Connection, request: RemotingCommand) -> RemotingCommand:
    return make_response(request, body=bytes(int(request.body or b"0")))


@contextlib.contextmanager
def a_world(
    limits: ConnectionLimits | None = None,
    *,
    end_burst: Callable[[], None] = no_hook,
    allows: Allows | None = None,
    lull_seconds: float = 0.0,
    spin_seconds: float = 0.0,
    monotonic: Callable[[], float] = time.perf_counter,
) -> Iterator[World]:
    dispatcher = Dispatcher(end_burst=end_burst)
    ended: list[Connection] = []
    taken: list[socket.socket] = []
    refused: set[bytes] = set()
    deferred: list[tuple[Connection, RemotingCommand]] = []
    hub = Hub(
        dispatcher=dispatcher,
        limits=limits or ConnectionLimits(),
        start_task=lambda *_: False,
        on_end=ended.append,
        held=program_bytes(NettyServerConfig(incoming_bytes_max=1 << 20)),
        refusals=RefusalLog(),
        allows=allows or (lambda first, address: first not in refused),
        take_tls=lambda sock, address: taken.append(sock),
        lull_seconds=lull_seconds,
        spin_seconds=spin_seconds,
        monotonic=monotonic,
    )

    def defer(connection: Connection, request: RemotingCommand) -> Deferred:
        deferred.append((connection, request))
        return DEFERRED

    dispatcher.register(ECHO, lambda c, r: make_response(r, body=r.body))
    dispatcher.register(SIZE, answer_size)
    dispatcher.register(DEFER, defer)
    with contextlib.ExitStack() as sockets:
        yield World(hub, dispatcher, ended, taken, refused, deferred, sockets)


@contextlib.asynccontextmanager
async def running(world: World) -> AsyncIterator[World]:
    async with trio.open_nursery() as nursery:
        await nursery.start(world.hub.run)
        yield world
        nursery.cancel_scope.cancel()


@contextlib.asynccontextmanager
async def a_running_world(
    limits: ConnectionLimits | None = None, *, end_burst: Callable[[], None] = no_hook, allows: Allows | None = None
) -> AsyncIterator[World]:
    with a_world(limits, end_burst=end_burst, allows=allows) as world:
        async with running(world):
            yield world


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A hub that runs, with the limits that it has by default."""
    async with a_running_world() as running_world:
        yield running_world


def ask(code: int, opaque: int = 1, body: bytes | None = None) -> bytes:
    request = make_request(code, body=body)
    request.opaque = opaque
    return encode_frame(request)


async def answers(peer: socket.socket, count: int, reader: FrameReader | None = None) -> list[RemotingCommand]:
    """Return the next ``count`` frames; ``reader`` has those that were read from the socket before."""
    reader, found = reader or FrameReader(), []
    readable = select.poll()  # select would refuse a high descriptor
    readable.register(peer, select.POLLIN)
    while len(found) < count:
        while (frame := reader.next_frame()) is not None:
            found.append(decode_command(*frame))
        if len(found) < count:
            await until(lambda: readable.poll(0))
            chunk = peer.recv(1 << 20)
            assert chunk, "the hub closed the connection"
            reader.receive(chunk)
    return found


def is_at_end(peer: socket.socket) -> bool:
    try:
        return peer.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


async def test_requests_that_were_served_in_a_later_turn_do_not_count_as_unfinished_frames(world: World) -> None:
    """Before, each connection counted with what its last read had left, until it sent again: silent ones ended."""
    requests = ask(ECHO) * 1000
    assert 30 * len(requests) > 1 << 20, "the limit of this hub"
    for _ in range(30):
        peer, _ = world.connect()
        peer.send(requests)
        assert len(await answers(peer, 1000)) == 1000
    assert not world.ended


async def test_many_replies_to_a_peer_that_does_not_read_cost_no_send_and_no_copy_each(world: World) -> None:
    """Before, every one of them joined and gave the kernel all that waited: quadratic for one stalled consumer."""
    peer, sock = world.connect(buffer=8192)
    peer.send(ask(DEFER))
    await until(lambda: world.deferred)
    connection, _ = world.deferred[0]
    frame = ask(40, body=bytes(50_000))
    for _ in range(400):
        connection.reply_frame(frame)
        connection.flush()
    assert len(sock.given) <= 3
    assert sum(sock.given) < 4 * len(frame)
    assert connection.outgoing_size > 390 * len(frame)
    assert len(await answers(peer, 400)) == 400
    # What is left of a piece is given again without a copy, but it is never more than a piece.
    assert max(sock.given) <= hub_module.SEND_SIZE


async def test_a_reply_longer_than_a_piece_arrives_whole(world: World) -> None:
    peer, _ = world.connect(buffer=8192)
    size = 3 * hub_module.SEND_SIZE
    peer.send(ask(SIZE, 1, b"%d" % size) + ask(ECHO, 2, b"next"))
    large, small = await answers(peer, 2)
    assert large.body == bytes(size)
    assert small.body == b"next"


async def test_a_peer_that_does_not_read_is_not_served_further_and_goes_on_when_it_reads() -> None:
    """One chunk of requests may ask for a hundred times its size: only a slice of it is answered ahead."""
    async with a_running_world(ConnectionLimits(outgoing_bytes_pause=200_000, outgoing_bytes_max=20_000_000)) as world:
        peer, _ = world.connect(buffer=8192)
        peer.send(b"".join(ask(SIZE, opaque, b"100000") for opaque in range(200)))
        await until(lambda: not world.hub.connections[0].wants_reading)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert world.hub.connections[0].outgoing_size < 7_500_000
        assert [each.opaque for each in await answers(peer, 200)] == list(range(200))


@pytest.mark.parametrize("step", ["looking at the first byte", "reading", "watching"])
async def test_an_unforeseen_failure_ends_its_connection_only(step: str, caplog: pytest.LogCaptureFixture) -> None:
    """Not only in serving: looking at the first byte, reading and watching are steps of the hub as well."""

    def allows(first: bytes, address: tuple[str, int]) -> bool:
        if step == "looking at the first byte" and address[1] == 1:
            raise KeyError("a bug")
        return True

    async with a_running_world(allows=allows) as world:
        bad, sock = world.connect(*([BlockingIOError()] if step == "watching" else []))
        good, _ = world.connect()
        if step == "reading":
            sock.fails_to_read = True
        elif step == "watching":
            sock.before_send = sock.close  # epoll no longer knows the descriptor that is to wait for EPOLLOUT
        bad.send(ask(ECHO))
        good.send(ask(ECHO, 2))
        assert (await answers(good, 1))[0].opaque == 2
        await until(lambda: is_at_end(bad))
        assert [each.peer for each in world.ended] == ["10.0.0.1:1"]
        assert "failed unexpectedly" in caplog.text


async def test_a_peer_that_ends_before_its_first_byte_is_forgotten(world: World) -> None:
    peer, sock = world.connect()
    reference = weakref.ref(sock)
    del sock
    await until(lambda: world.hub.connections)
    assert not is_forgotten(reference)
    peer.close()
    await until(lambda: len(world.ended) == 1)
    world.ended.clear()
    assert world.hub.connections == []
    await until(lambda: is_forgotten(reference))


async def test_ready_peers_that_had_to_wait_come_first_in_the_next_turn() -> None:
    """Epoll names busy peers in the same order each time: without a memory the last ones would starve."""
    served: list[str] = []
    served_at_end_of_turn: list[int] = []
    refills = [ask(8) * hub_module.SLICE_FRAMES] * 6

    def note(connection: Connection, request: RemotingCommand) -> RemotingCommand:
        served.append(connection.peer)
        if len(served) % hub_module.SLICE_FRAMES == 0 and refills:
            peers[connection.peer].send(refills.pop())  # so that all three are ready in each turn
        return make_response(request)

    # The clock stands still: only the number of frames ends a turn.
    with a_world(end_burst=lambda: served_at_end_of_turn.append(len(served)), monotonic=lambda: 0.0) as world:
        world.dispatcher.register(8, note)
        peers = {f"10.0.0.1:{number}": world.connect()[0] for number in range(1, 4)}
        for peer in peers.values():
            peer.send(ask(8) * hub_module.SLICE_FRAMES)
        async with running(world):
            await until(lambda: len(served) == 9 * hub_module.SLICE_FRAMES)
        assert served_at_end_of_turn[:9] == [turn * hub_module.SLICE_FRAMES for turn in range(1, 10)]
        size = hub_module.SLICE_FRAMES
        turns = [set(served[start : start + size]) for start in range(0, len(served), size)]
        assert all(len(turn) == 1 for turn in turns), "one peer takes up a turn"
        for start in (0, 3, 6):
            assert set.union(*turns[start : start + 3]) == set(peers), "no peer is served twice before each was once"


async def test_a_send_between_turns_counts_as_activity_of_its_own_time(
    world: World, mock_clock: trio.testing.MockClock
) -> None:
    """The hub may have slept for long when a service sends: the connection was active then, not at the last turn."""
    mock_clock.jump(50)
    peer, _ = world.connect()
    peer.send(ask(DEFER))
    await until_blocked(lambda: world.deferred)
    (connection,) = world.hub.connections
    assert connection.last_active == 50
    mock_clock.jump(100)
    connection.reply_frame(b"late")
    connection.flush()
    assert connection.last_active == 150
    mock_clock.jump(100)
    connection.flush()
    assert connection.last_active == 150, "nothing was sent"


# ---- events of a socket ----------------------------------------------------------------------------------------------


async def test_a_full_socket_is_not_sent_to_again_before_epoll_reports_it_writable(world: World) -> None:
    """EPOLLOUT is what resumes a partial send: without it there is one attempt, however often a service flushes."""
    peer, sock = world.connect(1000, BlockingIOError(), BlockingIOError())
    peer.send(ask(SIZE, 1, b"5000"))
    (answer,) = await answers(peer, 1)
    assert answer.body == bytes(5000)
    assert len(sock.given) == 4, "one send per EPOLLOUT: 1000 bytes, twice nothing, the rest"
    (connection,) = world.hub.connections
    connection.flush()
    assert len(sock.given) == 4, "nothing is queued, so nothing is sent"


async def test_requests_sent_just_before_the_peer_closes_are_served() -> None:
    """Input goes before hang-up: a oneway send followed by close() must be stored."""
    with a_world() as world:
        seen: list[int] = []

        def note(connection: Connection, request: RemotingCommand) -> None:
            seen.append(request.opaque)

        world.dispatcher.register(9, note)
        peer, _ = world.connect()
        peer.send(ask(9, 1) + ask(9, 2))
        peer.close()
        async with running(world):
            await until(lambda: world.ended)
        assert seen == [1, 2]


async def test_what_a_connection_had_left_to_serve_when_it_ended_is_not_served() -> None:
    """Its owner has been told that it has ended: a heartbeat served now would keep a client that is gone."""
    served: list[int] = []

    def note(connection: Connection, request: RemotingCommand) -> None:
        served.append(request.opaque)

    def end_all() -> None:
        for connection in world.hub.connections if served else ():
            connection.close()

    with a_world(end_burst=end_all, monotonic=lambda: 0.0) as world:
        world.dispatcher.register(9, note)
        peer, _ = world.connect()
        peer.send(ask(9) * (2 * hub_module.SLICE_FRAMES))
        async with running(world):
            await until(lambda: world.ended)
            await trio.testing.wait_all_tasks_blocked(0.01)
    assert len(served) == hub_module.SLICE_FRAMES


async def test_ending_the_hub_closes_every_connection() -> None:
    with a_world() as world:
        peers = [world.connect()[0] for _ in range(3)]
        async with running(world):
            assert len(world.hub.connections) == 3
        assert all(is_at_end(peer) for peer in peers)
        assert len(world.ended) == 3
        assert world.hub.connections == []


async def test_a_socket_that_takes_bytes_again_takes_no_answer_of_the_open_burst() -> None:
    """A pipelining producer with a full socket buffer: its backlog is served, then EPOLLOUT comes in the same turn."""
    pending: list[int] = []
    sent_before_written: list[int] = []
    received = FrameReader()

    def answer(connection: Connection, request: RemotingCommand) -> RemotingCommand:
        pending.append(request.opaque)
        with contextlib.suppress(BlockingIOError):
            received.receive(peer.recv(1 << 20))  # makes room in the socket while the burst is open
        return make_response(request, body=bytes(20_000))

    with a_world(ConnectionLimits(outgoing_bytes_pause=200_000), end_burst=pending.clear) as world:
        world.dispatcher.register(12, answer)
        async with running(world):
            peer, sock = world.connect(buffer=8192)
            sock.before_send = lambda: sent_before_written.extend(pending)
            requests = b"".join(ask(12, opaque) for opaque in range(400))
            assert peer.send(requests) == len(requests)
            await until(lambda: not world.hub.connections[0].wants_reading)
            assert [each.opaque for each in await answers(peer, 400, received)] == list(range(400))
    assert sent_before_written == []


# ---- failing writes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "failure", [ConnectionResetError(104, "reset"), BrokenPipeError(32, "pipe"), OSError(110, "timed out")], ids=repr
)
async def test_a_write_that_fails_after_part_of_a_reply_ends_the_connection(world: World, failure: OSError) -> None:
    """The reset is found by EPOLLOUT, in a turn that serves another peer: that one's reply still leaves."""
    peer, sock = world.connect(10, failure)
    good, _ = world.connect()
    peer.send(ask(SIZE, 1, b"1000"))
    good.send(ask(ECHO, 2))
    assert (await answers(good, 1))[0].opaque == 2
    await until(lambda: world.ended)
    assert world.ended[0].is_closed
    assert world.ended[0].outgoing_size == 0
    assert len(sock.given) == 2
    world.ended[0].reply_frame(b"late")
    assert world.ended[0].dropped_replies == 1
    good.send(ask(ECHO, 3))
    assert (await answers(good, 1))[0].opaque == 3


async def test_a_reset_found_by_a_service_between_turns_ends_the_connection_once(world: World) -> None:
    """A notification flushes outside a burst; the hub's own turn then must not meet the closed socket."""
    peer, _ = world.connect(ConnectionResetError())
    peer.send(ask(DEFER))
    await until(lambda: world.deferred)
    connection, _ = world.deferred[0]
    connection.oneway(make_request(40))
    assert connection.is_closed
    assert world.ended == [connection]
    connection.oneway(make_request(40))
    connection.close()
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert world.ended == [connection]


# ---- a peer that does not read ---------------------------------------------------------------------------------------


async def test_a_peer_over_the_pause_is_served_on_when_one_send_takes_all_its_replies() -> None:
    """Its socket never was full, so no EPOLLOUT comes that could resume it."""
    async with a_running_world(ConnectionLimits(outgoing_bytes_pause=100)) as world:
        peer, sock = world.connect()
        count = 2 * hub_module.SLICE_FRAMES
        peer.send(b"".join(ask(ECHO, opaque) for opaque in range(count)))
        await until(lambda: world.hub.connections)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert world.hub.connections[0].frames_received == count
        assert [each.opaque for each in await answers(peer, count)] == list(range(count))
        assert len(sock.given) > 1, "a send for each slice"


# ---- fair slices -----------------------------------------------------------------------------------------------------


async def test_a_peer_that_pipelines_thousands_of_requests_delays_another_by_one_read_at_most() -> None:
    """Its backlog is served before sockets are polled again, but it is not read meanwhile: that bounds the backlog."""
    with a_world() as world:
        served: list[str] = []

        def note(connection: Connection, request: RemotingCommand) -> None:
            served.append(connection.peer)

        world.dispatcher.register(9, note)
        flood, _ = world.connect()
        other, _ = world.connect()
        frame = ask(9)
        assert flood.send(frame * 2000) > 1.5 * hub_module.READ_SIZE
        other.send(frame)
        async with running(world):
            await until(lambda: "10.0.0.1:2" in served)
        assert served.index("10.0.0.1:2") <= hub_module.READ_SIZE // len(frame) + 1


async def test_other_tasks_run_between_two_slices() -> None:
    """A service must not wait for a peer that keeps the hub busy: it has its turn after SLICE_SECONDS."""
    with a_world() as world:
        turns: list[int] = []
        served = 0

        def spin(connection: Connection, request: RemotingCommand) -> None:
            nonlocal served
            served += 1
            slice_is_over = time.perf_counter() + 2 * hub_module.SLICE_SECONDS
            while time.perf_counter() < slice_is_over:
                pass

        async def service() -> None:
            while served < 20:
                turns.append(served)
                await trio.lowlevel.checkpoint()

        world.dispatcher.register(9, spin)
        peer, _ = world.connect()
        peer.send(ask(9) * 20)
        async with running(world), trio.open_nursery() as nursery:
            nursery.start_soon(service)
        # Trio shuffles the tasks of a batch, so the service may come first in one batch and last in the next.
        assert all(later - earlier <= 2 for earlier, later in pairwise([0, *turns, 20])), turns


# ---- waiting for quick peers -----------------------------------------------------------------------------------------

LONG = 30.0
"""Seconds that a test must not last: so long a hub waits in these tests, where it waits in vain."""


class Passes(trio.abc.Instrument):
    """Counts how often Trio has polled."""

    count = 0

    def before_io_wait(self, timeout: float) -> None:
        self.count += 1


class Clock(SteppingClock):
    """The hub's clock."""

    def make_peers_slow(self) -> None:
        self.step = 1.0


def ping_pong(
    peer: socket.socket, count: int, *, pause_s: float = 0.0, before_last: Callable[[], None] = no_hook
) -> None:
    """In a thread: ask ``count`` times, each time a pause after the last question is answered."""
    peer.setblocking(True)
    reader = FrameReader()
    for opaque in range(count):
        if opaque == count - 1:
            before_last()
        time.sleep(pause_s)
        peer.sendall(ask(ECHO, opaque))
        while (frame := reader.next_frame()) is None:
            reader.receive(peer.recv(1 << 16))
        assert decode_command(*frame).opaque == opaque


@pytest.mark.parametrize("spin_seconds", [0.0, SPIN_SECONDS], ids=["sleeping", "spinning first"])
async def test_a_quick_peer_is_served_without_returning_to_trio(spin_seconds: float) -> None:
    clock = Clock()  # by which every pause is short, and a slice without an end
    with a_world(lull_seconds=LONG, spin_seconds=spin_seconds, monotonic=clock) as world:
        peer, _ = world.connect()
        async with running(world), trio.open_nursery() as nursery:
            passes = Passes()
            trio.lowlevel.add_instrument(passes)
            # The hub looks before the peer has paused, and Trio would poll for each request at least once.
            asking = partial(ping_pong, peer, 50, pause_s=0.001, before_last=clock.make_peers_slow)
            nursery.start_soon(trio.to_thread.run_sync, asking)
            await until(lambda: world.hub.connections[0].frames_received == 50)
            trio.lowlevel.remove_instrument(passes)
        assert passes.count < 40


async def test_a_quick_peer_does_not_keep_other_tasks_waiting_for_longer_than_a_slice() -> None:
    clock = Clock(step=hub_module.SLICE_SECONDS / 8)
    with a_world(lull_seconds=LONG, monotonic=clock) as world:
        peer, _ = world.connect()
        served: list[int] = []

        async def service() -> None:
            connection = world.hub.connections[0]
            while connection.frames_received < 100:
                served.append(connection.frames_received)
                await trio.lowlevel.checkpoint()

        async with running(world), trio.open_nursery() as nursery:
            asking = partial(ping_pong, peer, 100, before_last=clock.make_peers_slow)
            nursery.start_soon(trio.to_thread.run_sync, asking)
            nursery.start_soon(service)
        assert all(later - earlier <= 10 for earlier, later in pairwise([0, *served, 100])), served


async def test_a_signal_and_a_cancellation_are_served_while_a_peer_is_quick() -> None:
    with a_world(lull_seconds=LULL_SECONDS) as world:
        peer, _ = world.connect()
        peer.setblocking(True)
        is_over = threading.Event()

        def ask_and_ask() -> None:
            while not is_over.is_set():
                ping_pong(peer, 10)

        with trio.fail_after(PATIENCE_SECONDS), trio.open_signal_receiver(signal.SIGUSR1) as signals:
            async with running(world), trio.open_nursery() as nursery:
                nursery.start_soon(trio.to_thread.run_sync, ask_and_ask)
                await until(lambda: world.hub.connections[0].frames_received > 100)
                os.kill(os.getpid(), signal.SIGUSR1)
                assert await anext(aiter(signals)) == signal.SIGUSR1
                with trio.move_on_after(0.01) as scope:
                    await trio.sleep_forever()
                assert scope.cancelled_caught
                is_over.set()


async def test_a_hub_with_slow_peers_returns_to_trio_at_once() -> None:
    began, clock = time.perf_counter(), Clock()
    with a_world(lull_seconds=LONG, monotonic=clock) as world:
        peer, _ = world.connect()
        async with running(world):
            for opaque in range(20):
                await until_blocked(lambda: True)  # the hub is waiting in Trio
                clock.now += 0.001
                peer.send(ask(ECHO, opaque))
                assert (await answers(peer, 1))[0].opaque == opaque
    assert time.perf_counter() - began < LONG


async def test_a_hub_does_not_wait_while_a_task_serves_too() -> None:
    began = time.perf_counter()
    with a_world(lull_seconds=LONG, monotonic=Clock()) as world:
        peer, _ = world.connect()
        async with running(world), trio.open_nursery() as nursery:

            async def serve() -> None:
                while True:
                    with world.dispatcher.burst:
                        pass
                    await trio.lowlevel.checkpoint()

            nursery.start_soon(serve)
            for opaque in range(20):
                peer.send(ask(ECHO, opaque))
                assert (await answers(peer, 1))[0].opaque == opaque
            nursery.cancel_scope.cancel()
    assert time.perf_counter() - began < LONG


# ---- first bytes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5], ids="{} bytes".format)
async def test_a_tls_hello_is_handed_over_unread_however_little_of_it_has_arrived(size: int) -> None:
    hello = b"\x16\x03\x01\x00\xc8"[:size]
    with a_world() as world:
        async with running(world):
            peer, _ = world.connect()
            peer.send(hello)
            await until(lambda: world.taken_for_tls)
            (sock,) = world.taken_for_tls
            peer.send(b"rest")
            assert sock.recv(100) == hello + b"rest"
            assert world.ended == []


async def test_a_refused_first_byte_gets_no_answer(world: World) -> None:
    peer, sock = world.connect()
    world.refused_bytes.add(b"\0")
    peer.send(ask(ECHO))
    await until(lambda: is_at_end(peer))
    assert sock.given == []
    assert len(world.ended) == 1


async def test_the_first_byte_is_looked_at_once(world: World) -> None:
    """A later 0x16 is a byte of a frame: only a new connection is asked."""
    peer, _ = world.connect()
    peer.send(ask(ECHO, 1))
    assert (await answers(peer, 1))[0].opaque == 1
    world.refused_bytes.add(b"\0")  # the first byte of every frame
    peer.send(ask(ECHO, 2, b"\x16\x03\x01"))
    assert (await answers(peer, 1))[0].body == b"\x16\x03\x01"
    assert world.taken_for_tls == []
