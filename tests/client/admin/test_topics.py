"""Topics: on a real broker what happens, on scripted ones what is asked and what failures become."""

from __future__ import annotations

import attrs
import pytest

from rocketpy.client.admin.admin_client import AdminClient
from rocketpy.client.client import open_admin_client
from rocketpy.errors import BrokerError, BrokersError, ClientError
from rocketpy.protocol.bodies.route import BrokerData, ClusterInfo
from rocketpy.protocol.bodies.topic import TopicConfig
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.message import MessageQueue
from tests.client.admin.conftest import BROKER, CLUSTER, RealScene, T
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster


async def test_a_topic_is_created_shown_changed_and_deleted(real: RealScene) -> None:
    topics = real.admin.topics
    assert await topics.create("New", queue_nums=3) == [real.broker]
    assert "New" in await topics.names()
    assert "New" in await topics.names_in_cluster(CLUSTER)
    assert await topics.names_in_cluster("elsewhere") == []
    assert await topics.clusters("New") == [CLUSTER]
    config = TopicConfig("New", read_queue_nums=4, write_queue_nums=2, perm=6)
    await topics.update(real.broker, config)
    assert await topics.config(real.broker, "New") == config
    assert await topics.config(real.broker, "Gone") is None
    assert await topics.publish_queues("New") == [MessageQueue("New", BROKER, number) for number in range(2)]
    assert await topics.subscribe_queues("New") == [MessageQueue("New", BROKER, number) for number in range(4)]
    assert await topics.delete("New", cluster=CLUSTER) == [real.broker]
    assert "New" not in await topics.names()
    assert "New" not in (await topics.configs(real.broker)).topic_config_table


async def test_retry_topics_of_units_are_shown_on_demand(real: RealScene) -> None:
    for topic in ("%RETRY%unit", "Subscribed"):
        await real.admin.topics.update(real.broker, TopicConfig(topic, topic_sys_flag=3))
    assert await real.admin.topics.unit_names() == ["Subscribed"]
    assert await real.admin.topics.unit_names(with_retry=True) == ["%RETRY%unit", "Subscribed"]
    assert await real.admin.topics.unit_subscribed_names(with_retry=True) == ["%RETRY%unit", "Subscribed"]


async def test_system_topics_and_those_of_users(real: RealScene) -> None:
    topics = real.admin.topics
    await topics.update(real.broker, TopicConfig("%RETRY%g"))
    assert "TBW102" in await topics.system_names(real.broker)
    assert {CLUSTER, BROKER} <= set(await topics.system_names())
    assert set((await topics.user_configs(real.broker)).topic_config_table) == {T}
    assert set((await topics.user_configs(real.broker, with_retry=True)).topic_config_table) == {T, "%RETRY%g"}


async def test_what_no_broker_has_is_named(real: RealScene) -> None:
    topics = real.admin.topics
    for ask in (topics.stats, topics.clusters, topics.publish_queues, topics.subscribe_queues, topics.consumer_groups):
        with pytest.raises(ClientError, match=r"CODE: 17 .*Nowhere") as caught:
            await ask("Nowhere")
        assert caught.value.response_code == ResponseCode.TOPIC_NOT_EXIST
    assert await topics.route("Nowhere") is None
    with pytest.raises(BrokerError, match="conflict with system topic"):
        await topics.update(real.broker, TopicConfig("TBW102"))


async def test_a_broker_that_refuses_hides_nothing_of_the_others(two_brokers: FakeCluster) -> None:
    first, second = two_brokers.brokers
    first.refuse(RequestCode.UPDATE_AND_CREATE_TOPIC, ResponseCode.SYSTEM_ERROR, "a slave")
    async with open_admin_client(two_brokers.address) as admin:
        with pytest.raises(BrokersError, match=r"1 of 2 failed: .*a slave") as caught:
            await admin.topics.create("New")
    assert list(caught.value.failures) == [first.address]
    assert list(caught.value.results) == [second.address]
    assert [each.topic for each in second.created] == ["New"]


async def test_a_topic_in_order_is_asked_for_as_one(cluster: FakeCluster, admin: AdminClient) -> None:
    for order in (True, False):
        await admin.topics.update(cluster.broker.address, TopicConfig("New", order=order))
    assert [each.order for each in cluster.broker.created] == [True, False]


async def test_a_topic_like_another_is_asked_for_five_times_and_one_broker_is_enough(two_brokers: FakeCluster) -> None:
    first, second = two_brokers.brokers
    first.refuse(RequestCode.UPDATE_AND_CREATE_TOPIC, ResponseCode.SYSTEM_ERROR, "no")
    async with open_admin_client(two_brokers.address) as admin:
        assert await admin.topics.create_like(TOPIC, "New", queue_nums=1) == [second.address]
        assert len(first.asked(RequestCode.UPDATE_AND_CREATE_TOPIC)) == 5
        assert second.created[0].default_topic == TOPIC
        second.refuse(RequestCode.UPDATE_AND_CREATE_TOPIC, ResponseCode.SYSTEM_ERROR, "no")
        with pytest.raises(BrokersError, match="2 of 2 failed"):
            await admin.topics.create_like(TOPIC, "New", queue_nums=1)
        with pytest.raises(ClientError, match="illegal characters"):
            await admin.topics.create_like(TOPIC, "a b", queue_nums=1)


async def test_a_key_without_a_master_is_wrong(cluster: FakeCluster, admin: AdminClient) -> None:
    route = cluster.route(1)
    slaves = attrs.evolve(route, broker_datas=[BrokerData("cluster", "broker-a", {1: cluster.broker.address})])
    cluster.name_server.routes["Slaves"] = slaves
    cluster.name_server.routes["ReadOnly"] = cluster.route(1, perm=0)
    with pytest.raises(ClientError, match="Not found broker, maybe key is wrong"):
        await admin.topics.create_like("Slaves", "New", queue_nums=1)
    for ask in (admin.topics.publish_queues, admin.topics.subscribe_queues):
        with pytest.raises(ClientError, match="Can not find Message Queue for this topic, ReadOnly"):
            await ask("ReadOnly")


async def test_a_topic_stays_in_the_nameservers_while_a_broker_has_it(cluster: FakeCluster, admin: AdminClient) -> None:
    with pytest.raises(BrokerError, match="not supported"):
        await admin.topics.delete(TOPIC, cluster="cluster")
    assert not cluster.name_server.asked(RequestCode.DELETE_TOPIC_IN_NAMESRV)
    cluster.name_server.cluster_info = ClusterInfo()
    with pytest.raises(ClientError, match="no cluster named cluster, known: none"):
        await admin.topics.delete(TOPIC, cluster="cluster")


async def test_many_routes_that_cannot_be_had_fail_once_and_not_in_a_group(
    cluster: FakeCluster, admin: AdminClient
) -> None:
    cluster.name_server.refuse(RequestCode.GET_ROUTEINFO_BY_TOPIC, ResponseCode.SYSTEM_ERROR, "broken")
    with pytest.raises(BrokerError, match="broken"):
        await admin.topics.routes([f"T{number}" for number in range(100)])
    assert len(cluster.name_server.requests) <= 32
