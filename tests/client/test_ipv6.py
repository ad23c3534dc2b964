"""A cluster that listens on every address, as it does by default, and clients of either family."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from rocketpy.cli.store import inspected
from rocketpy.client.client import open_admin_client, open_producer, open_pull_consumer
from rocketpy.protocol.host import encode_host
from rocketpy.protocol.message import Message, MessageExt
from rocketpy.protocol.message_id import decode_offset_msg_id
from tests.client.real_cluster import open_real_cluster
from tests.ipv6 import has_ipv6

pytestmark = pytest.mark.skipif(not has_ipv6(), reason="this machine has no ::1")
TOPIC = "BothFamilies"


async def everything(address: str) -> list[MessageExt]:
    async with (
        open_pull_consumer(address, group="g") as consumer,
        consumer.open_messages(TOPIC, start="beginning", until_end=True) as messages,
    ):
        return [message async for message in messages]


async def test_a_network_without_ipv4(tmp_path: Path) -> None:
    """The nameserver, the broker and its clients know each other by ::1 only, and so do the records."""
    async with open_real_cluster(tmp_path, listens_everywhere=True, own_address="::1") as cluster:
        async with open_admin_client(cluster.address) as admin:
            assert await admin.create_topic(TOPIC, queue_nums=1) == [cluster.broker_address]
        async with open_producer(cluster.address, group="p") as producer:
            sent = [await producer.send(Message(TOPIC, b"%d" % number, {"KEYS": f"k{number}"})) for number in range(3)]
            await producer.send_batch([Message(TOPIC, b"3"), Message(TOPIC, b"4")])
        found = await everything(cluster.address)
        assert [each.body for each in found] == [b"0", b"1", b"2", b"3", b"4"]
        for message in found:
            assert message.born_host.startswith("[::1]:")
            assert encode_host(message.store_host) == encode_host(cluster.broker_address)
        store_host, physical_offset = decode_offset_msg_id(sent[1].offset_msg_id)
        assert (store_host, physical_offset) == (encode_host(cluster.broker_address), found[1].physical_offset)
        assert len(sent[1].offset_msg_id) == 2 * (16 + 4 + 8), "as MessageDecoder.createMessageId makes it"
        async with open_admin_client(cluster.address) as admin:
            assert (await admin.messages.view(sent[1].offset_msg_id)).body == b"1"
            assert [each.body for each in (await admin.messages.query(TOPIC, "k2")).messages] == [b"2"]
    inspection = await trio.to_thread.run_sync(lambda: inspected(tmp_path / "store", None, is_live=False))
    assert inspection.findings == []


async def test_an_ipv4_client_of_a_server_of_both_families_has_its_ipv4_address(tmp_path: Path) -> None:
    async with open_real_cluster(tmp_path, listens_everywhere=True) as cluster:
        async with open_admin_client(cluster.address) as admin:
            await admin.create_topic(TOPIC, queue_nums=1)
        async with open_producer(cluster.address, group="p") as producer:
            await producer.send(Message(TOPIC, b"one"))
            async with open_admin_client(cluster.address) as admin:
                (connection,) = (await admin.clients.producers("p", TOPIC)).connection_set
        assert connection.client_addr.startswith("127.0.0.1:")
        (message,) = await everything(cluster.address)
        assert message.born_host.startswith("127.0.0.1:")
