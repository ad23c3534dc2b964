"""What all clients share: choosing nameservers, knowing routes, heartbeats and leave-taking."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from random import Random

import pytest
import trio
import trio.testing

from rocketpy.client.config import ClientConfig
from rocketpy.client.environment import ClientEnvironment
from rocketpy.client.instance import UNREGISTER_SECONDS, ClientInstance, open_client_instance, read_response
from rocketpy.errors import BrokerError, ClientError, RemoteProtocolError, RemotingConnectError
from rocketpy.protocol.bodies.heartbeat import ConsumerData, SubscriptionData
from rocketpy.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.queue_bounds import GetMaxOffsetResponseHeader
from rocketpy.protocol.message import MessageQueue
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster, open_fake_cluster
from tests.patience import PATIENCE_SECONDS, until, until_blocked

NOBODY = "127.0.0.1:1"


@asynccontextmanager
async def opened(name_servers: str, **settings: object) -> AsyncIterator[ClientInstance]:
    """A client instance whose shuffling is always the same."""
    config = ClientConfig(name_servers=name_servers, **settings)  # type: ignore[arg-type]
    async with open_client_instance(config, environment=ClientEnvironment(randomness=Random(7))) as instance:
        yield instance


# ---- nameservers ---------------------------------------------------------------------------------------------------


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
        assert await instance.find_route(TOPIC) is not None
        assert len(called) == 1, "one of the two comes first in the shuffled order"
        for _ in range(4):
            assert await instance.find_route(TOPIC) is not None
        assert len(called) == 1
    nursery.cancel_scope.cancel()


async def test_a_silent_nameserver_is_skipped(cluster: FakeCluster, mock_clock: trio.testing.MockClock) -> None:
    found: list[TopicRouteData | None] = []
    async with open_fake_cluster() as silent:
        silent.name_server.be_silent(RequestCode.GET_ROUTEINFO_BY_TOPIC)
        async with opened(silent.address + ";" + cluster.address, mq_client_api_timeout=50) as instance:

            async def find() -> None:
                for _ in range(3):
                    found.append(await instance.find_route(TOPIC))

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
            await instance.find_route(TOPIC)
    assert "127.0.0.1:1" in str(caught.value)
    assert "127.0.0.1:2" in str(caught.value)


async def test_a_refusal_of_a_nameserver_is_final(cluster: FakeCluster) -> None:
    cluster.name_server.refuse(RequestCode.GET_ROUTEINFO_BY_TOPIC, ResponseCode.SYSTEM_ERROR, "out of order")
    async with opened(cluster.address) as instance:
        with pytest.raises(BrokerError, match="CODE: 1  DESC: out of order BROKER: 127") as caught:
            await instance.find_route(TOPIC)
    assert caught.value.address == cluster.address


# ---- routes --------------------------------------------------------------------------------------------------------


async def test_many_who_need_a_route_ask_once(cluster: FakeCluster) -> None:
    async with opened(cluster.address) as instance, trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(instance.publish_queues, TOPIC)
    assert len(cluster.name_server.asked(RequestCode.GET_ROUTEINFO_BY_TOPIC)) == 1


async def test_a_new_topic_is_sent_to_where_the_template_is(cluster: FakeCluster) -> None:
    async with opened(cluster.address, default_topic_queue_nums=3) as instance:
        queues = await instance.publish_queues("NewTopic")
        assert queues == tuple(MessageQueue("NewTopic", "broker-a", number) for number in range(3))
        asked = len(cluster.name_server.requests)
        await instance.publish_queues("NewTopic")
        assert len(cluster.name_server.requests) == asked
        cluster.add_topic("NewTopic", 8)
        await instance.refresh_routes()
        assert len(await instance.publish_queues("NewTopic")) == 8


async def test_an_unknown_topic_without_a_template(cluster: FakeCluster) -> None:
    del cluster.name_server.routes["TBW102"]
    async with opened(cluster.address) as instance:
        for ask in (instance.publish_queues, instance.subscribe_queues):
            with pytest.raises(ClientError, match="CODE: 10005  DESC: No route info of this topic: Nowhere"):
                await ask("Nowhere")


async def test_a_topic_that_cannot_be_written_is_not_sent_to_the_template(cluster: FakeCluster) -> None:
    cluster.add_topic("ReadOnly", perm=4)
    async with opened(cluster.address) as instance:
        with pytest.raises(ClientError, match="ReadOnly: no broker with a master lets it be written"):
            await instance.publish_queues("ReadOnly")
        cluster.add_topic("ReadOnly", perm=6)
        assert len(await instance.publish_queues("ReadOnly")) == 4


async def test_a_route_is_kept_when_a_fresh_nameserver_does_not_know_it(cluster: FakeCluster) -> None:
    async with opened(cluster.address) as instance:
        queues = await instance.publish_queues(TOPIC)
        del cluster.name_server.routes[TOPIC]
        await instance.refresh_routes()
        assert await instance.publish_queues(TOPIC) == queues
        assert await instance.publish_address(queues[0]) == cluster.broker.address


async def test_a_refresh_without_nameservers_leaves_what_is_known(
    cluster: FakeCluster, mock_clock: trio.testing.MockClock
) -> None:
    async with opened(cluster.address, mq_client_api_timeout=50) as instance:
        queues = await instance.publish_queues(TOPIC)
        cluster.name_server.refuse(RequestCode.GET_ROUTEINFO_BY_TOPIC, ResponseCode.SYSTEM_ERROR)
        await instance.refresh_routes()
        cluster.name_server.be_silent(RequestCode.GET_ROUTEINFO_BY_TOPIC)
        asked = len(cluster.name_server.requests)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(instance.refresh_routes)
            await until_blocked(lambda: len(cluster.name_server.requests) > asked)
            mock_clock.jump(0.05)
        assert await instance.publish_queues(TOPIC) == queues


async def test_routes_are_refreshed_by_themselves(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketpy.client.instance.REFRESH_PAUSE_SECONDS", 0.01)
    async with opened(cluster.address, poll_name_server_interval=1) as instance:
        await instance.publish_queues(TOPIC)
        cluster.add_topic(TOPIC, 9)
        instance.request_route_refresh()
        with trio.fail_after(PATIENCE_SECONDS):
            while len(await instance.publish_queues(TOPIC)) != 9:
                await trio.sleep(0.005)


async def test_an_unknown_broker_is_asked_for_once_and_then_named(cluster: FakeCluster) -> None:
    async with opened(cluster.address) as instance:
        queue = MessageQueue(TOPIC, "broker-a", 0)
        assert await instance.publish_address(queue) == cluster.broker.address
        assert await instance.subscribe_address(queue, 1) == cluster.broker.address
        for ask in (instance.publish_address, instance.subscribe_address):
            with pytest.raises(ClientError, match=r"CODE: 10003  DESC: The broker\[elsewhere\] not exist"):
                await ask(MessageQueue(TOPIC, "elsewhere", 0))


async def test_a_slave_is_pulled_from_and_never_sent_to(cluster: FakeCluster) -> None:
    cluster.name_server.routes["Slaves"] = TopicRouteData(
        queue_datas=[QueueData("broker-s", 1, 1, 6)],
        broker_datas=[BrokerData("cluster", "broker-s", {1: "127.0.0.1:3"})],
    )
    async with opened(cluster.address) as instance:
        (queue,) = await instance.subscribe_queues("Slaves")
        assert await instance.subscribe_address(queue) == "127.0.0.1:3"
        with pytest.raises(ClientError, match="not exist"):
            await instance.publish_address(queue)


# ---- heartbeats ----------------------------------------------------------------------------------------------------


async def test_a_broker_is_notified_of_a_group_when_it_joins_and_when_it_leaves(cluster: FakeCluster) -> None:
    async with opened(cluster.address, instance_name="mine") as instance:
        instance.add_producer("p")
        await instance.publish_queues(TOPIC)
        await until(lambda: cluster.broker.heartbeats)
        (heartbeat,) = cluster.broker.heartbeats
        assert heartbeat.client_id == instance.client_id == f"{instance.address}@mine"
        assert [each.group_name for each in heartbeat.producer_data_set] == ["p"]
        instance.add_consumer(ConsumerData("c", subscription_data_set=[SubscriptionData(TOPIC)]))
        await until(lambda: len(cluster.broker.heartbeats) == 2)
        assert [each.group_name for each in cluster.broker.heartbeats[1].consumer_data_set] == ["c"]
    left = [each.ext_fields for each in cluster.broker.asked(RequestCode.UNREGISTER_CLIENT)]
    assert left == [
        {"clientID": instance.client_id, "producerGroup": "p"},
        {"clientID": instance.client_id, "consumerGroup": "c"},
    ]


async def test_a_client_without_groups_is_quiet(cluster: FakeCluster) -> None:
    async with opened(cluster.address, heartbeat_broker_interval=1) as instance:
        await instance.publish_queues(TOPIC)
        await instance.heartbeat()
    assert cluster.broker.requests == []


async def test_clients_of_one_process_have_ids_of_their_own(cluster: FakeCluster) -> None:
    async with (
        open_client_instance(ClientConfig(name_servers=cluster.address)) as first,
        open_client_instance(ClientConfig(name_servers=cluster.address)) as second,
    ):
        assert first.client_id != second.client_id


async def test_a_broker_that_is_away_or_refuses_does_not_keep_others_from_their_heartbeat(
    two_brokers: FakeCluster,
) -> None:
    first, second = two_brokers.brokers
    route = two_brokers.route(1)
    away = BrokerData("cluster", "broker-c", {0: NOBODY})
    two_brokers.name_server.routes[TOPIC] = TopicRouteData(
        queue_datas=route.queue_datas, broker_datas=[away, *route.broker_datas]
    )
    first.refuse(RequestCode.HEART_BEAT, ResponseCode.SYSTEM_ERROR)
    async with opened(two_brokers.address) as instance:
        instance.add_producer("p")
        await instance.publish_queues(TOPIC)
        await until(lambda: second.heartbeats)
    assert len(second.asked(RequestCode.UNREGISTER_CLIENT)) == 1


async def test_leaving_waits_a_second_at_most(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    assert UNREGISTER_SECONDS == 1
    monkeypatch.setattr("rocketpy.client.instance.UNREGISTER_SECONDS", 0.05)
    cluster.broker.be_silent(RequestCode.UNREGISTER_CLIENT)
    async with opened(cluster.address, mq_client_api_timeout=1000 * PATIENCE_SECONDS) as instance:
        instance.add_producer("p")
        await instance.publish_queues(TOPIC)
        await until(lambda: cluster.broker.heartbeats)
        begun = trio.current_time()
    assert 0.05 <= trio.current_time() - begun < PATIENCE_SECONDS / 2


async def test_the_blocks_own_exception_leaves_as_it_is(cluster: FakeCluster) -> None:
    with pytest.raises(KeyError, match="mine"):
        async with opened(cluster.address):
            raise KeyError("mine")


# ---- answers -------------------------------------------------------------------------------------------------------


async def test_codes_that_are_expected_are_no_errors(cluster: FakeCluster) -> None:
    async with opened(cluster.address) as instance:
        request = make_request(RequestCode.GET_NAMESRV_CONFIG)
        response = await instance.request(cluster.address, request, (ResponseCode.REQUEST_CODE_NOT_SUPPORTED,))
        assert response.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        with pytest.raises(BrokerError, match="request type 319 not supported"):
            await instance.request(cluster.address, request)


def test_an_answer_that_leaves_something_out_is_the_peers_fault() -> None:
    assert read_response(RemotingCommand(0, {"offset": "7"}), GetMaxOffsetResponseHeader).offset == 7
    with pytest.raises(RemoteProtocolError, match=r"GetMaxOffsetResponseHeader.*offset"):
        read_response(RemotingCommand(0, {}), GetMaxOffsetResponseHeader)
