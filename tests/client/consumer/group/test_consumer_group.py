"""How a member takes queues, gives them up and loses them, against a scripted broker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
import trio

from rocketpy.client.consumer.config import ConsumerConfig
from rocketpy.client.consumer.group.consumer_group import ConsumerGroup, retry_topic_of
from rocketpy.client.consumer.group.queue_locks import QueueLocks
from rocketpy.client.consumer.group.requests import GroupRequests
from rocketpy.client.consumer.group.subscriptions import Subscriptions
from rocketpy.client.consumer.offsets.remote_offset_store import RemoteOffsetStore
from rocketpy.client.consumer.queue.process_queue import ProcessQueue
from rocketpy.client.consumer.queue.requests import QueueRequests
from rocketpy.protocol.bodies.heartbeat import ConsumeFromWhere
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.message import MessageExt, MessageQueue
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.client.opened import opened
from tests.patience import until

QUEUES = [MessageQueue(TOPIC, "broker-a", each) for each in range(4)]


class Sink:
    """Messages stay where they are; a queue is idle when its flag says so."""

    def __init__(self) -> None:
        self.delivered: list[tuple[ProcessQueue, int]] = []

    def deliver(self, process_queue: ProcessQueue, messages: Sequence[MessageExt], pull_seconds: float) -> None:
        self.delivered += [(process_queue, each.queue_offset) for each in messages]

    async def wait_idle(self, process_queue: ProcessQueue) -> None:
        while process_queue.is_consuming:
            await trio.sleep(0.01)


class World:
    """A member and its sink."""

    def __init__(self, group: ConsumerGroup, sink: Sink) -> None:
        self.group = group
        self.sink = sink

    def process_queue(self, number: int = 0) -> ProcessQueue:
        return next(each for each in self.group.process_queues if each.queue == QUEUES[number])


@asynccontextmanager
async def member(cluster: FakeCluster, *, is_orderly: bool = False, **settings: object) -> AsyncIterator[World]:
    """A member that has not joined: nothing rebalances it but the test."""
    config = ConsumerConfig(
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        **settings,  # type: ignore[arg-type]
    )
    async with opened(cluster.address) as instance, trio.open_nursery() as nursery:
        await instance.routes.look_up_again(TOPIC)
        subscriptions = Subscriptions(lambda: 1)
        subscriptions.add(TOPIC, "*")
        queue_requests = QueueRequests(instance=instance, group="g")
        requests = GroupRequests(instance=instance, group="g", randomness=instance.randomness)
        sink = Sink()
        group = ConsumerGroup(
            instance=instance,
            group="g",
            config=config,
            subscriptions=subscriptions,
            store=RemoteOffsetStore(queue_requests),
            queue_requests=queue_requests,
            requests=requests,
            locks=QueueLocks(requests=requests, clock=instance.clock, is_needed=is_orderly),
            sink=sink,
            nursery=nursery,
            is_orderly=is_orderly,
        )
        group.register()
        yield World(group, sink)
        await group.leave()
        nursery.cancel_scope.cancel()


async def test_a_queue_begins_at_its_stored_offset_or_by_the_policy(cluster: FakeCluster) -> None:
    for _ in range(3):
        for queue_id in (0, 1):
            cluster.broker.put(TOPIC, queue_id, b"x")
    cluster.broker.progress["g", TOPIC, 1] = 2
    async with member(cluster) as world:
        assert await world.group.change([], QUEUES[:2])
        await until(lambda: len(world.sink.delivered) == 4)
    found = sorted((process_queue.queue.queue_id, offset) for process_queue, offset in world.sink.delivered)
    assert found == [(0, 0), (0, 1), (0, 2), (1, 2)]


async def test_a_queue_whose_offset_is_not_known_is_left_for_later(cluster: FakeCluster) -> None:
    """To begin it by the policy would skip or repeat messages."""
    cluster.broker.refuse(RequestCode.QUERY_CONSUMER_OFFSET, ResponseCode.SYSTEM_BUSY)
    async with member(cluster) as world:
        assert not await world.group.change([], QUEUES)
        assert not world.group.assigned
        cluster.broker.behave()
        assert await world.group.change([], QUEUES)
        assert set(world.group.assigned) == set(QUEUES)


async def test_what_is_given_up_is_stored_first_and_then_does_not_count(cluster: FakeCluster) -> None:
    cluster.broker.put(TOPIC, 0, b"x")
    async with member(cluster) as world:
        await world.group.change([], QUEUES[:1])
        await until(lambda: world.sink.delivered)
        process_queue = world.process_queue()
        world.group.store.table.update(QUEUES[0], 1)
        assert await world.group.change(QUEUES[:1], [])
        assert cluster.broker.progress["g", TOPIC, 0] == 1
        assert process_queue.is_dropped
        assert not process_queue.message_count
        assert world.group.memory_offset(QUEUES[0]) is None
        assert not world.group.assigned


async def test_a_busy_orderly_queue_is_given_up_when_its_handler_has_ended(cluster: FakeCluster) -> None:
    async with member(cluster, is_orderly=True) as world:
        await world.group.change([], QUEUES[:1])
        process_queue = world.process_queue()
        process_queue.is_consuming = True
        assert not await world.group.change(QUEUES[:1], [])
        assert cluster.broker.locks.keys() == {QUEUES[0]}
        assert process_queue.is_leaving
        assert not process_queue.is_dropped, "the result of its handler counts"
        assert process_queue.try_unlock_count == 1
        process_queue.is_consuming = False
        assert not await world.group.change([], []), "what it has become again is for another round"
        assert cluster.broker.locks == {}
        assert not world.group.assigned


async def test_a_queue_that_is_lost_is_not_stored(cluster: FakeCluster) -> None:
    """Another member may have stored more."""
    async with member(cluster, is_orderly=True) as world:
        await world.group.change([], QUEUES[:1])
        process_queue = world.process_queue()
        world.group.store.table.update(QUEUES[0], 1)
        world.group.lose(process_queue)
        world.group.lose(process_queue)
        assert process_queue.is_dropped
        assert not world.group.assigned
    assert cluster.broker.progress == {}


async def test_a_queue_that_is_moved_begins_anew_at_once(cluster: FakeCluster) -> None:
    for _ in range(5):
        cluster.broker.put(TOPIC, 0, b"x")
    async with member(cluster, is_orderly=True) as world:
        await world.group.change([], QUEUES[:1])
        await until(lambda: len(world.sink.delivered) == 5)
        before = world.process_queue()
        world.group.move_to(QUEUES[0], 3)
        world.group.move_to(QUEUES[1], 3)
        after = world.process_queue()
        assert before.is_dropped
        assert (after.is_locked, after.locked_at) == (True, before.locked_at)
        await until(lambda: len(world.sink.delivered) == 7)
        assert world.sink.delivered[5:] == [(after, 3), (after, 4)]
        assert world.group.memory_offset(QUEUES[0]) == 3


async def test_leaving_gives_back_what_was_being_locked(cluster: FakeCluster) -> None:
    cluster.broker.be_silent(RequestCode.QUERY_CONSUMER_OFFSET)
    async with member(cluster, is_orderly=True) as world:
        with trio.move_on_after(0.2):
            await world.group.change([], QUEUES)
        assert set(cluster.broker.locks) == set(QUEUES)
    assert cluster.broker.locks == {}


@pytest.mark.parametrize("suspended", [True, False])
async def test_a_suspended_member_does_not_rebalance(cluster: FakeCluster, *, suspended: bool) -> None:
    async with member(cluster) as world:
        if suspended:
            world.group.suspend()
            world.group.suspend()
        await world.group.announce()
        await world.group.rebalance.rebalance()
        assert bool(world.group.assigned) is not suspended


def test_the_retry_topic_is_named_after_the_group() -> None:
    assert retry_topic_of("g") == "%RETRY%g"
