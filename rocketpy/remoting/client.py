"""Client side of remoting: one connection per address, opened on demand and reopened after it ended.

Responses are matched by opaque; a response after the timeout is dropped. Nothing is retried here: only the caller knows
whether a request may be repeated. A server may send requests too; they go to the client's dispatcher.

Compatibility: ``NettyRemotingClient`` (4.9.8) closes the shared connection when a request times out
(``clientCloseSocketIfTimeout``), which fails every other request on it; so do we while that setting is on, unless the
event loop was blocked.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager

import trio

from rocketpy.errors import LocalProtocolError, RemotingConnectError, RemotingSendRequestError, RemotingTimeoutError
from rocketpy.forks import OTHER_PROCESS, Birthplace
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.host import plain_address
from rocketpy.remoting.arrivals import LATE_SECONDS
from rocketpy.remoting.config import IDLE_SWEEP_SECONDS, NettyClientConfig, TlsClientConfig
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import AsyncProcessor, Dispatcher, Processor
from rocketpy.remoting.home import Home
from rocketpy.remoting.limits.held_bytes import ProgramBytes, unfinished_frames, unread_answers
from rocketpy.remoting.limits.refusal_log import RefusalLog
from rocketpy.remoting.network import Address, Network, SocketNetwork, split_address
from rocketpy.remoting.nowait_stream import nowait_stream
from rocketpy.remoting.stream_driver import StreamDriver
from rocketpy.remoting.task_pool import TaskPool
from rocketpy.remoting.tls.contexts import client_context

_log = logging.getLogger("rocketpy.remoting")

BeforeRequest = Callable[[RemotingCommand, str], None]
"""Takes a request and the numeric address of its server, HOST:PORT."""

INCOMING_BYTES_MAX = 256 << 20
"""Limit on unfinished frames over all servers; above it the connection that holds most is closed."""

OUTGOING_BYTES_MAX = 1 << 30
"""Limit on what servers have not read, over all of them; above it the connection that holds most is closed. It is the
program's own requests, of which each connection holds 64 MiB at most."""


@asynccontextmanager
async def open_remoting_client(
    *,
    config: NettyClientConfig | None = None,
    tls: TlsClientConfig | None = None,
    before_request: BeforeRequest | None = None,
    network: Network | None = None,
) -> AsyncIterator[RemotingClient]:
    """Open a client whose connections and tasks end with the block. ``before_request`` may sign each request.

    When the block is cancelled from outside they end last: what the block still does on its way out, shielded, reaches
    its peers. Without ``network`` connections are TCP sockets.

    Connections use TLS if ``config.use_tls`` is true or, where it is None, if ``tls.enable`` is. SettingsError when a
    file that ``tls`` names cannot be used.
    """
    config, tls = config or NettyClientConfig(), tls or TlsClientConfig()
    uses_tls = tls.enable if config.use_tls is None else config.use_tls
    context = client_context(tls) if uses_tls else None
    async with trio.open_nursery() as outer:
        nursery: trio.Nursery = await outer.start(_run_shielded_nursery)
        client = RemotingClient(
            nursery=nursery,
            config=config,
            tls_context=context,
            before_request=before_request,
            network=network or SocketNetwork(),
        )
        nursery.start_soon(client.close_idle)
        try:
            yield client
        finally:
            client.is_closed = True
            nursery.cancel_scope.cancel()


async def _run_shielded_nursery(*, task_status: trio.TaskStatus[trio.Nursery]) -> None:
    """Pass on a nursery that only its own cancel scope cancels."""
    # Trio keeps a task whose start() is cancelled where it is, and waits for it to end: a shielded one never would.
    await trio.lowlevel.checkpoint_if_cancelled()
    with trio.CancelScope(shield=True):
        async with trio.open_nursery() as nursery:
            task_status.started(nursery)
            await trio.sleep_forever()


class RemotingClient:
    """Requests by address. Created by :func:`open_remoting_client`."""

    def __init__(
        self,
        *,
        nursery: trio.Nursery,
        config: NettyClientConfig,
        tls_context: ssl.SSLContext | None,
        network: Network,
        before_request: BeforeRequest | None = None,
    ) -> None:
        self.home = Home()
        """Context of everything that the client starts, whichever request needs it first."""
        self._nursery = nursery
        self._network = network
        self._before_request = before_request
        self._config = config
        self._tls_context = tls_context
        self._dispatcher = Dispatcher(unsupported_log=_log_unsupported)
        self._driver = StreamDriver(
            dispatcher=self._dispatcher,
            limits=config.limits(),
            start_task=TaskPool(nursery=nursery).start,
            on_end=self._forget,
            held=ProgramBytes(
                incoming=unfinished_frames(INCOMING_BYTES_MAX, "INCOMING_BYTES_MAX"),
                outgoing=unread_answers(OUTGOING_BYTES_MAX, "OUTGOING_BYTES_MAX"),
            ),
            refusals=RefusalLog(),
        )
        self._birthplace = Birthplace()
        self.is_closed = False
        """Whether the block has ended: no connection is made any more."""
        self._connections: dict[str, Connection] = {}
        # One caller connects while the others wait: connecting awaits, and two callers must share one connection.
        self._connecting: dict[str, trio.Lock] = {}
        self._end_listeners: list[Callable[[str], None]] = []

    def register(self, codes: int | Iterable[int], processor: Processor) -> None:
        """Serve requests that a server sends over the client's connections."""
        self._dispatcher.register(codes, processor)

    def register_task(self, codes: int | Iterable[int], processor: AsyncProcessor) -> None:
        """Serve requests that a server sends, each in a task of its own, which may wait."""
        self._dispatcher.register_task(codes, processor)

    async def request(
        self, address: str, request: RemotingCommand, timeout_s: float = 3.0, *, is_signed: bool = True
    ) -> RemotingCommand:
        """Send a request, signed if the client signs requests, and return its response, whatever its code.

        Raises RemotingConnectError, RemotingTimeoutError (connecting included), RemotingSendRequestError when the
        connection ended meanwhile, and RemotingTooMuchRequestError.
        """
        deadline = trio.current_time() + timeout_s
        connection = await self.connect(address, timeout_s)
        if is_signed:
            self.sign(request, connection)
        try:
            return await connection.request(request, max(0.0, deadline - trio.current_time()))
        except RemotingTimeoutError:
            self.note_timeout(connection, deadline)
            raise

    async def oneway(self, address: str, request: RemotingCommand) -> None:
        """Send a request without an answer; waits only for the connection."""
        connection = await self.connect(address, self._config.connect_timeout_millis / 1000)
        if connection.is_closed:
            raise RemotingSendRequestError(f"the connection to {address} is closed")
        self.sign(request, connection)
        connection.oneway(request)

    async def connect(self, address: str, timeout_s: float) -> Connection:
        """Return the open connection to an address, or open one; RemotingConnectError when that fails.

        LocalProtocolError when the client's block has ended, and in a child of the process that has opened the client.
        """
        if not self._birthplace.is_here:
            raise LocalProtocolError(OTHER_PROCESS)
        connection = self._connections.get(address)
        if connection is not None and not connection.is_closed:
            return connection
        if self.is_closed:
            raise LocalProtocolError(f"no connection to {address} is made: the client's block has ended")
        lock = self._connecting.setdefault(address, trio.Lock())
        with trio.move_on_after(min(timeout_s, self._config.connect_timeout_millis / 1000)):
            try:
                async with lock:
                    connection = self._connections.get(address)
                    if connection is None or connection.is_closed:
                        connection = await self._connect(address)
                    return connection
            finally:
                if not lock.locked():  # the last one that waited
                    self._connecting.pop(address, None)
        raise RemotingConnectError(f"cannot connect to {address}: no answer in {timeout_s:g} s")

    @property
    def signs_requests(self) -> bool:
        """Whether :meth:`sign` has to see each request; frames encoded in another way are not signed."""
        return self._before_request is not None

    def sign(self, request: RemotingCommand, connection: Connection) -> None:
        """Sign a request for the peer of a connection, if the client signs them; it must not change afterwards."""
        if self._before_request is not None:
            self._before_request(request, plain_address(connection.peer))

    def note_timeout(self, connection: Connection, deadline: float) -> None:
        """Close a connection on which a request was not answered by its deadline, where that is set.

        Not if this is called long after it: the loop was blocked, and the peer may be well.
        """
        is_late = trio.current_time() - deadline > LATE_SECONDS
        if self._config.client_close_socket_if_timeout and not is_late:
            connection.close()

    def close_connection(self, address: str) -> None:
        """Close the connection to an address, if there is one; the next request opens a new one."""
        connection = self._connections.get(address)
        if connection is not None:
            connection.close()

    def connection(self, address: str) -> Connection | None:
        """Return the open connection to an address, if there is one; a child of the process has none."""
        return self._connections.get(address) if self._birthplace.is_here else None

    @property
    def frames_received(self) -> int:
        """Number of frames that the open connections have brought."""
        return sum(connection.frames_received for connection in self._connections.values())

    @contextmanager
    def reporting_ends(self, listener: Callable[[str], None]) -> Iterator[None]:
        """Call a listener with the address of each connection that ends while the block runs.

        That may be in the middle of a send, so the listener may only record it.
        """
        self._end_listeners.append(listener)
        try:
            yield
        finally:
            self._end_listeners.remove(listener)

    async def close_idle(self) -> None:
        """Close connections without traffic for ``clientChannelMaxIdleTimeSeconds``; runs until cancelled."""
        while True:
            await trio.sleep(IDLE_SWEEP_SECONDS)
            oldest = trio.current_time() - self._config.client_channel_max_idle_time_seconds
            for connection in list(self._connections.values()):
                if connection.last_active < oldest:
                    connection.close()

    # ---- private --------------------------------------------------------------------------------------------------

    async def _connect(self, address: str) -> Connection:
        plain = await self._network.connect(address)
        peer = split_address(address)
        if isinstance(plain, trio.SocketStream):
            self._set_buffers(plain)
            peer = _peer_address(plain, peer)
            if self._tls_context is None:
                plain = nowait_stream(plain)
        stream = plain if self._tls_context is None else await _tls_stream(plain, self._tls_context, address)
        connection: Connection = await self._nursery.start(self._serve, stream, peer)
        self._connections[address] = connection
        return connection

    def _set_buffers(self, stream: trio.SocketStream) -> None:
        """Set the configured sizes of the socket's buffers; 0 keeps the system's default."""
        sizes = {
            socket.SO_SNDBUF: self._config.client_socket_snd_buf_size,
            socket.SO_RCVBUF: self._config.client_socket_rcv_buf_size,
        }
        for option, size in sizes.items():
            if size > 0:
                stream.setsockopt(socket.SOL_SOCKET, option, size)

    async def _serve(self, stream: trio.abc.Stream, peer: Address, *, task_status: trio.TaskStatus[Connection]) -> None:
        await self.home.enter()
        await self._driver.serve_stream(stream, peer, task_status=task_status)

    def _forget(self, connection: Connection) -> None:
        for address, known in list(self._connections.items()):
            if known is connection:
                del self._connections[address]
                for listener in self._end_listeners:
                    listener(address)


async def _tls_stream(plain: trio.abc.Stream, context: ssl.SSLContext, address: str) -> trio.abc.Stream:
    """Return a TLS stream over a plain one, after its handshake; closes the plain one if that fails."""
    stream = trio.SSLStream(plain, context, https_compatible=True)
    try:
        await stream.do_handshake()
    except BaseException as failure:
        await trio.aclose_forcefully(plain)
        if isinstance(failure, trio.BrokenResourceError):
            cause = failure.__cause__ or "it closed the connection"
            raise RemotingConnectError(f"cannot connect to {address}: the TLS handshake failed: {cause}") from failure
        raise
    return stream


def _peer_address(stream: trio.SocketStream, asked: Address) -> Address:
    """Return the numeric address of the peer; 0.0.0.0 when it has already gone."""
    try:
        name = stream.socket.getpeername()
    except OSError:
        return ("0.0.0.0", asked[1])
    return (name[0], name[1])


def _log_unsupported(code: int) -> None:
    _log.info("request code %d of a server is not supported by this client", code)
