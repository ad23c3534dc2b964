"""A stream over a real socket: as Trio defines one, and what is sent without waiting."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from rocketpy.remoting.nowait_stream import NowaitSocketStream
from tests.patience import PATIENCE_SECONDS

MUCH = 16 << 20
"""Bytes that no socket takes at once."""


def sockets() -> tuple[socket.socket, socket.socket]:
    """Return both ends of a connection over the loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    return ours, theirs


async def a_pair() -> tuple[NowaitSocketStream, NowaitSocketStream]:
    ours, theirs = sockets()
    return NowaitSocketStream(ours), NowaitSocketStream(theirs)


async def read_all(stream: NowaitSocketStream) -> bytes:
    content = b""
    while data := await stream.receive_some():
        content += data
    return content


async def test_it_is_a_stream_as_trio_defines_one() -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        await trio.testing.check_two_way_stream(a_pair, None)


async def test_what_is_sent_without_waiting_arrives_before_what_is_sent_later() -> None:
    ours, theirs = await a_pair()
    async with ours, theirs:
        assert ours.send_nowait(b"first ") == 6
        await ours.send_all(b"second")
        await ours.aclose()
        with trio.fail_after(PATIENCE_SECONDS):
            assert await read_all(theirs) == b"first second"


async def test_a_full_socket_takes_a_part_from_the_first_byte_on() -> None:
    ours, theirs = await a_pair()
    content = bytes(range(256)) * (MUCH // 256)
    async with ours, theirs:
        taken = ours.send_nowait(content)
        assert 0 < taken < len(content)
        with trio.fail_after(PATIENCE_SECONDS):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send_rest, ours, content[taken:])
                assert await read_all(theirs) == content


async def send_rest(stream: NowaitSocketStream, rest: bytes) -> None:
    await stream.send_all(rest)
    await stream.aclose()


async def test_a_connection_that_has_ended_takes_nothing_and_the_next_send_raises() -> None:
    sock, peer = sockets()
    stream = NowaitSocketStream(sock)
    async with stream:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        peer.close()  # with a reset
        assert stream.send_nowait(b"lost") == 0
        with pytest.raises(trio.BrokenResourceError):
            await stream.send_all(b"lost")
    assert stream.send_nowait(b"closed") == 0


async def test_nothing_is_sent_between_the_bytes_of_another_call() -> None:
    ours, theirs = await a_pair()
    async with ours, theirs, trio.open_nursery() as nursery:
        nursery.start_soon(ours.send_all, bytes(MUCH))
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(AssertionError, match="mixed"):
            ours.send_nowait(b"between")
        for function in (lambda: ours.send_all(b"between"), ours.wait_send_all_might_not_block):
            with pytest.raises(trio.BusyResourceError):
                await function()
        nursery.cancel_scope.cancel()


async def test_closing_ends_the_calls_that_wait() -> None:
    ours, theirs = await a_pair()
    async with theirs, trio.open_nursery() as nursery:
        for waiting in (lambda: ours.send_all(bytes(MUCH)), ours.receive_some):
            nursery.start_soon(expect_closed, waiting)
        await trio.testing.wait_all_tasks_blocked()
        with trio.fail_after(PATIENCE_SECONDS):
            await ours.aclose()


async def expect_closed(wait: Callable[[], Awaitable[object]]) -> None:
    with pytest.raises(trio.ClosedResourceError):
        await wait()
