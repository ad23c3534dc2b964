"""A fake cluster for the tests of the client; two brokers where retries matter."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.client.fake_cluster import FakeCluster, open_fake_cluster

TOPIC = "TopicTest"


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    """One broker with a topic of four queues."""
    async with open_fake_cluster() as opened:
        opened.add_topic(TOPIC)
        yield opened


@pytest.fixture
async def two_brokers() -> AsyncIterator[FakeCluster]:
    """Two brokers, each with two queues of the topic."""
    async with open_fake_cluster(("broker-a", "broker-b")) as opened:
        opened.add_topic(TOPIC, 2)
        yield opened
