"""A real cluster and an admin client of it, and consumers that are online and answer as a test says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from rocketpy.client.admin.admin_client import AdminClient
from rocketpy.client.broker_requests import Handler
from rocketpy.client.client import open_producer
from rocketpy.client.instance import ClientInstance
from rocketpy.client.results import SendResult
from rocketpy.protocol.bodies.heartbeat import ConsumerData, ConsumeType, SubscriptionData
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.java_hash import tags_code
from rocketpy.protocol.message import Message, MessageQueue
from tests.client.opened import opened
from tests.client.real_cluster import RealCluster, open_real_cluster
from tests.patience import PATIENCE_SECONDS

BROKER = "broker-a"
CLUSTER = "DefaultCluster"
T = "Administered"


@attrs.frozen
class RealScene:
    """A nameserver and a broker of ours, and a client of them."""

    cluster: RealCluster
    instance: ClientInstance
    admin: AdminClient

    @property
    def broker(self) -> str:
        """The address of the broker."""
        return self.cluster.broker_address

    async def send(self, *messages: Message, queue_id: int = 0) -> list[SendResult]:
        """Send messages to one queue, in order."""
        async with open_producer(self.cluster.address) as producer:
            return [
                await producer.send(message, queue=MessageQueue(message.topic, BROKER, queue_id))
                for message in messages
            ]

    async def until_routed(self, topic: str) -> None:
        """Wait until the nameserver knows a topic that the broker has created on its own."""
        with trio.fail_after(PATIENCE_SECONDS):
            while await self.admin.route(topic) is None:
                await trio.sleep(0.01)

    @asynccontextmanager
    async def online(
        self,
        group: str,
        topic: str = T,
        *,
        handlers: Mapping[RequestCode, Handler] | None = None,
        consume_type: ConsumeType = ConsumeType.CONSUME_PASSIVELY,
        tags: Sequence[str] = (),
    ) -> AsyncIterator[str]:
        """Let this client be a consumer that is online; the value is its client id."""
        subscription = SubscriptionData(
            topic, " || ".join(tags) or "*", 1, tags_set=list(tags), code_set=list(map(tags_code, tags))
        )
        data = ConsumerData(group, consume_type.value, subscription_data_set=[subscription])
        with self.instance.broker_requests.handling(group, handlers or {}):
            await self.instance.routes.look_up_again(topic)
            self.instance.heartbeats.add_consumer(group, lambda: data)
            try:
                await self.instance.heartbeats.send()
                await self.until_routed(f"%RETRY%{group}")
                yield self.instance.client_id
            finally:
                await self.instance.heartbeats.remove_consumer(group)


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[RealScene]:
    """A cluster with a topic of two queues."""
    async with open_real_cluster(tmp_path) as cluster, opened(cluster.address) as instance:
        admin = AdminClient(instance=instance)
        await admin.topics.create(T, queue_nums=2)
        yield RealScene(cluster, instance, admin)
