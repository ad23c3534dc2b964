"""The master's side of replication: accepts slaves, and lets their connections send when the log grows.

Every connection is contained: what a peer sends ends that connection, with one log line. The number of connections is
bounded, because any peer that reaches the port can open one.

Compatibility: ``HAService`` (4.9.8). RocketMQ counts every TCP connection as a slave; here it is one after a valid
request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import attrs

from rocketpy.containment import Contained
from rocketpy.errors import RemoteProtocolError
from rocketpy.store.ha.connection import HAConnection, HAStream, HATimes, LogSource, close_forcefully
from rocketpy.store.ha.slave_progress import SlaveAheadError, SlaveBehindError, SlaveProgress

CONNECTIONS_MAX = 64
"""Connections to the replication port. A master has a handful of slaves."""

_log = logging.getLogger("rocketpy.store.ha")


@attrs.frozen
class HAStatistics:
    """Slaves and counters since the start."""

    connections: int
    slaves: int
    refused_count: int
    """Connections that were closed for what they reported."""
    ahead_count: int
    """Of those: slaves whose log ended beyond ours."""
    behind_count: int
    """Of those: slaves that needed deleted files."""


class HAService:
    """The connections of slaves."""

    def __init__(self, *, log: LogSource, settings: Callable[[], HATimes], acknowledged: Callable[[], None]) -> None:
        self._log = log
        self._settings = settings
        self._acknowledged = acknowledged
        self._connections: dict[HAConnection, None] = {}
        self._refused_count = 0
        self._ahead_count = 0
        self._behind_count = 0

    def slaves(self) -> list[SlaveProgress]:
        """Return the progress of the live connections with a valid request."""
        return [each.progress for each in self._connections if each.progress.is_slave]

    def slaves_by_peer(self) -> dict[str, SlaveProgress]:
        """Return the same, by HOST:PORT of the slave's side of the connection."""
        return {each.peer: each.progress for each in self._connections if each.progress.is_slave}

    def wake(self) -> None:
        """Send what was appended; called at the end of each burst."""
        for connection in self._connections:
            connection.wake()

    def statistics(self) -> HAStatistics:
        """Return slaves and counters."""
        return HAStatistics(
            len(self._connections), len(self.slaves()), self._refused_count, self._ahead_count, self._behind_count
        )

    async def serve(self, stream: HAStream, peer: str) -> None:
        """Serve one connection until it ends; closes the stream."""
        if len(self._connections) >= CONNECTIONS_MAX:
            _log.warning("%s is refused: %d connections to the replication port are open", peer, CONNECTIONS_MAX)
            await close_forcefully(stream)
            return
        connection = HAConnection(
            stream, peer=peer, log=self._log, settings=self._settings, acknowledged=self._acknowledged
        )
        self._connections[connection] = None
        try:
            with Contained(_log, "serving the slave %s, whose connection is closed,", peer):
                await self._serve(connection)
        finally:
            del self._connections[connection]  # what it has acknowledged counts no longer

    async def _serve(self, connection: HAConnection) -> None:
        try:
            await connection.run()
        except* RemoteProtocolError as failures:
            for failure in failures.exceptions:
                self._refused_count += 1
                self._ahead_count += isinstance(failure, SlaveAheadError)
                self._behind_count += isinstance(failure, SlaveBehindError)
                _log.warning("the connection of %s is closed: %s", connection.peer, failure)
