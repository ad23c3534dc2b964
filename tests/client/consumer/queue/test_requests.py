"""Requests about single queues, as a broker sees them."""

from __future__ import annotations

import trio

from rocketpy.client.consumer.queue.pull_plan import PullRequest
from rocketpy.client.consumer.queue.requests import QueueRequests
from rocketpy.client.instance import ClientInstance
from rocketpy.client.results import PullResult
from rocketpy.protocol.bodies.heartbeat import SubscriptionData
from rocketpy.protocol.bodies.route import BrokerData
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.pull import PullMessageRequestHeader
from rocketpy.protocol.message import MessageQueue
from rocketpy.protocol.sysflag import PULL_COMMIT_OFFSET_FLAG
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.client.opened import opened
from tests.patience import PATIENCE_MS, PATIENCE_SECONDS, until

QUEUE = MessageQueue(TOPIC, "broker-a", 0)


async def pull(requests: QueueRequests, sys_flag: int) -> PullResult:
    return await requests.pull(
        PullRequest(
            queue=QUEUE,
            queue_offset=0,
            subscription=SubscriptionData(TOPIC, "TagA", tags_set=["TagA"], sub_version=3),
            sys_flag=sys_flag,
            max_msg_nums=5,
            suspend_ms=0,
            timeout_s=10,
            commit_offset=2,
            sub_version=3,
        )
    )


def last_pull(cluster: FakeCluster, broker: int = 0) -> PullMessageRequestHeader:
    return read_header(cluster.brokers[broker].asked(RequestCode.PULL_MESSAGE)[-1], PullMessageRequestHeader)


async def test_a_pull_carries_what_the_flag_says(cluster: FakeCluster, instance: ClientInstance) -> None:
    cluster.broker.put(TOPIC, 0, b"wanted", {"TAGS": "TagA"})
    cluster.broker.put(TOPIC, 0, b"other")
    requests = QueueRequests(instance=instance, group="g")
    result = await pull(requests, PULL_COMMIT_OFFSET_FLAG)
    assert [each.body for each in result.messages] == [b"wanted"]
    header = last_pull(cluster)
    assert (header.sys_flag, header.commit_offset, header.subscription, header.sub_version) == (1, 2, None, 3)
    await pull(requests, 4)
    assert last_pull(cluster).subscription == "TagA"


async def test_a_slave_is_not_told_to_commit(two_brokers: FakeCluster) -> None:
    master, slave = two_brokers.brokers
    route = two_brokers.route(2, brokers=[master])
    route.broker_datas[0] = BrokerData("cluster", "broker-a", {0: master.address, 1: slave.address})
    two_brokers.name_server.routes[TOPIC] = route
    master.suggested_broker_id = 1
    async with opened(two_brokers.address) as instance:
        requests = QueueRequests(instance=instance, group="g")
        await pull(requests, PULL_COMMIT_OFFSET_FLAG | 4)
        assert last_pull(two_brokers).sys_flag == 5
        await pull(requests, PULL_COMMIT_OFFSET_FLAG | 4)
        assert last_pull(two_brokers, 1).sys_flag == 4
        master.suggested_broker_id = 0
        requests.forget(QUEUE)
        await pull(requests, PULL_COMMIT_OFFSET_FLAG | 4)
        assert len(slave.asked(RequestCode.PULL_MESSAGE)) == 1


async def test_progress_is_written_with_and_without_an_answer(cluster: FakeCluster) -> None:
    async with opened(cluster.address, mq_client_api_timeout=4 * PATIENCE_MS) as instance:
        requests = QueueRequests(instance=instance, group="g")
        assert await requests.consumer_offset(QUEUE) is None
        await requests.commit(QUEUE, 7)
        assert cluster.broker.progress["g", TOPIC, 0] == 7
        assert await requests.consumer_offset(QUEUE) == 7
        cluster.broker.be_silent(RequestCode.UPDATE_CONSUMER_OFFSET)
        with trio.fail_after(PATIENCE_SECONDS):
            await requests.commit_oneway(QUEUE, 8)
        cluster.broker.behave()
        await requests.commit_oneway(QUEUE, 9)
        await until(lambda: cluster.broker.progress["g", TOPIC, 0] == 9)
        assert cluster.broker.asked(RequestCode.UPDATE_CONSUMER_OFFSET)[-1].is_oneway
