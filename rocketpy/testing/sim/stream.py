"""One TCP-like connection of the simulated network: two directions, and the stream at each end.

Bytes lie in a :class:`Pipe` until they have arrived, which is a moment of Trio's clock. The network decides that
moment, and breaks connections; see ``network`` for the fault model.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from operator import index
from typing import Protocol

import attrs
import trio

from rocketpy.remoting.nowait_stream import NowaitStream

BUFFER_SIZE = 256 << 10
"""Bytes that one direction of a connection takes before its sender waits."""

_SEGMENT_SIZE = 64 << 10


@attrs.define(eq=False)
class Pipe:
    """One direction of one connection. Times are of Trio's clock; a cut holds them up too."""

    source: str
    target: str
    segments: deque[tuple[float, bytes]] = attrs.Factory(deque)  # when each arrives
    size: int = 0
    sent_at: float = 0.0  # when the link has taken the last segment
    arrives_at: float = 0.0  # of the last segment: later ones arrive no earlier
    ended_at: float | None = None  # when the reader finds the end of the stream
    broken_at: float | None = None  # when the reader finds the connection reset
    refused_at: float | None = None  # when the writer finds it broken
    changed: trio.Event = attrs.Factory(trio.Event)
    waiting: trio.CancelScope | None = None  # of the reader; its deadline is when the next thing arrives

    def arrives_next(self, at: float) -> None:
        """Let the reader look again at that moment, without a step of its task before."""
        if self.waiting is not None and at < self.waiting.deadline:
            self.waiting.deadline = at

    def wake(self) -> None:
        """Let the tasks that wait for this direction check it again."""
        self.changed.set()
        self.changed = trio.Event()

    def take(self, size_max: int) -> bytes:
        """Return bytes that have arrived."""
        arrived_at, segment = self.segments.popleft()
        taken, rest = segment[:size_max], segment[size_max:]
        if rest:
            self.segments.appendleft((arrived_at, rest))
        self.size -= len(taken)
        self.wake()
        return taken

    def hurry(self, now: float, delay_s: float, bytes_per_s: float) -> None:
        """Let what is under way arrive as on such a link, where that is sooner."""
        sent_at = now
        for place, (arrives_at, segment) in enumerate(self.segments):
            sent_at += len(segment) / bytes_per_s
            self.arrives_at = min(arrives_at, max(now, sent_at + delay_s))
            self.segments[place] = (self.arrives_at, segment)
        self.sent_at = min(self.sent_at, sent_at)
        if self.ended_at is not None:
            self.ended_at = min(self.ended_at, max(self.arrives_at, now + delay_s))

    def drop(self) -> None:
        """Forget what is under way."""
        self.segments.clear()
        self.size = 0
        self.wake()


class Carrier(Protocol):
    """What a stream needs of the network."""

    def is_cut(self, source: str, target: str) -> bool:
        """Whether bytes in this direction are held back."""
        ...

    def put(self, pipe: Pipe, segment: bytes) -> None:
        """Put bytes under way."""
        ...

    def returns_after(self, pipe: Pipe) -> float:
        """Return how many seconds a sender still waits when its bytes are under way."""
        ...

    def put_end(self, pipe: Pipe) -> None:
        """Put the end of the stream under way."""
        ...

    def refuse(self, pipe: Pipe) -> None:
        """Let the writer of a direction find it broken, once it can know that its reader has closed."""
        ...


class SimStream(NowaitStream, trio.abc.HalfCloseableStream):
    """One end of a connection."""

    def __init__(self, network: Carrier, outgoing: Pipe, incoming: Pipe) -> None:
        self.outgoing = outgoing
        self.incoming = incoming
        self._network = network
        self._is_sending = False
        self._is_receiving = False
        self.is_closed = False
        self._has_ended = False  # our direction

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes; waits while BUFFER_SIZE bytes are under way. BrokenResourceError after a reset."""
        with self._sending():
            await trio.lowlevel.checkpoint()
            content = bytes(data)
            for position in range(0, len(content) or 1, _SEGMENT_SIZE):
                await self._wait_writable()
                if content:
                    self._network.put(self.outgoing, content[position : position + _SEGMENT_SIZE])
            returns_after_s = self._network.returns_after(self.outgoing)
            if returns_after_s:
                await trio.sleep(returns_after_s)

    def send_nowait(self, data: bytes | memoryview) -> int:
        """Send what there is room for; nothing on a connection that has ended."""
        pipe = self.outgoing
        assert not self._is_sending, "bytes would be mixed with those of send_all"
        if self.is_closed or self._has_ended or self._is_refused():
            return 0
        taken = bytes(data[: max(0, BUFFER_SIZE - pipe.size)])
        if taken:
            self._network.put(pipe, taken)
        return len(taken)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until there is room for some bytes."""
        with self._sending():
            await trio.lowlevel.checkpoint()
            await self._wait_writable()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return what has arrived; no bytes at the end of the stream. BrokenResourceError after a reset."""
        size_max = _SEGMENT_SIZE if max_bytes is None else index(max_bytes)
        if size_max < 1:
            raise ValueError(f"expected max_bytes from 1, found {max_bytes}")
        with self._receiving():
            await trio.lowlevel.checkpoint_if_cancelled()
            found = self._arrived(size_max)
            if found is not None:
                await trio.lowlevel.cancel_shielded_checkpoint()
            while found is None:
                await self._wait_arrival()
                found = self._arrived(size_max)
            return found

    async def send_eof(self) -> None:
        """End the sending side; the peer reads the end after the bytes before it."""
        with self._sending():
            await trio.lowlevel.checkpoint()
            if self.is_closed:
                raise trio.ClosedResourceError("the stream is closed")
            self._end()

    async def aclose(self) -> None:
        """Close both directions; bytes that were sent still arrive."""
        self.close()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Close now, as the operating system does for a socket."""
        if not self.is_closed:
            self.is_closed = True
            self._end()
            self._network.refuse(self.incoming)
            self.incoming.drop()
            self.outgoing.wake()

    def _end(self) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._network.put_end(self.outgoing)

    async def _wait_arrival(self) -> None:
        pipe = self.incoming
        with trio.CancelScope(deadline=self._next_arrival()) as pipe.waiting:
            try:
                await pipe.changed.wait()
            finally:
                pipe.waiting = None

    def _arrived(self, size_max: int) -> bytes | None:
        pipe, now = self.incoming, trio.current_time()
        if self.is_closed:
            raise trio.ClosedResourceError("the stream is closed")
        if self._network.is_cut(pipe.source, pipe.target):
            return None
        if pipe.broken_at is not None and pipe.broken_at <= now:
            raise trio.BrokenResourceError(f"the connection to {pipe.source} was reset")
        if pipe.segments:
            return pipe.take(size_max) if pipe.segments[0][0] <= now else None
        return b"" if pipe.ended_at is not None and pipe.ended_at <= now else None

    def _next_arrival(self) -> float:
        pipe = self.incoming
        if self._network.is_cut(pipe.source, pipe.target):
            return math.inf  # healing it wakes us
        times = (pipe.segments[0][0] if pipe.segments else pipe.ended_at, pipe.broken_at)
        return min((time for time in times if time is not None), default=math.inf)

    async def _wait_writable(self) -> None:
        pipe = self.outgoing
        while True:
            if self.is_closed or self._has_ended:
                raise trio.ClosedResourceError("the sending side is closed")
            if self._is_refused():
                raise trio.BrokenResourceError(f"the connection to {pipe.target} is broken")
            if pipe.size < BUFFER_SIZE:
                return
            is_cut = self._network.is_cut(pipe.target, pipe.source)
            with trio.move_on_at(math.inf if is_cut or pipe.refused_at is None else pipe.refused_at):
                await pipe.changed.wait()

    def _is_refused(self) -> bool:
        """Whether our side knows that nothing can be sent any more."""
        pipe = self.outgoing
        if pipe.refused_at is None or self._network.is_cut(pipe.target, pipe.source):
            return False
        return pipe.refused_at <= trio.current_time()

    @contextmanager
    def _sending(self) -> Iterator[None]:
        if self._is_sending:
            raise trio.BusyResourceError("another task is sending")
        self._is_sending = True
        try:
            yield
        finally:
            self._is_sending = False

    @contextmanager
    def _receiving(self) -> Iterator[None]:
        if self._is_receiving:
            raise trio.BusyResourceError("another task is receiving")
        self._is_receiving = True
        try:
            yield
        finally:
            self._is_receiving = False


def break_pipe(pipe: Pipe, *, at: float) -> None:
    """Reset a connection: the reader of this direction finds it broken, and so does the writer of the other one."""
    pipe.broken_at = at if pipe.broken_at is None else min(pipe.broken_at, at)
    pipe.refused_at = at if pipe.refused_at is None else min(pipe.refused_at, at)
    pipe.wake()
