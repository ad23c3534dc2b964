"""Members that share topics, real brokers that restart, and calls that are cancelled at each of their checkpoints."""

from __future__ import annotations

from pathlib import Path

import attrs
import trio

from rocketpy.client.client import Client, open_client
from rocketpy.client.config import ClientConfig
from rocketpy.client.consumer.lite_pull.config import LitePullConfig
from rocketpy.client.consumer.lite_pull.consumer import LitePullConsumer
from rocketpy.errors import RocketpyError
from rocketpy.protocol.bodies.heartbeat import ConsumeFromWhere
from rocketpy.protocol.message import Message, MessageQueue
from rocketpy.testing.fixture.in_thread import open_broker_in_thread
from rocketpy.testing.fixture.options import BrokerOptions
from tests.client.cancelled_everywhere import cancelled_everywhere
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.client.real_cluster import open_real_cluster
from tests.patience import PATIENCE_SECONDS, until

FIRST = LitePullConfig(
    consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, auto_commit=False, pull_batch_size=4
)
QUEUE = MessageQueue(TOPIC, "broker-a", 0)


async def send(client: Client, topic: str, count: int, *, begin: int = 0, **properties: str) -> None:
    async with client.producer("p") as producer:
        for number in range(begin, begin + count):
            await producer.send(Message(topic, b"%d" % number, properties=properties))


async def poll_into(found: list[int], consumer: LitePullConsumer, count: int) -> None:
    while len(found) < count:
        found += [int(each.body) for each in await consumer.poll(0.2)]


async def test_two_members_share_a_topic_and_a_third_run_goes_on_where_they_were(tmp_path: Path) -> None:
    async with open_real_cluster(tmp_path) as cluster, open_client(cluster.address) as one:
        with trio.fail_after(PATIENCE_SECONDS):
            await send(one, TOPIC, 20)
            async with open_client(cluster.address) as other, one.lite_pull_consumer("g", TOPIC, config=FIRST) as first:
                await until(lambda: len(first.assigned) == 4)
                async with other.lite_pull_consumer("g", TOPIC, config=FIRST) as second:
                    await until(lambda: len(first.assigned) == len(second.assigned) == 2)
                    assert not set(first.assigned).intersection(second.assigned)
                    found: list[int] = []
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(poll_into, found, first, 20)
                        nursery.start_soon(poll_into, found, second, 20)
                    assert sorted(found) == list(range(20))
                    await first.commit()
                    await second.commit()
                await until(lambda: len(first.assigned) == 4)
                await send(one, TOPIC, 4, begin=20)
                found = []
                await poll_into(found, first, 4)
                assert sorted(found) == [20, 21, 22, 23], "nothing is repeated"


async def test_a_topic_that_is_deleted_and_made_again_is_polled_from_its_beginning(tmp_path: Path) -> None:
    async with open_real_cluster(tmp_path) as cluster, open_client(cluster.address) as client:
        with trio.fail_after(PATIENCE_SECONDS):
            admin = client.admin()
            await send(client, TOPIC, 40)
            soon = attrs.evolve(FIRST, broker_suspend_max_time=200)  # a pull that is held knows nothing of it
            async with client.lite_pull_consumer("g", TOPIC, config=soon) as consumer:
                found: list[int] = []
                await poll_into(found, consumer, 40)
                await consumer.commit()
                await admin.topics.delete(TOPIC, cluster="DefaultCluster")
                assert await consumer.poll(0.1) == []
                await consumer.commit()
                await admin.topics.create(TOPIC, queue_nums=4)
                while {await consumer.committed(each) for each in consumer.assigned} != {0}:
                    assert await consumer.poll(0.05) == []
                    await consumer.commit()
                await send(client, TOPIC, 8, begin=40)
                found = []
                await poll_into(found, consumer, 8)
                assert sorted(found) == list(range(40, 48))
                await consumer.commit()
                assert [await consumer.committed(each) for each in consumer.assigned] == [2] * 4


async def test_a_broker_that_crashes_and_restarts_is_polled_again() -> None:
    config = ClientConfig(poll_name_server_interval=100, pull_time_delay_when_exception=20, mq_client_api_timeout=500)
    with open_broker_in_thread(BrokerOptions(settings={"defaultTopicQueueNums": 1})) as broker:
        with trio.fail_after(PATIENCE_SECONDS):
            async with (
                open_client(broker.name_server, config=config) as client,
                client.lite_pull_consumer("g", TOPIC, config=FIRST) as consumer,
            ):
                await send(client, TOPIC, 2)
                found: list[int] = []
                await poll_into(found, consumer, 2)
                await consumer.commit()
                await trio.to_thread.run_sync(broker.crash)
                assert await consumer.poll(0.1) == []
                await consumer.commit()
                await trio.to_thread.run_sync(broker.restart)
                await until_sent(client)
                await poll_into(found, consumer, 3)
                await consumer.commit()
                assert (await consumer.committed(consumer.assigned[0]) or 0) >= 3
    assert sorted(set(found)) == [0, 1, 2]


async def until_sent(client: Client) -> None:
    """Send one message to a broker that is just starting."""
    while True:
        try:
            await send(client, TOPIC, 1, begin=2)
        except RocketpyError:
            await trio.sleep(0.05)
        else:
            return


# ---- cancelled at each checkpoint -----------------------------------------------------------------------------------


def put(cluster: FakeCluster, count: int) -> None:
    for number in range(count):
        cluster.broker.put(TOPIC, number % 4, b"%d" % number)


async def test_a_cancelled_poll_loses_no_message(cluster: FakeCluster) -> None:
    put(cluster, 40)
    found: list[int] = []
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_client(cluster.address) as client, client.lite_pull_consumer("g", TOPIC, config=FIRST) as polls:

            async def poll() -> bool:
                found.extend(int(each.body) for each in await polls.poll())
                return True

            while len(found) < 40:
                async for attempt in cancelled_everywhere(poll):
                    assert attempt.was_cancelled or attempt.result
    assert sorted(found) == list(range(40))
