"""The pull side of a broker, put together: pulls, what may be pulled, and who watches those who pull.

Composition only: nothing here decides anything.
"""

from __future__ import annotations

from rocketpy.broker.context import BrokerContext
from rocketpy.broker.hooks import ConsumeHooks
from rocketpy.broker.monitoring.consumer_lag import ConsumerLagService
from rocketpy.broker.monitoring.slow_consumer import SlowConsumerService
from rocketpy.broker.pull.checks import PullCheck
from rocketpy.broker.pull.long_polling import PullRequestHoldService
from rocketpy.broker.pull.offset_moved import OffsetMovedEvents
from rocketpy.broker.pull.processor import PullMessageProcessor
from rocketpy.broker.send.put import MessagePut
from rocketpy.remoting.dispatch import Dispatcher


class PullFeature:
    """The processor of pulls, and the services that watch consumers."""

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
        self.services = (self.lag, self.slow_consumers)
        """What has to run for as long as the broker does."""
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
        )

    def register(self, dispatcher: Dispatcher) -> None:
        """Take PULL_MESSAGE."""
        self._processor.register(dispatcher)
