"""The two ends of a slave's connection, and a log in memory."""

from __future__ import annotations

from random import Random

import attrs
import trio

from rocketpy.errors import DescriptorShortageError
from rocketpy.store.ha.protocol import FramePart, FrameReader, encode_report
from rocketpy.testing.sim.network import Link, SimNetwork
from rocketpy.testing.sim.stream import Pipe, SimStream


def stream_pair() -> tuple[SimStream, SimStream]:
    """Return the slave's and the master's end of a connection whose bytes arrive at once."""
    network = SimNetwork(randomness=Random(0))
    for source, target in (("slave", "master"), ("master", "slave")):
        network.set_link(source, target, Link(delay_s=0))
    there, back = Pipe("slave", "master"), Pipe("master", "slave")
    return SimStream(network, there, back), SimStream(network, back, there)


@attrs.define
class MemoryLog:
    """A log of the master: bytes from ``min_offset`` on. Cold bytes are read by a task."""

    content: bytes = b""
    min_offset: int = 0
    file_size: int = 1000
    is_cold: bool = False
    cold_reads: int = 0
    shortages: int = 0
    """Reads on the event loop that are still to fail for lack of a descriptor."""

    @property
    def end_offset(self) -> int:
        return self.min_offset + len(self.content)

    def append(self, size: int) -> None:
        self.content += bytes((self.end_offset + n) % 251 for n in range(size))

    def delete_before(self, offset: int) -> None:
        self.content, self.min_offset = self.content[offset - self.min_offset :], offset

    def read_nowait(self, offset: int, size: int) -> bytes | None:
        if self.shortages:
            self.shortages -= 1
            raise DescriptorShortageError("cannot open", path="the log")
        return None if self.is_cold else self._read(offset, size)

    async def read(self, offset: int, size: int) -> bytes:
        await trio.lowlevel.checkpoint()
        self.cold_reads += 1
        return self._read(offset, size)

    def _read(self, offset: int, size: int) -> bytes:
        if offset < self.min_offset:
            return b""
        size = min(size, self.file_size - offset % self.file_size)
        return self.content[offset - self.min_offset :][:size]


@attrs.define
class SlavePeer:
    """A slave, as the test plays it."""

    stream: SimStream
    frames: FrameReader
    received: bytes = b""
    sizes: list[int] = attrs.Factory(list)

    async def report(self, *offsets: int) -> None:
        await self.stream.send_all(b"".join(map(encode_report, offsets)))

    async def receive(self, size: int) -> bytes:
        """Return the log as far as it was received, once it has ``size`` bytes."""
        while len(self.received) < size:
            self._take(await self._some())
        return self.received

    async def heartbeat(self) -> int:
        """Return the offset of the next heartbeat."""
        while True:
            for part in self._take(await self._some()):
                if not part.data:
                    return part.offset

    async def is_closed(self) -> bool:
        """Wait for the end of the connection; False if the log goes on instead."""
        while data := bytes(await self.stream.receive_some()):
            if any(part.data for part in self._take(data)):
                return False
        await trio.testing.wait_all_tasks_blocked()
        return True

    async def _some(self) -> bytes:
        data = bytes(await self.stream.receive_some())
        assert data, "the master has closed the connection"
        return data

    def _take(self, data: bytes) -> list[FramePart]:
        parts = self.frames.receive(data)
        self.received += b"".join(part.data for part in parts)
        self.sizes += [len(part.data) for part in parts if part.data]
        return parts
