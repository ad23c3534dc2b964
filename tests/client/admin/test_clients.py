"""Clients that are online, and what consumers answer."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from rocketpy.client.admin.admin_client import AdminClient
from rocketpy.errors import BrokerError, ClientError, RemotingTimeoutError
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.connection import ConsumerConnection, ProducerConnection
from rocketpy.protocol.codes import MQ_VERSION, RequestCode, ResponseCode
from rocketpy.protocol.message import MessageQueue
from tests.client.admin.conftest import BROKER, RealScene, T
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.patience import seconds_of

QUEUE = MessageQueue(T, BROKER, 1)


async def test_the_members_of_groups_are_shown_while_they_are_online(real: RealScene) -> None:
    async with real.online("g", tags=("a",)) as client_id:
        for found in (await real.admin.clients.consumers("g"), await real.admin.clients.consumers("g", real.broker)):
            assert [(each.client_id, each.version) for each in found.connection_set] == [(client_id, MQ_VERSION)]
            assert found.subscription_table[T].sub_string == "a"
            assert (found.consume_type, found.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
    with pytest.raises(BrokerError, match="CODE: 206") as caught:
        await real.admin.clients.consumers("g")
    assert caught.value.response_code == ResponseCode.CONSUMER_NOT_ONLINE
    with pytest.raises(ClientError, match="CODE: 17"):
        await real.admin.clients.consumers("nobody")


async def test_a_group_without_members_is_an_error_also_where_a_broker_says_it_without_one(
    cluster: FakeCluster, admin: AdminClient
) -> None:
    cluster.add_topic("%RETRY%g")
    for code, body in (
        (RequestCode.GET_CONSUMER_CONNECTION_LIST, ConsumerConnection()),
        (RequestCode.GET_PRODUCER_CONNECTION_LIST, ProducerConnection()),
    ):
        answer = encode_body(body)
        cluster.broker.answer(code, answer)
    with pytest.raises(ClientError, match="Not found the consumer group connection: g") as caught:
        await admin.clients.consumers("g")
    assert caught.value.response_code == ResponseCode.CONSUMER_NOT_ONLINE
    with pytest.raises(ClientError, match="Not found the producer group connection: g"):
        await admin.clients.producers("g", TOPIC)


async def test_a_route_without_an_address_asks_nobody(cluster: FakeCluster, admin: AdminClient) -> None:
    for topic in (TOPIC, "%RETRY%g"):
        cluster.name_server.routes[topic] = cluster.route(1, brokers=[])
    assert await admin.clients.offsets(TOPIC, "g") == {}
    with pytest.raises(ClientError, match="CODE: 206"):
        await admin.clients.running_info("g", "c")


async def test_a_consumer_has_three_times_as_long_to_answer(
    cluster: FakeCluster, mock_clock: MockClock, admin: AdminClient
) -> None:
    cluster.add_topic("%RETRY%g")
    code = RequestCode.GET_CONSUMER_RUNNING_INFO
    cluster.broker.answer(code)
    cluster.broker.be_silent(code)

    async def ask() -> None:
        with pytest.raises(RemotingTimeoutError):
            await admin.clients.running_info("g", "c")

    assert await seconds_of(ask, lambda: cluster.broker.asked(code), mock_clock) == pytest.approx(15, abs=0.2)
