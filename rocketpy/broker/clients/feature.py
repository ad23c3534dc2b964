"""What clients tell a broker of themselves, put together: heartbeats, members of groups, offsets, locks of queues.

Composition only: nothing here decides anything.
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
from rocketpy.remoting.dispatch import Dispatcher


class ClientsFeature:
    """The processors for clients that are connected, and the services that forget clients and notify groups."""

    def __init__(self, context: BrokerContext, *, current_time: Callable[[], float]) -> None:
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
            group_changed=self.notifications.changed,
            accounts=StrictAccounts(tables.accounts),
            current_time=current_time,
        )
        self._consumer_manage = ConsumerManageProcessor(
            consumer_manager=tables.consumers, consumer_offset_manager=tables.offsets, store=context.store
        )
        self._lock = LockProcessor(config=config, rebalance_lock_manager=tables.locks)

    def register(self, dispatcher: Dispatcher) -> None:
        """Take the codes of clients that are neither sends nor pulls."""
        self._client_manage.register(dispatcher)
        self._consumer_manage.register(dispatcher)
        self._lock.register(dispatcher)
