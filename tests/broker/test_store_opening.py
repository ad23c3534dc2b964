"""The store of a broker: what the broker knows is in its units, what it finds is in the logs."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest

from rocketpy.broker.pull.long_polling import PullRequestHoldService
from rocketpy.broker.start_settings import BrokerSettings
from rocketpy.broker.store_opening import open_broker_store
from rocketpy.broker.tables import Tables
from rocketpy.clock import ManualClock
from rocketpy.protocol.bodies.topic import TopicConfig
from rocketpy.runner import run_inline
from rocketpy.store.message_store import MessageStore
from rocketpy.store.plug_in import PlugInMessageStore, StoreFactory
from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.sim.disk import SimDisk
from tests.broker.tables_of_a_broker import STORE_HOST
from tests.broker.test_app import settings_at

TOPIC = "TopicTest"


@attrs.define(eq=False)
class Life:
    store: MessageStore
    tables: Tables
    hold: PullRequestHoldService


@pytest.fixture
def settings() -> BrokerSettings:
    settings = settings_at(Path("/broker"))
    return attrs.evolve(settings, store=attrs.evolve(settings.store, message_index_enable=False))


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


@asynccontextmanager
async def life(settings: BrokerSettings, disk: SimDisk, plug_ins: Sequence[StoreFactory] = ()) -> AsyncIterator[Life]:
    """One life of a store, with tables of its own."""
    clock = ManualClock()
    tables = Tables.load(settings, disk=disk, clock=clock, run_blocking=run_inline)
    hold = PullRequestHoldService()
    async with open_broker_store(
        settings,
        tables,
        hold,
        disk=disk,
        clock=clock,
        run_blocking=run_inline,
        store_host=STORE_HOST,
        plug_ins=plug_ins,
    ) as store:
        yield Life(store, tables, hold)


def put(store: MessageStore, topic: str = TOPIC) -> None:
    status, _, _ = store.put(topic, 0, b"body", b"", 0, (), 0, 0, 0, STORE_HOST, 0)
    assert status is PutMessageStatus.PUT_OK
    store.end_burst()


async def test_there_is_a_topic_for_every_queue_again(
    settings: BrokerSettings, disk: SimDisk, caplog: pytest.LogCaptureFixture
) -> None:
    """A topics.json that was lost does not make messages unreachable, and says so once."""
    async with life(settings, disk) as first:
        put(first.store)
        assert first.tables.topics.select_topic_config(TOPIC) is None
    async with life(settings, disk) as second:
        assert second.tables.topics.select_topic_config(TOPIC) is not None
    assert f"topics with messages that topics.json did not have: {TOPIC}" in caplog.messages


async def test_a_deleted_topic_does_not_come_back_with_its_queues(settings: BrokerSettings, disk: SimDisk) -> None:
    """A loss of power may have brought its queues back, and a slave that is promoted may have more of them."""
    async with life(settings, disk) as first:
        for _ in range(3):
            put(first.store)
        put(first.store, "Other")
        first.tables.deleted_topics.add(TOPIC, await first.store.log_marks.now())
        await first.tables.deleted_topics.stored.persist()
        put(first.store, "Other")
    for _ in range(2):
        async with life(settings, disk) as again:
            assert list(again.store.queues()) == [("Other", 0)]
            assert again.tables.topics.select_topic_config(TOPIC) is None
            assert again.store.max_offset_in_queue("Other", 0) == 2


async def test_queues_that_come_back_beside_the_mark_of_their_deletion_go_again(
    settings: BrokerSettings, disk: SimDisk
) -> None:
    """A loss of power has kept the file that says that they are deleted ones, and not that they were removed."""
    path = f"/broker/consumequeue/{TOPIC}/0/{0:020d}"
    async with life(settings, disk) as first:
        for _ in range(3):
            put(first.store)
        file = disk.open(path)
        units = file.read(0, 60)
        file.close()
        first.store.delete_topic_queues(TOPIC)
        first.tables.deleted_topics.add(TOPIC, await first.store.log_marks.now())
        await first.tables.deleted_topics.stored.persist()
        put(first.store, "Other")
    disk.make_directories(f"/broker/consumequeue/{TOPIC}/0")
    file = disk.open(path, create=True)
    file.write(0, units)
    file.truncate(settings.store.mapped_file_size_consume_queue)
    file.close()
    async with life(settings, disk) as again:
        assert list(again.store.queues()) == [("Other", 0)]


async def test_what_recovery_found_is_logged(
    settings: BrokerSettings, disk: SimDisk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="rocketpy.store")
    async with life(settings, disk) as first:
        put(first.store)
        end = first.store.wrote_offset
    async with life(settings, disk):
        pass
    begun, again = [line for line in caplog.messages if line.startswith("recovered")]
    assert begun == "recovered: log end 0, 0 records read from 0 on, 0 queue entries written"
    assert again.startswith(f"recovered: log end {end}, ")


async def test_a_log_that_was_cut_is_a_warning_among_the_errors(
    settings: BrokerSettings, disk: SimDisk, caplog: pytest.LogCaptureFixture
) -> None:
    async with life(settings, disk) as first:
        put(first.store)
        end = first.store.wrote_offset
    path = f"/broker/commitlog/{0:020d}"
    file = disk.open(path)
    file.write(end, b"\0\0\0\x20 what a crash may leave")
    file.close()
    disk.open("/broker/abort", create=True).close()
    async with life(settings, disk):
        pass
    (line,) = [each for each in caplog.records if each.name == "rocketpy.store.error"]
    assert line.levelname == "WARNING"
    assert line.getMessage().startswith(f"the log was cut at {end}: ")


async def test_a_checkpoint_with_a_time_that_is_none_is_a_warning_and_the_log_is_read(
    settings: BrokerSettings, disk: SimDisk, caplog: pytest.LogCaptureFixture
) -> None:
    async with life(settings, disk) as first:
        put(first.store)
    file = disk.open("/broker/checkpoint")
    file.write(0, (-1).to_bytes(8, "big", signed=True))
    file.close()
    async with life(settings, disk) as again:
        assert again.store.max_offset_in_queue(TOPIC, 0) == 1
    (line,) = [each for each in caplog.records if each.name == "rocketpy.store.error"]
    assert line.levelname == "WARNING"
    assert line.getMessage().startswith("/broker/checkpoint: expected times from 0")
    assert line.getMessage().endswith("found physicMsgTimestamp -1: they count as none, and more of the log is read")


async def test_plug_ins_are_asked_in_place_of_the_store(settings: BrokerSettings, disk: SimDisk) -> None:
    async with life(settings, disk, [PlugInMessageStore]) as opened:
        assert isinstance(opened.store, PlugInMessageStore)
        put(opened.store)
        assert opened.store.max_offset_in_queue(TOPIC, 0) == 1


async def test_a_message_may_name_the_topics_that_there_are(settings: BrokerSettings, disk: SimDisk) -> None:
    """On every path: commits and deliveries bypass the processor of sends."""
    store_settings = attrs.evolve(settings.store, enable_multi_dispatch=True)
    async with life(attrs.evolve(settings, store=store_settings), disk) as opened:
        names = b"INNER_MULTI_DISPATCH\x01Audit"
        message = (TOPIC, 0, b"body", names, 0, (), 0, 0, 0, STORE_HOST, 0)
        assert opened.store.put(*message)[0] is PutMessageStatus.MESSAGE_ILLEGAL
        opened.tables.topics.update_topic_config(TopicConfig("Audit"))
        assert opened.store.put(*message)[0] is PutMessageStatus.PUT_OK
