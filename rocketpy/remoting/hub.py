"""An event loop within one Trio task that drives every plain socket of a server through its own epoll descriptor.

A Trio task per connection costs a wake-up of about 30 us per request; the hub pays one for as many requests as are
ready. It waits until its epoll descriptor is readable, then serves *every* ready connection without waiting: read once,
serve whole frames, end the burst, one send each.

Rules:
- Fair by time: a burst ends after ``SLICE_FRAMES`` frames and the hub passes a Trio checkpoint after ``SLICE_SECONDS``
  (at the latest when the current request is done). Both limits also apply in the middle of one connection's frames; the
  remaining frames are served first in the next turn.
- Within its slice it waits for quick peers in its own epoll descriptor, a millisecond at most, and spins at the
  beginning of such a wait (``lull``).
- Level-triggered. Events are never kept across a checkpoint, because by then a descriptor may belong to another peer.
- One guard per connection: a malformed frame, a reset or a bug in serving ends that connection only, and only after the
  burst, so that its earlier requests are answered. ``StoreError`` and ``AssertionError`` pass: they end the program.
- Ending a connection closes its socket and queues the end; the program reacts to it in another task.
- A connection that starts with a TLS ClientHello goes, unread, to the TLS acceptor. Each new connection costs one
  MSG_PEEK.
- Replies that the socket does not accept stay in the connection's bounded buffer until EPOLLOUT. Above the high
  watermark the connection is not read meanwhile (backpressure).
"""

from __future__ import annotations

import logging
import select
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Final

import trio

from rocketpy.containment import contain
from rocketpy.errors import RemoteProtocolError
from rocketpy.remoting.config import ConnectionLimits
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.remoting.limits.held_bytes import ProgramBytes
from rocketpy.remoting.limits.refusal_log import RefusalLog
from rocketpy.remoting.lull import LULL_SECONDS, Lull, spin_seconds_here
from rocketpy.remoting.network import local_address_of
from rocketpy.remoting.tls.acceptor import TLS_HANDSHAKE

SLICE_SECONDS: Final = 0.001
SLICE_FRAMES: Final = 64
READ_SIZE: Final = 65_536
SEND_SIZE: Final = 1 << 20
"""Replies are joined up to this size for one send, so that a slow reader does not cost a copy of all the rest."""
EVENTS_MAX: Final = 256
UNFINISHED_SIZE: Final = 4096
"""A longer unfinished frame counts towards the limit over all connections (``ProgramBytes``)."""

_IN: Final = select.EPOLLIN if hasattr(select, "EPOLLIN") else 1
_OUT: Final = select.EPOLLOUT if hasattr(select, "EPOLLOUT") else 4
_GONE: Final = (select.EPOLLHUP | select.EPOLLERR) if hasattr(select, "EPOLLHUP") else 24

_log = logging.getLogger("rocketpy.remoting")


class _Peer:
    """A socket, its connection and the epoll events that the hub has registered for it."""

    __slots__ = (
        "address",
        "backlogged",
        "connection",
        "events",
        "fd",
        "is_accounted",
        "is_blocked",
        "is_parked",
        "is_silent",
        "sock",
    )

    def __init__(self, sock: socket.socket, address: tuple[str, int], connection: Connection) -> None:
        self.sock = sock
        self.address = address
        self.fd = sock.fileno()
        self.connection = connection
        self.events = _IN
        self.is_silent = True  # its first byte has not come yet
        self.is_accounted = False  # its unfinished frame counts towards the limit over all connections
        self.is_blocked = False  # the socket buffer is full: the rest waits for EPOLLOUT
        self.backlogged = False  # not read: it has unserved frames, or is about to be closed
        self.is_parked = False  # backlogged, and not served until the peer reads its replies


class Hub:
    """Driver of plain sockets; the server transfers ownership of each with :meth:`add`."""

    def __init__(
        self,
        *,
        dispatcher: Dispatcher,
        limits: ConnectionLimits,
        start_task: Callable[..., bool],
        on_end: Callable[[Connection], None],
        held: ProgramBytes,
        refusals: RefusalLog,
        allows: Callable[[bytes, tuple[str, int]], bool],
        take_tls: Callable[[socket.socket, tuple[str, int]], None],
        lull_seconds: float = LULL_SECONDS,
        spin_seconds: float | None = None,
        monotonic: Callable[[], float] = time.perf_counter,
    ) -> None:
        """``lull_seconds`` is 0 where peers wait for tasks, which answer once the hub has returned to Trio.

        ``spin_seconds`` is by default what the number of processors allows.
        """
        self._dispatcher = dispatcher
        self._burst = dispatcher.burst
        self._limits = limits
        self.start_task = start_task
        self._on_end = on_end  # called in the middle of a send, so it may only record the end
        self._incoming = held.incoming
        self._unread = held.outgoing
        self._refusals = refusals
        self._allows = allows  # whether this first byte is acceptable under tls.server.mode
        self._take_tls = take_tls
        self._monotonic = monotonic
        self._deadline = 0.0  # of the current slice
        self._lull = Lull(lull_seconds, spin_seconds=spin_seconds_here() if spin_seconds is None else spin_seconds)
        self._epoll = select.epoll()
        self._peers: dict[int, _Peer] = {}
        self._peer_of: dict[Connection, _Peer] = {}
        self._backlog: deque[_Peer] = deque()
        self._skipped: dict[int, int] = {}  # ready, but not served before the turn ended: descriptor to rank
        self._refused: list[Connection] = []  # to be closed when the burst has ended
        self._now = 0.0  # start of the current slice, precise enough for idle timeouts; 0 between slices

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
        connection.local = local_address_of(sock)
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
        monotonic, burst, lull = self._monotonic, self._burst, self._lull
        patience = 0.0
        try:
            while True:
                # Either lets the other tasks run first.
                if self._backlog:
                    await trio.lowlevel.checkpoint()
                else:
                    lull.leave(monotonic(), burst.count)
                    await trio.lowlevel.wait_readable(self._epoll.fileno())
                    patience = lull.come_back(monotonic(), burst.count)
                self._serve_slice(patience)
        finally:
            for connection in self.connections:
                self.end(connection)
            self._epoll.close()

    # ---- Transport ------------------------------------------------------------------------------------------------

    def flush(self, connection: Connection) -> None:
        """Send what is queued, as far as the socket accepts it; the rest waits for EPOLLOUT."""
        peer = self._peer_of.get(connection)
        if peer is None:
            return
        if peer.is_blocked:
            connection.note_flushed()
        else:
            outgoing = connection.take_piece(SEND_SIZE)
            try:
                sent = peer.sock.send(outgoing) if outgoing else 0
            except BlockingIOError:
                sent = 0
            except OSError as failure:
                _log.debug("sending to %s failed: %s", connection.peer, failure)
                self.end(connection)
                return
            if sent:
                connection.last_active = self._now or trio.current_time()
            if sent < len(outgoing):
                connection.put_back_outgoing(memoryview(outgoing)[sent:])
            if connection.outgoing_size:
                peer.is_blocked = True
            elif peer.events == _IN and not peer.is_parked:
                return  # the usual case: all is sent, and nothing was waiting
        if connection.outgoing_size > self._limits.outgoing_bytes_max:
            _log.warning("%s does not read its replies: %d bytes wait", connection.peer, connection.outgoing_size)
            self.end(connection)
            return
        self._unread.hold(connection, connection.unread_size)
        if not connection.is_closed:
            self._watch(peer)

    def has_room(self, size: int) -> bool:
        """Whether so many bytes more fit into what all peers may leave unread."""
        return self._unread.has_room(size)

    def end(self, connection: Connection) -> None:
        """Close the socket, remove the connection and record its end. Idempotent."""
        peer = self._peer_of.pop(connection, None)
        if peer is None:
            return
        del self._peers[peer.fd]
        self._incoming.forget(connection)
        self._unread.forget(connection)
        peer.sock.close()  # the kernel also removes it from the epoll set
        connection.mark_closed()
        self._on_end(connection)

    def _is_over(self) -> bool:
        return self._monotonic() > self._deadline

    # ---- a turn ---------------------------------------------------------------------------------------------------

    def _serve_slice(self, patience: float) -> None:
        """Serve turns, each of which waits for so long at most, until no peer is ready or the slice is over."""
        # A wake-up costs as much as several requests, so look again while peers are ready.
        monotonic = self._monotonic
        deadline = self._deadline = monotonic() + SLICE_SECONDS
        # The first turn does not wait: Trio has reported a peer, or there is a backlog.
        is_busy = self._turn(deadline, 0.0)
        while is_busy and monotonic() < deadline:
            is_busy = self._turn(deadline, patience)
        if patience:
            self._lull.note(is_vain=not is_busy)
        self._now = 0.0

    def _turn(self, deadline: float, patience: float) -> bool:
        """Serve the backlog and the ready connections, then end the burst; False when no peer was ready."""
        # With a backlog it does not wait, and without budget for the sockets it does not look at them: _skipped keeps
        # its ranks for the next turn that does.
        has_backlog = bool(self._backlog)
        ready: list[tuple[int, int]] = []
        if not has_backlog:
            ready = self._epoll.poll(0, EVENTS_MAX)
            if not ready and patience:
                ready = self._lull.wait(self._epoll.poll, EVENTS_MAX, patience, self._monotonic)
        if not ready and not has_backlog:
            self._skipped = {}
            return False
        # A turn is one burst: leaving the block writes what it put and sends its replies. It is bounded by
        # SLICE_FRAMES, so that the first reply of a burst does not wait for a thousand others to be served.
        budget = SLICE_FRAMES
        with self._burst:
            if has_backlog:
                budget = self._serve_backlog(deadline)
                if budget > 0:
                    ready = self._epoll.poll(0, EVENTS_MAX)
            if budget > 0:
                self._serve_ready(ready, budget, deadline)
        # Only now: closing drops what is queued, and requests served before the malformed one are owed their replies.
        if self._refused:
            for connection in self._refused:
                self.end(connection)
            self._refused.clear()
        return budget <= 0 or bool(ready)

    def _serve_backlog(self, deadline: float) -> int:
        """Serve each backlogged peer once; returns how many frames may still be served in this turn, 0 when it is over.

        The backlog goes first. Its frames were received before anything that is still in a socket buffer, and epoll
        will not report them: the bytes have already left the socket. A peer with frames left goes to the end of the
        deque, so backlogged peers take turns. A backlog delays the sockets by at most one READ_SIZE per peer in it,
        because a backlogged peer is not read.
        """
        budget = SLICE_FRAMES
        for _ in range(len(self._backlog)):
            peer = self._backlog.popleft()
            peer.backlogged = False
            if not peer.connection.is_closed:
                try:
                    budget -= self._serve(peer, budget)
                except Exception as failure:
                    self._refuse(peer, failure)
            if budget <= 0 or self._monotonic() > deadline:
                return 0
        return budget

    def _serve_ready(self, ready: list[tuple[int, int]], budget: int, deadline: float) -> None:
        """Read and serve the connections that epoll has reported, as far as there is budget and time."""
        self._now = trio.current_time()
        if self._skipped:
            self._put_skipped_first(ready)
        monotonic, peers = self._monotonic, self._peers
        for fd, events in ready:
            peer = peers.get(fd)
            if peer is None:  # ended earlier in this turn, after poll had reported it
                continue
            try:
                if peer.is_silent and not self._greet(peer, events):
                    continue
                budget -= self._read(peer, budget) if events == _IN else self._serve_events(peer, events, budget)
            except Exception as failure:
                self._refuse(peer, failure)
            if budget <= 0 or monotonic() > deadline:
                # One turn ends here, not one connection: the replies so far leave now, and run() decides by the clock
                # between another turn and a checkpoint for the other tasks. The events that are left are dropped:
                # epoll is level-triggered and reports them again.
                if fd != ready[-1][0]:
                    skipped = ready[ready.index((fd, events)) + 1 :]
                    self._skipped = {fd: rank for rank, (fd, _) in enumerate(skipped)}
                break

    def _put_skipped_first(self, ready: list[tuple[int, int]]) -> None:
        # Level-triggered epoll reports busy descriptors in the same order each time. Without this sort the last ones
        # would starve once the first ones use up the budget. A descriptor that was reused meanwhile only inherits a
        # rank. The sort is stable, so peers that were not skipped keep epoll's order.
        rank = self._skipped.get
        ready.sort(key=lambda event: rank(event[0], EVENTS_MAX))
        self._skipped = {}

    def _serve_events(self, peer: _Peer, events: int, budget: int) -> int:
        """Serve a peer with other events than input; returns how many frames were served."""
        if events & _OUT:
            peer.is_blocked = False
            # The end of the burst flushes. Sending here could release a reply of this burst before its message has
            # been written.
            peer.connection.mark_dirty()
        # Input goes before hang-up: a peer that sent requests and closed is still served.
        if events & _IN:
            return self._read(peer, budget)
        if events & _GONE:
            self.end(peer.connection)
        return 0

    def _greet(self, peer: _Peer, events: int) -> bool:
        """Peek at the first byte of a connection; False unless the hub is to serve it."""
        if not events & (_IN | _GONE):
            return False
        try:
            first = peer.sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError as failure:
            _log.debug("%s ended before it sent anything: %s", peer.connection.peer, failure)
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
        peer.connection.mark_closed()  # the stream driver creates its own; no processor has seen this one
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
        return self._serve(peer, budget)

    def _serve(self, peer: _Peer, budget: int) -> int:
        connection = peer.connection
        before = connection.frames_received
        # The remaining budget of the turn, not a share of it: with one busy peer the whole slice is its own.
        if connection.serve(budget, self._is_over) and not connection.is_closed:
            # Not read again before its frames are served: this bounds what one peer can buffer here.
            peer.backlogged = True
            if connection.wants_reading:
                self._backlog.append(peer)
            else:
                peer.is_parked = True
        # Here, not where it was read: what a turn does not serve is served from the backlog, and then no longer held.
        if connection.buffered_size > UNFINISHED_SIZE or peer.is_accounted:
            self._incoming.hold(connection, connection.buffered_size)
            peer.is_accounted = connection.buffered_size > 0
        return connection.frames_received - before

    def _refuse(self, peer: _Peer, failure: Exception) -> None:
        """Close a connection after the burst: its requests before the failure are answered."""
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
        """Register for writing while replies wait, and for reading while the peer reads its replies."""
        connection = peer.connection
        events = (_OUT if connection.outgoing_size else 0) | (_IN if connection.wants_reading else 0)
        if events != peer.events:
            peer.events = events
            self._epoll.modify(peer.fd, events)
        if peer.is_parked and connection.wants_reading:
            peer.is_parked = False
            self._backlog.append(peer)
