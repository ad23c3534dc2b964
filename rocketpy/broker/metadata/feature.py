"""The metadata feature: keeps topics, groups, offsets and filters on disk while the broker runs.

Composition, and the order in which offsets are written: after what they rely on.
"""

from __future__ import annotations

from rocketpy.broker.context import BrokerContext
from rocketpy.broker.feature import Feature
from rocketpy.broker.metadata.gone_groups import GoneGroupsService
from rocketpy.broker.metadata.persistence import TablePersistService


class MetadataFeature(Feature):
    """The services that write the tables and remove what is left of nothing, and the table that caches a setting."""

    def __init__(self, context: BrokerContext) -> None:
        config, tables = context.config, context.tables
        self._tables = tables
        self._flush_log = context.store.flush
        tables.offsets.stored.before_write = self._before_offsets
        notes = tables.offset_differences.committed if context.is_slave else tables.offset_resets.changed
        tables.offsets.on_change = notes
        self.persistence = TablePersistService(
            at_once=[tables.topics.stored, tables.groups.stored, tables.filters.stored],
            periodic=[tables.offset_resets.stored, tables.offset_differences.stored, tables.offsets.stored],
            period_seconds=lambda: config.flush_consumer_offset_interval / 1000,
        )
        self.services = (self.persistence,)
        if not context.is_slave:
            self.services = (
                self.persistence,
                GoneGroupsService(
                    topics=tables.topics, groups=tables.groups, offsets=tables.offsets, resets=tables.offset_resets
                ),
            )
        self.settings = {("autoCreateTopicEnable",): tables.topics.settings_changed}

    async def _before_offsets(self) -> None:
        """Write ahead of consumer offsets.

        A group's offset moves past a message once it is sent back: were the offset on disk before the copy in the log,
        a power failure between the two would lose the message. Were an offset on disk before the note that it was reset
        or committed to a slave, a crash would make it look like any other one.
        """
        await self._flush_log()
        await self._tables.offset_resets.stored.persist()
        await self._tables.offset_differences.stored.persist()
