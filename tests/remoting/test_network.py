"""The real network: listening, accepting, connecting, and what each refuses."""

from __future__ import annotations

import errno
import logging
import os
import socket

import pytest
import trio
import trio.testing

from rocketpy.errors import RemotingConnectError, StartError
from rocketpy.remoting.local_address import outgoing_address
from rocketpy.remoting.network import Listener, SocketListener, SocketNetwork, split_address
from rocketpy.testing.fixture.network import ReservedPort
from tests.ipv6 import has_ipv6
from tests.patience import PATIENCE_SECONDS

needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no ::1")


async def _listen(host: str | None = "127.0.0.1", port: int = 0) -> SocketListener:
    (listener,) = await SocketNetwork().listen(host, port)
    return listener


async def test_bytes_go_both_ways_and_the_peer_is_named() -> None:
    network, listener = SocketNetwork(), await _listen()
    ours = await network.connect(f"127.0.0.1:{listener.port}")
    theirs, address = await listener.accept()
    async with ours, theirs:
        assert address == ours.socket.getsockname()
        await ours.send_all(b"there")
        assert await theirs.receive_some(9) == b"there"
        await theirs.send_all(b"back")
        assert await ours.receive_some(9) == b"back"
    listener.close()


@needs_ipv6
@pytest.mark.parametrize("host", [None, "", "::"])
async def test_no_host_is_every_address_of_both_families(host: str | None) -> None:
    """As for Java's servers. An IPv4 peer has its IPv4 address for lists, limits and records."""
    listener = await _listen(host)
    for address in ("127.0.0.1", "::1"):
        ours = await SocketNetwork().connect(f"{address}:{listener.port}")
        theirs, peer = await listener.accept()
        async with ours, theirs:
            assert peer == (address, ours.socket.getsockname()[1])
    listener.close()


@pytest.mark.parametrize(("host", "refusing"), [("0.0.0.0", "::1"), ("::1", "127.0.0.1"), ("127.0.0.1", "::1")])
@needs_ipv6
async def test_an_address_that_is_named_is_the_only_one(host: str, refusing: str) -> None:
    port = ReservedPort()
    port.release()  # its number is free for both families
    listener = await _listen(host, port.port)
    with pytest.raises(RemotingConnectError, match="refused"):
        await SocketNetwork().connect(f"{refusing}:{listener.port}")
    listener.close()


@needs_ipv6
@pytest.mark.parametrize(
    ("addresses", "expected"), [(["::1"], "::1"), (["::1", "127.0.0.1"], "127.0.0.1"), (["127.0.0.1"], "127.0.0.1")]
)
async def test_a_name_may_be_that_of_an_ipv6_address(
    monkeypatch: pytest.MonkeyPatch, addresses: list[str], expected: str
) -> None:
    def of_the_name(host: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        assert host == "broker.example"
        families = [socket.AF_INET6 if ":" in each else socket.AF_INET for each in addresses]
        return [
            (family, socket.SOCK_STREAM, 6, "", (each, 0)) for family, each in zip(families, addresses, strict=True)
        ]

    monkeypatch.setattr("rocketpy.remoting.network.socket.getaddrinfo", of_the_name)
    (listener,) = await SocketNetwork().listen("broker.example", 0)
    assert listener.sock.getsockname()[0] == expected
    listener.close()


@pytest.mark.parametrize("name", ["no-such-host.invalid", "a" * 64 + ".invalid"])
async def test_a_name_that_is_not_known_is_named(name: str) -> None:
    with pytest.raises(StartError, match=f"cannot listen on {name}, port 0: "):
        await SocketNetwork().listen(name, 0)


@pytest.mark.parametrize(
    ("failing", "failure"),
    [
        ("socket", errno.EAFNOSUPPORT),
        ("socket", errno.EPERM),
        ("setsockopt", errno.ENOPROTOOPT),
        ("bind", errno.EADDRNOTAVAIL),
    ],
)
async def test_without_ipv6_every_address_is_those_of_ipv4(
    failing: str, failure: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A kernel without IPv6, and one that has it switched off."""
    monkeypatch.setattr("rocketpy.remoting.network.socket.socket", _without_ipv6(failing, failure))
    caplog.set_level(logging.INFO)
    listener = await _listen(None)
    assert listener.sock.getsockname()[0] == "0.0.0.0"
    (line,) = caplog.records
    assert line.levelno == logging.INFO
    assert line.getMessage().startswith(f"port {listener.port} listens on IPv4 only, this system has no IPv6: ")
    listener.close()
    with pytest.raises(StartError, match="cannot listen on ::, port 0: "):
        await _listen("::")


async def test_a_lack_of_descriptors_is_no_lack_of_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketpy.remoting.network.socket.socket", _without_ipv6("socket", errno.EMFILE))
    with pytest.raises(StartError, match="cannot listen on every address, port 0: Too many open files"):
        await _listen(None)


@needs_ipv6
@pytest.mark.parametrize("first", [None, "0.0.0.0", "127.0.0.1", "::", "::1"])
async def test_a_port_that_one_family_has_taken_is_refused(first: str | None) -> None:
    """Else a second program would start, and have only the peers of the other family."""
    listener = await _listen(first)
    with pytest.raises(StartError) as caught:
        await _listen(None, listener.port)
    assert str(caught.value) == f"cannot listen on every address, port {listener.port}: another process uses it"
    listener.close()


async def test_two_programs_cannot_share_a_port() -> None:
    listener = await _listen()
    with pytest.raises(StartError) as caught:
        await _listen("127.0.0.1", listener.port)
    assert str(caught.value) == f"cannot listen on 127.0.0.1, port {listener.port}: another process uses it"
    listener.close()


async def test_an_address_of_another_machine_is_named() -> None:
    with pytest.raises(StartError, match=r"cannot listen on 192\.0\.2\.1, port 0: Cannot assign"):
        await _listen("192.0.2.1")


async def test_a_port_that_is_none_is_named() -> None:
    with pytest.raises(StartError, match="cannot listen on port 70000: expected a port from 0 to 65535"):
        await _listen(port=70_000)


async def test_closing_wakes_the_task_that_accepts_and_refuses_from_then_on() -> None:
    port = ReservedPort()  # so that nobody else listens on it when it is closed
    network, listener = SocketNetwork(), await _listen(port=port.port)
    address = f"127.0.0.1:{listener.port}"
    ended: list[str] = []

    async def accept() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await listener.accept()
        ended.append("waiting")

    with trio.fail_after(PATIENCE_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(accept)
            await trio.testing.wait_all_tasks_blocked()
            listener.close()
            listener.close()
    assert ended == ["waiting"]
    with pytest.raises(trio.ClosedResourceError):
        await listener.accept()
    with pytest.raises(RemotingConnectError, match=f"^cannot connect to {address}: Connection refused$"):
        await network.connect(address)
    port.release()


@pytest.mark.parametrize("failure", [BlockingIOError(11, "none"), ConnectionAbortedError(103, "aborted")])
async def test_a_connection_that_has_gone_already_is_skipped(failure: OSError, monkeypatch: pytest.MonkeyPatch) -> None:
    listener = await _listen()
    accept, failures = socket.socket.accept, [failure]

    def accept_or_fail(sock: socket.socket) -> tuple[socket.socket, object]:
        if failures:
            raise failures.pop()
        return accept(sock)

    monkeypatch.setattr(socket.socket, "accept", accept_or_fail)
    with socket.socket() as peer:
        peer.connect(listener.sock.getsockname())
        stream, address = await listener.accept()
        assert address == peer.getsockname()
        await stream.aclose()
    assert not failures
    listener.close()


async def test_a_lack_of_descriptors_is_reported_and_accepting_may_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    listener: Listener = await _listen()
    assert listener.sock is not None
    with socket.socket() as peer:
        peer.connect(listener.sock.getsockname())
        with monkeypatch.context() as few:
            few.setattr(socket.socket, "accept", _without_descriptors)
            with pytest.raises(OSError, match="Too many open files"):
                await listener.accept()
        stream, _ = await listener.accept()
        await stream.aclose()
    listener.close()


def _without_ipv6(failing: str, number: int) -> type[socket.socket]:
    class Socket(socket.socket):
        def __init__(self, family: int = socket.AF_INET, *arguments: int, **named: int) -> None:
            if failing == "socket" and family == socket.AF_INET6:
                raise OSError(number, os.strerror(number))
            super().__init__(family, *arguments, **named)

        def setsockopt(self, level: int, *arguments: int) -> None:  # type: ignore[override]
            if failing == "setsockopt" and level == socket.IPPROTO_IPV6:
                raise OSError(number, os.strerror(number))
            super().setsockopt(level, *arguments)

        def bind(self, address: tuple[str, int]) -> None:  # type: ignore[override]
            if failing == "bind" and self.family == socket.AF_INET6:
                raise OSError(number, os.strerror(number))
            super().bind(address)

    return Socket


def _without_descriptors(sock: socket.socket) -> None:
    raise OSError(24, "Too many open files")


async def test_the_address_of_this_host_is_its_way_out() -> None:
    assert SocketNetwork().local_address() == outgoing_address()


@pytest.mark.parametrize(
    "address",
    [
        *("nowhere", "host:", ":9876", "host:port", "host:0", "host:70000", "host:" + "9" * 5000),
        *("a:1,b:2", "a:1;b:2", "http://a:1", "a b:1", "no\x00where:1", "a/b:1", "::g:1", "[a]:1", "[::1:1"),
    ],
)
def test_an_address_that_is_none_is_named(address: str) -> None:
    with pytest.raises(RemotingConnectError, match="expected HOST:PORT"):
        split_address(address)


@pytest.mark.parametrize("address", ["a..b:1", "x" * 300 + ":1"])
async def test_a_name_that_cannot_be_looked_up_is_a_connect_error(address: str) -> None:
    with pytest.raises(RemotingConnectError, match="cannot connect to"):
        await SocketNetwork().connect(address)


def test_an_address_splits_at_the_last_colon() -> None:
    assert split_address("127.0.0.1:9876") == ("127.0.0.1", 9876)
    assert split_address("[::1]:9876") == ("::1", 9876)
    assert split_address("fe80::1%eth0:9876") == ("fe80::1%eth0", 9876)
    assert split_address("a_name.of-a.host:9876") == ("a_name.of-a.host", 9876)
