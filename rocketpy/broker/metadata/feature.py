"""The metadata feature: keeps topics, groups, offsets and filters on disk while the broker runs."""

from __future__ import annotations

from rocketpy.broker.context import BrokerContext
from rocketpy.broker.feature import Feature
from rocketpy.broker.metadata.persistence import TablePersistService


class MetadataFeature(Feature):
    """The service that writes the tables, and the table that caches a setting."""

    def __init__(self, context: BrokerContext) -> None:
        config, tables = context.config, context.tables
        # Write-ahead: a group's offset moves past a message once it is sent back. Were the offset on disk before the
        # copy in the log, a power failure between the two would lose the message.
        tables.offsets.stored.before_write = context.store.flush
        self.persistence = TablePersistService(
            at_once=[tables.topics.stored, tables.groups.stored, tables.filters.stored],
            periodic=[tables.offsets.stored],
            period_seconds=lambda: config.flush_consumer_offset_interval / 1000,
        )
        self.services = (self.persistence,)
        self.settings = {("autoCreateTopicEnable",): tables.topics.settings_changed}
