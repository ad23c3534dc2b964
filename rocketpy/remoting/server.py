"""Server side of remoting: accepts the connections of a broker or nameserver and drives them.

Plain sockets go to the hub where the platform has epoll, else to the stream driver; both drive the same state machine.
A connection that starts with a TLS ClientHello goes, after its handshake, to the stream driver, on the same port.
On a network without sockets every connection goes to the stream driver; TLS is detected on sockets only.
Shutdown is structured: when :meth:`RemotingServer.run` is cancelled, its listeners, connections and tasks are gone.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence

import attrs
import trio

from rocketpy.containment import Contained
from rocketpy.log_files import is_logged
from rocketpy.protocol.host import host_of
from rocketpy.remoting.config import IDLE_SWEEP_SECONDS, NettyServerConfig
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.remoting.ended_connections import EndedConnections
from rocketpy.remoting.hub import Hub
from rocketpy.remoting.limits.connection_budget import ConnectionBudget
from rocketpy.remoting.limits.held_bytes import ProgramBytes, program_bytes
from rocketpy.remoting.limits.refusal_log import RefusalLog
from rocketpy.remoting.lull import LULL_SECONDS
from rocketpy.remoting.network import Address, Listener, peer_of, socket_stream
from rocketpy.remoting.stream_driver import StreamDriver
from rocketpy.remoting.task_pool import TaskPool
from rocketpy.remoting.tls.acceptor import TlsAcceptor
from rocketpy.remoting.tls.contexts import ServerTls
from rocketpy.ticks import next_tick

ACCEPTS_PER_WAKE_UP = 64
ACCEPT_RETRY_SECONDS = 0.1

_NOT_TLS = b"\0"

_log = logging.getLogger("rocketpy.remoting")


@attrs.frozen(kw_only=True)
class RemotingServerStatistics:
    """Counters since the server was created, and the connections, handshakes and tasks of this moment."""

    connections: int
    accepted_count: int
    refused_count: int
    idle_closed_count: int
    late_closed_count: int  # connections that missed the deadline for their first frame or for an unfinished one
    tls_refused_count: int  # connections that tls.server.mode does not allow, and failed handshakes
    tls_handshakes: int  # in progress
    tasks: int
    unread_bytes: int  # of all ports of the program


class RemotingServer:
    """One or more listening addresses with one dispatcher. Takes open listeners; serves in :meth:`run`."""

    def __init__(
        self,
        *,
        listeners: Sequence[Listener],
        dispatcher: Dispatcher,
        config: NettyServerConfig,
        on_close: Callable[[Connection], None] | None = None,
        tls: ServerTls | None = None,
        budget: ConnectionBudget | None = None,
        held: ProgramBytes | None = None,
        use_hub: bool | None = None,
        lull_seconds: float = LULL_SECONDS,
    ) -> None:
        """Without ``tls`` the server refuses TLS. Several servers of one program share ``tls``, ``budget``
        and ``held``.

        ``lull_seconds`` is that of the hub: 0 where peers wait for tasks.
        """
        assert listeners, "a server without a listener"
        self._listeners = list(listeners)
        self._config = config
        self._burst = dispatcher.burst
        self._ended = EndedConnections(on_close)
        self._budget = budget or ConnectionBudget(config.connections_max, config.connections_per_address_max)
        self._refusals = RefusalLog()
        self._tasks = TaskPool()
        limits = config.limits()
        held = held or program_bytes(config)
        self._unread = held.outgoing
        self._stream_driver = StreamDriver(
            dispatcher=dispatcher,
            limits=limits,
            start_task=self._tasks.start,
            on_end=self._ended.add,
            held=held,
            refusals=self._refusals,
        )
        self._acceptor = TlsAcceptor(tls=tls, serve_stream=self._stream_driver.serve_stream, refusals=self._refusals)
        self._hub: Hub | None = None
        if Hub.is_supported() if use_hub is None else use_hub:
            self._hub = Hub(
                dispatcher=dispatcher,
                limits=limits,
                start_task=self._tasks.start,
                on_end=self._hub_ended,
                held=held,
                refusals=self._refusals,
                allows=self._acceptor.allows,
                take_tls=self._take_tls,
                lull_seconds=lull_seconds,
            )
        self._nursery: trio.Nursery | None = None
        self._accepted_count = 0
        self._refused_count = 0
        self._idle_closed_count = 0
        self._late_closed_count = 0
        self._unfinished: dict[Connection, tuple[int, float]] = {}  # frames before the unfinished one, first seen at
        self._spare = _spare_descriptor()

    @property
    def port(self) -> int:
        """The port that the first listener is bound to."""
        return self._listeners[0].port

    @property
    def connections(self) -> list[Connection]:
        """The open connections."""
        hubbed = self._hub.connections if self._hub is not None else []
        return hubbed + self._stream_driver.connections

    def flush_replies(self) -> None:
        """Send queued deferred replies; the component that gave them calls this once per batch."""
        self._burst.flush_replies()

    def stop_accepting(self) -> None:
        """Close the listeners; connections go on. The first step of a shutdown."""
        for listener in self._listeners:
            listener.close()

    def statistics(self) -> RemotingServerStatistics:
        """Return the counters."""
        return RemotingServerStatistics(
            connections=len(self.connections),
            accepted_count=self._accepted_count,
            refused_count=self._refused_count,
            idle_closed_count=self._idle_closed_count,
            late_closed_count=self._late_closed_count,
            tls_refused_count=self._acceptor.refused_count,
            tls_handshakes=self._acceptor.under_way_count,
            tasks=self._tasks.running_count,
            unread_bytes=self._unread.size,
        )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Accept and serve until cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = self._tasks.nursery = nursery
                if self._hub is not None:
                    await nursery.start(_run_hub, self._hub)
                nursery.start_soon(self._ended.run)
                nursery.start_soon(self._close_idle)
                for listener in self._listeners:
                    if listener.sock is not None:
                        nursery.start_soon(self._accept, listener.sock)
                    else:
                        nursery.start_soon(self._accept_streams, listener)
                task_status.started()
        finally:
            self._nursery = self._tasks.nursery = None
            for listener in self._listeners:
                listener.close()
            if self._spare is not None:
                self._spare.close()
            self._ended.finish()

    # ---- private --------------------------------------------------------------------------------------------------

    async def _accept(self, listener: socket.socket) -> None:
        """Accept until the listener is closed. Running out of descriptors refuses peers and retries, and never ends."""
        while listener.fileno() >= 0:  # it may be closed during the pause after a refusal
            try:
                await trio.lowlevel.wait_readable(listener)
            except trio.ClosedResourceError:
                return
            for _ in range(ACCEPTS_PER_WAKE_UP):
                try:
                    sock, address = listener.accept()
                except BlockingIOError:
                    break
                except OSError as failure:
                    if failure.errno == errno.EBADF:  # closed by stop_accepting
                        return
                    self._refuse_waiting(listener, failure)
                    await trio.sleep(ACCEPT_RETRY_SECONDS)
                    break
                self._take(sock, peer_of(address))

    async def _accept_streams(self, listener: Listener) -> None:
        """Accept, until the listener is closed, connections that are not sockets; they count as not TLS."""
        assert self._nursery is not None
        while True:
            try:
                stream, address = await listener.accept()
            except trio.ClosedResourceError:
                return
            if self._acceptor.allows(_NOT_TLS, address) and self._admits(address):
                self._nursery.start_soon(self._serve_accepted, stream, address)
            else:
                await trio.aclose_forcefully(stream)

    def _refuse_waiting(self, listener: socket.socket, failure: OSError) -> None:
        """Accept and close waiting connections, using the spare descriptor.

        Otherwise peers would wait for their timeout, and the listener would stay readable and keep this loop busy.
        """
        self._note_refused("a peer", f"cannot accept a connection: {failure.strerror}")
        if failure.errno not in (errno.EMFILE, errno.ENFILE) or self._spare is None:
            return
        self._spare.close()
        try:
            for _ in range(ACCEPTS_PER_WAKE_UP):
                listener.accept()[0].close()
                self._refused_count += 1
        except OSError:  # none is left, or another task took the descriptor
            pass
        self._spare = _spare_descriptor()

    def _admits(self, address: Address) -> bool:
        """Count a new connection; False when there are too many, which is logged."""
        why = self._budget.take(address[0])
        if why is not None:
            self._note_refused(address[0], why)
            return False
        self._accepted_count += 1
        return True

    def _take(self, sock: socket.socket, address: Address) -> None:
        if not self._admits(address):
            sock.close()
            return
        with Contained(_log, "taking the connection of %s:%d", *address) as work:
            set_socket_options(sock, self._config.server_socket_snd_buf_size, self._config.server_socket_rcv_buf_size)
            if self._hub is not None:
                self._hub.add(sock, address)
            else:
                self._start_stream(self._acceptor.serve_either, sock, address, self._patience_seconds)
        if work.has_failed:
            self._budget.release(address[0])
            sock.close()

    def _note_refused(self, host: str, why: str) -> None:
        self._refused_count += 1
        if is_logged(self._refused_count):
            _log.warning("refused %s: %s", host, why)

    def _take_tls(self, sock: socket.socket, address: Address) -> None:
        """Start the TLS handshake of a connection that the hub has handed back."""
        self._start_stream(self._acceptor.serve_tls, sock, address)

    def _start_stream(
        self, serve: Callable[..., Awaitable[None]], sock: socket.socket, address: Address, *arguments: object
    ) -> None:
        assert self._nursery is not None
        self._nursery.start_soon(self._serve_stream, serve, socket_stream(sock), address, *arguments)

    async def _serve_stream(
        self,
        serve: Callable[..., Awaitable[None]],
        stream: trio.SocketStream,
        address: Address,
        *arguments: object,
    ) -> None:
        """Serve a stream in its own task; a bug in that ends this connection only."""
        try:
            with Contained(_log, "serving %s:%d", *address):
                await serve(stream, address, *arguments)
        finally:
            stream.socket.close()
            self._budget.release(address[0])

    async def _serve_accepted(self, stream: trio.abc.Stream, address: Address) -> None:
        """Serve a stream that is not a socket; the stream driver closes it."""
        try:
            with Contained(_log, "serving %s:%d", *address):
                await self._stream_driver.serve_stream(stream, address)
        finally:
            self._budget.release(address[0])

    def _hub_ended(self, connection: Connection) -> None:
        self._budget.release(host_of(connection.peer))
        self._ended.add(connection)

    @property
    def _patience_seconds(self) -> float:
        return min(self._config.server_channel_max_idle_time_seconds, self._config.connection_first_frame_seconds)

    async def _close_idle(self) -> None:
        """Close idle connections (120 s, as in RocketMQ) and those whose frame misses its deadline."""
        period = min(IDLE_SWEEP_SECONDS, max(1.0, self._patience_seconds / 4))
        while True:
            await trio.sleep_until(next_tick(period))
            self._sweep(trio.current_time())

    def _sweep(self, now: float) -> None:
        oldest = now - self._config.server_channel_max_idle_time_seconds
        unfinished, self._unfinished = self._unfinished, {}
        for connection in self.connections:
            if connection.last_active < oldest:
                self._idle_closed_count += 1
                connection.close()
            elif self._is_late(connection, unfinished.get(connection), now):
                self._late_closed_count += 1
                self._refusals.warn(
                    host_of(connection.peer),
                    "%s takes too long to send a frame; its connection is closed",
                    connection.peer,
                )
                connection.close()

    def _is_late(self, connection: Connection, begun: tuple[int, float] | None, now: float) -> bool:
        """Whether a frame has missed its deadline. Checked only in the sweep, so that it costs nothing per message."""
        frames = connection.frames_received
        if frames == 0 and now - connection.opened_at >= self._config.connection_first_frame_seconds:
            return True
        if not connection.buffered_size or not connection.wants_reading:
            return False  # nothing unfinished, or reading is paused by backpressure
        since = now if begun is None or begun[0] != frames else begun[1]
        self._unfinished[connection] = (frames, since)
        return now - since >= self._config.connection_frame_seconds


def _spare_descriptor() -> socket.socket | None:
    """Return a descriptor to release when accepting fails for lack of one; None when not even this is available."""
    try:
        return socket.socket()
    except OSError:
        return None


async def _run_hub(hub: Hub, *, task_status: trio.TaskStatus[None]) -> None:
    await hub.run(task_status=task_status)


def set_socket_options(sock: socket.socket, send_buffer_size: int, receive_buffer_size: int) -> None:
    """Set TCP_NODELAY, and the configured buffer sizes (0 keeps the system's default)."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if send_buffer_size:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_size)
    if receive_buffer_size:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_size)
