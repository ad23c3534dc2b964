"""In-memory network with fault injection: TCP-like streams between named hosts, over Trio's clock.

A program gets its host's side of it, :meth:`SimNetwork.host`, which is a ``rocketpy.remoting.network.Network``. Hosts
are named by their numeric addresses, since brokers pack these into records. Under a mock clock nothing here takes real
time, and one seed replays every delay. The fault model:

- A connection delivers each direction's bytes in order and unchanged, or not at all. Connections do not wait for each
  other: with jitter a later one may overtake an earlier one.
- :class:`Link` sets delay, jitter and bandwidth of one direction between two hosts. A sender that is faster than link
  or reader waits once ``BUFFER_SIZE`` bytes are under way: a slow reader slows its sender down. It may also find out
  late that its bytes were taken, when the reader has long answered.
- :meth:`SimNetwork.cut` holds bytes back in one or both directions, and lets connection attempts wait; nothing is
  lost, and after :meth:`SimNetwork.heal` it goes on, as TCP does by sending again. No program is notified.
- :meth:`SimNetwork.reset` breaks the connections between two hosts: both sides find them broken at their next call, and
  bytes under way are gone.
- :meth:`SimNetwork.end_process` is the end of a process: its listeners refuse, and its peers find their connections
  reset once the news has crossed the link; never, if the link is cut for good. The host's side that it had is dead.
- :meth:`SimNetwork.lose_host` is the end of a machine: nothing is sent any more, so its peers hold half-open
  connections, and attempts to connect wait. :meth:`SimNetwork.return_host` brings it back empty: what still arrives for
  an old connection is answered by a reset.

Nothing here runs in a task of its own, and no host starts a task for another one.

Not simulated: datagrams, names, TLS (which runs over any stream), and TCP's own limit on unacknowledged data in time.
"""

from __future__ import annotations

import errno
import math
from collections import deque
from collections.abc import Callable, Sequence
from random import Random

import attrs
import trio

from rocketpy.errors import RemotingConnectError, RemotingRefusedError, StartError
from rocketpy.protocol.host import host_of
from rocketpy.remoting.network import BACKLOG, Address, address_in_use, split_address
from rocketpy.testing.sim.stream import Pipe, SimStream, break_pipe

_FIRST_PORT = 50_000
_PORTS = 15_000


@attrs.frozen
class Link:
    """One direction between two hosts: seconds, and bytes a second."""

    delay_s: float = 0.0005
    jitter_s: float = 0.0
    bytes_per_s: float = math.inf
    returns_after_s: float = 0.0
    """How long a sender still waits in ``send_all`` when the link has its bytes, as one that gets no turn."""


class SimListener:
    """A listening port: connections that are established wait here to be accepted."""

    sock = None

    def __init__(self, network: SimNetwork, host: str, port: int, backlog: int) -> None:
        self.host = host
        self.port = port
        self._network = network
        self._backlog = backlog
        self._waiting: deque[tuple[SimStream, Address]] = deque()
        self._changed = trio.Event()
        self._is_closed = False

    @property
    def has_room(self) -> bool:
        """Whether one more connection may wait."""
        return len(self._waiting) < self._backlog

    async def accept(self) -> tuple[SimStream, Address]:
        """Wait for the next connection; return it and its peer's address."""
        await trio.lowlevel.checkpoint()
        while not self._is_closed:
            if self._waiting:
                self._network.wake()
                return self._waiting.popleft()
            await self._changed.wait()
        raise trio.ClosedResourceError("the listener is closed")

    def put(self, stream: SimStream, peer: Address) -> None:
        """Add an established connection."""
        self._waiting.append((stream, peer))
        self._wake()

    def close(self) -> None:
        """Refuse from now on; connections that were not accepted are reset."""
        if self._is_closed:
            return
        self._is_closed = True
        self._network.remove_listener(self)
        for stream, _ in self._waiting:
            break_pipe(stream.outgoing, at=trio.current_time())
            stream.close()
        self._waiting.clear()
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


class SimHostNetwork:
    """The network as one process of a host sees it, until that process ends."""

    def __init__(self, network: SimNetwork, host: str) -> None:
        self._network = network
        self._host = host
        self.is_dead = False

    async def listen(self, host: str | None, port: int, backlog: int = BACKLOG) -> Sequence[SimListener]:
        """Listen on a port of this host; it has one address, which None and "" name too."""
        if host and host != self._host:
            raise StartError(f"cannot listen on {host}, port {port}: Cannot assign requested address")
        if self.is_dead:
            raise StartError(f"cannot listen on {self._host}, port {port}: the process has ended")
        return [self._network.listen(self._host, port, backlog)]

    async def connect(self, address: str) -> SimStream:
        """Connect to an address; waits as long as the link is cut or the other machine is gone."""
        split_address(address)
        self._require_life(address)
        try:
            stream = await self._network.connect(self._host, address)
        except ConnectionRefusedError as failure:
            raise RemotingRefusedError(f"cannot connect to {address}: {failure}") from failure
        try:
            self._require_life(address)  # it may have ended meanwhile
        except RemotingConnectError:
            stream.close()
            raise
        return stream

    def local_address(self) -> str:
        """Return the host's only address."""
        return self._host

    def _require_life(self, address: str) -> None:
        if self.is_dead:
            raise RemotingConnectError(f"cannot connect to {address}: the process has ended")


class SimNetwork:
    """Hosts, the links between them, and their connections. Addresses are ``host:port``."""

    def __init__(self, *, randomness: Random) -> None:
        self.observer: Callable[[str, str, bytes], None] | None = None
        """Called with source, target and bytes when a program has sent something; for the trace of a run."""
        self._randomness = randomness
        self._links: dict[tuple[str, str], Link] = {}
        self._cuts: set[tuple[str, str]] = set()
        self._closed_ports: set[str] = set()
        self._lost: set[str] = set()
        self._sides: dict[str, list[SimHostNetwork]] = {}  # of each host, those of its living processes
        self._listeners: dict[str, SimListener] = {}
        self._streams: list[tuple[SimStream, SimStream]] = []  # both ends of connections that are not over
        self._addresses: dict[SimStream, str] = {}  # of the first of both ends, where it has connected to
        self._half_open: list[SimStream] = []  # ends of lost hosts, whose peers have not found out
        self._changed = trio.Event()
        self._port_count = 0

    def host(self, host: str) -> SimHostNetwork:
        """Return the side of a host for a process that begins there."""
        side = SimHostNetwork(self, host)
        self._sides.setdefault(host, []).append(side)
        return side

    # ---- faults ---------------------------------------------------------------------------------------------------

    def set_link(self, source: str, target: str, link: Link) -> None:
        """Set one direction; what is under way goes on at the new pace if that is sooner."""
        self._links[source, target] = link
        for stream in self._streams_of(source):
            if stream.outgoing.target == target:
                stream.outgoing.hurry(trio.current_time(), link.delay_s + link.jitter_s, link.bytes_per_s)
                if not self.is_cut(source, target):
                    stream.outgoing.wake()

    def cut(self, source: str, target: str, *, one_way: bool = False) -> None:
        """Hold back what goes from one host to another, and the other way round unless ``one_way``."""
        self._cuts |= {(source, target)} if one_way else {(source, target), (target, source)}

    def heal(self, source: str, target: str) -> None:
        """End the cuts between two hosts, in both directions."""
        self._cuts -= {(source, target), (target, source)}
        self._wake_all()

    def is_cut(self, source: str, target: str) -> bool:
        """Whether bytes in this direction are held back."""
        return (source, target) in self._cuts or source in self._lost or target in self._lost

    def close_port(self, address: str) -> None:
        """Break the connections to HOST:PORT, and refuse others, while the host's other ports are reached as ever."""
        self._closed_ports.add(address)
        for first, second in self._streams:
            if self._addresses.get(first) == address:
                for stream in (first, second):
                    break_pipe(stream.outgoing, at=trio.current_time())

    def open_port(self, address: str) -> None:
        """End that."""
        self._closed_ports.discard(address)

    def reset(self, source: str, target: str) -> None:
        """Break all connections between two hosts for both sides, now."""
        for stream in self._streams_of(source) + self._streams_of(target):
            if {stream.outgoing.source, stream.outgoing.target} == {source, target}:
                break_pipe(stream.outgoing, at=trio.current_time())

    def end_process(self, host: str) -> None:
        """End the programs on a host; the machine resets their connections."""
        self._end_sides(host)
        for stream in self._streams_of(host):
            if not stream.is_closed:
                pipe = stream.outgoing
                at = max(trio.current_time() + self._delay(host, pipe.target), pipe.arrives_at)
                stream.close()
                pipe.ended_at = None
                break_pipe(pipe, at=at)

    def lose_host(self, host: str) -> None:
        """End the machine: its peers get no notice."""
        self._lost.add(host)
        self._end_sides(host)
        for stream in self._streams_of(host):
            if not stream.is_closed:
                stream.close()
                self._half_open.append(stream)

    def return_host(self, host: str) -> None:
        """Bring a machine back without its connections; peers find them reset."""
        self._lost.discard(host)
        for stream in self._half_open:
            pipe = stream.outgoing
            if pipe.source == host:
                pipe.drop()  # the machine does not send again what was under way
                pipe.ended_at = None
                break_pipe(pipe, at=trio.current_time() + self._delay(host, pipe.target))
                stream.incoming.refused_at = trio.current_time()
        self._half_open = [stream for stream in self._half_open if stream.outgoing.source != host]
        self._wake_all()

    # ---- for the sides of the hosts -------------------------------------------------------------------------------

    def listen(self, host: str, port: int, backlog: int) -> SimListener:
        """Open a listener; port 0 is replaced by a free one. StartError when the port is in use."""
        port = port or next(each for each in range(1024, 65_536) if f"{host}:{each}" not in self._listeners)
        if f"{host}:{port}" in self._listeners:
            raise address_in_use(host, port)
        listener = self._listeners[f"{host}:{port}"] = SimListener(self, host, port, backlog)
        return listener

    def remove_listener(self, listener: SimListener) -> None:
        """Refuse connections to a listener from now on."""
        del self._listeners[f"{listener.host}:{listener.port}"]
        self.wake()

    async def connect(self, host: str, address: str) -> SimStream:
        """Connect from a host to an address; ConnectionRefusedError when nothing listens there."""
        target = host_of(address)
        await trio.sleep(self._delay(host, target))
        while self.is_cut(host, target) or self.is_cut(target, host):
            await self._changed.wait()
        await trio.sleep(self._delay(target, host))
        while (listener := self._listeners.get(address)) is not None and not listener.has_room:
            await self._changed.wait()
        if listener is None or address in self._closed_ports:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        there, back = Pipe(host, target), Pipe(target, host)
        ours, theirs = SimStream(self, there, back), SimStream(self, back, there)
        self._streams = [pair for pair in self._streams if not all(stream.is_closed for stream in pair)]
        self._streams.append((ours, theirs))
        self._addresses = {first: self._addresses[first] for first, _ in self._streams if first in self._addresses}
        self._addresses[ours] = address
        self._port_count += 1
        listener.put(theirs, (host, _FIRST_PORT + self._port_count % _PORTS))
        return ours

    def wake(self) -> None:
        """Let attempts to connect look again."""
        self._changed.set()
        self._changed = trio.Event()

    # ---- for streams ----------------------------------------------------------------------------------------------

    def put(self, pipe: Pipe, segment: bytes) -> None:
        """Put bytes under way."""
        if self.observer is not None:
            self.observer(pipe.source, pipe.target, segment)
        link = self._links.get((pipe.source, pipe.target), _USUAL)
        pipe.sent_at = max(trio.current_time(), pipe.sent_at) + len(segment) / link.bytes_per_s
        pipe.arrives_at = max(pipe.arrives_at, pipe.sent_at + self._delay(pipe.source, pipe.target))
        # To a closed reader too: its sender learns of it later, and until then has the room of a buffer.
        pipe.segments.append((pipe.arrives_at, segment))
        pipe.size += len(segment)
        if not self.is_cut(pipe.source, pipe.target):  # healing it wakes the reader
            pipe.arrives_next(pipe.segments[0][0])

    def returns_after(self, pipe: Pipe) -> float:
        """Return how many seconds a sender still waits when its bytes are under way."""
        return self._links.get((pipe.source, pipe.target), _USUAL).returns_after_s

    def put_end(self, pipe: Pipe) -> None:
        """Put the end of the stream under way."""
        pipe.ended_at = max(pipe.arrives_at, trio.current_time() + self._delay(pipe.source, pipe.target))
        pipe.wake()

    def refuse(self, pipe: Pipe) -> None:
        """Let the writer of a direction find it broken, once it can know that its reader has closed."""
        if pipe.refused_at is None:
            pipe.refused_at = trio.current_time() + self._delay(pipe.target, pipe.source)
            pipe.wake()

    def _delay(self, source: str, target: str) -> float:
        link = self._links.get((source, target), _USUAL)
        return link.delay_s + link.jitter_s * self._randomness.random()

    def _streams_of(self, host: str) -> list[SimStream]:
        return [stream for pair in self._streams for stream in pair if stream.outgoing.source == host]

    def _end_sides(self, host: str) -> None:
        for side in self._sides.pop(host, ()):
            side.is_dead = True
        for listener in [each for each in self._listeners.values() if each.host == host]:
            listener.close()

    def _wake_all(self) -> None:
        self.wake()
        for pair in self._streams:
            for stream in pair:
                stream.outgoing.wake()


_USUAL = Link()
