"""A cluster and a client in a simulated network, on Trio's virtual clock: a time limit of a minute costs nothing.

A test asks for ``autojump_clock`` itself, because pytest-trio looks for a clock among its arguments only.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import attrs
import pytest
import trio

from rocketpy.client.client import Client, open_client
from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.client.consumer.config import ConsumerConfig
from rocketpy.client.consumer.consumer import Consumer
from rocketpy.client.environment import ClientEnvironment
from rocketpy.client.producer.producer import Producer
from rocketpy.clock import ManualClock
from rocketpy.runner import run_inline
from rocketpy.testing.sim.network import SimNetwork
from tests.client.conftest import FIRST, TOPIC
from tests.client.fake_cluster import FakeCluster, open_fake_cluster


@attrs.frozen
class World:
    """Two brokers with two queues of the topic each, and where a client of them begins."""

    cluster: FakeCluster
    network: SimNetwork
    clock: ManualClock
    environment: ClientEnvironment

    @property
    def address(self) -> str:
        return self.cluster.address


@pytest.fixture
async def world() -> AsyncIterator[World]:
    network, clock = SimNetwork(randomness=Random(1)), ManualClock()
    environment = ClientEnvironment(
        network=network.host("10.0.1.1"), clock=clock, randomness=Random(7), process_id=1, run_blocking=run_inline
    )
    async with open_fake_cluster(("broker-a", "broker-b"), network=network) as cluster:
        for topic, queue_nums in ((TOPIC, 2), ("%RETRY%g", 1)):
            cluster.add_topic(topic, queue_nums)
        yield World(cluster, network, clock, environment)


@pytest.fixture
async def client(world: World) -> AsyncIterator[Client]:
    async with open_client(world.address, environment=world.environment) as opened:
        yield opened


@pytest.fixture
async def producer(client: Client) -> AsyncIterator[Producer]:
    async with client.producer("p") as opened:
        yield opened


@asynccontextmanager
async def consuming(
    client: Client,
    handler: Callable[[MessageBatch], Awaitable[Any]],
    *,
    is_orderly: bool = False,
    config: ConsumerConfig = FIRST,
) -> AsyncIterator[Consumer]:
    """Call a handler with the messages of the group g while the block runs."""
    async with client.consumer("g", TOPIC, config=config) as consumer, trio.open_nursery() as nursery:
        nursery.start_soon(consumer.run_orderly if is_orderly else consumer.run, handler)
        yield consumer
        nursery.cancel_scope.cancel()
