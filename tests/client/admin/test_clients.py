"""Clients that are online, and what consumers answer."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from rocketpy.client.admin.admin_client import AdminClient
from rocketpy.client.client import open_producer
from rocketpy.errors import BrokerError, ClientError, RemotingTimeoutError
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.connection import ConsumerConnection, ProducerConnection
from rocketpy.protocol.bodies.offset import GetConsumerStatusBody
from rocketpy.protocol.bodies.running import ConsumerRunningInfo
from rocketpy.protocol.codes import MQ_VERSION, RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.headers.client import GetConsumerRunningInfoRequestHeader
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.message import Message, MessageQueue
from rocketpy.remoting.connection import Connection
from tests.client.admin.conftest import BROKER, RealScene, T
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.patience import PATIENCE_SECONDS, seconds_of

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


async def test_producers_are_shown_by_group_and_by_broker(real: RealScene) -> None:
    async with open_producer(real.cluster.address, group="p") as producer:
        await producer.send(Message(T, b"x"))
        with trio.fail_after(PATIENCE_SECONDS):
            while "p" not in (table := (await real.admin.clients.all_producers(real.broker)).data):
                await trio.sleep(0.01)
        (member,) = (await real.admin.clients.producers("p", T)).connection_set
        assert member.client_id == table["p"][0].client_id
    with pytest.raises(BrokerError, match=r"CODE: 1 .*nobody"):
        await real.admin.clients.producers("nobody", T)


async def test_a_consumer_says_how_it_is(real: RealScene) -> None:
    async def running_info(connection: Connection, request: RemotingCommand) -> RemotingCommand:
        header = read_header(request, GetConsumerRunningInfoRequestHeader)
        info = ConsumerRunningInfo({"PROP_CLIENT_VERSION": "V4_9_8"}, jstack="stack" if header.jstack_enable else None)
        return make_response(request, body=encode_body(info))

    async with real.online("g", handlers={RequestCode.GET_CONSUMER_RUNNING_INFO: running_info}) as client_id:
        info = await real.admin.clients.running_info("g", client_id, jstack=True)
        assert (info.properties, info.jstack) == ({"PROP_CLIENT_VERSION": "V4_9_8"}, "stack")
        assert (await real.admin.clients.running_info("g", client_id)).jstack is None
        with pytest.raises(BrokerError, match="The Consumer <g> <elsewhere> not online"):
            await real.admin.clients.running_info("g", "elsewhere")


async def test_offsets_in_the_memory_of_consumers(real: RealScene) -> None:
    async def status(connection: Connection, request: RemotingCommand) -> RemotingCommand:
        return make_response(request, body=encode_body(GetConsumerStatusBody({QUEUE: 7})))

    async with real.online("g", handlers={RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: status}) as client_id:
        assert await real.admin.clients.offsets(T, "g") == {client_id: {QUEUE: 7}}
        assert await real.admin.clients.offsets(T, "g", client_id) == {client_id: {QUEUE: 7}}


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
