"""The query feature: messages by key and by id."""

from __future__ import annotations

from rocketpy.broker.context import BrokerContext
from rocketpy.broker.feature import Feature
from rocketpy.broker.query.processor import QueryMessageProcessor
from rocketpy.remoting.dispatch import Dispatcher


class QueryFeature(Feature):
    """The processor of the two query codes."""

    def __init__(self, context: BrokerContext) -> None:
        self._processor = QueryMessageProcessor(
            store=context.store, default_query_max_num=context.store_config.default_query_max_num
        )

    def register(self, dispatcher: Dispatcher) -> None:
        """Register QUERY_MESSAGE and VIEW_MESSAGE_BY_ID."""
        self._processor.register(dispatcher)
