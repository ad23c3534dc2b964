"""Choosing among nameservers."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing

from rocketpy.errors import BrokerError, RemotingConnectError
from rocketpy.protocol.bodies.route import TopicRouteData
from rocketpy.protocol.codes import RequestCode, ResponseCode
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster, open_fake_cluster
from tests.client.opened import opened
from tests.patience import until_blocked


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


async def test_a_silent_nameserver_is_skipped(cluster: FakeCluster, mock_clock: trio.testing.MockClock) -> None:
    found: list[TopicRouteData | None] = []
    async with open_fake_cluster() as silent:
        silent.name_server.be_silent(RequestCode.GET_ROUTEINFO_BY_TOPIC)
        async with opened(silent.address + ";" + cluster.address, mq_client_api_timeout=50) as instance:

            async def find() -> None:
                for _ in range(3):
                    found.append(await instance.name_servers.find_route(TOPIC))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(find)
                await until_blocked(lambda: silent.name_server.requests or found)
                mock_clock.jump(0.05)
        assert len(silent.name_server.requests) <= 1
    assert len(found) == 3
    assert None not in found


async def test_no_nameserver_names_them_all() -> None:
    async with opened("127.0.0.1:1;127.0.0.1:2") as instance:
        with pytest.raises(RemotingConnectError, match="no nameserver answers") as caught:
            await instance.name_servers.find_route(TOPIC)
    assert "127.0.0.1:1" in str(caught.value)
    assert "127.0.0.1:2" in str(caught.value)


async def test_a_refusal_of_a_nameserver_is_final(cluster: FakeCluster) -> None:
    cluster.name_server.refuse(RequestCode.GET_ROUTEINFO_BY_TOPIC, ResponseCode.SYSTEM_ERROR, "out of order")
    async with opened(cluster.address) as instance:
        with pytest.raises(BrokerError, match="CODE: 1  DESC: out of order BROKER: 127") as caught:
            await instance.name_servers.find_route(TOPIC)
    assert caught.value.address == cluster.address


async def test_a_nameserver_that_refuses_is_left_for_one_that_answers(cluster: FakeCluster) -> None:
    """Whichever comes first in the shuffled order; the other kinds of bad answers are in ``hostile``."""
    async with open_fake_cluster() as refusing:
        refusing.name_server.refuse(RequestCode.GET_ROUTEINFO_BY_TOPIC, ResponseCode.SYSTEM_ERROR)
        for names in ((refusing.address, cluster.address), (cluster.address, refusing.address)):
            async with opened(";".join(names)) as instance:
                assert await instance.name_servers.find_route(TOPIC) is not None
        assert len(refusing.name_server.requests) <= 2
