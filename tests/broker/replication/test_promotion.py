"""A slave becomes a master: its offsets stay within the queues that it has."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
import trio

from rocketpy.broker.delay.offsets import DelayProgress
from rocketpy.broker.metadata.groups import CHECK_GROUP
from rocketpy.broker.replication.promotion import cut_offsets, set_back_to_queues
from rocketpy.client.client import open_producer, open_pull_consumer
from rocketpy.protocol.message import Message
from rocketpy.protocol.topic_name import TRANS_HALF_TOPIC as HALF
from rocketpy.store.config import BrokerRole
from rocketpy.testing.cluster_world import ClusterWorld, environment_of, simulate
from rocketpy.testing.sim.host import SimProcess
from tests.broker.replication.test_failover import QUEUES, QUICK, started
from tests.broker.tables_of_a_broker import Tables, make_tables


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return make_tables(tmp_path)


def test_offsets_past_their_queue_are_set_back(tables: Tables) -> None:
    ends = {("T", 0): 5, ("T", 1): 9}
    for queue_id, offset in enumerate((7, 9, 3)):
        tables.offsets.commit_offset("peer", "G", "T", queue_id, offset)
    tables.offsets.commit_offset("peer", "H", "T", 0, 5)
    tables.offsets.commit_offset("peer", "%LMQ%G", "T", 0, 50)
    count = set_back_to_queues(tables.offsets, lambda *queue: ends.get(queue, -1))
    assert count == 2
    assert tables.offsets.snapshot() == {"T@G": {0: 5, 1: 9, 2: 0}, "T@H": {0: 5}, "T@%LMQ%G": {0: 50}}
    assert tables.offset_resets.revoked_offset("T@G", 0) == -1, "nobody has set it back: a later commit counts"


def test_the_tables_of_a_log_that_was_cut_know_nothing_of_what_was_cut(tables: Tables) -> None:
    """Twice, as after a death in between: the order is kept until the tables are written."""
    for topic, group, offset in (("T", "G", 7), ("T", "H", 3), (HALF, CHECK_GROUP, 2), ("T", "%LMQ%G", 50)):
        tables.offsets.commit_offset("peer", group, topic, 0, offset)
    tables.delay_offsets.take(DelayProgress({1: 7}, 600))
    tables.offset_differences.synchronized(5)
    for _ in range(2):
        cut_offsets(tables.offsets, lambda topic, queue_id: 5)
        tables.offset_differences.log_was_cut()
        tables.delay_offsets.forget()
        assert tables.offsets.snapshot() == {"T@G": {0: 5}, "T@H": {0: 3}, "T@%LMQ%G": {0: 50}}
        assert (tables.delay_offsets.offset_table, tables.delay_offsets.noted) == ({}, DelayProgress())
        master = {0: 4}
        assert tables.offset_differences.settle("T@G", {0: 5, 1: 2}, master, is_same_run=False) == {0: 4, 1: 2}
    tables.offset_differences.synchronized(5)
    assert tables.offset_differences.settle("T@G", {0: 5}, master, is_same_run=False) == {0: 5}, "from then on as ever"


def test_offsets_within_their_queues_are_left_alone(tables: Tables) -> None:
    tables.offsets.commit_offset("peer", "G", "T", 0, 5)
    change_count = tables.offsets.stored.change_count
    assert set_back_to_queues(tables.offsets, lambda topic, queue_id: 5) == 0
    assert tables.offsets.stored.change_count == change_count


def test_messages_that_take_the_places_of_lost_ones_are_consumed() -> None:
    """The slave has the offsets of its master, and of the messages only those of before its link was cut."""

    async def scene(world: ClusterWorld) -> None:
        pair = await started(world)
        await pair.send(4)
        await trio.sleep(15)
        # Its replication port alone is out of reach: offsets still arrive over the port for clients.
        pair.slave.settings = attrs.evolve(
            pair.slave.settings, store=attrs.evolve(pair.slave.settings.store, ha_master_address="10.9.9.9:10912")
        )
        await pair.slave.host.stop()
        assert await pair.slave.start()
        await pair.send(6)
        await commit_all(world, 5)
        await trio.sleep(15)
        await pair.master.host.kill()
        await pair.slave.host.stop()
        pair.slave.settings = attrs.evolve(
            pair.slave.settings,
            broker=attrs.evolve(pair.slave.settings.broker, broker_id=0),
            store=attrs.evolve(pair.slave.settings.store, broker_role=BrokerRole.ASYNC_MASTER, ha_master_address=None),
        )
        assert await pair.slave.start()
        assert await pair.ends() == [2, 2]
        await send_new(world)
        assert await pair.progress() == [0, 0], "offsets of messages that have not arrived are not taken"
        found = await consumed(world)
        assert sorted(found) == sorted([*(b"%d" % number for number in range(4)), *(b"new %d" % n for n in range(10))])

    simulate(scene, seed=7)


async def send_new(world: ClusterWorld) -> None:
    async def run(process: SimProcess) -> None:
        async with open_producer(world.name_servers, config=QUICK, environment=environment_of(process)) as producer:
            for number in range(10):
                await producer.send(Message("T", b"new %d" % number))

    await world.run_client(run)


async def commit_all(world: ClusterWorld, offset: int) -> None:
    async def run(process: SimProcess) -> None:
        async with open_pull_consumer(
            world.name_servers, group="g", config=QUICK, environment=environment_of(process)
        ) as consumer:
            await consumer.queues("T")
            for queue in QUEUES:
                await consumer.commit(queue, offset)

    await world.run_client(run)


async def consumed(world: ClusterWorld) -> list[bytes]:
    """Return what the group reads from where it stands to the end."""

    async def run(process: SimProcess) -> list[bytes]:
        async with (
            open_pull_consumer(
                world.name_servers, group="g", config=QUICK, environment=environment_of(process)
            ) as consumer,
            consumer.open_messages("T", until_end=True) as messages,
        ):
            return [message.body async for message in messages]

    return await world.run_client(run)
