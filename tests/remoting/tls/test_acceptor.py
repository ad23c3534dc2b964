"""TLS and plain connections on one port, over real sockets and under both drivers."""

from __future__ import annotations

import logging
import shutil
import socket
import ssl
from pathlib import Path
from unittest import mock

import pytest
import trio
import trio.testing

from rocketpy.errors import RemotingConnectError, RemotingError
from rocketpy.protocol.command import make_request
from rocketpy.protocol.frame import encode_frame
from rocketpy.remoting.client import open_remoting_client
from rocketpy.remoting.config import NettyClientConfig, NettyServerConfig, TlsClientConfig, TlsServerConfig
from rocketpy.remoting.limits.refusal_log import RefusalLog
from rocketpy.remoting.tls import acceptor as tls_acceptor
from rocketpy.remoting.tls.acceptor import TlsAcceptor
from rocketpy.remoting.tls.contexts import ServerTls
from tests.patience import until, until_blocked
from tests.remoting.certificate_files import client_config, crt, key, server_config
from tests.remoting.conftest import DEFER, ECHO, Running
from tests.remoting.test_server import Peer, ask, connect

WITH_TLS = NettyClientConfig(use_tls=True)


@pytest.fixture
def tls_config() -> TlsServerConfig:
    return TlsServerConfig()


@pytest.fixture
def server_tls(tls_config: TlsServerConfig) -> ServerTls:
    return ServerTls(tls_config)


async def echo(running: Running, config: NettyClientConfig, tls: TlsClientConfig | None = None) -> bytes | None:
    """Ask once over a new connection; a RemotingError comes as it is, not in the group of the client's nursery."""
    try:
        async with open_remoting_client(config=config, tls=tls) as client:
            return (await client.request(running.address, make_request(ECHO, body=b"hello"))).body
    except* RemotingError as group:
        failure = group.exceptions[0]
    raise failure


async def connect_tls(running: Running) -> Peer:
    plain = (await connect(running)).stream
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    stream = trio.SSLStream(plain, context, https_compatible=True)
    await stream.do_handshake()
    return Peer(stream)  # type: ignore[arg-type]


class TestPermissive:
    """The default: plain and TLS connections are served on the same port."""

    async def test_both_kinds_are_served(self, running: Running) -> None:
        assert await echo(running, NettyClientConfig()) == b"hello"
        assert await echo(running, WITH_TLS) == b"hello"
        assert running.server.statistics().tls_refused_count == 0

    async def test_what_a_tls_peer_does_not_read_counts_while_a_task_sends_it(self, running: Running) -> None:
        peer = await connect_tls(running)
        await peer.send(ask(DEFER, 5))
        await until(lambda: running.program.deferred)
        connection = running.program.deferred[0][0]
        connection.reply_frame(encode_frame(ask(ECHO, 5, body=bytes(12 << 20))))
        connection.flush()
        # The task has taken all of it: nothing is queued, and a part is held encrypted too.
        await until(lambda: not connection.outgoing_size)
        assert running.server.statistics().unread_bytes > 12 << 20
        assert len((await peer.answer()).body or b"") == 12 << 20
        await until(lambda: running.server.statistics().unread_bytes == 0)

    async def test_tls_is_served_like_plain(self, running: Running) -> None:
        """Pipelined requests, large bodies both ways, deferred replies, and requests of the server's own."""
        peer = await connect_tls(running)
        await peer.send(*(ask(ECHO, opaque, body=b"%d" % opaque) for opaque in range(200)))
        assert [(await peer.answer()).opaque for _ in range(200)] == list(range(200))
        large = bytes(range(256)) * 8192
        await peer.send(ask(ECHO, 1, body=large))
        assert (await peer.answer()).body == large
        await peer.send(ask(DEFER, 5))
        await until(lambda: running.program.deferred)
        connection, _ = running.program.deferred[0]
        connection.oneway(make_request(40))
        assert (await peer.answer()).code == 40
        assert len(running.server.connections) == 1
        await peer.stream.aclose()
        await until(lambda: running.program.closed)
        assert running.program.closed == [connection.peer]

    async def test_plain_connections_stay_on_the_hub(self, running: Running, use_hub: bool) -> None:
        """A connection costs tasks of its own only where the stream driver serves it."""

        async def tasks_of(peer: Peer, before: int) -> int:
            await peer.send(ask(ECHO, 1))
            await peer.answer()
            return living_tasks() - before

        before = living_tasks()
        plain = await connect(running)
        assert (await tasks_of(plain, before) == 0) == use_hub
        before = living_tasks()
        assert await tasks_of(await connect_tls(running), before) > 0
        await plain.stream.aclose()

    async def test_the_first_byte_may_come_alone_and_late(self, running: Running) -> None:
        peer = await connect(running)
        await trio.sleep(0.01)
        frame = encode_frame(ask(ECHO, 1))
        await peer.stream.send_all(frame[:1])
        await trio.sleep(0.01)
        await peer.stream.send_all(frame[1:])
        assert (await peer.answer()).opaque == 1

    async def test_who_leaves_without_a_word_is_forgotten(self, running: Running) -> None:
        peer = await connect(running)
        await peer.stream.aclose()
        await until(lambda: running.server.statistics().accepted_count == 1)
        await until(lambda: not running.server.connections and not running.server.statistics().tls_handshakes)

    async def test_a_client_that_breaks_off_in_the_handshake_is_harmless(
        self, running: Running, caplog: pytest.LogCaptureFixture
    ) -> None:
        peer = await connect(running)
        await peer.stream.send_all(b"\x16\x03\x01\x02\x00\x01\x00")
        await peer.stream.aclose()
        await until(lambda: running.server.statistics().tls_refused_count == 1)
        assert "127.0.0.1:" in caplog.text
        assert "its TLS handshake failed" in caplog.text
        assert await echo(running, WITH_TLS) == b"hello"


class TestEnforcing:
    @pytest.fixture
    def tls_config(self) -> TlsServerConfig:
        return TlsServerConfig(server_mode="enforcing")

    async def test_plain_is_closed_and_named(self, running: Running, caplog: pytest.LogCaptureFixture) -> None:
        with pytest.raises(RemotingError):
            await echo(running, NettyClientConfig(use_tls=False))
        assert await echo(running, NettyClientConfig(use_tls=True)) == b"hello"
        (record,) = [each for each in caplog.records if each.levelno >= logging.WARNING]
        assert record.getMessage().startswith("closed the connection of 127.0.0.1:")
        assert record.getMessage().endswith("it does not speak TLS, and tls.server.mode is enforcing")


class TestDisabled:
    @pytest.fixture
    def tls_config(self) -> TlsServerConfig:
        return TlsServerConfig(server_mode="disabled")

    async def test_tls_is_closed_and_named(self, running: Running, caplog: pytest.LogCaptureFixture) -> None:
        with pytest.raises(RemotingConnectError, match="the TLS handshake failed"):
            await echo(running, WITH_TLS)
        assert await echo(running, NettyClientConfig()) == b"hello"
        (record,) = [each for each in caplog.records if each.levelno >= logging.WARNING]
        assert record.getMessage().endswith("it speaks TLS, and tls.server.mode is disabled")


class TestMutual:
    """A client may connect if the server trusts its certificate."""

    @pytest.fixture
    def tls_config(self) -> TlsServerConfig:
        return server_config(
            server_mode="enforcing", need_client_auth="require", auth_client=True, trust_cert_path=crt("authority")
        )

    async def test_a_known_client_is_served_and_an_untrusted_one_is_not(
        self, running: Running, caplog: pytest.LogCaptureFixture
    ) -> None:
        known = client_config(cert_path=crt("client"), key_path=key("client"))
        assert await echo(running, WITH_TLS, known) == b"hello"
        # With TLS 1.3 the client has shaken hands before it learns that its certificate was refused.
        with pytest.raises(RemotingError):
            await echo(running, WITH_TLS, client_config(cert_path=crt("stranger"), key_path=key("stranger")))
        await until(lambda: "its certificate is not accepted: self-signed certificate" in caplog.text)
        with pytest.raises(RemotingError):
            await echo(running, WITH_TLS, client_config())
        await until(lambda: "PEER_DID_NOT_RETURN_A_CERTIFICATE" in caplog.text)


class TestReload:
    """A certificate that is replaced while connections are open counts for the next ones."""

    @pytest.fixture
    def tls_config(self, tmp_path: Path) -> TlsServerConfig:
        shutil.copy(crt("server"), tmp_path / "now.crt")
        shutil.copy(key("server"), tmp_path / "now.key")
        return server_config(cert_path=str(tmp_path / "now.crt"), key_path=str(tmp_path / "now.key"))

    async def test_open_connections_go_on(self, running: Running, server_tls: ServerTls, tmp_path: Path) -> None:
        peer = await connect_tls(running)
        shutil.copy(crt("stranger"), tmp_path / "now.crt")
        shutil.copy(key("stranger"), tmp_path / "now.key")
        server_tls.reload_if_changed()
        await peer.send(ask(ECHO, 1))
        assert (await peer.answer()).opaque == 1
        assert await echo(running, WITH_TLS, client_config(trust_cert_path=crt("stranger"))) == b"hello"
        with pytest.raises(RemotingConnectError, match=r"the TLS handshake failed: .*certificate verify failed"):
            await echo(running, WITH_TLS, client_config())


def living_tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


async def connect_from(host: str, running: Running) -> Peer:
    """Connect from another address of this machine."""
    sock = trio.socket.socket()
    await sock.bind((host, 0))
    await sock.connect(("127.0.0.1", running.server.port))
    return Peer(trio.SocketStream(sock))


@pytest.mark.parametrize("first", [b"", b"\x16"], ids=["before the first byte", "in the handshake"])
async def test_whatever_ends_a_handshake_closes_its_socket(first: bytes) -> None:
    """Also the end of the server: a stream that is not closed keeps its peer waiting."""

    async def serve(stream: trio.abc.Stream, address: tuple[str, int]) -> None:
        raise AssertionError("no handshake is ever done here")

    acceptor = TlsAcceptor(tls=ServerTls(server_config()), serve_stream=serve, refusals=RefusalLog())
    ours, theirs = socket.socketpair()
    with ours:
        theirs.setblocking(False)
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(theirs))
        ours.send(first)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(acceptor.serve_either, stream, ("10.0.0.1", 1), 60.0)
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert acceptor.under_way_count == len(first)
            nursery.cancel_scope.cancel()
        assert theirs.fileno() == -1
        assert acceptor.under_way_count == 0


class TestSlowPeers:
    """Handshakes are bounded in time and number, and what they hold is counted."""

    @pytest.fixture
    def server_config(self) -> NettyServerConfig:
        return NettyServerConfig(connections_max=6)

    async def test_a_handshake_that_does_not_end_is_ended(
        self, running: Running, mock_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        peer = await connect(running)
        await peer.stream.send_all(b"\x16")
        await until_blocked(lambda: running.server.statistics().tls_handshakes == 1)
        mock_clock.jump(tls_acceptor.HANDSHAKE_SECONDS + 1)
        await until_blocked(lambda: running.server.statistics().tls_handshakes == 0)
        assert "its TLS handshake was not done in 10 s" in caplog.text
        assert not running.server.connections

    async def test_the_oldest_handshake_gives_way(self, running: Running, caplog: pytest.LogCaptureFixture) -> None:
        with mock.patch.object(tls_acceptor, "HANDSHAKES_MAX", 2):
            peers = [await connect(running) for _ in range(3)]
            for count, peer in enumerate(peers, start=1):
                await peer.stream.send_all(b"\x16")
                await until(lambda count=count: running.server.statistics().tls_handshakes == min(count, 2))
            assert await peers[0].receive() is None
            assert "its TLS handshake gave way to 2 later ones" in caplog.text
            assert await echo(running, WITH_TLS) == b"hello"
            assert await peers[1].receive() is None

    async def test_an_address_that_floods_pushes_out_its_own_handshakes(self, running: Running) -> None:
        """An honest peer in the middle of its handshake must not give way to one that only holds on to many."""
        with mock.patch.object(tls_acceptor, "HANDSHAKES_MAX", 3):
            honest = await connect_from("127.0.0.2", running)
            hello = client_hello()
            await honest.stream.send_all(hello[:1])
            await until(lambda: running.server.statistics().tls_handshakes == 1)
            flood = []
            for count in range(1, 5):
                flood.append(await connect(running))
                await flood[-1].stream.send_all(b"\x16")
                await until(lambda count=count: running.server.statistics().tls_handshakes == min(count + 1, 3))
            assert await flood[0].receive() is None
            assert await flood[1].receive() is None
            await honest.stream.send_all(hello[1:])
            assert (await honest.stream.receive_some(1)) == b"\x16", "the honest peer's handshake goes on"

    async def test_handshakes_count_as_connections(self, running: Running) -> None:
        peers = [await connect(running) for _ in range(6)]
        for peer in peers:
            await peer.stream.send_all(b"\x16")
        await until(lambda: running.server.statistics().tls_handshakes == 6)
        assert await (await connect(running)).receive() is None
        assert running.server.statistics().refused_count == 1


def client_hello() -> bytes:
    """The first record that a TLS client sends."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    client = context.wrap_bio(incoming, outgoing)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


async def test_every_prefix_of_a_handshake_and_a_damaged_one_is_refused(running: Running) -> None:
    """A real ClientHello, cut at every eighth byte, and with each eighth byte turned over."""
    hello = client_hello()
    attacks = [hello[:end] for end in range(1, len(hello), 8)]
    attacks += [hello[:at] + bytes([hello[at] ^ 0xFF]) + hello[at + 1 :] for at in range(1, len(hello), 8)]
    for attack in attacks:
        peer = await connect(running)
        await peer.stream.send_all(attack)
        await peer.stream.aclose()
    await until(lambda: running.server.statistics().tls_refused_count == len(attacks))
    assert not running.server.connections
    assert await echo(running, WITH_TLS) == b"hello"


async def test_garbage_after_the_handshake_ends_only_its_own_connection(running: Running) -> None:
    peer = await connect_tls(running)
    raw = peer.stream.transport_stream  # type: ignore[attr-defined]
    await raw.send_all(b"this is no TLS record at all, and never was")
    await until(lambda: not running.server.connections)
    assert await echo(running, WITH_TLS) == b"hello"
