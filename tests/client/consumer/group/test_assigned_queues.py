"""How a member takes queues, gives them up and loses them, against a scripted broker."""

from __future__ import annotations

import pytest
import trio

from rocketpy.protocol.codes import RequestCode, ResponseCode
from tests.client.conftest import TOPIC
from tests.client.consumer.group.group_member import QUEUES, World, member
from tests.client.fake_cluster import FakeCluster
from tests.patience import until


async def test_a_queue_begins_at_its_stored_offset_or_by_the_policy(cluster: FakeCluster) -> None:
    for _ in range(3):
        for queue_id in (0, 1):
            cluster.broker.put(TOPIC, queue_id, b"x")
    cluster.broker.progress["g", TOPIC, 1] = 2
    async with member(cluster) as world:
        assert await world.group.queues.change([], QUEUES[:2])
        await until(lambda: len(world.sink.delivered) == 4)
    found = sorted((process_queue.queue.queue_id, offset) for process_queue, offset in world.sink.delivered)
    assert found == [(0, 0), (0, 1), (0, 2), (1, 2)]


async def test_a_queue_whose_offset_is_not_known_is_left_for_later(cluster: FakeCluster) -> None:
    """To begin it by the policy would skip or repeat messages."""
    cluster.broker.refuse(RequestCode.QUERY_CONSUMER_OFFSET, ResponseCode.SYSTEM_BUSY)
    async with member(cluster) as world:
        assert not await world.group.queues.change([], QUEUES)
        assert not world.group.queues.assigned
        cluster.broker.behave()
        assert await world.group.queues.change([], QUEUES)
        assert set(world.group.queues.assigned) == set(QUEUES)


async def test_what_is_given_up_is_stored_first_and_then_does_not_count(cluster: FakeCluster) -> None:
    cluster.broker.put(TOPIC, 0, b"x")
    async with member(cluster) as world:
        await world.group.queues.change([], QUEUES[:1])
        await until(lambda: world.sink.delivered)
        process_queue = world.process_queue()
        world.group.store.table.update(QUEUES[0], 1)
        assert await world.group.queues.change(QUEUES[:1], [])
        assert cluster.broker.progress["g", TOPIC, 0] == 1
        assert process_queue.is_dropped
        assert not process_queue.message_count
        assert world.group.queues.memory_offset(QUEUES[0]) is None
        assert not world.group.queues.assigned


async def test_a_busy_orderly_queue_is_given_up_when_its_handler_has_ended(cluster: FakeCluster) -> None:
    async with member(cluster, is_orderly=True) as world:
        await world.group.queues.change([], QUEUES[:1])
        process_queue = world.process_queue()
        process_queue.is_consuming = True
        assert not await world.group.queues.change(QUEUES[:1], [])
        assert cluster.broker.locks.keys() == {QUEUES[0]}
        assert process_queue.is_leaving
        assert not process_queue.is_dropped, "the result of its handler counts"
        assert process_queue.try_unlock_count == 1
        process_queue.is_consuming = False
        assert not await world.group.queues.change([], []), "what it has become again is for another round"
        assert cluster.broker.locks == {}
        assert not world.group.queues.assigned


async def test_a_queue_that_is_lost_is_not_stored(cluster: FakeCluster) -> None:
    """Another member may have stored more."""
    async with member(cluster, is_orderly=True) as world:
        await world.group.queues.change([], QUEUES[:1])
        process_queue = world.process_queue()
        world.group.store.table.update(QUEUES[0], 1)
        world.group.queues.lose(process_queue)
        world.group.queues.lose(process_queue)
        assert process_queue.is_dropped
        assert not world.group.queues.assigned
    assert cluster.broker.progress == {}


async def test_a_paused_queue_that_comes_again_is_read(cluster: FakeCluster) -> None:
    """Its pause was that of its former life, and the program cannot see that it goes on."""
    async with member(cluster) as world:
        for gone in (lambda: world.group.queues.change(QUEUES[:1], []), lambda: lose(world)):
            await world.group.queues.change([], QUEUES[:1])
            world.group.queues.gate.pause(QUEUES[:1])
            await gone()
            assert world.group.queues.gate.paused == frozenset()
        delivered_count = len(world.sink.delivered)
        await world.group.queues.change([], QUEUES[:1])
        cluster.broker.put(TOPIC, 0, b"x")
        await until(lambda: len(world.sink.delivered) > delivered_count)


async def lose(world: World) -> None:
    world.group.queues.lose(world.process_queue())


async def test_a_queue_that_comes_again_is_not_lost_by_a_renewal_of_its_former_life(cluster: FakeCluster) -> None:
    async with member(cluster, is_orderly=True) as world:
        await world.group.queues.change([], QUEUES[:1])
        before = world.process_queue()
        world.group.queues.move_to(QUEUES[0], 0)
        after = world.process_queue()
        world.group.queues.lose(before)
        assert world.process_queue() is after
        assert not after.is_dropped


async def test_a_queue_that_is_moved_begins_anew_at_once(cluster: FakeCluster) -> None:
    for _ in range(5):
        cluster.broker.put(TOPIC, 0, b"x")
    async with member(cluster, is_orderly=True) as world:
        await world.group.queues.change([], QUEUES[:1])
        await until(lambda: len(world.sink.delivered) == 5)
        before = world.process_queue()
        world.group.queues.move_to(QUEUES[0], 3)
        world.group.queues.move_to(QUEUES[1], 3)
        after = world.process_queue()
        assert before.is_dropped
        assert (after.is_locked, after.locked_at) == (True, before.locked_at)
        await until(lambda: len(world.sink.delivered) == 7)
        assert world.sink.delivered[5:] == [(after, 3), (after, 4)]
        assert world.group.queues.memory_offset(QUEUES[0]) == 3


async def test_a_handler_that_ends_while_its_member_leaves_counts(cluster: FakeCluster) -> None:
    async with member(cluster, is_orderly=True) as world:
        await world.group.queues.change([], QUEUES[:1])
        process_queue = world.process_queue()
        process_queue.is_consuming = True
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.group.queues.leave)
            await until(lambda: world.sink.waited_count >= 2)  # it looks, and looks again
            assert process_queue.is_leaving
            assert not process_queue.is_dropped
            assert cluster.broker.locks
            world.group.store.table.update(QUEUES[0], 1)
            process_queue.is_consuming = False
    assert cluster.broker.progress["g", TOPIC, 0] == 1
    assert cluster.broker.locks == {}


@pytest.mark.parametrize("resists", [False, True])
async def test_a_lock_is_given_back_only_after_the_handler_has_ended(cluster: FakeCluster, *, resists: bool) -> None:
    """Until then the next owner would handle the queue beside it."""
    async with member(cluster, is_orderly=True) as world:
        await world.group.queues.change([], QUEUES[:2])
        process_queue = world.process_queue()
        process_queue.is_consuming = True

        def end() -> None:
            assert cluster.broker.locks, "handlers end before"
            process_queue.is_consuming = resists

        world.sink.on_close = end
        await world.group.queues.leave()
        assert world.sink.is_closed
        world.sink.on_close = lambda: None
    assert list(cluster.broker.locks) == ([QUEUES[0]] if resists else [])
    (left,) = cluster.broker.asked(RequestCode.UNREGISTER_CLIENT)
    assert left.ext_fields is not None
    assert left.ext_fields.get("keepLocks") == ("true" if resists else None)


async def test_leaving_gives_back_what_was_being_locked(cluster: FakeCluster) -> None:
    cluster.broker.be_silent(RequestCode.QUERY_CONSUMER_OFFSET)
    async with member(cluster, is_orderly=True) as world:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.group.queues.change, [], QUEUES)
            await until(lambda: cluster.broker.asked(RequestCode.QUERY_CONSUMER_OFFSET))
            nursery.cancel_scope.cancel()
        assert set(cluster.broker.locks) == set(QUEUES)
    assert cluster.broker.locks == {}
