"""The order list of a topic, and calls that go to every nameserver."""

from __future__ import annotations

import pytest

from rocketpy.client.client import open_admin_client
from rocketpy.errors import BrokersError, RemotingConnectError
from rocketpy.protocol.codes import RequestCode, ResponseCode
from tests.client.admin.conftest import RealScene, T
from tests.client.fake_cluster import FakeCluster, open_fake_cluster


async def test_the_order_list_of_a_topic_as_a_whole_and_broker_by_broker(real: RealScene) -> None:
    name_servers = real.admin.name_servers
    assert await name_servers.order_conf(T) is None
    await name_servers.put_order_conf(T, "broker-a:4;broker-b:2")
    assert await name_servers.order_conf(T) == "broker-a:4;broker-b:2"
    await name_servers.put_order_conf(T, "broker-b:3", is_cluster=False)
    await name_servers.put_order_conf(T, "broker-c:1", is_cluster=False)
    assert await name_servers.order_conf(T) == "broker-a:4;broker-b:3;broker-c:1"
    await name_servers.delete_order_conf(T)
    await name_servers.put_order_conf(T, "broker-b:3", is_cluster=False)
    assert await name_servers.order_conf(T) == "broker-b:3"


async def test_every_nameserver_is_told_and_those_that_fail_are_named(cluster: FakeCluster) -> None:
    code = RequestCode.PUT_KV_CONFIG
    async with open_fake_cluster() as other:
        for each in (cluster, other):
            each.name_server.answer(code)
        async with open_admin_client(f"{cluster.address};{other.address}") as admin:
            await admin.name_servers.put_kv("ns", "k", "v")
            assert all(len(each.name_server.asked(code)) == 1 for each in (cluster, other))
            cluster.name_server.refuse(code, ResponseCode.SYSTEM_ERROR, "read only")
            with pytest.raises(BrokersError, match=r"1 of 2 failed: .*read only") as caught:
                await admin.name_servers.put_kv("ns", "k", "v")
            assert list(caught.value.failures) == [cluster.address]
            assert len(other.name_server.asked(code)) == 2
            other.name_server.answer(RequestCode.GET_NAMESRV_CONFIG, b"a=1")
            assert await admin.name_servers.config([other.address]) == {other.address: {"a": "1"}}
            await admin.name_servers.update_config({})  # nothing to send
            assert sorted(admin.name_servers.addresses) == sorted([cluster.address, other.address])
    async with open_admin_client("127.0.0.1:1") as admin:
        with pytest.raises(RemotingConnectError):
            await admin.name_servers.put_kv("ns", "k", "v")
