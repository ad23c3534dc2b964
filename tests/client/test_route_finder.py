"""Queues and addresses: cached, looked up, refreshed."""

from __future__ import annotations

import re

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from rocketpy.client.instance import ClientInstance
from rocketpy.client.route_finder import TopicTemplate
from rocketpy.errors import ClientError
from rocketpy.protocol.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.message import MessageQueue
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.client.opened import opened
from tests.forgotten import growth, sizes_within
from tests.patience import PATIENCE_SECONDS, until_blocked


async def test_many_who_need_a_route_ask_once(cluster: FakeCluster, instance: ClientInstance) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(instance.routes.publish_queues, TOPIC)
    assert len(cluster.name_server.asked(RequestCode.GET_ROUTEINFO_BY_TOPIC)) == 1


async def test_a_new_topic_is_sent_to_where_the_template_is(cluster: FakeCluster, instance: ClientInstance) -> None:
    queues = await instance.routes.publish_queues("NewTopic", TopicTemplate(default_topic_queue_nums=3))
    assert queues == tuple(MessageQueue("NewTopic", "broker-a", number) for number in range(3))
    asked = len(cluster.name_server.requests)
    await instance.routes.publish_queues("NewTopic")
    assert len(cluster.name_server.requests) == asked
    cluster.add_topic("NewTopic", 8)
    await instance.routes.refresh()
    assert len(await instance.routes.publish_queues("NewTopic")) == 8


async def test_an_error_about_a_route_says_what_is_missing(cluster: FakeCluster, instance: ClientInstance) -> None:
    del cluster.name_server.routes["TBW102"]
    cluster.add_topic("ReadOnly", perm=4)
    slaves = [BrokerData("cluster", "broker-a", {1: cluster.broker.address})]
    cluster.name_server.routes["Slaves"] = TopicRouteData(
        queue_datas=[QueueData("broker-a", 1, 1, 6)], broker_datas=slaves
    )
    routes = instance.routes
    for ask, topic, reason in (
        (routes.publish_queues, "Nowhere", "nor TBW102: none creates topics on its own (registered: broker-a)"),
        (routes.subscribe_queues, "Nowhere", "no broker has it (registered: broker-a)"),
        (routes.publish_queues, "ReadOnly", "no broker with a master lets it be written (broker-a perm 4)"),
        (routes.publish_queues, "Slaves", "no master is registered of its brokers (broker-a)"),
    ):
        with pytest.raises(ClientError, match=f"of this topic: {topic}: .*{re.escape(reason)}"):
            await ask(topic)
    cluster.name_server.refuse(RequestCode.GET_BROKER_CLUSTER_INFO, ResponseCode.SYSTEM_ERROR)
    with pytest.raises(ClientError, match=r"Nowhere: no broker has it$"):
        await routes.subscribe_queues("Nowhere")
    cluster.name_server.behave()
    names = [f"b{number}" for number in range(7)]
    cluster.name_server.cluster_info = ClusterInfo({name: BrokerData("c", name, {0: "a:1"}) for name in names})
    with pytest.raises(ClientError, match="b0, b1, b2, b3, b4 and 2 more"):
        await routes.subscribe_queues("Nowhere")
    cluster.name_server.cluster_info = ClusterInfo()
    with pytest.raises(ClientError, match=f"Nowhere: no broker is registered at {cluster.address}"):
        await routes.publish_queues("Nowhere")


async def test_a_topic_that_cannot_be_written_is_not_sent_to_the_template(
    cluster: FakeCluster, instance: ClientInstance
) -> None:
    cluster.add_topic("ReadOnly", perm=4)
    with pytest.raises(ClientError, match="ReadOnly: no broker with a master lets it be written"):
        await instance.routes.publish_queues("ReadOnly")
    cluster.add_topic("ReadOnly", perm=6)
    assert len(await instance.routes.publish_queues("ReadOnly")) == 4


async def test_a_route_is_kept_when_a_fresh_nameserver_does_not_know_it(
    cluster: FakeCluster, instance: ClientInstance
) -> None:
    queues = await instance.routes.publish_queues(TOPIC)
    del cluster.name_server.routes[TOPIC]
    await instance.routes.refresh()
    assert await instance.routes.publish_queues(TOPIC) == queues
    assert await instance.routes.publish_address(queues[0]) == cluster.broker.address


async def test_a_refresh_without_nameservers_leaves_what_is_known(cluster: FakeCluster, mock_clock: MockClock) -> None:
    async with opened(cluster.address, mq_client_api_timeout=50) as instance:
        queues = await instance.routes.publish_queues(TOPIC)
        cluster.name_server.refuse(RequestCode.GET_ROUTEINFO_BY_TOPIC, ResponseCode.SYSTEM_ERROR)
        await instance.routes.refresh()
        cluster.name_server.be_silent(RequestCode.GET_ROUTEINFO_BY_TOPIC)
        asked = len(cluster.name_server.requests)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(instance.routes.refresh)
            await until_blocked(lambda: len(cluster.name_server.requests) > asked)
            mock_clock.jump(0.05)
        assert await instance.routes.publish_queues(TOPIC) == queues


async def test_routes_are_refreshed_by_themselves(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketpy.client.instance.REFRESH_PAUSE_SECONDS", 0.01)
    async with opened(cluster.address, poll_name_server_interval=1) as instance:
        await instance.routes.publish_queues(TOPIC)
        cluster.add_topic(TOPIC, 9)
        instance.request_route_refresh()
        with trio.fail_after(PATIENCE_SECONDS):
            while len(await instance.routes.publish_queues(TOPIC)) != 9:
                await trio.sleep(0.005)


async def test_an_unknown_broker_is_asked_for_once_and_then_named(
    cluster: FakeCluster, instance: ClientInstance
) -> None:
    queue = MessageQueue(TOPIC, "broker-a", 0)
    assert await instance.routes.publish_address(queue) == cluster.broker.address
    assert await instance.routes.subscribe_address(queue, 1) == cluster.broker.address
    for ask in (instance.routes.publish_address, instance.routes.subscribe_address):
        with pytest.raises(ClientError, match=r"CODE: 10003  DESC: The broker\[elsewhere\] not exist"):
            await ask(MessageQueue(TOPIC, "elsewhere", 0))


# ---- topics that have gone -------------------------------------------------------------------------------------------


async def test_topics_that_come_and_go_leave_nothing(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketpy.client.route_finder.UNUSED_SECONDS", 0.0)
    async with opened(cluster.address) as instance:
        routes = instance.routes
        await routes.publish_queues(TOPIC)
        sizes = sizes_within(routes)
        for number in range(5):
            cluster.add_topic(f"T{number}", 1)
            await routes.publish_queues(f"T{number}")
            await routes.subscribe_queues(f"T{number}")
            del cluster.name_server.routes[f"T{number}"]
        assert len(routes.table.topics) == 6
        await routes.refresh()
        assert growth(sizes, sizes_within(routes)) == {}


async def test_a_look_up_that_fails_leaves_nothing(cluster: FakeCluster, instance: ClientInstance) -> None:
    del cluster.name_server.routes["TBW102"]
    await instance.routes.publish_queues(TOPIC)
    sizes = sizes_within(instance.routes)
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            with pytest.raises(ClientError):
                await instance.routes.publish_queues("Nowhere")

        for _ in range(3):
            nursery.start_soon(ask)
    assert growth(sizes, sizes_within(instance.routes)) == {}


async def test_a_topic_in_use_keeps_its_route_while_no_nameserver_knows_it(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A nameserver that has just started knows none, and its brokers may not reach it."""
    async with opened(cluster.address) as instance:
        routes = instance.routes
        queue, *_ = await routes.publish_queues(TOPIC)
        cluster.name_server.routes.clear()
        await routes.refresh()
        monkeypatch.setattr("rocketpy.client.route_finder.UNUSED_SECONDS", 0.0)
        await routes.publish_address(queue)
        # The next refresh finds it unknown again, and unused from then on only.
        routes.table.forget_unused(trio.current_time())
        assert await routes.publish_queues(TOPIC)
        await routes.refresh()
        assert routes.table.topics == []


async def test_a_followed_topic_is_refreshed_before_anything_uses_it_and_no_longer_than_that(
    cluster: FakeCluster, instance: ClientInstance
) -> None:
    with instance.routes.following([TOPIC, "Later"]), instance.routes.following(["Later"]):
        await instance.routes.refresh()
        assert instance.routes.table.topics == [TOPIC]
    with instance.routes.following(["Later"]):
        with instance.routes.following(["Later"]):
            pass  # it comes again, and goes again
        cluster.add_topic("Later")
        await instance.routes.refresh()
        assert instance.routes.table.topics == [TOPIC, "Later"]
    cluster.add_topic("Last")
    with instance.routes.following(["Last"]):
        pass
    await instance.routes.refresh()
    assert "Last" not in instance.routes.table.topics
