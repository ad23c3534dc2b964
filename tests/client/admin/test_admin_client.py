"""The admin client as a whole: its subjects, its shorthands, its time."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from rocketpy.client.admin.admin_client import AdminClient
from rocketpy.client.client import open_admin_client, open_client
from rocketpy.errors import RemotingTimeoutError
from rocketpy.protocol.codes import RequestCode
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.patience import seconds_of


async def test_topics_and_their_routes(cluster: FakeCluster, admin: AdminClient) -> None:
    cluster.add_topic("Another", 2)
    assert await admin.topics.names() == ["Another", "TBW102", TOPIC]
    routes = await admin.routes([TOPIC, "Gone", "Another"])
    assert list(routes) == [TOPIC, "Another"]
    assert routes["Another"].queue_datas[0].read_queue_nums == 2
    route = await admin.route(TOPIC)
    assert route is not None
    assert route.broker_datas[0].broker_addrs == {0: cluster.broker.address}
    assert await admin.route("Gone") is None
    assert await admin.cluster_info() == cluster.name_server.cluster_info


async def test_a_topic_is_created_on_every_master(two_brokers: FakeCluster) -> None:
    async with open_admin_client(two_brokers.address) as admin:
        addresses = await admin.create_topic("New", queue_nums=3, perm=4)
    assert sorted(addresses) == sorted(broker.address for broker in two_brokers.brokers)
    for broker in two_brokers.brokers:
        (header,) = broker.created
        assert (header.topic, header.read_queue_nums, header.write_queue_nums, header.perm) == ("New", 3, 3, 4)
        assert (header.default_topic, header.topic_filter_type) == ("TBW102", "SINGLE_TAG")


async def test_the_time_of_requests_is_chosen_with_the_role(cluster: FakeCluster, mock_clock: MockClock) -> None:
    cluster.broker.be_silent(RequestCode.UPDATE_AND_CREATE_TOPIC)
    async with open_client(cluster.address) as client:

        async def create() -> None:
            with pytest.raises(RemotingTimeoutError):
                await client.admin(timeout_ms=200).create_topic("New")

        seconds = await seconds_of(
            create, lambda: cluster.broker.asked(RequestCode.UPDATE_AND_CREATE_TOPIC), mock_clock
        )
        assert seconds == pytest.approx(0.2, abs=0.1)
