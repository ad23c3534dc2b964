"""In-memory network with fault injection: TCP-like streams between named hosts, over Trio's clock.

Under a mock clock nothing here takes real time, and one seed replays every delay. The fault model:

- A connection delivers each direction's bytes in order and unchanged, or not at all. Connections do not wait for each
  other: with jitter a later one may overtake an earlier one.
- :class:`Link` sets delay, jitter and bandwidth of one direction between two hosts. A sender that is faster than link
  or reader waits once ``BUFFER_SIZE`` bytes are under way: a slow reader slows its sender down.
- :meth:`SimNetwork.cut` holds bytes back in one or both directions, and lets connection attempts wait; nothing is
  lost, and after :meth:`SimNetwork.heal` it goes on, as TCP does by sending again. No program is notified.
- :meth:`SimNetwork.reset` breaks the connections between two hosts: both sides find them broken at their next call, and
  bytes under way are gone.
- :meth:`SimNetwork.end_process` is the end of a process: its listeners refuse, and its peers find their connections
  reset once the news has crossed the link; never, if the link is cut for good.
- :meth:`SimNetwork.lose_host` is the end of a machine: nothing is sent any more, so its peers hold half-open
  connections, and attempts to connect wait. :meth:`SimNetwork.return_host` brings it back empty: what still arrives for
  an old connection is answered by a reset.

Not simulated: datagrams, names, TLS (which runs over any stream), and TCP's own limit on unacknowledged data in time.
"""

from __future__ import annotations

import errno
import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from operator import index
from random import Random

import attrs
import trio

BUFFER_SIZE = 256 << 10
"""Bytes that one direction of a connection takes before its sender waits."""

_SEGMENT_SIZE = 64 << 10

Serve = Callable[["SimStream", str], Awaitable[None]]
"""Serves an accepted connection; gets the address of the peer."""


@attrs.frozen
class Link:
    """One direction between two hosts: seconds, and bytes a second."""

    delay_s: float = 0.0005
    jitter_s: float = 0.0
    bytes_per_s: float = math.inf


@attrs.define(eq=False)
class _Pipe:
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

    def drop(self) -> None:
        """Forget what is under way."""
        self.segments.clear()
        self.size = 0
        self.wake()


class SimStream(trio.abc.HalfCloseableStream):
    """One end of a connection."""

    def __init__(self, network: SimNetwork, outgoing: _Pipe, incoming: _Pipe) -> None:
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
            await trio.lowlevel.checkpoint()
            while True:
                if self.is_closed:
                    raise trio.ClosedResourceError("the stream is closed")
                found = self._arrived(size_max)
                if found is not None:
                    return found
                with trio.move_on_at(self._next_arrival()):
                    await self.incoming.changed.wait()

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

    def _arrived(self, size_max: int) -> bytes | None:
        pipe, now = self.incoming, trio.current_time()
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
            is_cut = self._network.is_cut(pipe.target, pipe.source)
            if not is_cut and pipe.refused_at is not None and pipe.refused_at <= trio.current_time():
                raise trio.BrokenResourceError(f"the connection to {pipe.target} is broken")
            if pipe.size < BUFFER_SIZE:
                return
            with trio.move_on_at(math.inf if is_cut or pipe.refused_at is None else pipe.refused_at):
                await pipe.changed.wait()

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


class SimNetwork:
    """Hosts, the links between them, and their connections. Addresses are ``host:port``."""

    def __init__(self, *, randomness: Random) -> None:
        self._randomness = randomness
        self._links: dict[tuple[str, str], Link] = {}
        self._cuts: set[tuple[str, str]] = set()
        self._lost: set[str] = set()
        self._listeners: dict[str, tuple[trio.Nursery, Serve]] = {}
        self._streams: list[tuple[SimStream, SimStream]] = []  # both ends of connections that are not over
        self._changed = trio.Event()
        self._port = 50_000

    # ---- for programs ---------------------------------------------------------------------------------------------

    def listen(self, address: str, serve: Serve, nursery: trio.Nursery) -> None:
        """Serve each connection to an address in a task of its own; OSError when the address is in use."""
        if address in self._listeners:
            raise OSError(errno.EADDRINUSE, f"{address} is in use")
        self._listeners[address] = nursery, serve

    async def connect(self, host: str, address: str) -> SimStream:
        """Connect from a host to an address.

        ConnectionRefusedError when nothing listens there. Waits as long as the link is cut or the other machine is
        gone: the caller has the time limit.
        """
        target = _host_of(address)
        await trio.sleep(self._delay(host, target))
        while self.is_cut(host, target) or self.is_cut(target, host):
            await self._changed.wait()
        await trio.sleep(self._delay(target, host))
        listener = self._listeners.get(address)
        if listener is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nothing listens on {address}")
        there, back = _Pipe(host, target), _Pipe(target, host)
        ours, theirs = SimStream(self, there, back), SimStream(self, back, there)
        self._streams = [pair for pair in self._streams if not all(stream.is_closed for stream in pair)]
        self._streams.append((ours, theirs))
        self._port += 1
        nursery, serve = listener
        nursery.start_soon(serve, theirs, f"{host}:{self._port}")
        return ours

    # ---- faults ---------------------------------------------------------------------------------------------------

    def set_link(self, source: str, target: str, link: Link) -> None:
        """Set one direction; it counts for bytes that are sent from now on."""
        self._links[source, target] = link

    def cut(self, source: str, target: str, *, one_way: bool = False) -> None:
        """Hold back what goes from one host to another, and the other way round unless ``one_way``."""
        self._cuts |= {(source, target)} if one_way else {(source, target), (target, source)}

    def heal(self, source: str, target: str) -> None:
        """End the cuts between two hosts, in both directions."""
        self._cuts -= {(source, target), (target, source)}
        self._wake()

    def is_cut(self, source: str, target: str) -> bool:
        """Whether bytes in this direction are held back."""
        return (source, target) in self._cuts or source in self._lost or target in self._lost

    def reset(self, source: str, target: str) -> None:
        """Break all connections between two hosts for both sides, now."""
        for stream in self._streams_of(source) + self._streams_of(target):
            if {stream.outgoing.source, stream.outgoing.target} == {source, target}:
                _break(stream.outgoing, at=trio.current_time())

    def end_process(self, host: str) -> None:
        """End the programs on a host; the machine resets their connections."""
        self._close_listeners(host)
        for stream in self._streams_of(host):
            pipe = stream.outgoing
            at = max(trio.current_time() + self._delay(host, pipe.target), pipe.arrives_at)
            stream.close()
            pipe.ended_at = None
            _break(pipe, at=at)
        self._forget(host)

    def lose_host(self, host: str) -> None:
        """End the machine: its peers get no notice."""
        self._close_listeners(host)
        self._lost.add(host)

    def return_host(self, host: str) -> None:
        """Bring a machine back without its connections; peers find them reset."""
        self._lost.discard(host)
        for stream in self._streams_of(host):
            _break(stream.outgoing, at=trio.current_time() + self._delay(host, stream.outgoing.target))
            stream.incoming.refused_at = trio.current_time()
            stream.close()
        self._forget(host)
        self._wake()

    # ---- for streams ----------------------------------------------------------------------------------------------

    def put(self, pipe: _Pipe, segment: bytes) -> None:
        """Put bytes under way."""
        link = self._links.get((pipe.source, pipe.target), _USUAL)
        pipe.sent_at = max(trio.current_time(), pipe.sent_at) + len(segment) / link.bytes_per_s
        pipe.arrives_at = max(pipe.arrives_at, pipe.sent_at + self._delay(pipe.source, pipe.target))
        # To a closed reader too: its sender learns of it later, and until then has the room of a buffer.
        pipe.segments.append((pipe.arrives_at, segment))
        pipe.size += len(segment)
        pipe.wake()

    def put_end(self, pipe: _Pipe) -> None:
        """Put the end of the stream under way."""
        pipe.ended_at = max(pipe.arrives_at, trio.current_time() + self._delay(pipe.source, pipe.target))
        pipe.wake()

    def refuse(self, pipe: _Pipe) -> None:
        """Let the writer of a direction find it broken, once it can know that its reader has closed."""
        if pipe.refused_at is None:
            pipe.refused_at = trio.current_time() + self._delay(pipe.target, pipe.source)
            pipe.wake()

    def _delay(self, source: str, target: str) -> float:
        link = self._links.get((source, target), _USUAL)
        return link.delay_s + link.jitter_s * self._randomness.random()

    def _streams_of(self, host: str) -> list[SimStream]:
        return [stream for pair in self._streams for stream in pair if stream.outgoing.source == host]

    def _forget(self, host: str) -> None:
        self._streams = [
            pair for pair in self._streams if host not in (pair[0].outgoing.source, pair[1].outgoing.source)
        ]

    def _close_listeners(self, host: str) -> None:
        for address in [address for address in self._listeners if _host_of(address) == host]:
            del self._listeners[address]

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
        for pair in self._streams:
            for stream in pair:
                stream.outgoing.wake()


_USUAL = Link()


def _host_of(address: str) -> str:
    return address.rpartition(":")[0]


def _break(pipe: _Pipe, *, at: float) -> None:
    """Reset a connection: the reader of this direction finds it broken, and so does the writer of the other one."""
    pipe.broken_at = at if pipe.broken_at is None else min(pipe.broken_at, at)
    pipe.refused_at = at if pipe.refused_at is None else min(pipe.refused_at, at)
    pipe.wake()
