"""Choosing among nameservers."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing

from rocketpy.client.instance import ClientInstance
from rocketpy.errors import BrokerError, RemotingConnectError
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import make_request
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.client.opened import opened


async def test_an_unreachable_nameserver_is_skipped_and_the_next_one_kept(
    cluster: FakeCluster, nursery: trio.Nursery
) -> None:
    called: list[int] = []

    async def hang_up(stream: trio.SocketStream) -> None:
        called.append(1)
        await stream.aclose()

    away = []
    for _ in range(2):
        (listener,) = await nursery.start(partial(trio.serve_tcp, hang_up, 0, host="127.0.0.1"))
        away.append(f"127.0.0.1:{listener.socket.getsockname()[1]}")
    async with opened(f"{away[0]};{cluster.address};{away[1]}") as instance:
        assert await instance.name_servers.find_route(TOPIC) is not None
        assert len(called) == 1, "one of the two comes first in the shuffled order"
        for _ in range(4):
            assert await instance.name_servers.find_route(TOPIC) is not None
        assert len(called) == 1
    nursery.cancel_scope.cancel()


async def test_no_nameserver_names_them_all() -> None:
    async with opened("127.0.0.1:1;127.0.0.1:2") as instance:
        with pytest.raises(RemotingConnectError, match="no nameserver answers") as caught:
            await instance.name_servers.find_route(TOPIC)
    assert "127.0.0.1:1" in str(caught.value)
    assert "127.0.0.1:2" in str(caught.value)


async def test_what_is_no_address_is_not_said_to_be_silent() -> None:
    async with opened("foo") as instance:
        with pytest.raises(RemotingConnectError, match=r"^nameserver 'foo' is not an address, expected HOST:PORT$"):
            await instance.name_servers.find_route(TOPIC)


async def test_a_broker_that_is_taken_for_a_nameserver_is_named(cluster: FakeCluster) -> None:
    """It refuses every code of a nameserver, as Java's does. The next nameserver is asked all the same."""
    broker = cluster.brokers[0].address
    async with opened(broker) as instance:
        for ask in (partial(instance.name_servers.find_route, TOPIC), instance.name_servers.cluster_info):
            with pytest.raises(BrokerError, match=r"DESC: this is a broker, name the nameserver \(port 9876") as caught:
                await ask()
            assert caught.value.address == broker
    for addresses in (f"{broker};{cluster.address}", f"{cluster.address};{broker}"):
        async with opened(addresses) as instance:
            assert await instance.name_servers.find_route(TOPIC) is not None


async def test_a_nameserver_that_does_not_know_a_newer_code_is_no_broker(
    cluster: FakeCluster, instance: ClientInstance
) -> None:
    not_supported = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    cluster.name_server.refuse(RequestCode.GET_KV_CONFIG, not_supported, "request type 101 not supported")
    with pytest.raises(BrokerError, match="DESC:  request type 101 not supported"):
        await instance.name_servers.request(make_request(RequestCode.GET_KV_CONFIG))


async def test_a_refusal_of_a_nameserver_is_final(cluster: FakeCluster, instance: ClientInstance) -> None:
    cluster.name_server.refuse(RequestCode.GET_ROUTEINFO_BY_TOPIC, ResponseCode.SYSTEM_ERROR, "out of order")
    with pytest.raises(BrokerError, match="CODE: 1  DESC: out of order BROKER: 127") as caught:
        await instance.name_servers.find_route(TOPIC)
    assert caught.value.address == cluster.address
