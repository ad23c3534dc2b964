"""The hub: one task that drives every plain socket of a server through an epoll descriptor of its own.

A Trio task per connection costs a wake-up of about 30 us per request; the hub pays one for as many requests as are
ready. It waits until its epoll descriptor is readable, then serves *every* ready connection without waiting: read once,
serve whole frames, end the burst, one send each.

Rules:
- Fair by time: a burst ends after ``SLICE_FRAMES`` frames and the hub passes a Trio checkpoint after ``SLICE_SECONDS``
  (at the latest when the request that is being served then is done), both also in the middle of one connection's
  frames; what is left over is served first in the next turn.
- Level-triggered, and events are never kept across a checkpoint, because a descriptor may mean another peer by then.
- One guard per connection: garbage, a reset or a bug in serving ends that connection only, after the burst, so that
  what it asked for before is answered. ``StoreError`` and ``AssertionError`` pass: they end the program.
- Ending a connection closes its socket and notes the end; what the program makes of it happens elsewhere.
- A connection that begins with TLS's first byte goes, unread, to the TLS acceptor; the look costs one MSG_PEEK.
- What cannot be sent at once stays in the connection's bounded buffer; it is not looked at until the socket takes bytes
  again, and above a mark the connection is not read meanwhile.
"""

from __future__ import annotations

import logging
import select
import socket
import time
from collections import deque
from collections.abc import Callable

import trio

from rocketpy.containment import contain
from rocketpy.errors import RemoteProtocolError
from rocketpy.remoting.config import ConnectionLimits
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.remoting.incoming_bytes import IncomingBytes
from rocketpy.remoting.refusal_log import RefusalLog
from rocketpy.remoting.tls_acceptor import TLS_HANDSHAKE

SLICE_SECONDS = 0.001
SLICE_FRAMES = 64
READ_SIZE = 65_536
SEND_SIZE = 1 << 20
"""Replies that are joined for one send: a peer that reads slowly must not have the rest copied each time."""
EVENTS_MAX = 256
UNFINISHED_SIZE = 4096
"""A longer part of a frame is counted in what all connections may hold of them."""

_IN = select.EPOLLIN if hasattr(select, "EPOLLIN") else 1
_OUT = select.EPOLLOUT if hasattr(select, "EPOLLOUT") else 4
_GONE = (select.EPOLLHUP | select.EPOLLERR) if hasattr(select, "EPOLLHUP") else 24

_log = logging.getLogger("rocketpy.remoting")


class _Peer:
    """A socket, its connection, and what the hub is waiting for on it."""

    __slots__ = ("address", "backlogged", "connection", "events", "fd", "is_blocked", "is_parked", "is_silent", "sock")

    def __init__(self, sock: socket.socket, address: tuple[str, int], connection: Connection) -> None:
        self.sock = sock
        self.address = address
        self.fd = sock.fileno()
        self.connection = connection
        self.events = _IN
        self.is_silent = True  # its first byte has not come yet
        self.is_blocked = False  # the socket has not taken everything: EPOLLOUT will say that it takes more
        self.backlogged = False  # not read: it has frames to be served first, or is about to be closed
        self.is_parked = False  # backlogged, and not served either until it reads its replies


class Hub:
    """Drives plain sockets; the server hands them over with :meth:`add`."""

    def __init__(
        self,
        *,
        dispatcher: Dispatcher,
        limits: ConnectionLimits,
        start_task: Callable[..., bool],
        on_end: Callable[[Connection], None],
        incoming: IncomingBytes,
        refusals: RefusalLog,
        allows: Callable[[bytes, tuple[str, int]], bool],
        take_tls: Callable[[socket.socket, tuple[str, int]], None],
        monotonic: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._dispatcher = dispatcher
        self._burst = dispatcher.burst
        self._limits = limits
        self.start_task = start_task
        self._on_end = on_end  # called in the middle of a send: only notes
        self._incoming = incoming
        self._refusals = refusals
        self._allows = allows  # whether a connection may begin with this byte
        self._take_tls = take_tls
        self._monotonic = monotonic
        self._deadline = 0.0  # of the present slice
        self._epoll = select.epoll()
        self._peers: dict[int, _Peer] = {}
        self._peer_of: dict[Connection, _Peer] = {}
        self._backlog: deque[_Peer] = deque()
        self._passed_over: dict[int, int] = {}  # who was ready when a turn had no time left: descriptor to place
        self._refused: list[Connection] = []  # to be closed when the burst has ended
        self._now = 0.0  # of the present slice: close enough for idle connections; 0 between slices

    @staticmethod
    def is_supported() -> bool:
        """Whether this platform has epoll; elsewhere the stream driver serves every connection."""
        return hasattr(select, "epoll")

    def add(self, sock: socket.socket, address: tuple[str, int]) -> Connection:
        """Take over an accepted socket."""
        sock.setblocking(False)
        connection = Connection(
            address=address,
            dispatcher=self._dispatcher,
            transport=self,
            limits=self._limits,
            now=trio.current_time(),
        )
        peer = _Peer(sock, address, connection)
        self._epoll.register(peer.fd, _IN)
        self._peers[peer.fd] = peer
        self._peer_of[connection] = peer
        return connection

    @property
    def connections(self) -> list[Connection]:
        """The open connections."""
        return list(self._peer_of)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; closes every connection when it ends."""
        task_status.started()
        monotonic = self._monotonic
        try:
            while True:
                if not self._backlog:
                    await trio.lowlevel.wait_readable(self._epoll.fileno())
                # A wake-up costs as much as several requests: go on while somebody is ready, up to the slice.
                deadline = self._deadline = monotonic() + SLICE_SECONDS
                while self._turn(deadline) and monotonic() < deadline:
                    pass
                self._now = 0.0
                await trio.lowlevel.checkpoint()
        finally:
            for connection in self.connections:
                self.end(connection)
            self._epoll.close()

    # ---- Transport ------------------------------------------------------------------------------------------------

    def flush(self, connection: Connection) -> None:
        """Send what is queued, as far as the socket takes it; the rest waits for EPOLLOUT."""
        peer = self._peer_of.get(connection)
        if peer is None:
            return
        if peer.is_blocked:
            connection.note_flushed()
        elif not self._send(peer):
            return
        if peer.is_blocked and connection.outgoing_size > self._limits.outgoing_bytes_max:
            _log.warning("%s does not read its replies: %d bytes wait", connection.peer, connection.outgoing_size)
            self.end(connection)
        elif peer.is_blocked or peer.is_parked or peer.events != _IN:
            self._watch(peer)

    def end(self, connection: Connection) -> None:
        """Close the socket, forget the connection and note its end. Harmless when already ended."""
        peer = self._peer_of.pop(connection, None)
        if peer is None:
            return
        del self._peers[peer.fd]
        self._incoming.forget(connection)
        peer.sock.close()  # also leaves the epoll set
        connection.mark_closed()
        self._on_end(connection)

    def _send(self, peer: _Peer) -> bool:
        """Send once; False when the connection has ended of it."""
        connection = peer.connection
        outgoing = connection.take_piece(SEND_SIZE)
        try:
            sent = peer.sock.send(outgoing) if outgoing else 0
        except BlockingIOError:
            sent = 0
        except OSError as failure:
            _log.debug("sending to %s failed: %s", connection.peer, failure)
            self.end(connection)
            return False
        if sent:
            connection.last_active = self._now or trio.current_time()
        if sent < len(outgoing):
            connection.put_back_outgoing(memoryview(outgoing)[sent:])
        peer.is_blocked = connection.outgoing_size > 0
        return True

    def _is_over(self) -> bool:
        return self._monotonic() > self._deadline

    # ---- a turn ---------------------------------------------------------------------------------------------------

    def _turn(self, deadline: float) -> bool:
        """Serve leftovers and ready connections, then end the burst; False when nobody was ready."""
        with self._burst:
            was_busy = self._serve_all(deadline)
        if self._refused:
            for connection in self._refused:
                self.end(connection)
            self._refused.clear()
        return was_busy

    def _serve_all(self, deadline: float) -> bool:
        monotonic = self._monotonic
        budget = SLICE_FRAMES
        if self._backlog:
            for _ in range(len(self._backlog)):
                peer = self._backlog.popleft()
                peer.backlogged = False
                if not peer.connection.is_closed:
                    try:
                        budget -= self._serve(peer, budget)
                    except Exception as failure:
                        self._refuse(peer, failure)
                if budget <= 0 or monotonic() > deadline:
                    return True
        ready = self._epoll.poll(0, EVENTS_MAX)
        if ready:
            self._now = trio.current_time()
            if self._passed_over:
                place = self._passed_over.get
                ready.sort(key=lambda event: place(event[0], EVENTS_MAX))
        peers = self._peers
        served = 0
        for fd, events in ready:
            served += 1
            known = peers.get(fd)
            if known is None:  # ended earlier in this turn
                continue
            try:
                if known.is_silent and not self._greet(known, events):
                    continue
                if events & _OUT:
                    known.is_blocked = False
                    known.connection.mark_dirty()  # its replies of this burst must not leave before the burst has ended
                if events & _IN:
                    budget -= self._read(known, budget)
                elif events & _GONE:
                    self.end(known.connection)
            except Exception as failure:
                self._refuse(known, failure)
            if budget <= 0 or monotonic() > deadline:
                break
        # Epoll names busy peers in the same order each time: who had to wait comes first in the next turn.
        self._passed_over = {fd: place for place, (fd, _) in enumerate(ready[served:])}
        return bool(ready)

    def _greet(self, peer: _Peer, events: int) -> bool:
        """Look at the first byte of a connection; False unless it is one to serve here."""
        if not events & (_IN | _GONE):
            return False
        try:
            first = peer.sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError as failure:
            _log.debug("%s has ended before it said anything: %s", peer.connection.peer, failure)
            first = b""
        if not first or not self._allows(first, peer.address):
            self.end(peer.connection)
            return False
        peer.is_silent = False
        if first != TLS_HANDSHAKE:
            return True
        del self._peers[peer.fd]
        self._epoll.unregister(peer.fd)
        del self._peer_of[peer.connection]
        peer.connection.mark_closed()  # the second driver makes its own; nobody has heard of this one
        self._take_tls(peer.sock, peer.address)
        return False

    def _read(self, peer: _Peer, budget: int) -> int:
        """Read once and serve; returns how many frames were served."""
        connection = peer.connection
        if connection.is_closed or peer.backlogged or not connection.wants_reading:
            return 0
        try:
            chunk = peer.sock.recv(READ_SIZE)
        except BlockingIOError:
            return 0
        except OSError as failure:
            _log.debug("reading from %s failed: %s", connection.peer, failure)
            self.end(connection)
            return 0
        if not chunk:
            self.end(connection)
            return 0
        connection.last_active = self._now
        connection.receive(chunk)
        served = self._serve(peer, budget)
        if connection.buffered_size > UNFINISHED_SIZE or connection in self._incoming:
            self._incoming.account(connection)
        return served

    def _serve(self, peer: _Peer, budget: int) -> int:
        connection = peer.connection
        before = connection.frames_received
        if connection.serve(budget, self._is_over) and not connection.is_closed:
            peer.backlogged = True
            if connection.wants_reading:
                self._backlog.append(peer)
            else:
                peer.is_parked = True
        return connection.frames_received - before

    def _refuse(self, peer: _Peer, failure: Exception) -> None:
        """Close a connection after the burst: what it asked for before it failed is answered."""
        if isinstance(failure, RemoteProtocolError):
            self._refusals.warn(
                peer.address[0],
                "%s is not RocketMQ's protocol: %s; its connection is closed",
                peer.connection.peer,
                failure,
            )
        else:
            contain(failure, _log, "serving %s, whose connection is closed,", peer.connection.peer)
        peer.backlogged = True
        self._refused.append(peer.connection)

    def _watch(self, peer: _Peer) -> None:
        """Ask epoll for what makes sense: writing while something waits, reading while the peer reads."""
        connection = peer.connection
        events = (_OUT if connection.outgoing_size else 0) | (_IN if connection.wants_reading else 0)
        if events != peer.events:
            peer.events = events
            self._epoll.modify(peer.fd, events)
        if peer.is_parked and connection.wants_reading:
            peer.is_parked = False
            self._backlog.append(peer)
