"""Takes clients out of the tables when their connection ends or they fall silent, and tells those who are left.

Compatibility: ``ClientHousekeepingService`` (4.9.8); broker.md 9. There the scan forgets a silent client first and then
closes its connection, so its group is not told; here the connection is closed and the rest follows from that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import attrs
import trio

from rocketpy.broker.clients.consumers import ConsumerManager
from rocketpy.broker.clients.producers import ProducerManager
from rocketpy.broker.clients.queue_locks import RebalanceLockManager
from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.pull.filters import ConsumerFilterManager
from rocketpy.containment import Contained
from rocketpy.log_files import event_fields
from rocketpy.remoting.connection import Connection

SCAN_PERIOD_SECONDS = 10.0

_log = logging.getLogger("rocketpy.broker")


@attrs.frozen
class ClientHousekeepingStatistics:
    """What has been done since the start."""

    scans: int
    expired_connections: int
    forgotten_locks: int
    forgotten_filters: int


class ClientHousekeepingService:
    """One loop over the client tables, and the verb that the server calls when a connection has ended."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        consumer_manager: ConsumerManager,
        producer_manager: ProducerManager,
        rebalance_lock_manager: RebalanceLockManager,
        consumer_filter_manager: ConsumerFilterManager,
        group_changed: Callable[[str], None],
    ) -> None:
        """``group_changed`` has the members of a group notified, later."""
        self._config = config
        self._consumer_manager = consumer_manager
        self._producer_manager = producer_manager
        self._rebalance_lock_manager = rebalance_lock_manager
        self._consumer_filter_manager = consumer_filter_manager
        self._group_changed = group_changed
        self._scans = 0
        self._expired = 0
        self._forgotten_locks = 0
        self._forgotten_filters = 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Scan every 10 seconds until cancelled."""
        task_status.started()
        while True:
            await trio.sleep(SCAN_PERIOD_SECONDS)
            with Contained(_log, "a scan for silent clients"):
                self.scan()

    def scan(self) -> None:
        """Close the connections of silent clients, drop locks that nobody has renewed for long, and old filters."""
        self._scans += 1
        silent = dict.fromkeys(
            [*self._consumer_manager.scan_not_active_channel(), *self._producer_manager.scan_not_active_channel()]
        )
        for connection in silent:
            self._expired += 1
            fields = event_fields(peer=connection.peer)
            _log.warning("client expired: no heartbeat, its connection is closed", extra=fields)
            connection.close()
            if connection.is_closed:
                self.connection_closed(connection)  # nothing is left to do when the server has called it already
        self._forgotten_locks += self._rebalance_lock_manager.forget_expired()
        self._forgotten_filters += self._consumer_filter_manager.clean()

    def connection_closed(self, connection: Connection) -> None:
        """Take a connection that has ended out of every group and tell the other consumers."""
        for group in self._consumer_manager.close_channel(connection):
            if self._config.notify_consumer_ids_changed_enable:
                self._group_changed(group)
        self._producer_manager.close_channel(connection)

    def statistics(self) -> ClientHousekeepingStatistics:
        """Return the counters."""
        return ClientHousekeepingStatistics(self._scans, self._expired, self._forgotten_locks, self._forgotten_filters)
