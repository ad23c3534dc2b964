"""Roles of one client share what they can, and end with their blocks."""

from __future__ import annotations

import pytest

from rocketpy.client.client import open_admin_client, open_client, open_producer, open_pull_consumer
from rocketpy.errors import ClientError
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.message import Message
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.patience import until


async def test_roles_share_connections_routes_and_heartbeats(cluster: FakeCluster) -> None:
    async with (
        open_client(cluster.address) as client,
        client.producer("p") as producer,
        client.producer("q") as other,
        client.pull_consumer("c") as consumer,
    ):
        await producer.send(Message(TOPIC, b"one"))
        await other.send(Message(TOPIC, b"two"))
        assert len(await consumer.queues(TOPIC)) == 4
        assert TOPIC in await client.admin().topics.names()
        await until(lambda: cluster.broker.heartbeats)
        heartbeat = cluster.broker.heartbeats[-1]
        assert heartbeat.client_id == client.client_id
        assert [each.group_name for each in heartbeat.producer_data_set] == ["p", "q"]
        assert [each.group_name for each in heartbeat.consumer_data_set] == ["c"]
    assert len(cluster.broker.peers) == 1
    assert len(cluster.name_server.peers) == 1


async def test_a_role_leaves_with_its_block(cluster: FakeCluster) -> None:
    async with open_client(cluster.address) as client:
        async with client.producer("p") as producer:
            await producer.send(Message(TOPIC, b"one"))
            await until(lambda: cluster.broker.heartbeats)
            with pytest.raises(ClientError, match="has been created before"):
                async with client.producer("p"):
                    raise AssertionError("a second one is refused")
        (left,) = cluster.broker.asked(RequestCode.UNREGISTER_CLIENT)
        assert left.ext_fields == {"clientID": client.client_id, "producerGroup": "p"}
        async with client.producer("p") as again:
            await again.send(Message(TOPIC, b"two"))


@pytest.mark.parametrize("group", ["", "DEFAULT_PRODUCER", "a b"])
async def test_an_illegal_group_is_refused_before_anything_is_asked(cluster: FakeCluster, group: str) -> None:
    async with open_client(cluster.address) as client:
        for opening in (client.producer(group), client.pull_consumer(group)):
            with pytest.raises(ClientError, match="the"):
                async with opening:
                    raise AssertionError("it is refused")
    assert cluster.name_server.requests == []


async def test_the_shorthands_open_a_client_with_one_role(cluster: FakeCluster) -> None:
    async with open_producer(cluster.address) as producer:
        await producer.send(Message(TOPIC, b"one"))
        await until(lambda: cluster.broker.heartbeats)
    async with open_pull_consumer(cluster.address, group="g") as consumer:
        assert len(await consumer.queues(TOPIC)) == 4
    async with open_admin_client(cluster.address) as admin:
        assert TOPIC in await admin.topics.names()
    assert [each.group_name for each in cluster.broker.heartbeats[0].producer_data_set] == ["rocketpy_producer"]


async def test_the_blocks_own_exception_leaves_as_it_is(cluster: FakeCluster) -> None:
    with pytest.raises(KeyError, match="mine"):
        async with open_client(cluster.address) as client, client.producer("p"):
            raise KeyError("mine")
