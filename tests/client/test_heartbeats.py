"""Which groups brokers are told of, and how a client leaves."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rocketpy.client.heartbeats import UNREGISTER_SECONDS
from rocketpy.client.instance import ClientInstance
from rocketpy.errors import ClientError
from rocketpy.protocol.bodies.heartbeat import ConsumerData, SubscriptionData
from rocketpy.protocol.bodies.route import BrokerData, TopicRouteData
from rocketpy.protocol.codes import RequestCode, ResponseCode
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.client.opened import opened
from tests.forgotten import sizes_within
from tests.patience import PATIENCE_SECONDS, until

NOBODY = "127.0.0.1:1"


async def test_a_broker_is_notified_of_a_group_when_it_joins_and_when_it_leaves(cluster: FakeCluster) -> None:
    async with opened(cluster.address, instance_name="mine") as instance:
        instance.heartbeats.add_producer("p")
        await instance.routes.publish_queues(TOPIC)
        await until(lambda: cluster.broker.heartbeats)
        (heartbeat,) = cluster.broker.heartbeats
        assert heartbeat.client_id == instance.client_id == f"{instance.address}@mine"
        assert [each.group_name for each in heartbeat.producer_data_set] == ["p"]
        data = ConsumerData("c", subscription_data_set=[SubscriptionData(TOPIC)])
        instance.heartbeats.add_consumer("c", lambda: data)
        await until(lambda: len(cluster.broker.heartbeats) == 2)
        assert [each.group_name for each in cluster.broker.heartbeats[1].consumer_data_set] == ["c"]
        await instance.heartbeats.remove_producer("p")
        await instance.heartbeats.remove_consumer("c")
        await instance.heartbeats.send()
        assert len(cluster.broker.heartbeats) == 2, "it has no group any more"
    left = [each.ext_fields for each in cluster.broker.asked(RequestCode.UNREGISTER_CLIENT)]
    assert left == [
        {"clientID": instance.client_id, "producerGroup": "p"},
        {"clientID": instance.client_id, "consumerGroup": "c"},
    ]


async def test_only_consumers_are_introduced_again(cluster: FakeCluster) -> None:
    async with opened(cluster.address) as instance:
        instance.heartbeats.add_producer("p")
        await instance.routes.publish_queues(TOPIC)
        assert instance.heartbeats.consumed_addresses() == []
        instance.heartbeats.add_consumer("c", lambda: ConsumerData("c"))
        assert instance.heartbeats.consumed_addresses() == [cluster.broker.address]
        await instance.heartbeats.introduce(cluster.broker.address)
        heartbeat = cluster.broker.heartbeats[-1]
        assert (heartbeat.producer_data_set[0].group_name, heartbeat.consumer_data_set[0].group_name) == ("p", "c")
        cluster.broker.refuse(RequestCode.HEART_BEAT, ResponseCode.SYSTEM_ERROR)
        await instance.heartbeats.introduce(cluster.broker.address)


async def test_a_client_without_groups_is_quiet(cluster: FakeCluster) -> None:
    async with opened(cluster.address, heartbeat_broker_interval=1) as instance:
        await instance.routes.publish_queues(TOPIC)
        await instance.heartbeats.send()
    assert cluster.broker.requests == []


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
        instance.heartbeats.add_producer("p")
        await instance.routes.publish_queues(TOPIC)
        await until(lambda: second.heartbeats)
        await instance.heartbeats.remove_producer("p")
    assert len(second.asked(RequestCode.UNREGISTER_CLIENT)) == 1


async def test_leaving_waits_a_second_at_most(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    assert UNREGISTER_SECONDS == 1
    monkeypatch.setattr("rocketpy.client.heartbeats.UNREGISTER_SECONDS", 0.05)
    cluster.broker.be_silent(RequestCode.UNREGISTER_CLIENT)
    async with opened(cluster.address, mq_client_api_timeout=1000 * PATIENCE_SECONDS) as instance:
        instance.heartbeats.add_producer("p")
        await instance.routes.publish_queues(TOPIC)
        await until(lambda: cluster.broker.heartbeats)
        begun = trio.current_time()
        await instance.heartbeats.remove_producer("p")
    assert 0.05 <= trio.current_time() - begun < PATIENCE_SECONDS / 2


async def test_a_group_is_one_producer_and_one_consumer(instance: ClientInstance) -> None:
    heartbeats = instance.heartbeats
    heartbeats.add_producer("g")
    heartbeats.add_consumer("g", lambda: ConsumerData("g"))
    with pytest.raises(ClientError, match=r"The producer group\[g\] has been created before"):
        heartbeats.add_producer("g")
    with pytest.raises(ClientError, match=r"The consumer group\[g\] has been created before"):
        heartbeats.add_consumer("g", lambda: ConsumerData("g"))
    await heartbeats.remove_producer("g")
    heartbeats.add_producer("g")


async def test_brokers_that_no_route_names_any_more_are_forgotten(cluster: FakeCluster) -> None:
    async with opened(cluster.address) as instance:
        instance.heartbeats.add_producer("p")
        await instance.routes.publish_queues(TOPIC)
        await until(lambda: cluster.broker.heartbeats)
        assert sizes_within(instance.heartbeats)["Heartbeats._registered"] == 1
        cluster.name_server.routes[TOPIC] = TopicRouteData()
        await instance.routes.refresh()
        await instance.heartbeats.send()
        assert sizes_within(instance.heartbeats)["Heartbeats._registered"] == 0
