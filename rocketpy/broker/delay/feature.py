"""The delay feature: puts delayed messages into the queue of their level, and delivers them when they are due.

Composition only; no logic.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rocketpy.broker.context import BrokerContext
from rocketpy.broker.delay.admin import AdminDelayProcessor
from rocketpy.broker.delay.dead_letter import DelayDeadLetters
from rocketpy.broker.delay.delivery import ScheduleMessageService
from rocketpy.broker.feature import Feature
from rocketpy.broker.metadata.topics import TopicConfigManager
from rocketpy.broker.send.put import MessagePut
from rocketpy.protocol.codes import PERM_READ
from rocketpy.protocol.topic_name import DELAY_DEAD_LETTER_TOPIC
from rocketpy.remoting.dispatch import Dispatcher


class DelayFeature(Feature):
    """``message_put``, which every feature puts messages with, and the service that delivers delayed ones."""

    def __init__(self, context: BrokerContext, *, serve_woken: Callable[[], None]) -> None:
        tables, store_config = context.tables, context.store_config
        self.schedule = ScheduleMessageService(
            store=context.store,
            levels=tables.levels,
            offsets=tables.delay_offsets,
            clock=context.clock,
            flush_interval_ms=store_config.flush_delay_offset_interval,
            serve_woken=serve_woken,
            dead_letters=DelayDeadLetters(
                store=context.store, make_topic=partial(_make_dead_letter_topic, tables.topics)
            ),
            stats=tables.stats if store_config.enable_schedule_message_stats else None,
            queue_to_deliver=tables.topics.queue_to_deliver,
            is_deleted=tables.deleted_topics.has_record,
        )
        self.message_put = MessagePut(store=context.store, levels=tables.levels, delivery=self.schedule)
        self._admin = AdminDelayProcessor(delay_offset_manager=tables.delay_offsets)
        if not context.is_slave:  # a slave delivers nothing
            self.services = (self.schedule,)

    def register(self, dispatcher: Dispatcher) -> None:
        """Register GET_ALL_DELAY_OFFSET."""
        self._admin.register(dispatcher)

    def figures(self) -> dict[str, str]:
        """Return the lag of each delay level."""
        return self.schedule.runtime_info()


def _make_dead_letter_topic(topics: TopicConfigManager) -> None:
    """Create the dead-letter topic unless it exists: operators read it, only the broker writes it."""
    topics.create_topic_in_send_message_back_method(DELAY_DEAD_LETTER_TOPIC, 1, PERM_READ, 0)
