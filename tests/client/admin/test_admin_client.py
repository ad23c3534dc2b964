"""What operators ask."""

from __future__ import annotations

import pytest

from rocketpy.client.admin.admin_client import masters
from rocketpy.client.client import open_admin_client
from rocketpy.errors import BrokerError, ClientError
from rocketpy.protocol.bodies.route import BrokerData, ClusterInfo
from rocketpy.protocol.codes import RequestCode, ResponseCode
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster


async def test_topics_and_their_routes(cluster: FakeCluster) -> None:
    cluster.add_topic("Another", 2)
    async with open_admin_client(cluster.address) as admin:
        assert await admin.topics() == ["Another", "TBW102", TOPIC]
        routes = await admin.routes([TOPIC, "Gone", "Another"])
        assert list(routes) == [TOPIC, "Another"]
        assert routes["Another"].queue_datas[0].read_queue_nums == 2
        route = await admin.route(TOPIC)
        assert route is not None
        assert route.broker_datas[0].broker_addrs == {0: cluster.broker.address}
        assert await admin.route("Gone") is None
        assert await admin.cluster_info() == cluster.name_server.cluster_info


async def test_many_routes_that_cannot_be_had_fail_once_and_not_in_a_group(cluster: FakeCluster) -> None:
    cluster.name_server.refuse(RequestCode.GET_ROUTEINFO_BY_TOPIC, ResponseCode.SYSTEM_ERROR, "broken")
    async with open_admin_client(cluster.address) as admin:
        with pytest.raises(BrokerError, match="broken"):
            await admin.routes([f"T{number}" for number in range(100)])
    assert len(cluster.name_server.requests) <= 32


async def test_a_topic_is_created_on_every_master(two_brokers: FakeCluster) -> None:
    async with open_admin_client(two_brokers.address) as admin:
        addresses = await admin.create_topic("New", queue_nums=3, perm=4)
    assert sorted(addresses) == sorted(broker.address for broker in two_brokers.brokers)
    for broker in two_brokers.brokers:
        (header,) = broker.created
        assert (header.topic, header.read_queue_nums, header.write_queue_nums, header.perm) == ("New", 3, 3, 4)
        assert (header.default_topic, header.topic_filter_type) == ("TBW102", "SINGLE_TAG")


async def test_refusals_are_named(cluster: FakeCluster) -> None:
    cluster.broker.refuse(RequestCode.UPDATE_AND_CREATE_TOPIC, ResponseCode.SYSTEM_ERROR, "a system topic")
    async with open_admin_client(cluster.address) as admin:
        with pytest.raises(BrokerError, match="a system topic BROKER: 127"):
            await admin.create_topic("TBW102")
        with pytest.raises(ClientError, match="illegal characters"):
            await admin.create_topic("a b")
        with pytest.raises(ClientError, match="no cluster named elsewhere, known: cluster"):
            await admin.create_topic("T", cluster="elsewhere")


def test_masters_of_a_cluster() -> None:
    info = ClusterInfo(
        broker_addr_table={
            "a": BrokerData("one", "a", {0: "a:1", 1: "a:2"}),
            "b": BrokerData("two", "b", {0: "b:1"}),
            "slave": BrokerData("two", "slave", {1: "s:1"}),
        },
        cluster_addr_table={"one": ["a"], "two": ["b", "slave", "forgotten"], "empty": []},
    )
    assert masters(info, None) == ["a:1", "b:1"]
    assert masters(info, "two") == ["b:1"]
    with pytest.raises(ClientError, match="no master broker is registered"):
        masters(info, "empty")
    with pytest.raises(ClientError, match="known: none"):
        masters(ClusterInfo(), "one")
