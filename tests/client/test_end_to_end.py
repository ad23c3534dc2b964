"""A client against a real rocketpy cluster: a message as it was given, and TLS; roles are in ``test_namespace``."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketpy.client.client import open_admin_client, open_producer, open_pull_consumer
from rocketpy.client.config import ClientConfig
from rocketpy.client.consumer.pull_consumer import PullConsumer
from rocketpy.client.results import SendStatus
from rocketpy.errors import RemotingConnectError, SettingsError
from rocketpy.protocol.message import Message, MessageExt, MessageQueue
from tests.client.real_cluster import RealCluster, open_real_cluster
from tests.remoting import certificate_files as tls_files

TOPIC = "EndToEnd"


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[RealCluster]:
    """A cluster with a topic of four queues."""
    async with open_real_cluster(tmp_path) as opened:
        async with open_admin_client(opened.address) as admin:
            assert await admin.create_topic(TOPIC, queue_nums=4) == [opened.broker_address]
        yield opened


async def everything(consumer: PullConsumer) -> list[MessageExt]:
    async with consumer.open_messages(TOPIC, start="beginning", until_end=True) as messages:
        return [message async for message in messages]


async def test_what_is_sent_is_read_as_it_was_given(real: RealCluster) -> None:
    plain = Message(TOPIC, b"plain", {"TAGS": "a", "KEYS": "k1 k2", "farbe": "grün"}, flag=7)
    large = Message(TOPIC, os.urandom(50) * 2000)
    async with open_producer(real.address, group="p") as producer:
        first, second = await producer.send(plain), await producer.send(large)
    assert (first.status, second.status) == (SendStatus.SEND_OK, SendStatus.SEND_OK)
    async with open_pull_consumer(real.address, group="g") as consumer:
        found = {message.msg_id: message for message in await everything(consumer)}
    stored = found[first.msg_id]
    assert (stored.body, stored.flag, stored.tags, stored.keys) == (b"plain", 7, "a", "k1 k2")
    assert stored.properties["farbe"] == "grün"
    assert stored.offset_msg_id == first.offset_msg_id
    assert MessageQueue(TOPIC, stored.broker_name, stored.queue_id) == first.message_queue
    assert stored.queue_offset == first.queue_offset
    assert found[second.msg_id].body == large.body, "compressed on its way, whole again here"


async def test_a_cluster_that_takes_tls_only_and_known_clients_only(tmp_path: Path) -> None:
    """Nameserver and broker require a certificate of every client, the registering broker included."""
    known = tls_files.client_config(enable=True, cert_path=tls_files.crt("client"), key_path=tls_files.key("client"))
    server = tls_files.server_config(
        server_mode="enforcing",
        need_client_auth="require",
        auth_client=True,
        trust_cert_path=tls_files.crt("authority"),
    )
    config = ClientConfig(use_tls=True, tls=known)
    async with open_real_cluster(tmp_path, tls_server=server, tls_client=known) as cluster:
        async with open_admin_client(cluster.address, config=config) as admin:
            assert await admin.create_topic(TOPIC, queue_nums=4) == [cluster.broker_address]
        large = os.urandom(1 << 20)
        async with open_producer(cluster.address, group="p", config=config) as producer:
            assert (await producer.send(Message(TOPIC, large))).status is SendStatus.SEND_OK
        async with open_pull_consumer(cluster.address, group="g", config=config) as consumer:
            assert [each.body for each in await everything(consumer)] == [large]
        for unknown in (ClientConfig(), ClientConfig(use_tls=True)):
            with pytest.raises(RemotingConnectError, match="no nameserver answers"):
                async with open_admin_client(cluster.address, config=unknown) as admin:
                    await admin.topics.names()
    with pytest.raises(SettingsError, match=r"^tls\.client\.trustCertPath"):
        async with open_admin_client(
            cluster.address, config=ClientConfig(use_tls=True, tls=tls_files.client_config(trust_cert_path="/no/such"))
        ):
            pass
