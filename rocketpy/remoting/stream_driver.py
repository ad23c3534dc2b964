"""Driver of connections over any Trio stream (TLS, clients, platforms without epoll), with two tasks each.

It drives the same state machine as the hub: a reader task feeds and serves it, and a writer task drains it. Slower per
request, with the same observable behaviour.

A stream that takes bytes without a task (:class:`NowaitStream`) is written by the caller of ``flush`` while there is
one request at a time: it leaves at once. While there are several, the writer task sends, because it collects what all
tasks of one round of the event loop have queued: one system call, not one each.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable

import trio

from rocketpy.containment import contain
from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.host import host_of
from rocketpy.remoting.config import ConnectionLimits
from rocketpy.remoting.connection import Connection, memory_of
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.remoting.limits.held_bytes import ProgramBytes
from rocketpy.remoting.limits.refusal_log import RefusalLog
from rocketpy.remoting.network import local_address_of
from rocketpy.remoting.nowait_stream import NowaitStream

READ_SIZE = 65_536
WRITE_SIZE = 262_144  # per send_all: TLS encrypts all of it on the event loop before it sends any of it
SLICE_FRAMES = 64
SLICE_SECONDS = 0.001
FAREWELL_SECONDS = 1.0
"""Deadline for sending the queued replies to a peer that has ended its side or sent a malformed frame."""

_log = logging.getLogger("rocketpy.remoting")


class _Writer:
    """State shared by the two tasks of one connection."""

    __slots__ = (
        "drained",
        "encrypts",
        "is_collecting",
        "is_counted",
        "is_sending",
        "nowait",
        "scope",
        "sending",
        "wake",
    )

    def __init__(self, stream: trio.abc.Stream, scope: trio.CancelScope) -> None:
        self.nowait = stream if isinstance(stream, NowaitStream) else None
        self.scope = scope
        self.wake = trio.Event()
        self.drained = trio.Event()
        self.is_sending = False
        self.sending = 0  # bytes that the writer task has taken from the connection, and their encrypted copy
        self.encrypts = isinstance(stream, trio.SSLStream)
        self.is_counted = False  # it holds a part of the sum over all connections
        self.is_collecting = False  # the last read brought several frames, so as many tasks are about to send again


class StreamDriver:
    """Driver of streams; :meth:`serve_stream` runs as long as its connection."""

    def __init__(
        self,
        *,
        dispatcher: Dispatcher,
        limits: ConnectionLimits,
        start_task: Callable[..., bool],
        on_end: Callable[[Connection], None],
        held: ProgramBytes,
        refusals: RefusalLog,
    ) -> None:
        self._dispatcher = dispatcher
        self._burst = dispatcher.burst
        self._limits = limits
        self.start_task = start_task
        self._on_end = on_end  # called in the middle of a send, so it may only record the end
        self._incoming = held.incoming
        self._unread = held.outgoing
        self._refusals = refusals
        self._writers: dict[Connection, _Writer] = {}

    @property
    def connections(self) -> list[Connection]:
        """The open connections."""
        return list(self._writers)

    async def serve_stream(
        self,
        stream: trio.abc.Stream,
        address: tuple[str, int],
        *,
        task_status: trio.TaskStatus[Connection] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve one peer until the connection ends, by either side or an error; closes the stream."""
        connection = Connection(
            address=address,
            dispatcher=self._dispatcher,
            transport=self,
            limits=self._limits,
            now=trio.current_time(),
        )
        connection.local = _local_address(stream)
        try:
            with trio.CancelScope() as scope:
                writer = _Writer(stream, scope)
                self._writers[connection] = writer
                task_status.started(connection)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write, stream, connection, writer)
                    await self._read(stream, connection, writer)
                    nursery.cancel_scope.cancel()
        finally:
            self.end(connection)
            await trio.aclose_forcefully(stream)

    # ---- Transport ------------------------------------------------------------------------------------------------

    def flush(self, connection: Connection) -> None:
        """Send at once if this is the only request, or wake the writer task of the connection."""
        writer = self._writers.get(connection)
        if writer is None:
            return
        is_alone = connection.in_flight_count <= 1 and not writer.is_collecting
        if is_alone and writer.nowait is not None and not writer.is_sending:
            self._send_nowait(connection, writer.nowait)
            if not connection.outgoing_size:
                if writer.is_counted:
                    self._account(connection, writer)
                return
        if connection.outgoing_size > self._limits.outgoing_bytes_max:
            _log.warning("%s does not read its replies: %d bytes wait", connection.peer, connection.outgoing_size)
            self.end(connection)
            return
        # Else the writer task takes all of it in its next turn, and counts it.
        if writer.is_sending or connection.outgoing_size > WRITE_SIZE:
            self._account(connection, writer)
        writer.wake.set()

    def has_room(self, size: int) -> bool:
        """Whether so many bytes more fit into what all peers may leave unread."""
        return self._unread.has_room(size)

    def end(self, connection: Connection) -> None:
        """Remove the connection now and cancel its tasks, which close the stream on their way out."""
        writer = self._writers.pop(connection, None)
        if writer is not None:
            self._incoming.forget(connection)
            self._unread.forget(connection)
            connection.mark_closed()
            self._on_end(connection)
            writer.scope.cancel()

    def _account(self, connection: Connection, writer: _Writer) -> None:
        size = connection.unread_size + writer.sending
        writer.is_counted = size > 0
        self._unread.hold(connection, size)

    def _send_nowait(self, connection: Connection, stream: NowaitStream) -> None:
        piece = connection.take_piece(WRITE_SIZE)
        sent = stream.send_nowait(piece)
        if sent:
            connection.last_active = trio.current_time()
        if sent < len(piece):
            connection.put_back_outgoing(memoryview(piece)[sent:])

    # ---- the two tasks --------------------------------------------------------------------------------------------

    async def _read(self, stream: trio.abc.Stream, connection: Connection, writer: _Writer) -> None:
        try:
            while True:
                while not connection.wants_reading:
                    await self._drained(connection, writer)
                chunk = await stream.receive_some(READ_SIZE)
                if not chunk:
                    break
                connection.last_active = trio.current_time()
                connection.receive(bytes(chunk))
                if not await self._serve(connection, writer):
                    break
                self._incoming.hold(connection, connection.buffered_size)
        except RemoteProtocolError as failure:
            self._refuse(connection, failure)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as failure:
            _log.debug("reading from %s failed: %r", connection.peer, failure)
            return
        with trio.move_on_after(FAREWELL_SECONDS):
            await self._drained(connection, writer)

    async def _serve(self, connection: Connection, writer: _Writer) -> bool:
        """Serve the received frames, one slice at a time; False when the connection is to be closed."""
        more, received_before = True, connection.frames_received
        while more:
            # A burst per slice: after it other connections have their turn, and its replies need not wait for more.
            is_over = functools.partial(_is_past, trio.current_time() + SLICE_SECONDS)
            with self._burst:
                try:
                    more = connection.serve(SLICE_FRAMES, is_over)
                except Exception as failure:
                    self._refuse(connection, failure)
                    return False
            writer.is_collecting = connection.frames_received > received_before + 1
            if more or writer.is_collecting:  # else the next read lets others have their turn
                await trio.lowlevel.checkpoint()
                while more and not connection.wants_reading:
                    await self._drained(connection, writer)
        return True

    def _refuse(self, connection: Connection, failure: Exception) -> None:
        if isinstance(failure, RemoteProtocolError):
            host = host_of(connection.peer)
            self._refusals.warn(
                host, "%s is not RocketMQ's protocol: %s; its connection is closed", connection.peer, failure
            )
        else:
            contain(failure, _log, "serving %s, whose connection is closed,", connection.peer)

    async def _drained(self, connection: Connection, writer: _Writer) -> None:
        """Wait until everything queued has been passed to the stream."""
        while writer.is_sending or connection.outgoing_size:
            writer.drained = trio.Event()
            await writer.drained.wait()

    async def _write(self, stream: trio.abc.Stream, connection: Connection, writer: _Writer) -> None:
        try:
            while True:
                await writer.wake.wait()
                writer.wake = trio.Event()
                # A burst does not await, so may_send is False here only after one has failed: nothing is sent again.
                while connection.outgoing_size and self._burst.may_send:
                    writer.is_sending = True
                    piece = memoryview(connection.take_piece(WRITE_SIZE))
                    writer.sending = memory_of(piece) + (min(len(piece), WRITE_SIZE) if writer.encrypts else 0)
                    self._account(connection, writer)
                    for start in range(0, len(piece), WRITE_SIZE):
                        await stream.send_all(piece[start : start + WRITE_SIZE])
                        connection.last_active = trio.current_time()
                    writer.sending = 0
                writer.is_sending = False
                self._account(connection, writer)
                writer.drained.set()
        except (trio.BrokenResourceError, trio.ClosedResourceError) as failure:
            _log.debug("sending to %s failed: %r", connection.peer, failure)
            writer.scope.cancel()


def _local_address(stream: trio.abc.Stream) -> str:
    """Return the near end of a stream as ``Connection.local`` has it."""
    if isinstance(stream, trio.SSLStream):
        stream = stream.transport_stream
    return local_address_of(stream.socket) if isinstance(stream, trio.SocketStream) else ""


def _is_past(deadline: float) -> bool:
    return trio.current_time() > deadline
