"""Removal of clients that have disconnected or stopped their heartbeats; the remaining members are notified.

Compatibility: ``ClientHousekeepingService`` (4.9.8). There the scan removes a silent client first and then
closes its connection, so its group is not notified. Here the connection is closed, and the rest follows from that.
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
    """Counters since the start."""

    scans: int
    expired_connections: int
    dropped_locks: int
    dropped_filters: int


class ClientHousekeepingService:
    """Service with a loop over the client tables, and the callback for ended connections."""

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
        """``group_changed`` schedules a notification of the members of a group."""
        self._config = config
        self._consumer_manager = consumer_manager
        self._producer_manager = producer_manager
        self._rebalance_lock_manager = rebalance_lock_manager
        self._consumer_filter_manager = consumer_filter_manager
        self._group_changed = group_changed
        self._scans = 0
        self._expired = 0
        self._dropped_locks = 0
        self._dropped_filters = 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Scan every 10 seconds until cancelled."""
        task_status.started()
        while True:
            await trio.sleep(SCAN_PERIOD_SECONDS)
            with Contained(_log, "a scan for silent clients"):
                self.scan()

    def scan(self) -> None:
        """Close the connections of silent clients; drop expired locks and filters."""
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
                self.connection_closed(connection)  # idempotent: the server may have called it already
        self._dropped_locks += self._rebalance_lock_manager.drop_expired()
        self._dropped_filters += self._consumer_filter_manager.clean()

    def connection_closed(self, connection: Connection) -> None:
        """Remove an ended connection from every group and have the other consumers notified."""
        for group in self._consumer_manager.close_channel(connection):
            if self._config.notify_consumer_ids_changed_enable:
                self._group_changed(group)
        self._producer_manager.close_channel(connection)

    def statistics(self) -> ClientHousekeepingStatistics:
        """Return the counters."""
        return ClientHousekeepingStatistics(self._scans, self._expired, self._dropped_locks, self._dropped_filters)
