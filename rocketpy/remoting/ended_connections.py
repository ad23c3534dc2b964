"""Queue of ended connections whose ``on_close`` callback is still due.

A send may discover that its peer is gone, in the middle of a notification, a burst or a turn of the hub. Only the
socket is closed there. The consequences (a consumer group changes, its other members are notified, and their sockets
may be gone too) run later in a task of their own. So no send ever causes another one, however many peers disconnect
together.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

import trio

from rocketpy.containment import Contained
from rocketpy.remoting.connection import Connection

ENDS_PER_SLICE = 16
"""Ends handled before a checkpoint: each may notify a thousand other members of a group."""

_log = logging.getLogger("rocketpy.remoting")


class EndedConnections:
    """The queue and the task that drains it. One per server."""

    def __init__(self, on_close: Callable[[Connection], None] | None) -> None:
        self._on_close = on_close
        self._ended: deque[Connection] = deque()
        self._wake = trio.Event()

    def add(self, connection: Connection) -> None:
        """Queue the end of a connection; calls no callback."""
        self._ended.append(connection)
        self._wake.set()

    async def run(self) -> None:
        """Call ``on_close`` for ends as they come, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            while self._ended:
                self._notify(ENDS_PER_SLICE)
                await trio.lowlevel.checkpoint()

    def finish(self) -> None:
        """Call ``on_close`` for all that is left, at shutdown."""
        self._notify(len(self._ended))

    def _notify(self, count: int) -> None:
        for _ in range(min(count, len(self._ended))):
            connection = self._ended.popleft()
            if self._on_close is not None:
                with Contained(_log, "the end of the connection of %s", connection.peer):
                    self._on_close(connection)
