"""Sans-IO state machine of one connection: bytes in, frames out, in both directions.

A driver (``hub`` or ``stream_driver``) feeds a :class:`Connection` with :meth:`receive`, lets it :meth:`serve` whole
frames for a slice of time, and drains it with :meth:`take_piece`. Requests of the peer go to the dispatcher; responses
of the peer complete :meth:`request`. The two directions number their requests independently, so the flag bit decides
and never the opaque.

Rule: every buffer here is bounded. Replies that the peer does not read stop the reading of its requests
(:attr:`wants_reading`); deferred replies and requests in flight are counted and refused above their limit.
It knows no sockets, no TLS and no request code.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from rocketpy import BUILD
from rocketpy.containment import Contained
from rocketpy.errors import (
    RemoteProtocolError,
    RemotingSendRequestError,
    RemotingTooMuchRequestError,
)
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import Frame, FrameReader, encode_frame
from rocketpy.protocol.host import pack_host
from rocketpy.remoting.collaborators import RequestDispatcher, Transport
from rocketpy.remoting.config import ConnectionLimits
from rocketpy.remoting.deferred import Deferred, Owed
from rocketpy.remoting.pending_response import AwaitedResponse, PendingResponse
from rocketpy.remoting.task_pool import TaskKind

if TYPE_CHECKING:  # where kernels are not compiled nothing loads them
    from rocketpy.protocol.kernels.pull_header import PullForms
    from rocketpy.protocol.kernels.send_header import SendHeader

_SERVED: Final = 1
"""What a fast path returns for a request that it has served: True, compared as the number that compiled code has."""

_NO_FRAMES: list[Frame] = []

_log = logging.getLogger("rocketpy.remoting")


def _never() -> bool:
    return False


class Connection:
    """One peer, as processors, services and clients see it.

    ``peer`` is ``"address:port"``, ``born_host`` the same as bytes (4 or 16 address bytes, port as a big-endian int32),
    ready for a stored record. Only :meth:`request` blocks.
    """

    __slots__ = (
        "_burst",
        "_cut_frames",
        "_deferred_count",
        "_dirty",
        "_dispatcher",
        "_in_flight",
        "_limits",
        "_next_opaque",
        "_outgoing",
        "_reader",
        "_transport",
        "_unsent",
        "born_host",
        "buffered_size",
        "dropped_replies",
        "frames_received",
        "is_closed",
        "kept_pulls",
        "last_active",
        "last_send",
        "local",
        "opened_at",
        "outgoing_size",
        "peer",
    )

    def __init__(
        self,
        *,
        address: tuple[str, int],
        dispatcher: RequestDispatcher[Connection],
        transport: Transport[Connection],
        limits: ConnectionLimits,
        now: float,
    ) -> None:
        self.peer = f"{address[0]}:{address[1]}"
        self.local = ""
        """The address at which the peer has reached this program, as ``peer`` is written; empty if it is not known."""
        self.born_host = pack_host(address[0], address[1])
        self.opened_at = self.last_active = now
        self.frames_received = 0
        self.buffered_size = 0
        """Bytes that were received and are not served, of an unfinished frame mostly, as of the last :meth:`serve`."""
        self.dropped_replies = 0
        self.is_closed = False
        """Whether the connection has ended; it never opens again."""
        self.outgoing_size = 0
        """Bytes queued for the peer."""
        self.last_send: SendHeader | None = None
        """The peer's last send, as a fast path keeps it to compare the next one with."""
        self.kept_pulls: PullForms | None = None
        """Headers of the peer's pulls, as a fast path keeps them to compare others with."""
        self._dispatcher = dispatcher
        self._burst = dispatcher.burst
        self._transport = transport
        self._limits = limits
        self._reader = FrameReader(has_kernel=BUILD.has_kernels)
        self._cut_frames: list[Frame] = _NO_FRAMES  # taken from the reader, but not served before the slice ended
        self._unsent: deque[bytes | memoryview] = deque()  # not accepted by the socket yet; sent before _outgoing
        self._outgoing: list[bytes] = []
        self._dirty = False  # the burst will flush it
        self._deferred_count = 0
        self._in_flight: dict[int, PendingResponse] = {}
        self._next_opaque = 0

    def __repr__(self) -> str:
        return f"<Connection {self.peer}{' closed' if self.is_closed else ''}>"

    # ---- for processors and services ------------------------------------------------------------------------------

    def reply(self, response: RemotingCommand) -> None:
        """Queue a response; the end of the burst or the next :meth:`flush` sends it. A no-op when closed."""
        self.reply_frame(encode_frame(response))

    def reply_frame(self, frame: bytes) -> None:
        """Queue an encoded response; see :meth:`reply`."""
        if self.is_closed:
            self.dropped_replies += 1
            return
        self._outgoing.append(frame)
        self.outgoing_size += len(frame)
        if not self._dirty:
            self._dirty = True
            self._burst.mark_dirty(self)

    def reply_deferred(self, frame: bytes) -> None:
        """Queue the encoded response of a request whose processor returned DEFERRED."""
        self._deferred_count -= 1
        # As reply_frame, without another call.
        if self.is_closed:
            self.dropped_replies += 1
            return
        self._outgoing.append(frame)
        self.outgoing_size += len(frame)
        if not self._dirty:
            self._dirty = True
            self._burst.mark_dirty(self)

    def answer_deferred(self, owed: Owed, frame: bytes) -> None:
        """Complete a deferred request with its encoded answer; a oneway is only counted as done."""
        if owed.is_oneway:
            self._deferred_count -= 1
        else:
            self.reply_deferred(frame)

    def answer_later(
        self,
        owed: Owed,
        function: Callable[..., Awaitable[RemotingCommand | bytes | Deferred]],
        *arguments: object,
    ) -> bool:
        """Start a task that answers a request, whose processor then returns DEFERRED; False at the limit on tasks.

        ``function`` returns the answer, encoded or not, or DEFERRED when it has passed the request on. The answer is
        sent at the end of a burst of its own: by then the store has written what the function put, and woken pulls are
        served. An exception becomes the answer as with any processor, and ends nothing else.
        """
        run = self._dispatcher.run_deferred
        return self.start_task(run, self, owed, function, *arguments)

    def drop_deferred(self) -> None:
        """Stop counting a deferred request that will never be answered (a oneway, or its owner failed)."""
        self._deferred_count -= 1

    def count_deferred(self) -> None:
        """Count one more deferred reply; paired with :meth:`reply_deferred` or :meth:`drop_deferred`."""
        self._deferred_count += 1

    @property
    def may_defer(self) -> bool:
        """Whether one more reply may be deferred; a processor checks this first and refuses otherwise."""
        return self._deferred_count < self._limits.deferred_replies_max

    @property
    def deferred_count(self) -> int:
        """Number of this peer's requests with a deferred reply outstanding."""
        return self._deferred_count

    def flush(self) -> None:
        """Send queued frames now, as far as the socket accepts them; while a burst is open, at its end."""
        if self._dirty and not self.is_closed and self._burst.may_send:
            self._transport.flush(self)

    def oneway(self, request: RemotingCommand) -> None:
        """Send a request without an answer, and flush; dropped when the connection is closed or its buffer full."""
        if self.outgoing_size > self._limits.outgoing_bytes_max:
            self.dropped_replies += 1
            return
        request.opaque = self._take_opaque()
        request.flag |= 2
        self.reply_frame(encode_frame(request))
        self.flush()

    def request_nowait(self, pending: PendingResponse) -> int:
        """Send a request and return its opaque; ``pending`` is completed once, unless it is forgotten first.

        Raises RemotingSendRequestError when the connection is closed, RemotingTooMuchRequestError above the bounds on
        requests in flight and on unsent bytes, and what ``encode`` raises; then nothing was sent.
        """
        if self.is_closed:
            raise RemotingSendRequestError(f"the connection to {self.peer} is closed")
        if len(self._in_flight) >= self._limits.requests_in_flight_max:
            raise RemotingTooMuchRequestError(
                f"{len(self._in_flight)} requests to {self.peer} are in flight, the limit is "
                f"{self._limits.requests_in_flight_max}"
            )
        opaque = self._take_opaque()
        frame = pending.encode(opaque)
        if self.outgoing_size and self.outgoing_size + len(frame) > self._limits.outgoing_bytes_max:
            raise RemotingTooMuchRequestError(
                f"{self.outgoing_size} bytes wait to be sent to {self.peer}, the limit is "
                f"{self._limits.outgoing_bytes_max}"
            )
        self._in_flight[opaque] = pending
        self.reply_frame(frame)
        self.flush()
        return opaque

    @property
    def in_flight_count(self) -> int:
        """Number of our requests that the peer has not answered."""
        return len(self._in_flight)

    def forget(self, opaque: int) -> None:
        """Drop the response to a request, if it has not come."""
        self._in_flight.pop(opaque, None)

    async def request(self, request: RemotingCommand, timeout_s: float) -> RemotingCommand:
        """Send a request to the peer and wait for its response.

        Raises RemotingTimeoutError, RemotingSendRequestError when the connection ends first, and
        RemotingTooMuchRequestError above the bound on requests in flight.
        """
        pending = AwaitedResponse(request, self)
        opaque = self.request_nowait(pending)
        try:
            return await pending.wait(timeout_s)
        finally:
            self.forget(opaque)

    def close(self) -> None:
        """End the connection at once; queued frames are not sent, pending requests fail."""
        if not self.is_closed:
            self._transport.end(self)

    # ---- for the dispatcher ---------------------------------------------------------------------------------------

    def complete_request(self, response: RemotingCommand) -> None:
        """Deliver a response to the pending request with its opaque; drop it if there is none."""
        pending = self._in_flight.pop(response.opaque, None)
        if pending is not None:
            pending.complete(response)

    def start_task(self, function: Callable[..., Awaitable[None]], *arguments: object) -> bool:
        """Run a task that waits for the disk; False at the limit. Its failure ends this connection only."""
        return self._transport.start_task(self, TaskKind.READ, self._run_task, function, *arguments)

    def start_command(self, function: Callable[..., Awaitable[None]], *arguments: object) -> bool:
        """Run a task that may wait for anything, as :meth:`start_task`, but with a lower limit."""
        return self._transport.start_task(self, TaskKind.COMMAND, self._run_task, function, *arguments)

    # ---- for the driver -------------------------------------------------------------------------------------------

    def receive(self, chunk: bytes) -> None:
        """Take bytes from the peer; RemoteProtocolError as soon as they cannot become a frame."""
        self._reader.receive(chunk)

    def serve(self, frames_max: int, is_over: Callable[[], bool] = _never) -> bool:
        """Serve at most ``frames_max`` whole frames; True when more may be waiting.

        ``is_over`` is called after each request that may have taken a millisecond: one without a fast path, or whose
        fast path returned TOOK_LONG. When it returns True, the remaining frames wait for the next call.
        """
        reader, frames = self._reader, self._cut_frames
        if frames:
            self._cut_frames = _NO_FRAMES
            may_be_more = True  # in the reader, after those
        else:
            frames = reader.next_frames(frames_max)
            may_be_more = len(frames) == frames_max
        fast_paths = self._dispatcher.fast_paths
        remaining = iter(frames)
        for serialize_type, header, body in remaining:
            if serialize_type == 0 and (fast_path := fast_paths.get(header[:12])) is not None:
                try:
                    if (served := fast_path(self, header, body)) == _SERVED:
                        continue
                except RemoteProtocolError:
                    raise
                except Exception as failure:  # a fast path bypasses the dispatcher's guard
                    self._dispatcher.answer_failure(self, header, body, failure)
                    continue
                if not served:
                    self._dispatcher.dispatch(self, serialize_type, header, body)
            else:
                self._dispatcher.dispatch(self, serialize_type, header, body)
            if self.is_closed:
                return False
            if is_over():
                self._cut_frames = cut = list(remaining)
                self.frames_received -= len(cut)  # counted when they are served
                may_be_more |= bool(cut)
                break
        self.frames_received += len(frames)
        unfinished = self.buffered_size = reader.buffered_bytes
        if self._cut_frames:
            self.buffered_size += sum(len(header) + len(body or b"") for _, header, body in self._cut_frames)
        if unfinished and frames and not may_be_more:
            reader.next_frames(1)  # none is whole; a bad length is refused now, not when more bytes arrive
        return may_be_more

    @property
    def wants_reading(self) -> bool:
        """Backpressure: False while too many replies are unread, so that no more requests are read."""
        return self.outgoing_size <= self._limits.outgoing_bytes_pause

    def has_room(self, size: int) -> bool:
        """Whether an answer of so many bytes is worth making: the peer reads, and the sum over all peers has room.

        Beyond that sum the connection that holds most is closed, which the one with a long answer soon is.
        """
        return not self.is_closed and self.wants_reading and self._transport.has_room(size)

    @property
    def unread_size(self) -> int:
        """Bytes of memory that queued frames hold. What the socket has taken of a frame counts until all is taken."""
        unsent = self._unsent
        if not unsent:
            return self.outgoing_size
        first = unsent[0]
        return self.outgoing_size - len(first) + memory_of(first)

    def mark_dirty(self) -> None:
        """Flush this connection at the end of the burst: its socket is writable again."""
        if not self._dirty and self.outgoing_size:
            self._dirty = True
            self._burst.mark_dirty(self)

    def note_flushed(self) -> None:
        """Keep what is queued until the socket is writable again."""
        self._dirty = False

    def take_outgoing(self) -> bytes:
        """Return everything that is queued, in order, as one bytes object."""
        return bytes(self.take_piece(self.outgoing_size))

    def take_piece(self, size_max: int) -> bytes | memoryview:
        """Return the next bytes to send: at most ``size_max``, or one frame that is longer. The driver owns them.

        No byte is copied twice, however slowly the peer reads.
        """
        self._dirty = False
        outgoing, unsent = self._outgoing, self._unsent
        if not unsent and self.outgoing_size <= size_max:
            self.outgoing_size = 0
            if len(outgoing) == 1:
                return outgoing.pop()
            joined = b"".join(outgoing)
            outgoing.clear()
            return joined
        unsent.extend(outgoing)
        outgoing.clear()
        pieces = [unsent.popleft()]
        size = len(pieces[0])
        while unsent and size + len(unsent[0]) <= size_max:
            size += len(unsent[0])
            pieces.append(unsent.popleft())
        self.outgoing_size -= size
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def put_back_outgoing(self, rest: bytes | memoryview) -> None:
        """Return bytes that the socket did not accept; they are sent first."""
        self._unsent.appendleft(rest)
        self.outgoing_size += len(rest)

    def drop_outgoing(self) -> None:
        """Discard what is queued: it acknowledges writes that failed."""
        self._unsent.clear()
        self._outgoing.clear()
        self.outgoing_size = 0
        self._dirty = False

    def mark_closed(self) -> None:
        """Drop what is queued and fail every request in flight. Called once, by the driver that closed the socket."""
        assert not self.is_closed, self
        self.is_closed = True
        self.drop_outgoing()
        self._cut_frames = _NO_FRAMES
        in_flight, self._in_flight = self._in_flight, {}
        for pending in in_flight.values():
            pending.complete(None)

    async def _run_task(self, function: Callable[..., Awaitable[None]], *arguments: object) -> None:
        with Contained(_log, "a task of %s, whose connection is closed,", self.peer) as work:
            await function(*arguments)
        if work.has_failed:
            self.close()

    def _take_opaque(self) -> int:
        opaque = self._next_opaque
        self._next_opaque = (opaque + 1) & 0x7FFFFFFF
        return opaque


def memory_of(piece: bytes | memoryview) -> int:
    """Return how many bytes a piece keeps in memory: those of the whole object that it is a part of."""
    if isinstance(piece, memoryview):
        whole = piece.obj
        assert isinstance(whole, bytes)
        return len(whole)
    return len(piece)
