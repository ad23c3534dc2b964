"""The metadata feature writes the tables, and offsets only after the log and the notes that they rely on."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from rocketpy.broker.metadata.feature import MetadataFeature
from rocketpy.broker.metadata.gone_groups import GoneGroupsService
from rocketpy.broker.metadata.persistence import TablePersistService
from rocketpy.store.config import BrokerRole, MessageStoreConfig
from tests.broker.message_broker import open_message_broker
from tests.broker.tables_of_a_broker import context_of, make_tables


@pytest.mark.parametrize(
    ("role", "note"), [(BrokerRole.ASYNC_MASTER, "offsetResets.json"), (BrokerRole.SLAVE, "slaveOffsets.json")]
)
async def test_offsets_are_written_after_the_log_and_after_notes_about_them(
    tmp_path: Path, role: BrokerRole, note: str
) -> None:
    """A message that was sent back must not be lost by a power failure between the two, nor that an offset was reset.

    A commit to a slave is noted there, and a reset on a master.
    """
    written: list[list[str]] = []
    async with open_message_broker() as broker:
        flush = broker.store.flush

        async def noted_flush() -> None:
            written.append(names_in(tmp_path))
            await flush()

        broker.store.flush = noted_flush  # type: ignore[method-assign]
        context = context_of(broker.tables, broker.store, MessageStoreConfig(broker_role=role))
        tables = make_tables(tmp_path)
        feature = MetadataFeature(attrs.evolve(context, tables=tables))
        kinds = [type(each) for each in feature.services]
        assert kinds == [TablePersistService, *([] if role is BrokerRole.SLAVE else [GoneGroupsService])]
        tables.offsets.commit_offset("peer", "G", "T", 0, 9)
        tables.offsets.commit_offset("peer", "G", "T", 0, 3)
        before_write = tables.offsets.stored.before_write
        assert before_write is not None
        await before_write()
        assert names_in(tmp_path) == [note]
        await tables.offsets.stored.persist()
        assert written == [[], [note]]


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


async def test_the_topics_follow_the_setting_that_they_cache() -> None:
    async with open_message_broker() as broker:
        feature = MetadataFeature(context_of(broker.tables, broker.store, MessageStoreConfig()))
        assert feature.settings == {("autoCreateTopicEnable",): broker.tables.topics.settings_changed}
