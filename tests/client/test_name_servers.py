"""Choosing among nameservers."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing

from rocketpy.client.instance import ClientInstance
from rocketpy.errors import BrokerError, RemotingConnectError
from rocketpy.protocol.codes import RequestCode, ResponseCode
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


async def test_a_refusal_of_a_nameserver_is_final(cluster: FakeCluster, instance: ClientInstance) -> None:
    cluster.name_server.refuse(RequestCode.GET_ROUTEINFO_BY_TOPIC, ResponseCode.SYSTEM_ERROR, "out of order")
    with pytest.raises(BrokerError, match="CODE: 1  DESC: out of order BROKER: 127") as caught:
        await instance.name_servers.find_route(TOPIC)
    assert caught.value.address == cluster.address
