"""The administration feature: topics, groups, offsets, settings, accounts, the store, statistics.

Composition only; no logic.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from rocketpy.broker.admin.accounts import AdminAclProcessor
from rocketpy.broker.admin.broker import AdminBrokerProcessor
from rocketpy.broker.admin.clients import AdminClientProcessor
from rocketpy.broker.admin.consume_stats import ConsumeStatsProcessor
from rocketpy.broker.admin.group_offsets import AdminGroupOffsetProcessor
from rocketpy.broker.admin.groups import AdminGroupProcessor
from rocketpy.broker.admin.offsets import AdminOffsetProcessor
from rocketpy.broker.admin.queues import AdminQueueProcessor
from rocketpy.broker.admin.settings import AdminConfigProcessor
from rocketpy.broker.admin.stats import AdminStatsProcessor
from rocketpy.broker.admin.store import AdminStoreProcessor
from rocketpy.broker.admin.topics import AdminTopicProcessor
from rocketpy.broker.context import BrokerContext
from rocketpy.broker.feature import Feature
from rocketpy.broker.live_settings import LiveSettings
from rocketpy.broker.metadata.topic_deletions import TopicDeletions
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.remoting.whole_answer import WholeAnswers
from rocketpy.runner import RunBlocking


class AdminFeature(Feature):
    """The processors of administration. ``figures_of_all`` are the rows of the other features in the runtime info."""

    def __init__(
        self,
        context: BrokerContext,
        *,
        live_settings: LiveSettings,
        figures_of_all: Sequence[Callable[[], dict[str, str]]],
        register_all: Callable[[], Awaitable[None]],
        run_blocking: RunBlocking,
    ) -> None:
        self._run_blocking = run_blocking
        self._context = context
        self._live_settings = live_settings
        self._figures_of_all = tuple(figures_of_all)
        self._register_all = register_all
        self._whole_answers = WholeAnswers()
        tables = context.tables
        self._deletions = TopicDeletions(deleted=tables.deleted_topics, offsets=tables.offsets, store=context.store)

    def register(self, dispatcher: Dispatcher) -> None:
        """Register every request code of administration."""
        self._register_broker(dispatcher)
        self._register_topics(dispatcher)
        self._register_groups(dispatcher)

    # ---- private --------------------------------------------------------------------------------------------------

    async def _permission_changed(self) -> None:
        self._context.tables.topics.next_version()
        await self._register_all()

    def _register_broker(self, dispatcher: Dispatcher) -> None:
        """Register the codes about the broker as a whole."""
        config, tables, store = self._context.config, self._context.tables, self._context.store
        AdminBrokerProcessor(config=config, store=store, figures=self._figures_of_all).register(dispatcher)
        AdminConfigProcessor(
            config=config, live_settings=self._live_settings, permission_changed=self._permission_changed
        ).register(dispatcher)
        AdminAclProcessor(manager=tables.accounts, config=config, broker_addr=self._context.broker_addr).register(
            dispatcher
        )
        AdminStoreProcessor(store=store, topic_config_manager=tables.topics, deletions=self._deletions).register(
            dispatcher
        )
        AdminStatsProcessor(stats=tables.stats).register(dispatcher)

    def _register_topics(self, dispatcher: Dispatcher) -> None:
        """Register the codes about topics and their queues."""
        tables, store = self._context.tables, self._context.store
        AdminTopicProcessor(
            config=self._context.config,
            topic_config_manager=tables.topics,
            consumer_manager=tables.consumers,
            consumer_offset_manager=tables.offsets,
            deletions=self._deletions,
            store=store,
            stats=tables.stats,
            whole_answers=self._whole_answers,
            register_topics=self._register_all,
            is_slave=self._context.is_slave,
        ).register(dispatcher)
        AdminOffsetProcessor(
            consumer_offset_manager=tables.offsets,
            offset_differences=tables.offset_differences if self._context.is_slave else None,
            store=store,
            whole_answers=self._whole_answers,
        ).register(dispatcher)
        AdminQueueProcessor(
            consumer_manager=tables.consumers, store=store, filter_of=tables.filters.filter_of
        ).register(dispatcher)

    def _register_groups(self, dispatcher: Dispatcher) -> None:
        """Register the codes about groups, their offsets and their members."""
        config, tables, store = self._context.config, self._context.tables, self._context.store
        AdminGroupProcessor(
            topic_config_manager=tables.topics,
            subscription_group_manager=tables.groups,
            consumer_manager=tables.consumers,
            producer_manager=tables.producers,
            consumer_offset_manager=tables.offsets,
            config=config,
            stats=tables.stats,
            whole_answers=self._whole_answers,
            clock=self._context.clock,
            is_slave=self._context.is_slave,
        ).register(dispatcher)
        AdminGroupOffsetProcessor(
            topic_config_manager=tables.topics,
            consumer_manager=tables.consumers,
            consumer_offset_manager=tables.offsets,
            store=store,
        ).register(dispatcher)
        AdminClientProcessor(
            config=config,
            topic_config_manager=tables.topics,
            consumer_manager=tables.consumers,
            consumer_offset_manager=tables.offsets,
            store=store,
            whole_answers=self._whole_answers,
            run_blocking=self._run_blocking,
        ).register(dispatcher)
        ConsumeStatsProcessor(
            config=config,
            broker_addr=self._context.broker_addr,
            topic_config_manager=tables.topics,
            subscription_group_manager=tables.groups,
            consumer_manager=tables.consumers,
            consumer_offset_manager=tables.offsets,
            stats=tables.stats,
            store=store,
            clock=self._context.clock,
        ).register(dispatcher)
