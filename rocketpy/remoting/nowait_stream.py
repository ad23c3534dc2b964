"""A stream that can also be written without a task: what replication sends leaves at the end of its burst.

:class:`NowaitSocketStream` differs from ``trio.SocketStream`` in one more way: it waits before it reads, because the
reader of short reports finds nothing when it comes back at once, and each vain attempt costs as much as a read.
"""

from __future__ import annotations

import socket
from abc import abstractmethod
from operator import index

import trio

_READ_SIZE = 65_536


class NowaitStream(trio.abc.Stream):
    """A stream of Trio with :meth:`send_nowait`."""

    @abstractmethod
    def send_nowait(self, data: bytes | memoryview) -> int:
        """Send without waiting; return how many bytes were taken, from the first one on.

        None are taken of a connection that has ended: the next ``send_all`` raises. Never called while a task is within
        ``send_all``, whose bytes it would be sent between.
        """
        ...


def nowait_stream(stream: trio.abc.Stream) -> NowaitStream:
    """Return the same connection as such a stream; of a ``trio.SocketStream`` it takes the socket away."""
    if isinstance(stream, trio.SocketStream):
        return NowaitSocketStream(socket.socket(fileno=stream.socket.detach()))
    assert isinstance(stream, NowaitStream), stream
    return stream


class NowaitSocketStream(NowaitStream):
    """A connected TCP socket, which the stream owns."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self._is_sending = False

    def send_nowait(self, data: bytes | memoryview) -> int:
        """Send as far as the socket's buffer takes it."""
        assert not self._is_sending, "bytes would be mixed with those of send_all"
        try:
            return self._sock.send(data)
        except OSError:  # BlockingIOError among them
            return 0

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes; BrokenResourceError when the connection has ended."""
        self._begin_sending()
        try:
            await trio.lowlevel.checkpoint()
            with memoryview(data) as view:
                sent = 0
                while sent < len(view):
                    sent += await self._send_some(view[sent:])
        finally:
            self._is_sending = False

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until the socket takes some bytes."""
        self._begin_sending()
        try:
            await trio.lowlevel.wait_writable(self._sock)
        finally:
            self._is_sending = False

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return what has arrived; no bytes at the end of the stream. BrokenResourceError after a reset."""
        size_max = _READ_SIZE if max_bytes is None else index(max_bytes)
        if size_max < 1:
            raise ValueError(f"expected max_bytes from 1, found {max_bytes}")
        self._require_open()
        while True:
            await trio.lowlevel.wait_readable(self._sock)  # BusyResourceError when another task waits for the same
            try:
                return self._sock.recv(size_max)
            except BlockingIOError:
                continue
            except OSError as failure:
                raise trio.BrokenResourceError(f"the connection has ended: {failure.strerror}") from failure

    async def aclose(self) -> None:
        """Close the socket, and end the calls that wait for it."""
        if self._sock.fileno() >= 0:
            trio.lowlevel.notify_closing(self._sock)
            self._sock.close()
        await trio.lowlevel.checkpoint()

    async def _send_some(self, data: memoryview) -> int:
        while True:
            self._require_open()  # it may have been closed while this task waited
            try:
                return self._sock.send(data)
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._sock)
            except OSError as failure:
                raise trio.BrokenResourceError(f"the connection has ended: {failure.strerror}") from failure

    def _begin_sending(self) -> None:
        self._require_open()
        if self._is_sending:
            raise trio.BusyResourceError("another task is sending")
        self._is_sending = True

    def _require_open(self) -> None:
        if self._sock.fileno() < 0:
            raise trio.ClosedResourceError("the stream is closed")
