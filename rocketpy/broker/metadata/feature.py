"""The metadata feature: keeps topics, groups, offsets and filters on disk while the broker runs.

Composition, and the order in which offsets are written: after what they rely on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rocketpy.broker.context import BrokerContext
from rocketpy.broker.feature import Feature
from rocketpy.broker.metadata.gone_groups import GoneGroupsService
from rocketpy.broker.metadata.persistence import TablePersistService
from rocketpy.broker.metadata.stored_table import StoredTable


class MetadataFeature(Feature):
    """The services that write the tables and remove what is left of nothing, and the table that caches a setting."""

    def __init__(self, context: BrokerContext) -> None:
        config, tables = context.config, context.tables
        self._tables = tables
        self._store = context.store
        self._mark_offsets = self._marks(tables.offsets.stored)
        tables.offsets.stored.before_write = self._before_offsets
        tables.offsets.is_late = self._is_late
        tables.delay_offsets.stored.before_write = self._marks(tables.delay_offsets.stored)
        tables.deleted_topics.stored.before_write = self._before_deletions
        notes = tables.offset_differences.committed if context.is_slave else tables.offset_resets.changed
        tables.offsets.on_change = notes
        self.persistence = TablePersistService(
            at_once=[
                tables.topics.stored,
                tables.groups.stored,
                tables.filters.stored,
                tables.deleted_topics.stored,
            ],
            periodic=[tables.offset_resets.stored, tables.offset_differences.stored, tables.offsets.stored],
            period_seconds=lambda: config.flush_consumer_offset_interval / 1000,
        )
        gone_groups = GoneGroupsService(
            topics=tables.topics,
            groups=tables.groups,
            offsets=tables.offsets,
            resets=tables.offset_resets,
            enable_lmq=context.store_config.enable_lmq,
            max_offset=context.store.max_offset_in_queue,
        )
        self.services = (self.persistence,) if context.is_slave else (self.persistence, gone_groups)
        self.settings = {("autoCreateTopicEnable",): tables.topics.settings_changed}

    async def _before_offsets(self) -> None:
        """Write ahead of consumer offsets.

        A group's offset moves past a message once it is sent back: were the offset on disk before the copy in the log,
        a power failure between the two would lose the message. Were an offset on disk before the note that it was reset
        or committed to a slave, a crash would make it look like any other one. Their mark is that of a durable log.
        """
        await self._mark_offsets()
        await self._tables.offset_resets.stored.persist()
        await self._tables.offset_differences.stored.persist()

    async def _before_deletions(self) -> None:
        """Write ahead of deletions of topics, whose marks are those of a durable log.

        A topic or an offset on disk beside a deletion would be one that was made since.
        """
        await self._store.flush()
        await self._tables.topics.stored.persist()
        await self._tables.offsets.stored.persist()

    def _marks(self, table: StoredTable) -> Callable[[], Awaitable[None]]:
        store = self._store
        return self._tables.marks.before_write(table, store.log_marks.now, store.flush)

    def _is_late(self, topic: str, queue_id: int, consumer_offset: int) -> bool:
        """Whether an offset is one of a deleted topic's old consumers, see :mod:`.deleted_topics`."""
        if topic not in self._tables.deleted_topics:
            return False
        exists = topic in self._tables.topics.topic_config_table
        return not exists or consumer_offset > max(0, self._store.max_offset_in_queue(topic, queue_id))
