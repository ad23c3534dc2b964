"""The pull feature: pulls, long polling, checks of a pull, and services that measure consumers.

Composition only; no logic.
"""

from __future__ import annotations

from rocketpy.broker.context import BrokerContext
from rocketpy.broker.feature import Feature
from rocketpy.broker.hooks import ConsumeHooks
from rocketpy.broker.monitoring.consumer_lag import ConsumerLagService
from rocketpy.broker.monitoring.slow_consumer import SlowConsumerService
from rocketpy.broker.pull.checks import PullCheck
from rocketpy.broker.pull.long_polling import PullRequestHoldService
from rocketpy.broker.pull.offset_moved import OffsetMovedEvents
from rocketpy.broker.pull.processor import PullMessageProcessor
from rocketpy.broker.send.put import MessagePut
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher


class PullFeature(Feature):
    """The processor of pulls, the service that holds pulls, and the services that measure consumers."""

    def __init__(
        self,
        context: BrokerContext,
        *,
        message_put: MessagePut,
        hold_service: PullRequestHoldService,
        hooks: ConsumeHooks,
    ) -> None:
        config, tables, store = context.config, context.tables, context.store
        self.lag = ConsumerLagService(
            consumer_manager=tables.consumers, consumer_offset_manager=tables.offsets, store=store
        )
        self.slow_consumers = SlowConsumerService(
            config=config, stats=tables.stats, subscription_group_manager=tables.groups
        )
        self.services = (hold_service, self.lag, self.slow_consumers)
        self._hold_service = hold_service
        self._processor = PullMessageProcessor(
            store=store,
            store_config=context.store_config,
            hold_service=hold_service,
            check=PullCheck(
                config=config,
                topic_config_manager=tables.topics,
                subscription_group_manager=tables.groups,
                consumer_manager=tables.consumers,
                consumer_filter_manager=tables.filters,
            ),
            consumer_offset_manager=tables.offsets,
            offset_moved_events=OffsetMovedEvents(
                store=store,
                message_put=message_put,
                broker_name=config.broker_name,
                store_host=context.store_host,
                clock=context.clock,
            ),
            config=config,
            stats=tables.stats,
            hooks=hooks,
            accounts=tables.accounts,
        )
        if tables.accounts is not None:
            tables.accounts.on_change(hold_service.wake_all)

    def register(self, dispatcher: Dispatcher) -> None:
        """Register PULL_MESSAGE."""
        self._processor.register(dispatcher)

    def figures(self) -> dict[str, str]:
        """Return the lag of all consumer groups."""
        return self.lag.runtime_info()

    def connection_closed(self, connection: Connection) -> None:
        """Drop the pulls that are held for a connection."""
        self._hold_service.drop_connection(connection)
