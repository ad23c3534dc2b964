"""The client against a real server: matching, time-outs, reconnecting, requests of the server."""

from __future__ import annotations

import socket
import threading

import pytest
import trio
import trio.testing

from rocketpy.errors import (
    LocalProtocolError,
    RemotingConnectError,
    RemotingSendRequestError,
    RemotingTimeoutError,
    RemotingTooMuchRequestError,
)
from rocketpy.forks import OTHER_PROCESS
from rocketpy.protocol.command import RemotingCommand, make_request, make_response
from rocketpy.protocol.frame import encode_frame
from rocketpy.remoting.client import RemotingClient, open_remoting_client
from rocketpy.remoting.config import NettyClientConfig
from rocketpy.remoting.connection import Connection
from tests.forgotten import sizes_within
from tests.patience import PATIENCE_SECONDS, until, until_blocked
from tests.processes import in_child
from tests.remoting.conftest import DEFER, ECHO, SLOW, Running


async def test_concurrent_requests_share_a_connection_and_get_their_own_answers(running: Running) -> None:
    answers: dict[int, bytes | None] = {}
    async with open_remoting_client() as client:

        async def ask(number: int) -> None:
            response = await client.request(running.address, make_request(ECHO, body=b"%d" % number))
            answers[number] = response.body

        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(ask, number)
    assert answers == {number: b"%d" % number for number in range(50)}
    assert running.server.statistics().accepted_count == 1


async def test_answers_may_come_out_of_order(running: Running) -> None:
    async with open_remoting_client() as client, trio.open_nursery() as nursery:
        bodies: list[bytes | None] = []

        async def slow() -> None:
            bodies.append((await client.request(running.address, make_request(SLOW))).body)

        nursery.start_soon(slow)
        await client.request(running.address, make_request(ECHO))
        assert bodies == []
        running.program.slow_may_end.set()
        await until(lambda: bodies)
        assert bodies == [b"slow"]


async def test_a_block_that_is_cancelled_can_still_ask_on_its_way_out(running: Running) -> None:
    """Over the connection that it has, and over a new one."""
    codes: list[int] = []
    with trio.CancelScope() as scope:
        async with open_remoting_client() as client:
            try:
                await client.request(running.address, make_request(ECHO))
                scope.cancel()
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    codes.append((await client.request(running.address, make_request(ECHO))).code)
                    client.close_connection(running.address)
                    codes.append((await client.request(running.address, make_request(ECHO))).code)
    assert codes == [0, 0]
    assert running.server.statistics().accepted_count == 2


def test_a_block_that_is_cancelled_before_it_begins_ends() -> None:
    """In a thread of its own: what is shielded for ever no time limit ends."""

    async def cancelled() -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            async with open_remoting_client():
                raise AssertionError("it is cancelled")

    thread = threading.Thread(target=trio.run, args=(cancelled,), daemon=True)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()


async def test_a_client_whose_block_has_ended_says_so(running: Running) -> None:
    async with open_remoting_client() as client:
        await client.request(running.address, make_request(ECHO))
    with pytest.raises(LocalProtocolError, match="the client's block has ended"):
        await client.request(running.address, make_request(ECHO))


async def test_a_child_does_not_write_to_its_parents_sockets(running: Running) -> None:
    async with open_remoting_client() as client:
        await client.request(running.address, make_request(ECHO))

        def use() -> None:
            assert client.connection(running.address) is None
            client.request(running.address, make_request(ECHO)).send(None)

        assert in_child(use) == f"LocalProtocolError: {OTHER_PROCESS}"
        await client.request(running.address, make_request(ECHO))


async def ask_in_vain(
    client: RemotingClient, running: Running, clock: trio.testing.MockClock, seconds: float = 1.0
) -> None:
    """Ask for what is not answered, for a second; the time-out is seen so many seconds after the request has come."""
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def ask() -> None:
            with pytest.raises(RemotingTimeoutError, match=f"no answer from {running.address}"):
                await client.request(running.address, make_request(DEFER), 1)

        await until_blocked(lambda: running.program.deferred)
        clock.jump(seconds)


async def test_a_timeout_says_who_and_closes_the_shared_connection(
    running: Running, mock_clock: trio.testing.MockClock
) -> None:
    async with open_remoting_client() as client:
        await ask_in_vain(client, running, mock_clock)
        assert (await client.request(running.address, make_request(ECHO))).code == 0
    assert running.server.statistics().accepted_count == 2


async def test_the_connection_survives_a_timeout_that_is_seen_late(
    running: Running, mock_clock: trio.testing.MockClock
) -> None:
    """The loop was blocked: its peer had no time to answer what was sent after that."""
    async with open_remoting_client() as client:
        await ask_in_vain(client, running, mock_clock, 1.6)
        assert (await client.request(running.address, make_request(ECHO))).code == 0
    assert running.server.statistics().accepted_count == 1


async def test_the_connection_survives_a_timeout_when_configured_so(
    running: Running, mock_clock: trio.testing.MockClock
) -> None:
    config = NettyClientConfig(client_close_socket_if_timeout=False)
    async with open_remoting_client(config=config) as client:
        await ask_in_vain(client, running, mock_clock)
        connection, request = running.program.deferred[0]
        connection.reply_deferred(encode_frame(make_response(request)))  # late: dropped without a word
        running.server.flush_replies()
        assert (await client.request(running.address, make_request(ECHO))).code == 0
    assert running.server.statistics().accepted_count == 1


async def test_pending_requests_fail_when_the_connection_ends_and_the_next_one_reconnects(running: Running) -> None:
    async with open_remoting_client() as client:

        async def doomed() -> None:
            with pytest.raises(RemotingSendRequestError, match="ended before it answered"):
                await client.request(running.address, make_request(DEFER))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(doomed)
            await until(lambda: running.program.deferred)
            running.program.deferred[0][0].close()
        assert (await client.request(running.address, make_request(ECHO))).code == 0


async def test_the_end_of_a_connection_is_reported_with_its_address_while_the_block_runs(running: Running) -> None:
    ended: list[str] = []
    async with open_remoting_client() as client:
        with client.reporting_ends(ended.append):
            await client.request(running.address, make_request(ECHO))
            client.close_connection(running.address)
            assert ended == [running.address]
        await client.request(running.address, make_request(ECHO))
        client.close_connection(running.address)
        assert ended == [running.address]


async def test_the_sizes_of_socket_buffers_are_settings(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    set_options: list[tuple[int, ...]] = []
    plain = trio.SocketStream.setsockopt

    def setsockopt(stream: trio.SocketStream, level: int, option: int, value: int) -> None:
        set_options.append((level, option, value))
        plain(stream, level, option, value)

    monkeypatch.setattr(trio.SocketStream, "setsockopt", setsockopt)
    config = NettyClientConfig(client_socket_snd_buf_size=40_000, client_socket_rcv_buf_size=50_000)
    async with open_remoting_client(config=config) as client:
        await client.request(running.address, make_request(ECHO))
    buffers = [each for each in set_options if each[0] == socket.SOL_SOCKET]
    assert buffers == [(socket.SOL_SOCKET, socket.SO_SNDBUF, 40_000), (socket.SOL_SOCKET, socket.SO_RCVBUF, 50_000)]


async def test_what_is_to_be_done_before_a_request_is_done_before_it_leaves(running: Running) -> None:
    """A client of a broker with ACL signs there."""
    done: list[RemotingCommand] = []

    def sign(request: RemotingCommand, address: str) -> None:
        assert address == running.address
        request.body = b"signed " + (request.body or b"")
        done.append(request)

    async with open_remoting_client(before_request=sign) as client:
        answer = await client.request(running.address, make_request(ECHO, body=b"request"))
        assert answer.body == b"signed request"
        bare = await client.request(running.address, make_request(ECHO, body=b"request"), is_signed=False)
        assert bare.body == b"request"
        await client.oneway(running.address, make_request(ECHO, body=b"oneway"))
        assert [each.body for each in done] == [b"signed request", b"signed oneway"]


async def test_a_closed_port_is_a_connect_error() -> None:
    async with open_remoting_client() as client:
        with pytest.raises(RemotingConnectError, match=r"cannot connect to 127\.0\.0\.1:1: .*refused"):
            await client.request("127.0.0.1:1", make_request(ECHO), PATIENCE_SECONDS)


async def test_too_many_requests_in_flight_are_refused_before_anything_is_sent(running: Running) -> None:
    config = NettyClientConfig(client_async_semaphore_value=1)
    async with open_remoting_client(config=config) as client, trio.open_nursery() as nursery:

        async def first() -> None:
            await client.request(running.address, make_request(SLOW))

        nursery.start_soon(first)
        await until(lambda: running.server.statistics().tasks)
        with pytest.raises(RemotingTooMuchRequestError, match="the limit is 1"):
            await client.request(running.address, make_request(ECHO))
        running.program.slow_may_end.set()


async def test_a_oneway_arrives_and_a_request_of_the_server_is_served(running: Running) -> None:
    heard = trio.Event()

    def on_notify(connection: Connection, request: RemotingCommand) -> None:
        assert request.is_oneway
        heard.set()

    async with open_remoting_client() as client:
        client.register(40, on_notify)
        await client.oneway(running.address, make_request(DEFER, oneway=True))
        await until(lambda: running.program.deferred)
        running.program.deferred[0][0].oneway(make_request(40))
        await until(heard.is_set)


async def test_addresses_that_do_not_answer_leave_nothing() -> None:
    async with open_remoting_client() as client:
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                with pytest.raises(RemotingConnectError):
                    await client.request("127.0.0.1:1", make_request(ECHO), PATIENCE_SECONDS)

            for _ in range(3):
                nursery.start_soon(ask)
        assert sizes_within(client)["RemotingClient._connecting"] == 0
