"""The metadata feature writes the tables, and offsets only after the log and the notes that they rely on."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from rocketpy.broker.delay.offsets import DelayProgress
from rocketpy.broker.metadata.feature import MetadataFeature
from rocketpy.broker.metadata.gone_groups import GoneGroupsService
from rocketpy.broker.metadata.persistence import TablePersistService
from rocketpy.errors import DiskFullError
from rocketpy.store.config import BrokerRole, MessageStoreConfig
from rocketpy.store.ha.log_mark import LogMark
from tests.broker.message_broker import TOPIC, MessageBroker, open_message_broker
from tests.broker.tables_of_a_broker import STORE_HOST, context_of, make_tables


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
        name = "tableMarks.json"
        kinds = [type(each) for each in feature.services]
        assert kinds == [TablePersistService, *([] if role is BrokerRole.SLAVE else [GoneGroupsService])]
        tables.offsets.commit_offset("peer", "G", "T", 0, 9)
        tables.offsets.commit_offset("peer", "G", "T", 0, 3)
        before_write = tables.offsets.stored.before_write
        assert before_write is not None
        await before_write()
        assert names_in(tmp_path) == [note, name]
        await tables.offsets.stored.persist()
        assert written == [[], [note, name]]


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


async def test_the_topics_follow_the_setting_that_they_cache() -> None:
    async with open_message_broker() as broker:
        feature = MetadataFeature(context_of(broker.tables, broker.store, MessageStoreConfig()))
        assert feature.settings == {("autoCreateTopicEnable",): broker.tables.topics.settings_changed}


async def test_delay_progress_and_deletions_are_written_after_the_log(tmp_path: Path) -> None:
    """A mark on disk names a record that is durable."""
    async with open_message_broker() as broker:
        put_one(broker)
        end = broker.store.wrote_offset
        tables = make_tables(tmp_path)
        MetadataFeature(attrs.evolve(context_of(broker.tables, broker.store, MessageStoreConfig()), tables=tables))
        tables.delay_offsets.take(DelayProgress({1: 3}, 0))
        assert broker.store.durable_offset < end
        await tables.delay_offsets.stored.persist()
        assert broker.store.durable_offset == end
        assert names_in(tmp_path) == ["delayOffset.json", "tableMarks.json"]
        mark = tables.marks.mark_of(tables.delay_offsets.stored)
        assert mark.offset == end
        assert tables.marks.mark_of(tables.offsets.stored) == LogMark()
        put_one(broker)
        tables.deleted_topics.add("T", mark)
        await tables.deleted_topics.stored.persist()
        assert broker.store.durable_offset == broker.store.wrote_offset > end


@pytest.mark.parametrize("full", ["topics", "offsets"])
async def test_no_deletion_is_written_while_what_it_removes_cannot_be(
    tmp_path: Path, full: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk may have room for the one and not for the other; the next start would have both."""
    async with open_message_broker() as broker:
        tables = make_tables(tmp_path)
        MetadataFeature(attrs.evolve(context_of(broker.tables, broker.store, MessageStoreConfig()), tables=tables))
        tables.deleted_topics.add("T", LogMark())

        async def is_full() -> None:
            raise DiskFullError(path=full, wanted_bytes=2, free_bytes=1)

        with monkeypatch.context() as patched:
            patched.setattr({"topics": tables.topics, "offsets": tables.offsets}[full].stored, "persist", is_full)
            with pytest.raises(DiskFullError):
                await tables.deleted_topics.stored.persist()
        assert "deletedTopics.json" not in names_in(tmp_path)
        await tables.deleted_topics.stored.persist()
        assert "deletedTopics.json" in names_in(tmp_path)


@pytest.mark.parametrize(
    ("has_topic", "offset", "is_stored"), [(False, 0, False), (True, 1, True), (True, 2, False), (None, 9, True)]
)
async def test_late_commits_for_a_deleted_topic_are_not_taken(
    has_topic: bool | None, offset: int, is_stored: bool
) -> None:
    """None of its old consumers; of the topic as it was made again, any that can be. None: it was never deleted."""
    async with open_message_broker() as broker:
        tables = broker.tables
        MetadataFeature(context_of(tables, broker.store, MessageStoreConfig()))
        if has_topic is not None:
            tables.deleted_topics.add(TOPIC, LogMark())
        if has_topic:
            put_one(broker)
            assert broker.store.max_offset_in_queue(TOPIC, 0) == 1
        else:
            tables.topics.delete_topic_config(TOPIC)
        tables.offsets.commit_offset("peer", "G", TOPIC, 0, offset)
        assert tables.offsets.query_offset("G", TOPIC, 0) == (offset if is_stored else -1)


def put_one(broker: MessageBroker) -> None:
    broker.store.put(TOPIC, 0, b"body", b"", 0, (), 0, 0, 0, STORE_HOST, 0)
    broker.store.end_burst()
