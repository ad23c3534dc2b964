"""A topic that was deleted stays deleted: its messages on every broker of the pair, and the offsets of its groups."""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio

from rocketpy.broker.metadata.deleted_topics import DELETED_TOPICS_MAX
from rocketpy.broker.metadata.topic_deletions import TopicDeletions
from rocketpy.client.client import open_admin_client, open_pull_consumer
from rocketpy.store.config import BrokerRole
from rocketpy.store.ha.log_mark import LogMark
from rocketpy.testing.cluster_world import ClusterWorld, environment_of, simulate
from rocketpy.testing.sim.disk import SimDisk
from rocketpy.testing.sim.host import SimProcess
from tests.broker.message_broker import MessageBroker, open_message_broker
from tests.broker.replication.test_failover import QUEUES, QUICK, Pair, noted_tables, started
from tests.broker.replication.test_promotion import commit_all
from tests.broker.tables_of_a_broker import STORE_HOST, make_tables
from tests.worst_answers import Workers, in_a_task
from tests.worst_requests import SLICE_SECONDS_MAX, longest_slice

__all__ = ["noted_tables"]  # a fixture

OLD, ROUND = 8, 12


async def delete(world: ClusterWorld, *, creates_again: bool = False) -> None:
    async def run(process: SimProcess) -> None:
        async with open_admin_client(world.name_servers, environment=environment_of(process)) as admin:
            await admin.topics.delete("T", cluster="DefaultCluster")
            if creates_again:
                await admin.create_topic("T", queue_nums=len(QUEUES))

    await world.run_client(run)


async def consumed(world: ClusterWorld) -> list[bytes]:
    """Return what the group reads from where it stands, from the first message without an offset; [] with no topic."""

    async def run(process: SimProcess) -> list[bytes]:
        async with (
            open_admin_client(world.name_servers, environment=environment_of(process)) as admin,
            open_pull_consumer(
                world.name_servers, group="g", config=QUICK, environment=environment_of(process)
            ) as consumer,
        ):
            if await admin.topics.route("T") is None:
                return []
            async with consumer.open_messages("T", start="stored", until_end=True) as messages:
                return [message.body async for message in messages]

    return await world.run_client(run)


async def promote(pair: Pair) -> None:
    """Lose the master, and start its slave as the master."""
    await pair.master.host.kill()
    await pair.slave.host.stop()
    settings = pair.slave.settings
    pair.slave.settings = attrs.evolve(
        settings,
        broker=attrs.evolve(settings.broker, broker_id=0),
        store=attrs.evolve(settings.store, broker_role=BrokerRole.ASYNC_MASTER),
    )
    assert await pair.slave.start()
    await trio.sleep(ROUND)


@pytest.mark.parametrize("dies", ["promotion", "kill", "lose_power"])
@pytest.mark.parametrize("creates_again", [False, True])
def test_a_deletion_outlives_its_master(dies: str, creates_again: bool) -> None:
    """None of the old messages comes back, and of the new ones none is skipped for the old group."""

    async def scene(world: ClusterWorld) -> None:
        pair = await started(world)
        await pair.send(2 * OLD)
        await commit_all(world, OLD)
        await trio.sleep(2 * ROUND)
        assert pair.offsets_of_the_slave() == [OLD, OLD]
        await delete(world, creates_again=creates_again)
        if dies == "promotion":
            await trio.sleep(2 * ROUND)
            assert pair.offsets_of_the_slave() == [-1, -1]
            if creates_again:
                await pair.send(OLD)
                await trio.sleep(ROUND)
            await promote(pair)
        else:
            await getattr(pair.master.host, dies)()
            if dies == "lose_power":
                pair.master.host.power_on()
            assert await pair.master.start()
            if creates_again:
                await pair.send(OLD)
        assert sorted(await consumed(world)) == [b"%d" % number for number in range(OLD if creates_again else 0)]

    simulate(scene, seed=4)


def test_a_slave_that_hears_late_of_a_deletion_does_not_bring_old_offsets_home() -> None:
    """It was away while the topic was deleted, made again, and filled beyond the old offset."""

    async def scene(world: ClusterWorld) -> None:
        pair = await started(world)
        await pair.send(2 * OLD)
        await commit_all(world, OLD)
        await trio.sleep(2 * ROUND)
        await pair.slave.host.kill()
        await delete(world, creates_again=True)
        await pair.send(4 * OLD)
        await pair.master.host.stop()
        assert await pair.slave.start()
        assert await pair.master.start()
        await trio.sleep(2 * ROUND)
        assert pair.offsets_of_the_slave() == [-1, -1]
        assert len(await consumed(world)) == 4 * OLD

    simulate(scene, seed=5)


def test_a_master_with_a_new_disk_does_not_erase_its_slave() -> None:
    """It has no topic, and that is no deletion."""

    async def scene(world: ClusterWorld) -> None:
        pair = await started(world)
        await pair.send(2 * OLD)
        await trio.sleep(2 * ROUND)
        await pair.master.host.kill()
        pair.master.host.wipe()
        assert await pair.master.start()
        await trio.sleep(4 * ROUND)
        await promote(pair)
        assert sorted(await consumed(world)) == sorted(b"%d" % number for number in range(2 * OLD))

    simulate(scene, seed=6)


# ---- on a master's store --------------------------------------------------------------------------------------------


async def test_a_deletion_is_known_while_its_mark_is_made_whatever_else_is_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A delayed message that is due just then would bring a queue back that nothing ever removes."""
    async with open_message_broker() as broker:
        deletions, deleted = deletions_of(broker), broker.tables.deleted_topics
        put(broker, 1)
        now, waits, goes_on = broker.store.log_marks.now, trio.Event(), trio.Event()

        async def slow() -> LogMark:
            waits.set()
            await goes_on.wait()
            return await now()

        async with trio.open_nursery() as nursery:
            monkeypatch.setattr(broker.store.log_marks, "now", slow)
            nursery.start_soon(deletions.delete, "T")
            await waits.wait()
            monkeypatch.setattr(broker.store.log_marks, "now", now)
            await deletions.delete("U")
            assert deleted.has_record("T", 0)
            goes_on.set()
        assert [topic for topic, mark in deleted if not mark.is_beginning] == ["U", "T"]


async def test_a_deletion_that_was_given_up_before_it_had_a_mark_is_forgotten() -> None:
    async with open_message_broker() as broker:
        deleted = broker.tables.deleted_topics
        with trio.CancelScope() as scope:
            scope.cancel()
            with deleted.begun(["T"]):
                await trio.lowlevel.checkpoint()
        await deletions_of(broker).delete("U")
        assert "T" not in deleted


async def test_an_expired_deletion_is_forgotten_once_its_removal_is_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss of power after that would bring the queues back, and nothing would say that they are deleted."""
    async with open_message_broker() as broker:
        deleted, synced = broker.tables.deleted_topics, []
        sync = broker.store.sync_removed_queues

        async def noted(topics: Collection[str]) -> None:
            await sync(topics)
            synced.append((sorted(topics), "T" in deleted))

        monkeypatch.setattr(broker.store, "sync_removed_queues", noted)
        deleted.add("T", LogMark())
        put(broker, 1)
        await deletions_of(broker).delete("U")
        assert (synced, "T" in deleted, "U" in deleted) == ([(["T"], True)], False, True)


# ---- on a slave's store ---------------------------------------------------------------------------------------------


def deletions_of(broker: MessageBroker) -> TopicDeletions:
    tables = broker.tables
    return TopicDeletions(deleted=tables.deleted_topics, offsets=tables.offsets, store=broker.store)


def put(broker: MessageBroker, count: int, topic: str = "T") -> None:
    for _ in range(count):
        broker.store.put(topic, 0, b"body", b"", 0, (), 0, 0, 0, STORE_HOST, 0)
    broker.store.end_burst()


def length(broker: MessageBroker, topic: str = "T") -> int:
    return broker.store.max_offset_in_queue(topic, 0)


async def test_records_that_arrive_after_their_deletion_go_too(disk: SimDisk) -> None:
    """The slave hears of the deletion before its log has all that it deletes; it may die meanwhile."""
    async with open_message_broker() as master:
        put(master, 5)
        mark = await master.store.log_marks.now()
    async with open_message_broker(disk=disk) as broker:
        deletions = deletions_of(broker)
        put(broker, 2)
        assert await deletions.take({"T": mark}) == 1
        assert length(broker) == 0
        put(broker, 3)
        assert broker.store.wrote_offset == mark.offset, "the same records as the master's"
        assert await deletions.take({"T": mark}) == 0
        assert length(broker) == 0
        put(broker, 1)
        assert await deletions.take({"T": mark}) == 0
        assert length(broker) == 1, "it was made again"


@pytest.mark.parametrize("waits_for_records", [True, False])
async def test_a_start_deletes_what_has_arrived_since(disk: SimDisk, waits_for_records: bool) -> None:
    async with open_message_broker() as master:
        put(master, 5)
        mark = await master.store.log_marks.now()
    async with open_message_broker(disk=disk) as broker:
        put(broker, 2)
        await deletions_of(broker).take({"T": mark})
        put(broker, 2)
        deleted = dict(broker.tables.deleted_topics)
    async with open_message_broker(disk=disk) as broker:
        broker.tables.deleted_topics.add("T", mark)
        assert dict(broker.tables.deleted_topics) == deleted
        await deletions_of(broker).carry_out(waits_for_records=waits_for_records)
        assert length(broker) == (2 if waits_for_records else 0)
        put(broker, 1)
        if waits_for_records:
            await deletions_of(broker).take({"T": mark})
        assert length(broker) == (0 if waits_for_records else 1), "a master's deletion ends where its log did"


async def test_a_deletion_of_another_log_deletes_nothing() -> None:
    """The log parted from that of the deletion, and grew past it."""
    async with open_message_broker() as other:
        put(other, 3)
        mark = await other.store.log_marks.now()
    async with open_message_broker() as broker:
        broker.tables.clock.advance_ms(5)
        put(broker, 5)
        broker.tables.deleted_topics.add("T", mark)
        await deletions_of(broker).carry_out(waits_for_records=False)
        assert length(broker) == 5
        assert "T" not in broker.tables.deleted_topics


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


async def test_as_many_deletions_as_a_master_may_have_keep_neither_the_loop_nor_fill_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="rocketpy")
    async with open_message_broker() as broker:
        tables = make_tables(tmp_path, run_blocking=Workers())
        deletions = TopicDeletions(deleted=tables.deleted_topics, offsets=tables.offsets, store=broker.store)
        marks = {f"topic{number}": LogMark(1, 1, "0" * 64) for number in range(DELETED_TOPICS_MAX)}

        async def take_all() -> None:
            for topic in marks:
                tables.deleted_topics.drop(topic)
            caplog.clear()
            await in_a_task(partial(deletions.take, marks))

        assert await longest_slice(take_all) < SLICE_SECONDS_MAX
        assert len(tables.deleted_topics) == len(tables.deleted_topics.unfinished) == len(marks)
    assert [each.getMessage() for each in caplog.records].count("topic deleted as on the master") == 100
    assert len(caplog.records) < 110
