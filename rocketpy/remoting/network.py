"""What remoting requires of a network, and the real one: TCP over sockets.

A network is passed in, as the disk and the clock are: a program listens and connects only through it. Its connections
are Trio streams, in order and reliable. A listener that has a socket also exposes it, because the hub of a server
accepts and drives sockets itself; on a network without sockets the server uses its stream driver.

Nothing here retries or has a time limit: both belong to the caller.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections.abc import Sequence
from typing import Protocol

import trio

from rocketpy.errors import RemotingConnectError, RemotingRefusedError, StartError
from rocketpy.protocol.host import plain_address, plain_host, split_host_port
from rocketpy.remoting.local_address import outgoing_address
from rocketpy.remoting.nowait_stream import NowaitSocketStream, NowaitStream

BACKLOG = 1024
"""Connections that may wait to be accepted, as in RocketMQ (``serverSocketBacklog``)."""

HIGHEST_PORT = 65_535
EVERY_IPV6_ADDRESS = "::"
_SHOWN_CHARACTERS_MAX = 300
# What a system answers that has no IPv6: a kernel without it, one that has it switched off, a sandbox that forbids it.
_WITHOUT_IPV6 = {
    errno.EAFNOSUPPORT,
    errno.EPROTONOSUPPORT,
    errno.ENOPROTOOPT,
    errno.EADDRNOTAVAIL,
    errno.EPERM,
    errno.EACCES,
}

_log = logging.getLogger("rocketpy.remoting")

Address = tuple[str, int]


class Listener(Protocol):
    """A listening address of a program. Closed by its owner."""

    @property
    def port(self) -> int:
        """The port that it listens on."""
        ...

    @property
    def sock(self) -> socket.socket | None:
        """The listening socket, non-blocking, for a caller that accepts by itself; None if connections are streams."""
        ...

    async def accept(self) -> tuple[NowaitStream, Address]:
        """Wait for the next connection; return it and the numeric address of its peer.

        The address of an IPv4 peer is an IPv4 address, also where the socket is one of IPv6 (:func:`peer_of`).
        trio.ClosedResourceError once the listener is closed; OSError when the process is out of descriptors, after
        which the caller may try again.
        """
        ...

    def close(self) -> None:
        """Accept no more: later connections are refused. Accepted ones go on. Idempotent."""
        ...


class Network(Protocol):
    """The network as one host sees it."""

    async def listen(self, host: str | None, port: int, backlog: int = BACKLOG) -> Sequence[Listener]:
        """Listen; ``host`` None or "" means every address of this host, port 0 lets the network choose.

        StartError that names the address when it is in use, not ours or not permitted.
        """
        ...

    async def connect(self, address: str) -> trio.abc.Stream:
        """Connect to HOST:PORT; waits as long as the peer does not answer.

        RemotingConnectError that names the address and the reason, RemotingRefusedError when no program listens there.
        """
        ...

    def local_address(self) -> str:
        """Return the numeric address by which this host reaches others."""
        ...


class SocketListener:
    """A listening TCP socket."""

    def __init__(self, sock: socket.socket) -> None:
        """``sock`` listens and is non-blocking; the listener owns it."""
        self.sock = sock

    @property
    def port(self) -> int:
        """The port that the socket is bound to."""
        port = self.sock.getsockname()[1]
        assert isinstance(port, int)
        return port

    async def accept(self) -> tuple[NowaitSocketStream, Address]:
        """Wait for the next connection; return it and its peer's address."""
        while self.sock.fileno() >= 0:
            try:
                await trio.lowlevel.wait_readable(self.sock)
                sock, address = self.sock.accept()
            except (BlockingIOError, ConnectionAbortedError):  # its peer has gone already
                continue
            return NowaitSocketStream(sock), peer_of(address)
        raise trio.ClosedResourceError("the listener is closed")

    def close(self) -> None:
        """Close the socket, and wake the task that waits in :meth:`accept`."""
        if self.sock.fileno() >= 0:
            trio.lowlevel.notify_closing(self.sock)
            self.sock.close()


class SocketNetwork:
    """TCP of the operating system."""

    async def listen(self, host: str | None, port: int, backlog: int = BACKLOG) -> Sequence[SocketListener]:
        """Bind and listen. An address of a process that has just ended may be used at once (SO_REUSEADDR).

        Every address is IPv6 and IPv4, by one socket for both, as in Java; it is IPv4 alone where there is no IPv6,
        which is logged. ``::`` is the same, without that exception; ``0.0.0.0`` is IPv4.
        """
        try:
            if host:
                return [SocketListener(_listening(*_family_and_address(host), port, backlog))]
            return [SocketListener(_listening_on_every_address(port, backlog))]
        except OSError as failure:
            if failure.errno == errno.EADDRINUSE:
                raise address_in_use(host, port) from failure
            raise StartError(f"cannot listen on {_place(host, port)}: {failure.strerror}") from failure
        except UnicodeError as failure:
            raise StartError(f"cannot listen on {_place(host, port)}: no name of a host: {failure}") from failure
        except OverflowError as failure:
            raise StartError(f"cannot listen on port {port}: expected a port from 0 to {HIGHEST_PORT}") from failure

    async def connect(self, address: str) -> trio.SocketStream:
        """Connect to the first address of the host that answers (RFC 8305)."""
        host, port = split_address(address)
        try:
            return await trio.open_tcp_stream(host, port)
        except (OSError, ValueError) as failure:  # ValueError: the name is none that could be looked up
            cause = _first_cause(failure)
            kind = RemotingRefusedError if isinstance(cause, ConnectionRefusedError) else RemotingConnectError
            raise kind(f"cannot connect to {address}: {_reason(cause)}") from failure

    def local_address(self) -> str:
        """Ask the routing table."""
        return outgoing_address()


def _reason(cause: BaseException) -> str:
    """Return why a connection failed in the words of the system: Trio's message has the address once more."""
    if isinstance(cause, OSError) and cause.errno is not None:
        return os.strerror(cause.errno) if cause.errno > 0 else str(cause.strerror)  # below 0: of a look-up of a name
    return str(cause)


def peer_of(address: tuple[str, int] | tuple[str, int, int, int]) -> Address:
    """Return host and port of an accepted socket's peer; an IPv4 peer of an IPv6 socket has its IPv4 address.

    So allow lists, limits per address, records and log lines see one address, however a program listens.
    """
    return plain_host(address[0]), address[1]


def split_address(address: str) -> Address:
    """Split HOST:PORT; RemotingConnectError for anything else, also for two addresses, or one in a URL.

    Compatibility: RocketMQ (4.9.8) splits at the last colon, and takes what is before it for the name of a host.
    """
    try:
        return split_host_port(address)
    except ValueError as failure:
        shown = repr(address[:_SHOWN_CHARACTERS_MAX])
        raise RemotingConnectError(f"{shown} is not an address, expected HOST:PORT") from failure


def socket_stream(sock: socket.socket) -> trio.SocketStream:
    """Return a stream over a connected socket, which it owns."""
    sock.setblocking(False)
    return trio.SocketStream(trio.socket.from_stdlib_socket(sock))


def local_address_of(sock: socket.socket | trio.socket.SocketType) -> str:
    """Return HOST:PORT of the near end of a connected socket; empty if it has none any more."""
    try:
        name = sock.getsockname()
    except OSError:
        return ""
    return plain_address(f"{name[0]}:{name[1]}") if isinstance(name, tuple) else ""


class PortInUseError(StartError):
    """Another process listens on the port. The program that was started knows which option moves it."""

    def __init__(self, message: str, port: int) -> None:
        super().__init__(message)
        self.port = port


def address_in_use(host: str | None, port: int) -> PortInUseError:
    """Return the error of a port that another program listens on."""
    return PortInUseError(f"cannot listen on {_place(host, port)}: another process uses it", port)


def _listening_on_every_address(port: int, backlog: int) -> socket.socket:
    try:
        return _listening(socket.AF_INET6, EVERY_IPV6_ADDRESS, port, backlog)
    except OSError as failure:
        if failure.errno not in _WITHOUT_IPV6:
            raise
        listening = _listening(socket.AF_INET, "", port, backlog)
        _log.info(
            "port %d listens on IPv4 only, this system has no IPv6: %s", listening.getsockname()[1], failure.strerror
        )
        return listening


def _family_and_address(host: str) -> tuple[socket.AddressFamily, str]:
    """Return family and numeric address of a host to listen on: of a name with several, the first IPv4 address."""
    if ":" in host:
        return socket.AF_INET6, host
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    family, address = min(((each[0], str(each[4][0])) for each in found), key=lambda each: each[0] != socket.AF_INET)
    return family, address


def _listening(family: socket.AddressFamily, host: str, port: int, backlog: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        if host == EVERY_IPV6_ADDRESS:  # not left to the system's default (net.ipv6.bindv6only)
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setblocking(False)
        sock.bind((host, port))
        sock.listen(backlog)
    except (OSError, OverflowError):
        sock.close()
        raise
    return sock


def _place(host: str | None, port: int) -> str:
    return f"{host or 'every address'}, port {port}"


def _first_cause(failure: Exception) -> BaseException:
    """Return the first error of the group in which Trio wraps the failures of all addresses of a host."""
    cause: BaseException = failure.__cause__ or failure
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    return cause
