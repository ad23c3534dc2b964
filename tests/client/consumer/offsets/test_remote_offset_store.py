"""Offsets at a broker."""

from __future__ import annotations

from typing import cast

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from rocketpy.client.consumer.offsets import remote_offset_store
from rocketpy.client.consumer.offsets.remote_offset_store import FIRST_OFFSET_SECONDS, RemoteOffsetStore
from rocketpy.client.consumer.queue.continuity import Continuity
from rocketpy.client.consumer.queue.requests import QueueRequests
from rocketpy.client.instance import ClientInstance
from rocketpy.errors import BrokerError
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.message import MessageExt, MessageQueue
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.forgotten import sizes_within
from tests.patience import until

QUEUES = [MessageQueue(TOPIC, "broker-a", each) for each in range(3)]


async def test_offsets_are_stored_for_the_queues_that_are_asked_for(
    cluster: FakeCluster, instance: ClientInstance
) -> None:
    store = RemoteOffsetStore(QueueRequests(instance=instance, group="g"))
    for number, queue in enumerate(QUEUES):
        store.table.update(queue, 10 + number)
    await store.persist([QUEUES[0], QUEUES[1], MessageQueue(TOPIC, "broker-a", 3)])
    assert cluster.broker.progress == {("g", TOPIC, 0): 10, ("g", TOPIC, 1): 11}
    await store.persist_soon(QUEUES)
    await until(lambda: cluster.broker.progress.get(("g", TOPIC, 2)) == 12)
    assert await store.fetch(QUEUES[2]) == 12


async def test_only_a_broker_that_has_no_offset_says_so(cluster: FakeCluster, instance: ClientInstance) -> None:
    """A group must not begin at its start position because a broker is busy."""
    store = RemoteOffsetStore(QueueRequests(instance=instance, group="g"))
    assert await store.fetch(QUEUES[0]) is None
    cluster.broker.refuse(RequestCode.QUERY_CONSUMER_OFFSET, ResponseCode.SYSTEM_ERROR)
    with pytest.raises(BrokerError):
        await store.fetch(QUEUES[0])


async def test_a_broker_that_refuses_is_written_to_again_later(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, instance: ClientInstance
) -> None:
    store = RemoteOffsetStore(QueueRequests(instance=instance, group="g"))
    store.table.update(QUEUES[0], 4)
    cluster.broker.refuse(RequestCode.UPDATE_CONSUMER_OFFSET, ResponseCode.SYSTEM_BUSY)
    await store.persist(QUEUES)
    assert "offset 4 of" in caplog.text
    cluster.broker.behave()
    await store.persist(QUEUES)
    assert cluster.broker.progress == {("g", TOPIC, 0): 4}


async def test_nothing_is_written_of_a_queue_that_may_have_lost_its_tail(
    cluster: FakeCluster, instance: ClientInstance
) -> None:
    await instance.routes.look_up_again(TOPIC)
    requests = QueueRequests(instance=instance, group="g")
    store, continuity = RemoteOffsetStore(requests), Continuity(QUEUES[0], 5, requests, begin_offset)
    requests.watch(continuity)
    cluster.broker.put(TOPIC, 0, b"another")
    continuity.note([MessageExt(TOPIC, b"lost", queue_offset=0, physical_offset=7)], 5)
    store.table.update(QUEUES[0], 5)
    await store.persist(QUEUES)
    await store.persist_soon(QUEUES)
    assert continuity.fallback == 1
    assert cluster.broker.progress == {}
    requests.forget(QUEUES[0])
    await store.persist(QUEUES)
    assert cluster.broker.progress == {("g", TOPIC, 0): 5}


async def begin_offset(queue: MessageQueue) -> int:
    return 3


# ---- the first offset of a topic ------------------------------------------------------------------------------------


class SlowRequests:
    """Requests whose answers come when the gate opens."""

    def __init__(self) -> None:
        self.asked: list[MessageQueue] = []
        self.gate = trio.Event()

    async def may_commit(self, queue: MessageQueue) -> bool:
        return True

    async def commit(self, queue: MessageQueue, consumer_offset: int) -> None:
        self.asked.append(queue)
        await self.gate.wait()

    async def commit_oneway(self, queue: MessageQueue, consumer_offset: int) -> None:
        self.asked.append(queue)


OTHER = MessageQueue("Other", "broker-a", 0)


@pytest.fixture
def requests() -> SlowRequests:
    return SlowRequests()


@pytest.fixture
def store(requests: SlowRequests) -> RemoteOffsetStore:
    store = RemoteOffsetStore(cast(QueueRequests, requests))
    for queue in (*QUEUES, OTHER):
        store.table.update(queue, 7)
    return store


@pytest.mark.parametrize("is_soon", [False, True])
async def test_the_first_is_answered_before_the_others_are_sent(
    requests: SlowRequests, store: RemoteOffsetStore, nursery: trio.Nursery, is_soon: bool
) -> None:
    """Java's broker would lose one of two that arrive together while it has no table of this group and topic."""
    persist = store.persist_soon if is_soon else store.persist
    nursery.start_soon(persist, [*QUEUES, OTHER])
    await trio.testing.wait_all_tasks_blocked()
    assert sorted(requests.asked) == sorted([QUEUES[0], OTHER])
    requests.gate.set()
    await trio.testing.wait_all_tasks_blocked()
    assert sorted(requests.asked) == sorted([*QUEUES, OTHER])
    requests.asked.clear()
    requests.gate = trio.Event()
    nursery.start_soon(persist, QUEUES)
    await trio.testing.wait_all_tasks_blocked()
    assert sorted(requests.asked) == QUEUES, "the broker has the table now"
    nursery.cancel_scope.cancel()


async def test_the_others_wait_for_a_silent_broker_a_second_at_most(
    requests: SlowRequests, store: RemoteOffsetStore, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    nursery.start_soon(store.persist, QUEUES)
    await trio.sleep(FIRST_OFFSET_SECONDS - 0.01)
    assert requests.asked == [QUEUES[0]]
    await trio.sleep(0.02)
    assert sorted(requests.asked) == QUEUES
    nursery.cancel_scope.cancel()


async def test_the_pairs_that_are_known_to_have_an_offset_have_a_bound(
    cluster: FakeCluster, instance: ClientInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_offset_store, "BEGUN_MAX", 2)
    store = RemoteOffsetStore(QueueRequests(instance=instance, group="g"))
    for number in range(5):
        cluster.add_topic(f"T{number}", 1)
        queue = MessageQueue(f"T{number}", "broker-a", 0)
        await instance.routes.publish_queues(queue.topic)
        store.table.update(queue, number)
        await store.persist([queue])
        assert cluster.broker.progress["g", queue.topic, 0] == number
        assert sizes_within(store)["RemoteOffsetStore._begun"] <= 2
