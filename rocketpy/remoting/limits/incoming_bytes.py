"""A limit on the memory that the unfinished frames of all connections of a server hold together.

One peer may announce a frame of 16 MiB and send it slowly; a thousand of them may not. Above the limit the connection
that holds most is closed. Both drivers of a server share one instance.
"""

from __future__ import annotations

import logging

from rocketpy.remoting.connection import Connection

_log = logging.getLogger("rocketpy.remoting")


class IncomingBytes:
    """Sizes of unfinished frames, as of the last read of each connection."""

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._size = 0
        self._size_of: dict[Connection, int] = {}

    @property
    def connection_count(self) -> int:
        """Number of connections with an unfinished frame that counts."""
        return len(self._size_of)

    def account(self, connection: Connection) -> None:
        """Record what a connection holds now; above the limit, close the connection that holds most."""
        size = 0 if connection.is_closed else connection.buffered_size
        self._size += size - self._size_of.pop(connection, 0)
        if size:
            self._size_of[connection] = size
        if self._size > self._size_max:
            largest = max(self._size_of, key=self._size_of.__getitem__)
            _log.warning(
                "unfinished frames hold %d bytes, the limit is %d; closing %s, which holds %d",
                self._size,
                self._size_max,
                largest.peer,
                self._size_of[largest],
            )
            largest.close()

    def forget(self, connection: Connection) -> None:
        """Remove a connection that has ended."""
        self._size -= self._size_of.pop(connection, 0)
