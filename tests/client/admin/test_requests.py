"""How requests of administration go out, and what becomes of several answers."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from rocketpy.client.admin.requests import AdminRequests, cluster_addresses, masters
from rocketpy.client.instance import ClientInstance
from rocketpy.errors import BrokerError, BrokersError, ClientError, RemotingConnectError, RemotingTimeoutError
from rocketpy.protocol.bodies.route import BrokerData, ClusterInfo
from rocketpy.protocol.codes import RequestCode, ResponseCode
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.client.opened import opened
from tests.patience import seconds_of

INFO = ClusterInfo(
    broker_addr_table={
        "a": BrokerData("one", "a", {0: "a:1", 1: "a:2"}),
        "b": BrokerData("two", "b", {0: "b:1"}),
        "slave": BrokerData("two", "slave", {1: "s:1"}),
    },
    cluster_addr_table={"one": ["a"], "two": ["b", "slave", "forgotten"], "empty": []},
)


def test_addresses_of_a_cluster() -> None:
    assert masters(INFO, None) == ["a:1", "b:1"]
    assert masters(INFO, "two") == ["b:1"]
    assert cluster_addresses(INFO, None) == ["a:1", "a:2", "b:1", "s:1"]
    assert cluster_addresses(INFO, "two") == ["b:1", "s:1"]
    assert cluster_addresses(INFO, "empty") == []
    with pytest.raises(ClientError, match="no master broker is registered"):
        masters(INFO, "empty")
    with pytest.raises(ClientError, match="no cluster named three, known: empty, one, two"):
        cluster_addresses(INFO, "three")
    with pytest.raises(ClientError, match="known: none"):
        masters(ClusterInfo(), "one")


async def test_all_are_asked_and_failures_are_beside_the_results(instance: ClientInstance) -> None:
    asked = []

    async def ask(address: str) -> int:
        asked.append(address)
        await trio.lowlevel.checkpoint()
        if address.startswith("bad"):
            raise BrokerError(1, "no", address)
        return len(address)

    requests = AdminRequests(instance)
    assert await requests.each(["b", "aaa", "b"], ask) == {"b": 1, "aaa": 3}
    assert list(await requests.each(["b", "aaa"], ask)) == ["b", "aaa"]
    assert await requests.each([], ask) == {}
    with pytest.raises(BrokerError, match="no BROKER: bad"):
        await requests.each(["bad"], ask)
    asked.clear()
    with pytest.raises(BrokersError, match=r"2 of 3 failed: bad1: CODE: 1  DESC: no BROKER: bad1; bad2: ") as caught:
        await requests.each(["bad1", "good", "bad2"], ask)
    assert sorted(asked) == ["bad1", "bad2", "good"]
    assert (list(caught.value.failures), caught.value.results) == (["bad1", "bad2"], {"good": 4})
    with pytest.raises(BrokersError, match="2 of 2 failed"):
        await requests.each(["bad1", "bad2"], ask)


async def test_a_request_ends_with_the_time_of_the_admin_client(
    cluster: FakeCluster, mock_clock: MockClock, instance: ClientInstance
) -> None:
    cluster.broker.be_silent(RequestCode.HEART_BEAT)
    for count, (requests, given, seconds) in enumerate(
        (
            (AdminRequests(instance), {}, 5.0),
            (AdminRequests(instance, timeout_ms=700), {}, 0.7),
            (AdminRequests(instance), {"timeout_s": 15.0}, 15.0),
        )
    ):

        async def ask(requests: AdminRequests = requests, given: dict[str, float] = given) -> None:
            with pytest.raises(RemotingTimeoutError):
                await requests.ask_broker(cluster.broker.address, RequestCode.HEART_BEAT, **given)

        found = await seconds_of(
            ask, lambda count=count: len(cluster.broker.asked(RequestCode.HEART_BEAT)) > count, mock_clock
        )
        assert found == pytest.approx(seconds, abs=0.1)


async def test_a_nameserver_has_the_same_time(
    cluster: FakeCluster, mock_clock: MockClock, instance: ClientInstance
) -> None:
    cluster.name_server.be_silent(RequestCode.GET_BROKER_CLUSTER_INFO)

    async def ask() -> None:
        with pytest.raises(RemotingConnectError, match="no nameserver answers"):
            await AdminRequests(instance).cluster_info()

    assert await seconds_of(ask, lambda: cluster.name_server.requests, mock_clock) == pytest.approx(5.0, abs=0.1)


async def test_a_slave_answers_for_a_broker_without_a_master(cluster: FakeCluster, instance: ClientInstance) -> None:
    requests = AdminRequests(instance)
    brokers = [
        BrokerData("c", "a", {0: "a:0", 1: "a:1"}),
        BrokerData("c", "b", {1: "b:1", 2: "b:2"}),
        BrokerData("c", "c", {}),
    ]
    found = requests.addresses_of(brokers)
    assert (found["a"], found["b"] in ("b:1", "b:2"), len(found)) == ("a:0", True, 2)
    assert await requests.broker_addresses(TOPIC) == {"broker-a": cluster.broker.address}
    assert await requests.first_address(TOPIC) == await requests.any_address(TOPIC) == cluster.broker.address
    with pytest.raises(ClientError, match="No topic route info in name server for the topic: Gone") as caught:
        await requests.broker_addresses("Gone")
    assert caught.value.response_code == ResponseCode.TOPIC_NOT_EXIST
    cluster.name_server.routes["Homeless"] = cluster.route(1, brokers=[])
    assert await requests.first_address("Homeless") is None
    with pytest.raises(ClientError, match="no broker of the topic Homeless has an address"):
        await requests.any_address("Homeless")


async def test_brokers_are_asked_over_the_vip_port_and_nameservers_are_not(cluster: FakeCluster) -> None:
    asked = []

    async def note(address: str, *ignored: object, **options: object) -> None:
        asked.append((address, options["timeout_s"]))

    async with opened(cluster.address, vip_channel_enabled=True) as instance:
        instance.request = instance.request_name_server = note  # type: ignore[method-assign, assignment]
        requests = AdminRequests(instance)
        await requests.ask_broker("127.0.0.1:10911", RequestCode.GET_ALL_TOPIC_CONFIG)
        await requests.ask_address("127.0.0.1:10911", RequestCode.GET_BROKER_CONFIG)
        await requests.ask_name_servers(RequestCode.GET_NAMESRV_CONFIG, addresses=["127.0.0.1:9876"])
    assert asked == [("127.0.0.1:10909", 5.0), ("127.0.0.1:10911", 5.0), ("127.0.0.1:9876", 5.0)]
