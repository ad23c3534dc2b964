"""The connections of a server that have ended, until the program has been told of each.

A send may find that its peer is gone, in the middle of a notification, a burst or a turn of the hub. What ends then is
the socket; what the program makes of it (groups change, other members are notified, whose sockets may be gone too)
happens later, in a task of its own: no send leads to another one, however many peers die together.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

import trio

from rocketpy.containment import Contained
from rocketpy.remoting.connection import Connection

ENDS_PER_SLICE = 16
"""So many are told before others have a turn: the end of one member may notify a thousand others."""

_log = logging.getLogger("rocketpy.remoting")


class EndedConnections:
    """A queue of ends, and the task that works it off. One per server."""

    def __init__(self, on_close: Callable[[Connection], None] | None) -> None:
        self._on_close = on_close
        self._ended: deque[Connection] = deque()
        self._wake = trio.Event()

    def add(self, connection: Connection) -> None:
        """Note the end of a connection; calls nothing."""
        self._ended.append(connection)
        self._wake.set()

    async def run(self) -> None:
        """Tell of ends as they come, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            while self._ended:
                self._tell(ENDS_PER_SLICE)
                await trio.lowlevel.checkpoint()

    def finish(self) -> None:
        """Tell of all that is left: nothing runs any more."""
        self._tell(len(self._ended))

    def _tell(self, count: int) -> None:
        for _ in range(min(count, len(self._ended))):
            connection = self._ended.popleft()
            if self._on_close is not None:
                with Contained(_log, "the end of the connection of %s", connection.peer):
                    self._on_close(connection)
