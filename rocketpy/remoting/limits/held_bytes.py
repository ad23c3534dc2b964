"""Limits on the memory that all connections of a program hold together: unfinished frames, and answers not read.

One peer may announce a frame of 16 MiB and send it slowly, or ask for answers and not read them; a thousand of them may
not. Above the limit the connection that holds most is closed, and the next one, until the rest is within it: a
connection that holds little is not closed for the sake of others. The ports of a program, and both drivers of each,
share these objects.

Only what a socket has not taken at once is counted, so an answer that leaves with its burst costs nothing here.
"""

from __future__ import annotations

import attrs

from rocketpy.protocol.host import host_of
from rocketpy.remoting.config import NettyServerConfig
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.limits.refusal_log import RefusalLog


class HeldBytes:
    """Bytes of one kind that each connection holds, as of its last change."""

    def __init__(self, *, what: str, setting: str, size_max: int, refusals: RefusalLog) -> None:
        """``what`` and ``setting`` are named in the line of the log about a connection that is closed."""
        self._what = what
        self._setting = setting
        self._size_max = size_max
        self._refusals = refusals
        self._size = 0
        self._size_of: dict[Connection, int] = {}

    @property
    def size(self) -> int:
        """Bytes of all connections."""
        return self._size

    @property
    def connection_count(self) -> int:
        """Number of connections that hold something."""
        return len(self._size_of)

    def has_room(self, size: int) -> bool:
        """Whether so many bytes more would close no connection."""
        return self._size + size <= self._size_max

    def hold(self, connection: Connection, size: int) -> None:
        """Record what a connection holds now; above the limit, close those that hold most, which may be this one."""
        if connection.is_closed:
            size = 0
        self._size += size - self._size_of.pop(connection, 0)
        if size:
            self._size_of[connection] = size
        while self._size > self._size_max:
            self._close_largest()

    def forget(self, connection: Connection) -> None:
        """Remove a connection that has ended."""
        self._size -= self._size_of.pop(connection, 0)

    def _close_largest(self) -> None:
        largest = max(self._size_of, key=self._size_of.__getitem__)
        held = self._size_of[largest]
        self._refusals.warn(
            host_of(largest.peer),
            "%s hold %d bytes, the limit is %d (%s); closing %s, which holds %d",
            self._what,
            self._size,
            self._size_max,
            self._setting,
            largest.peer,
            held,
        )
        self.forget(largest)
        largest.close()


@attrs.frozen
class ProgramBytes:
    """What the connections of all ports of a program hold."""

    incoming: HeldBytes
    outgoing: HeldBytes


def program_bytes(config: NettyServerConfig) -> ProgramBytes:
    """Return empty sums with the limits of the settings."""
    return ProgramBytes(
        incoming=unfinished_frames(config.incoming_bytes_max, "incomingBytesMax"),
        outgoing=unread_answers(config.outgoing_bytes_max, "outgoingBytesMax"),
    )


def unfinished_frames(size_max: int, setting: str) -> HeldBytes:
    """Return an empty sum of frames that have begun."""
    return HeldBytes(what="unfinished frames", setting=setting, size_max=size_max, refusals=RefusalLog())


def unread_answers(size_max: int, setting: str) -> HeldBytes:
    """Return an empty sum of what peers have not read."""
    return HeldBytes(what="answers that are not read", setting=setting, size_max=size_max, refusals=RefusalLog())
