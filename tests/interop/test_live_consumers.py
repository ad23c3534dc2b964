"""What operators ask of consumers that run, by way of a broker: our admin of Java's consumer, Java's tool of ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from rocketpy.client import (
    AdminClient,
    Message,
    MessageQueue,
    open_admin_client,
    open_producer,
)
from tests.interop.clients import Program
from tests.interop.cluster import Cluster
from tests.interop.conftest import BROKERS, chosen_cluster
from tests.interop.mqadmin_session import MqadminSession
from tests.interop.our_client import eventually, open_our_client, open_our_consumer

pytestmark = pytest.mark.java

COUNT = 6
BEGINNING = 0


@pytest.fixture(scope="module", params=BROKERS)
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """The cluster under test, and then Java's."""
    return chosen_cluster(request)


async def send(cluster: Cluster, topic: str) -> list[str]:
    """Send some messages to queues in turn; return their offset ids."""
    (broker,) = cluster.brokers
    async with open_producer(cluster.namesrv) as producer:
        return [
            (
                await producer.send(Message(topic, b"%d" % number), queue=MessageQueue(topic, broker, number % 4))
            ).offset_msg_id
            for number in range(COUNT)
        ]


@pytest.fixture
def java_consumer(cluster: Cluster, topic: str, group: str, tmp_path: Path) -> Iterator[Program]:
    """A consumer of Java that runs, and has told the broker so."""
    with Program("java", "consume", tmp_path, namesrv=cluster.namesrv, group=group, topic=topic) as program:
        program.wait_started()
        yield program


async def client_id_of(admin: AdminClient, group: str) -> str:
    """Return the id of the group's only member, once the broker knows it."""
    connection = await eventually(lambda: admin.clients.consumers(group), "the group is online")
    (member,) = connection.connection_set
    return member.client_id


async def wait_messages(program: Program, count: int) -> None:
    await trio.to_thread.run_sync(program.wait_messages, count)


async def wait_committed(admin: AdminClient, topic: str, group: str) -> None:
    """Wait until the broker has the group's offsets: without any it resets nothing. Consumers commit every 5 s."""

    async def is_committed() -> bool:
        table = (await admin.offsets.progress(group, topic)).offset_table
        return sum(each.consumer_offset for each in table.values()) == COUNT

    await eventually(is_committed, "all is committed")


async def test_our_admin_asks_a_consumer_of_java(
    cluster: Cluster, topic: str, group: str, java_consumer: Program
) -> None:
    ids = await send(cluster, topic)
    await wait_messages(java_consumer, COUNT)
    (broker,) = cluster.brokers
    queues = [MessageQueue(topic, broker, queue_id) for queue_id in range(4)]
    async with open_admin_client(cluster.namesrv) as admin:
        client_id = await client_id_of(admin, group)

        info = await admin.clients.running_info(group, client_id)
        assert {each.topic: each.sub_string for each in info.subscription_set} == {topic: "*", f"%RETRY%{group}": "*"}
        assert set(queues) <= set(info.mq_table)
        assert set(info.status_table) == {topic, f"%RETRY%{group}"}
        assert (info.properties["PROP_CONSUME_TYPE"], info.jstack) == ("CONSUME_PASSIVELY", None)
        stacks = (await admin.clients.running_info(group, client_id, jstack=True)).jstack
        assert stacks is not None
        assert "TID:" in stacks

        result = await admin.messages.consume_directly(group, client_id, ids[3])
        assert (result.consume_result, result.order, result.auto_commit) == ("CR_SUCCESS", False, True)
        await wait_messages(java_consumer, COUNT + 1)
        assert java_consumer.messages()[-1].body == b"3"

        found = await admin.clients.offsets(topic, group)
        assert found == {client_id: {queue: (COUNT - queue.queue_id + 3) // 4 for queue in queues}}
        assert await admin.clients.offsets(topic, group, client_id) == found

        await wait_committed(admin, topic, group)
        assert await admin.resets.reset(topic, group, BEGINNING) == dict.fromkeys(queues, 0)
        await wait_messages(java_consumer, 2 * COUNT + 1)
    again = java_consumer.messages()[COUNT + 1 :]
    assert sorted(each.body for each in again) == [b"%d" % number for number in range(COUNT)]


async def test_mqadmin_asks_a_consumer_of_ours(cluster: Cluster, topic: str, group: str, tmp_path: Path) -> None:
    ids = await send(cluster, topic)
    with MqadminSession(cluster, tmp_path / "tool") as session:

        async def mqadmin(command: str) -> str:
            words = [*command.split(), "-n", cluster.namesrv]
            return (await trio.to_thread.run_sync(session.run, words)).text

        async with (
            open_our_client(cluster.namesrv) as client,
            open_our_consumer(client, group, topic) as (_, collected),
        ):
            await collected.wait(COUNT)
            listed = await mqadmin(f"consumerStatus -g {group}")
            assert client.client_id in listed
            shown = await mqadmin(f"consumerStatus -g {group} -i {client.client_id}")
            for expected in (
                "#Consumer Properties#",
                "#Consumer Subscription#",
                "#Consumer RT&TPS#",
                "#Consumer Offset#",
            ):
                assert expected in shown, shown
            assert re.search(r"PROP_CONSUME_TYPE\s*: CONSUME_PASSIVELY", shown), shown
            progress = re.findall(rf"{re.escape(topic)}\s+broker-0\s+(\d)\s+(\d)\s*$", shown, re.MULTILINE)
            assert progress == [("0", "2"), ("1", "2"), ("2", "1"), ("3", "1")], shown

            consumed = await mqadmin(f"queryMsgById -i {ids[3]} -g {group} -d {client.client_id}")
            assert "CR_SUCCESS" in consumed, consumed
            await collected.wait(COUNT + 1)
            assert collected.messages[-1].body == b"3"

            await wait_committed(client.admin(), topic, group)
            (offsets,) = (await client.admin().clients.offsets(topic, group)).values()
            assert {queue.queue_id: offset for queue, offset in offsets.items()} == {0: 2, 1: 2, 2: 1, 3: 1}
            reset = await mqadmin(f"resetOffsetByTime -g {group} -t {topic} -s 0")
            assert "Exception" not in reset, reset
            assert len(re.findall(r"broker-0\s+\d\s+0\s*$", reset, re.MULTILINE)) == 4, reset
            await collected.wait(2 * COUNT + 1)
    assert sorted(each.body for each in collected.messages[COUNT + 1 :]) == [b"%d" % number for number in range(COUNT)]
