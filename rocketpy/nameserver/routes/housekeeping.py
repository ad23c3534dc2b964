"""Removal of brokers from the routes when their connection ends or their registration expires.

The topics of a removed broker are freed a slice at a time: one may have a hundred thousand.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import attrs
import trio

from rocketpy.containment import Contained
from rocketpy.nameserver.routes.broker_table import BROKER_EXPIRED_SECONDS
from rocketpy.nameserver.routes.route_info import RouteInfoManager
from rocketpy.remoting.connection import Connection

FIRST_SCAN_SECONDS = 5.0
SCAN_PERIOD_SECONDS = 10.0

_log = logging.getLogger("rocketpy.nameserver")


@attrs.frozen
class HousekeepingStatistics:
    """Counters since the start."""

    scans: int
    expired_addresses: int
    disconnected_addresses: int


class BrokerHousekeepingService:
    """Scan loop over the live table, and the callback for closed connections."""

    def __init__(self, *, route_info: RouteInfoManager[Connection], current_time: Callable[[], float]) -> None:
        self._route_info = route_info
        self._current_time = current_time
        self._scans = 0
        self._expired = 0
        self._disconnected = 0
        self._has_ended = False  # with the nameserver, which then ends its connections itself

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Scan after 5 seconds and then every 10, until cancelled."""
        task_status.started()
        try:
            await trio.sleep(FIRST_SCAN_SECONDS)
            while True:
                with Contained(_log, "a scan for brokers that have expired"):
                    self.scan_not_active_brokers()
                while self._route_info.purge():
                    await trio.lowlevel.checkpoint()
                await trio.sleep(SCAN_PERIOD_SECONDS)
        finally:
            self._has_ended = True

    def scan_not_active_brokers(self) -> None:
        """Remove expired addresses and close their connections."""
        self._scans += 1
        for broker_addr, connection in self._route_info.remove_expired_brokers(self._current_time()):
            self._expired += 1
            _log.warning("broker %s expired: no registration for %d s", broker_addr, BROKER_EXPIRED_SECONDS)
            connection.close()

    def connection_closed(self, connection: Connection) -> None:
        """Remove at once the brokers that were registered over a closed connection.

        They leave all routes immediately; the remaining topic entries are freed by the next scans. When the nameserver
        stops, its tables are not changed: a warning for each broker would be about nothing.
        """
        if self._has_ended:
            return
        for broker_addr in self._route_info.remove_connection(connection, connection.peer):
            self._disconnected += 1
            _log.warning("broker %s removed: its connection ended", broker_addr)
        self._route_info.purge()

    def statistics(self) -> HousekeepingStatistics:
        """Return the counters."""
        return HousekeepingStatistics(self._scans, self._expired, self._disconnected)
