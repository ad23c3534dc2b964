"""Offsets at a broker."""

from __future__ import annotations

import pytest

from rocketpy.client.consumer.offsets.remote_offset_store import RemoteOffsetStore
from rocketpy.client.consumer.queue.requests import QueueRequests
from rocketpy.errors import BrokerError
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.message import MessageQueue
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.client.opened import opened
from tests.patience import until

QUEUES = [MessageQueue(TOPIC, "broker-a", each) for each in range(3)]


async def test_offsets_are_stored_for_the_queues_that_are_asked_for(cluster: FakeCluster) -> None:
    async with opened(cluster.address) as instance:
        store = RemoteOffsetStore(QueueRequests(instance=instance, group="g"))
        for number, queue in enumerate(QUEUES):
            store.table.update(queue, 10 + number)
        await store.persist([QUEUES[0], QUEUES[1], MessageQueue(TOPIC, "broker-a", 3)])
        assert cluster.broker.progress == {("g", TOPIC, 0): 10, ("g", TOPIC, 1): 11}
        await store.persist_soon(QUEUES)
        await until(lambda: cluster.broker.progress.get(("g", TOPIC, 2)) == 12)
        assert await store.fetch(QUEUES[2]) == 12


async def test_only_a_broker_that_has_no_offset_says_so(cluster: FakeCluster) -> None:
    """A group must not begin at its start position because a broker is busy."""
    async with opened(cluster.address) as instance:
        store = RemoteOffsetStore(QueueRequests(instance=instance, group="g"))
        assert await store.fetch(QUEUES[0]) is None
        cluster.broker.refuse(RequestCode.QUERY_CONSUMER_OFFSET, ResponseCode.SYSTEM_ERROR)
        with pytest.raises(BrokerError):
            await store.fetch(QUEUES[0])


async def test_a_broker_that_refuses_is_written_to_again_later(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(cluster.address) as instance:
        store = RemoteOffsetStore(QueueRequests(instance=instance, group="g"))
        store.table.update(QUEUES[0], 4)
        cluster.broker.refuse(RequestCode.UPDATE_CONSUMER_OFFSET, ResponseCode.SYSTEM_BUSY)
        await store.persist(QUEUES)
        assert "offset 4 of" in caplog.text
        cluster.broker.behave()
        await store.persist(QUEUES)
    assert cluster.broker.progress == {("g", TOPIC, 0): 4}
