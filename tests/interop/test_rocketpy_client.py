"""rocketpy's client and command line against the Java nameserver and broker."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import trio

from rocketpy.client.client import open_admin_client, open_producer, open_pull_consumer
from rocketpy.client.consumer.pull_consumer import PullConsumer
from rocketpy.client.producer.config import ProducerConfig
from rocketpy.client.results import PullStatus
from rocketpy.errors import BrokerError, ClientError
from rocketpy.protocol.message import Message, MessageQueue
from tests.interop.clients import RUN_S
from tests.interop.cluster import Cluster
from tests.interop.conftest import unique_name
from tests.interop.our_client import eventually
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.java


@pytest.fixture
async def java_topic(java_cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """A topic of four queues, created by our own admin client."""
    topic = unique_name(request)
    async with open_admin_client(java_cluster.namesrv) as admin:
        assert await admin.create_topic(topic, queue_nums=4) == sorted(java_cluster.brokers.values())
        await eventually(lambda: _is_routed(java_cluster, topic), "a route")
    return topic


async def _is_routed(cluster: Cluster, topic: str) -> bool:
    async with open_admin_client(cluster.namesrv) as admin:
        return await admin.route(topic) is not None


async def _await_queued(consumer: PullConsumer, topic: str, count: int) -> None:
    """Wait until the queues have so many messages: those of Java's broker follow its log a little later."""

    async def are_queued() -> bool:
        return sum([await consumer.max_offset(queue) for queue in await consumer.queues(topic)]) == count

    await eventually(are_queued, f"{count} messages in the queues")


async def _bodies(consumer: PullConsumer, topic: str, **options: object) -> list[bytes]:
    async with consumer.open_messages(topic, until_end=True, **options) as messages:  # type: ignore[arg-type]
        found = [message.body async for message in messages]
        await messages.commit()
    return found


async def test_a_new_topic_is_created_by_sending(java_cluster: Cluster, group: str) -> None:
    topic = f"{group}_by_sending"
    async with open_producer(java_cluster.namesrv) as producer:
        await producer.send(Message(topic, b"first"))
        await producer.send(Message(topic, b"second"))
    await eventually(lambda: _is_routed(java_cluster, topic), "a route")
    async with open_pull_consumer(java_cluster.namesrv, group=group) as consumer:
        await _await_queued(consumer, topic, 2)
        assert sorted(await _bodies(consumer, topic, start="beginning")) == [b"first", b"second"]
        with pytest.raises(ClientError, match="No route info of this topic: Nowhere"):
            await consumer.queues("Nowhere")


async def test_following_progress_tags_and_offsets(java_cluster: Cluster, java_topic: str, group: str) -> None:
    (broker,) = java_cluster.brokers
    queue = MessageQueue(java_topic, broker, 2)
    async with (
        open_producer(java_cluster.namesrv) as producer,
        open_pull_consumer(java_cluster.namesrv, group=group) as consumer,
    ):
        async with consumer.open_messages(java_topic, start="end") as messages:
            for tag in ("Aa", "BB", "Aa"):  # the same hash
                await producer.send(Message(java_topic, tag.encode(), {"TAGS": tag}), queue=queue)
                with trio.fail_after(PATIENCE_SECONDS):
                    assert (await anext(messages)).body == tag.encode()
                await trio.sleep(0.002)  # Java finds any of the messages of a millisecond
            await messages.commit()
        assert await consumer.consumer_offset(queue) == 3
        assert await _bodies(consumer, java_topic, queues=[queue]) == []
        assert await _bodies(consumer, java_topic, start="beginning", expression="Aa") == [b"Aa", b"Aa"]
        assert await _bodies(consumer, java_topic, start=-1, queues=[queue]) == [b"Aa"]
        assert (await consumer.min_offset(queue), await consumer.max_offset(queue)) == (0, 3)
        found = await consumer.pull(queue, 0)
        assert await consumer.search_offset(queue, found.messages[0].store_timestamp) == 0
        beyond = await consumer.pull(queue, 1000)
        assert (beyond.status, beyond.next_begin_offset) == (PullStatus.OFFSET_ILLEGAL, 3)


async def test_refusals_carry_javas_code_and_remark(java_cluster: Cluster, java_topic: str, group: str) -> None:
    (broker,) = java_cluster.brokers
    queue, no_queue = MessageQueue(java_topic, broker, 0), MessageQueue(java_topic, broker, 99)
    patient = ProducerConfig(max_message_size=1 << 30)
    async with (
        open_producer(java_cluster.namesrv, producer=patient) as producer,
        open_pull_consumer(java_cluster.namesrv, group=group) as consumer,
    ):
        with pytest.raises(BrokerError) as caught:
            await producer.send(Message(java_topic, os.urandom(4 << 20) + b"1"), queue=queue)
        assert caught.value.response_code == 13
        with pytest.raises(BrokerError, match="queueId") as caught:
            await consumer.pull(no_queue, 0)
        assert caught.value.response_code == 1
        assert caught.value.address == java_cluster.brokers[broker]


def test_the_command_line(java_cluster: Cluster, group: str) -> None:
    environment = {**os.environ, "NAMESRV_ADDR": java_cluster.namesrv}

    def rocketpy(*arguments: str, stdin: str = "") -> list[str]:
        command = [sys.executable, "-m", "rocketpy.cli", *arguments]
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            env=environment,
            timeout=RUN_S,
            check=False,
        )
        assert done.returncode == 0, done
        return done.stdout.splitlines()

    topic = f"{group}_cli"
    rocketpy("topic", "create", topic, "-q", "3")
    rocketpy("produce", "-t", topic, stdin="".join(f"{number}\n" for number in range(500)))
    assert topic in rocketpy("topic", "list", "-q")
    found = rocketpy("consume", "-t", topic, "-o", "beginning", "-e", "--group", group, "--commit")
    assert sorted(map(int, found)) == list(range(500))
    assert rocketpy("consume", "-t", topic, "-o", "stored", "-e", "--group", group) == []
