"""Settings of the remoting layer, each by what it does to real connections."""

from __future__ import annotations

import contextlib
import socket

import pytest
import trio
import trio.testing

from rocketpy.errors import RemotingConnectError
from rocketpy.protocol.command import make_request
from rocketpy.protocol.frame import encode_frame
from rocketpy.remoting.client import open_remoting_client
from rocketpy.remoting.config import NettyClientConfig, NettyServerConfig
from rocketpy.remoting.network import SocketNetwork
from tests.patience import until_blocked
from tests.remoting.conftest import DEFER, ECHO, Running
from tests.remoting.test_server import connect


async def test_how_many_connections_may_wait_to_be_accepted() -> None:
    """``serverSocketBacklog``: of those beyond it the system accepts none."""
    (listener,) = await SocketNetwork().listen("127.0.0.1", 0, 1)
    address = listener.sock.getsockname()
    with contextlib.ExitStack() as stack:
        stack.callback(listener.close)
        taken = 0
        for _ in range(8):
            peer = stack.enter_context(socket.socket())
            peer.setblocking(False)
            peer.connect_ex(address)
            await trio.lowlevel.checkpoint()
            taken += peer.connect_ex(address) in (0, 106)  # connected
        assert 1 <= taken <= 3


class TestServerBuffers:
    """``serverSocketSndBufSize`` and ``serverSocketRcvBufSize``."""

    @pytest.fixture
    def server_config(self) -> NettyServerConfig:
        return NettyServerConfig(server_socket_snd_buf_size=20_000, server_socket_rcv_buf_size=30_000)

    async def test_an_accepted_socket_has_them(self, running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[tuple[int, int]] = []
        monkeypatch.setattr(
            "rocketpy.remoting.server.set_socket_options", lambda sock, send, receive: asked.append((send, receive))
        )
        peer = await connect(running)
        await peer.send(make_request(ECHO))
        assert (await peer.answer()).code == 0
        assert asked == [(20_000, 30_000)]


class TestIdleConnections:
    """``serverChannelMaxIdleTimeSeconds``."""

    @pytest.fixture
    def server_config(self) -> NettyServerConfig:
        return NettyServerConfig(server_channel_max_idle_time_seconds=40)

    async def test_a_silent_connection_is_closed(self, running: Running, mock_clock: trio.testing.MockClock) -> None:
        peer = await connect(running)
        await peer.send(make_request(ECHO))
        assert (await peer.answer()).code == 0
        await trio.testing.wait_all_tasks_blocked(0.01)  # so that the server has noted when it sent
        mock_clock.jump(39)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert running.server.statistics().idle_closed_count == 0
        mock_clock.jump(21)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert running.server.statistics().idle_closed_count == 1
        assert await peer.stream.receive_some(1) == b""


class TestDeferredReplies:
    """``connectionDeferredRepliesMax``."""

    @pytest.fixture
    def server_config(self) -> NettyServerConfig:
        return NettyServerConfig(connection_deferred_replies_max=2)

    async def test_only_so_many_replies_may_be_owed_to_one_peer(self, running: Running) -> None:
        peer = await connect(running)
        await peer.send(make_request(DEFER), make_request(ECHO))
        assert (await peer.answer()).code == 0
        (connection, _), *_ = running.program.deferred
        assert connection.may_defer
        await peer.send(make_request(DEFER), make_request(ECHO))
        assert (await peer.answer()).code == 0
        assert not connection.may_defer


class TestUnreadReplies:
    """``writeBufferHighWaterMark`` and ``connectionOutgoingBytesMax``."""

    @pytest.fixture
    def server_config(self) -> NettyServerConfig:
        return NettyServerConfig(
            write_buffer_high_water_mark=10_000,
            connection_outgoing_bytes_max=50_000,
            server_socket_snd_buf_size=4096,
        )

    async def test_a_peer_that_does_not_read_is_not_read_and_then_closed(
        self, running: Running, caplog: pytest.LogCaptureFixture
    ) -> None:
        peer = await connect(running)
        await peer.send(make_request(DEFER), make_request(ECHO))
        await peer.answer()
        (connection, _), *_ = running.program.deferred
        answer = encode_frame(make_request(ECHO, body=bytes(6_000)))
        largest = 0
        for _ in range(2_000):  # the kernel takes some megabytes at first
            connection.reply_frame(answer)
            connection.flush()
            if connection.is_closed:
                break
            largest = max(largest, connection.outgoing_size)
            assert connection.wants_reading == (connection.outgoing_size <= 10_000)
        assert connection.is_closed
        assert 40_000 < largest <= 50_000
        assert f"{connection.peer} does not read its replies" in caplog.text


async def test_how_long_connecting_may_take(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    """``connectTimeoutMillis``, for an address that says nothing at all."""

    async def silence(host: str, port: int) -> trio.SocketStream:
        await trio.sleep_forever()
        raise AssertionError

    monkeypatch.setattr(trio, "open_tcp_stream", silence)
    async with open_remoting_client(config=NettyClientConfig(connect_timeout_millis=1500)) as client:
        with pytest.raises(RemotingConnectError):
            await client.request("192.0.2.1:9876", make_request(ECHO), 60)
    assert trio.current_time() == pytest.approx(1.5)


async def test_a_connection_that_is_not_used_is_closed_by_the_client(
    running: Running, mock_clock: trio.testing.MockClock
) -> None:
    """``clientChannelMaxIdleTimeSeconds``."""
    config = NettyClientConfig(client_channel_max_idle_time_seconds=50)
    async with open_remoting_client(config=config) as client:
        await client.request(running.address, make_request(ECHO))
        await trio.testing.wait_all_tasks_blocked(0.01)
        mock_clock.jump(49)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert client.connection(running.address) is not None
        mock_clock.jump(32)
        await until_blocked(lambda: client.connection(running.address) is None)
