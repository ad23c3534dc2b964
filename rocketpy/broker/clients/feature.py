"""The clients feature: heartbeats, membership of groups, consumer offsets, locks of queues.

Composition only; no logic.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketpy.broker.acl.strict_accounts import StrictAccounts
from rocketpy.broker.clients.group_requests import ConsumerManageProcessor
from rocketpy.broker.clients.heartbeats import ClientManageProcessor
from rocketpy.broker.clients.housekeeping import ClientHousekeepingService
from rocketpy.broker.clients.lock_requests import LockProcessor
from rocketpy.broker.clients.notifications import ConsumerIdsChangedService
from rocketpy.broker.context import BrokerContext
from rocketpy.broker.feature import Feature
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher


class ClientsFeature(Feature):
    """The processors of connected clients, and the services that expire clients and notify groups.

    ``is_stopping`` returns True once the broker shuts down: then every connection closes, and no peer is left to be
    notified.
    """

    def __init__(
        self, context: BrokerContext, *, current_time: Callable[[], float], is_stopping: Callable[[], bool]
    ) -> None:
        config, tables = context.config, context.tables
        self.notifications = ConsumerIdsChangedService(consumer_manager=tables.consumers)
        self.housekeeping = ClientHousekeepingService(
            config=config,
            consumer_manager=tables.consumers,
            producer_manager=tables.producers,
            rebalance_lock_manager=tables.locks,
            consumer_filter_manager=tables.filters,
            group_changed=self.notifications.changed,
        )
        self._client_manage = ClientManageProcessor(
            config=config,
            topic_config_manager=tables.topics,
            subscription_group_manager=tables.groups,
            consumer_manager=tables.consumers,
            producer_manager=tables.producers,
            rebalance_lock_manager=tables.locks,
            group_changed=self.notifications.changed,
            accounts=StrictAccounts(tables.accounts),
            current_time=current_time,
        )
        self._consumer_manage = ConsumerManageProcessor(
            consumer_manager=tables.consumers,
            consumer_offset_manager=tables.offsets,
            offset_resets=tables.offset_resets,
            store=context.store,
        )
        self._lock = LockProcessor(config=config, rebalance_lock_manager=tables.locks)
        self._subscription_watch = tables.subscription_watch
        self._is_stopping = is_stopping
        self.services = (self.housekeeping, self.notifications)

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the codes of clients other than sends and pulls."""
        self._client_manage.register(dispatcher)
        self._consumer_manage.register(dispatcher)
        self._lock.register(dispatcher)

    def figures(self) -> dict[str, str]:
        """Return how many groups have members with different subscriptions."""
        return self._subscription_watch.runtime_info()

    def connection_closed(self, connection: Connection) -> None:
        """Remove a client from its groups, and mark the groups as changed."""
        if not self._is_stopping():
            self.housekeeping.connection_closed(connection)
