"""A cluster and a client in a simulated network, on Trio's virtual clock: a time limit of a minute costs nothing.

A test asks for ``autojump_clock`` itself, because pytest-trio looks for a clock among its arguments only.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from random import Random

import attrs
import pytest

from rocketpy.client.environment import ClientEnvironment
from rocketpy.clock import ManualClock
from rocketpy.testing.sim.network import SimNetwork
from tests.client.conftest import TOPIC
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
    environment = ClientEnvironment(network=network.host("10.0.1.1"), clock=clock, randomness=Random(7), process_id=1)
    async with open_fake_cluster(("broker-a", "broker-b"), network=network) as cluster:
        for topic, queue_nums in ((TOPIC, 2), ("%RETRY%g", 1)):
            cluster.add_topic(topic, queue_nums)
        yield World(cluster, network, clock, environment)
