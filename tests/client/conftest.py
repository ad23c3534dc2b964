"""A fake cluster for the tests of the client, two brokers where retries matter, and roles with default settings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from rocketpy.client.admin.admin_client import AdminClient
from rocketpy.client.client import open_admin_client, open_producer
from rocketpy.client.consumer.config import ConsumerConfig
from rocketpy.client.consumer.lite_pull.config import LitePullConfig
from rocketpy.client.instance import ClientInstance
from rocketpy.client.producer.producer import Producer
from rocketpy.protocol.bodies.heartbeat import ConsumeFromWhere
from rocketpy.testing.fixture.in_thread import BrokerInThread, open_broker_in_thread
from rocketpy.testing.fixture.options import BrokerOptions
from tests.client.fake_cluster import FakeCluster, open_fake_cluster
from tests.client.opened import opened

TOPIC = "TopicTest"
BODIES = [b"0", b"1", b"2", b"3", b"4"]
FIRST = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
LITE_FIRST = LitePullConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    """One broker with a topic of four queues."""
    async with open_fake_cluster() as cluster:
        cluster.add_topic(TOPIC)
        yield cluster


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerInThread]:
    with open_broker_in_thread(BrokerOptions()) as broker:
        yield broker


@pytest.fixture
async def two_brokers() -> AsyncIterator[FakeCluster]:
    """Two brokers, each with two queues of the topic."""
    async with open_fake_cluster(("broker-a", "broker-b")) as cluster:
        cluster.add_topic(TOPIC, 2)
        yield cluster


@pytest.fixture
async def instance(cluster: FakeCluster) -> AsyncIterator[ClientInstance]:
    """What the roles of a client of the cluster share."""
    async with opened(cluster.address) as instance:
        yield instance


@pytest.fixture
async def producer(cluster: FakeCluster) -> AsyncIterator[Producer]:
    """A producer with the default settings."""
    async with open_producer(cluster.address) as producer:
        yield producer


@pytest.fixture
async def admin(cluster: FakeCluster) -> AsyncIterator[AdminClient]:
    """An administrator of the cluster."""
    async with open_admin_client(cluster.address) as admin:
        yield admin
