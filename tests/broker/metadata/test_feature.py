"""The metadata feature writes the tables, and offsets only after the log that they refer to."""

from __future__ import annotations

from rocketpy.broker.metadata.feature import MetadataFeature
from rocketpy.store.config import MessageStoreConfig
from tests.broker.message_broker import open_message_broker
from tests.broker.tables_of_a_broker import context_of


async def test_offsets_are_written_after_the_log() -> None:
    """A message that was sent back must not be lost by a power failure between the two."""
    async with open_message_broker() as broker:
        feature = MetadataFeature(context_of(broker.tables, broker.store, MessageStoreConfig()))
        assert broker.tables.offsets.stored.before_write == broker.store.flush
        assert feature.services == (feature.persistence,)


async def test_the_topics_follow_the_setting_that_they_cache() -> None:
    async with open_message_broker() as broker:
        feature = MetadataFeature(context_of(broker.tables, broker.store, MessageStoreConfig()))
        assert feature.settings == {("autoCreateTopicEnable",): broker.tables.topics.settings_changed}
