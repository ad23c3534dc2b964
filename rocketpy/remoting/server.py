"""Accepts connections and drives them: the listening side of a broker or nameserver.

Plain sockets go to the hub where the platform has epoll, else to the stream driver; both drive the same state machine.
A connection whose first byte is TLS's goes to the stream driver, by way of its handshake, on the same port.
Closing is structured: when :meth:`RemotingServer.run` is cancelled, its listeners, connections and tasks are gone.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Callable, Sequence

import attrs
import trio

from rocketpy.errors import StartError
from rocketpy.remoting.config import NettyServerConfig
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.remoting.ended_connections import EndedConnections
from rocketpy.remoting.hub import Hub
from rocketpy.remoting.incoming_bytes import IncomingBytes
from rocketpy.remoting.stream_driver import StreamDriver
from rocketpy.remoting.task_pool import TaskPool
from rocketpy.remoting.tls import ServerTls
from rocketpy.remoting.tls_acceptor import TlsAcceptor

ACCEPTS_PER_WAKE_UP = 64
IDLE_SWEEP_SECONDS = 10.0
ACCEPT_RETRY_SECONDS = 0.1

_log = logging.getLogger("rocketpy.remoting")


@attrs.frozen(kw_only=True)
class RemotingServerStatistics:
    """Counters since the server was made, and what is open now."""

    connections: int
    accepted_count: int
    refused_count: int
    idle_closed_count: int
    tls_refused_count: int  # connections that tls.server.mode does not allow, and failed handshakes
    tasks: int


async def open_listeners(host: str | None, port: int, backlog: int = 1024) -> list[socket.socket]:
    """Bind and listen; ``host`` None or "" means every address, port 0 lets the system choose.

    Raises StartError that names the address when it is in use, not ours or not permitted.
    """
    listener = socket.socket(socket.AF_INET6 if host and ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setblocking(False)
        listener.bind((host or "", port))
        listener.listen(backlog)
    except OSError as failure:
        listener.close()
        where = f"{host or 'every address'}, port {port}"
        if failure.errno == errno.EADDRINUSE:
            raise StartError(f"cannot listen on {where}: another process uses it") from failure
        raise StartError(f"cannot listen on {where}: {failure.strerror}") from failure
    except OverflowError as failure:
        listener.close()
        raise StartError(f"cannot listen on port {port}: expected a port from 0 to 65535") from failure
    return [listener]


class RemotingServer:
    """One listening address (or several) with one dispatcher. Made with open listeners; serves in :meth:`run`."""

    def __init__(
        self,
        *,
        listeners: Sequence[socket.socket],
        dispatcher: Dispatcher,
        config: NettyServerConfig,
        on_close: Callable[[Connection], None] | None = None,
        tls: ServerTls | None = None,
        use_hub: bool | None = None,
    ) -> None:
        """Without ``tls`` the server speaks none; one may be shared by several servers."""
        assert listeners, "a server without a listener"
        self._listeners = list(listeners)
        self._config = config
        self._burst = dispatcher.burst
        self._ended = EndedConnections(on_close)
        self._tasks = TaskPool()
        limits = config.limits()
        incoming = IncomingBytes(config.incoming_bytes_max)
        self._stream_driver = StreamDriver(
            dispatcher=dispatcher,
            limits=limits,
            start_task=self._tasks.start,
            on_end=self._ended.add,
            incoming=incoming,
        )
        self._acceptor = TlsAcceptor(tls=tls, serve_stream=self._stream_driver.serve_stream)
        self._hub: Hub | None = None
        if Hub.is_supported() if use_hub is None else use_hub:
            self._hub = Hub(
                dispatcher=dispatcher,
                limits=limits,
                start_task=self._tasks.start,
                on_end=self._ended.add,
                incoming=incoming,
                allows=self._acceptor.allows,
                take_tls=self._take_tls,
            )
        self._nursery: trio.Nursery | None = None
        self._accepted_count = 0
        self._refused_count = 0
        self._idle_closed_count = 0

    @property
    def port(self) -> int:
        """The port that the first listener is bound to."""
        port = self._listeners[0].getsockname()[1]
        assert isinstance(port, int)
        return port

    @property
    def connections(self) -> list[Connection]:
        """The open connections."""
        hubbed = self._hub.connections if self._hub is not None else []
        return hubbed + self._stream_driver.connections

    def flush_replies(self) -> None:
        """Send what deferred replies have queued: once per batch, by whoever gave them."""
        self._burst.flush_replies()

    def stop_accepting(self) -> None:
        """Close the listeners; connections go on. The first step of a shutdown."""
        for listener in self._listeners:
            trio.lowlevel.notify_closing(listener)
            listener.close()

    def statistics(self) -> RemotingServerStatistics:
        """Return the counters."""
        return RemotingServerStatistics(
            connections=len(self.connections),
            accepted_count=self._accepted_count,
            refused_count=self._refused_count,
            idle_closed_count=self._idle_closed_count,
            tls_refused_count=self._acceptor.refused_count,
            tasks=self._tasks.running_count,
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
                    nursery.start_soon(self._accept, listener)
                task_status.started()
        finally:
            self._nursery = self._tasks.nursery = None
            for listener in self._listeners:
                listener.close()
            self._ended.finish()

    # ---- private --------------------------------------------------------------------------------------------------

    async def _accept(self, listener: socket.socket) -> None:
        """Accept until the listener is closed; out of descriptors means waiting, never ending."""
        while True:
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
                    _log.warning("cannot accept a connection: %s", failure.strerror)
                    await trio.sleep(ACCEPT_RETRY_SECONDS)
                    break
                self._take(sock, (address[0], address[1]))

    def _take(self, sock: socket.socket, address: tuple[str, int]) -> None:
        if len(self.connections) + self._acceptor.under_way_count >= self._config.connections_max:
            self._refused_count += 1
            if self._refused_count & (self._refused_count - 1) == 0:  # once, twice, four times, ...
                _log.warning("refused %s: %d connections are open", address[0], self._config.connections_max)
            sock.close()
            return
        self._accepted_count += 1
        set_socket_options(sock, self._config.server_socket_snd_buf_size, self._config.server_socket_rcv_buf_size)
        if self._hub is not None:
            self._hub.add(sock, address)
            return
        assert self._nursery is not None
        patience_seconds = self._config.server_channel_max_idle_time_seconds
        self._nursery.start_soon(self._acceptor.serve_either, _stream(sock), address, patience_seconds)

    def _take_tls(self, sock: socket.socket, address: tuple[str, int]) -> None:
        """Shake hands with a connection that the hub has handed back."""
        assert self._nursery is not None
        self._nursery.start_soon(self._acceptor.serve_tls, _stream(sock), address)

    async def _close_idle(self) -> None:
        """Close what has neither sent nor received for the configured time (120 s, as in RocketMQ)."""
        idle_seconds = self._config.server_channel_max_idle_time_seconds
        while True:
            await trio.sleep(min(IDLE_SWEEP_SECONDS, max(1.0, idle_seconds / 4)))
            oldest = trio.current_time() - idle_seconds
            for connection in self.connections:
                if connection.last_active < oldest:
                    self._idle_closed_count += 1
                    connection.close()


def _stream(sock: socket.socket) -> trio.SocketStream:
    sock.setblocking(False)
    return trio.SocketStream(trio.socket.from_stdlib_socket(sock))


async def _run_hub(hub: Hub, *, task_status: trio.TaskStatus[None]) -> None:
    await hub.run(task_status=task_status)


def set_socket_options(sock: socket.socket, send_buffer_size: int, receive_buffer_size: int) -> None:
    """No delay, and buffer sizes where they are configured (0 leaves them to the system)."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if send_buffer_size:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_size)
    if receive_buffer_size:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_size)
