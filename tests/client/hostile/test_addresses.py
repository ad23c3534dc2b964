"""Wrong addresses, of nameservers and of brokers: each is an error of its own, and stops nothing else."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from rocketpy.client.client import open_client
from rocketpy.client.config import ClientConfig
from rocketpy.client.instance import open_client_instance
from rocketpy.errors import RemotingConnectError, RemotingTimeoutError, RocketpyError
from rocketpy.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from rocketpy.protocol.message import Message, MessageQueue
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.client.hostile.conftest import World
from tests.patience import PATIENCE_SECONDS, until

NOT_ADDRESSES = (
    "text",
    "127.0.0.1",
    ":9876",
    "127.0.0.1:",
    "127.0.0.1:port",
    "127.0.0.1:0",
    "127.0.0.1:65536",
    "127.0.0.1:-1",
    "127.0.0.1:" + "9" * 5000,
)
UNRESOLVABLE = ("a..b:1", "x" * 300 + ":1", "no\x00where:1", "\u2603..:1", "nowhere.invalid:1")


@pytest.mark.parametrize("address", [*NOT_ADDRESSES, *UNRESOLVABLE])
async def test_a_nameserver_that_is_none_is_a_connect_error(address: str) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_client(address) as client, client.producer("p") as producer:
            with pytest.raises(RemotingConnectError) as caught:
                await producer.send(Message(TOPIC, b"x"))
            assert len(str(caught.value)) < 2000
            with pytest.raises(RemotingConnectError):
                await client.admin().cluster_info()


async def test_a_nameserver_that_cannot_be_reached_costs_the_time_of_the_request(
    world: World, autojump_clock: MockClock
) -> None:
    """Nothing refuses the connection: the link is cut."""
    world.network.cut("10.0.1.1", "10.0.0.1")
    async with open_client(world.address, environment=world.environment) as client:
        begun = trio.current_time()
        with pytest.raises(RemotingConnectError, match="no answer in 3 s"):
            await client.admin().topics.route(TOPIC)
        assert trio.current_time() - begun == pytest.approx(3.0, abs=0.1)
        async with client.producer("p") as producer:
            with pytest.raises((RemotingConnectError, RemotingTimeoutError)):
                await producer.send(Message(TOPIC, b"x"), timeout_s=1.0)
    assert trio.current_time() - begun < 10


@pytest.mark.parametrize("vip", [False, True])
@pytest.mark.parametrize("address", [*NOT_ADDRESSES, *UNRESOLVABLE[:-1], ""])
async def test_a_broker_that_has_no_address_does_not_stop_work_with_the_others(
    cluster: FakeCluster, address: str, vip: bool
) -> None:
    """Sends of the topic go to the good broker in the end, heartbeats reach it, and its queues are consumed."""
    cluster.add_topic("%RETRY%g", 1)
    good = cluster.broker
    cluster.name_server.routes[TOPIC] = TopicRouteData(
        queue_datas=[QueueData("bad", 1, 1, 6), QueueData(good.name, 1, 1, 6)],
        broker_datas=[
            BrokerData("cluster", "bad", {0: address, 1: address}),
            BrokerData("cluster", good.name, {0: good.address}),
        ],
    )
    config = ClientConfig(vip_channel_enabled=vip)
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_client(cluster.address, config=config) as client:
            async with client.producer("p") as producer:
                if not vip:  # the good broker of this cluster has no second port
                    for _ in range(4):
                        await producer.send(Message(TOPIC, b"x"))
                with pytest.raises(RocketpyError):
                    await producer.send(Message(TOPIC, b"x"), queue=MessageQueue(TOPIC, "bad", 0))
                with pytest.raises(RocketpyError):
                    await producer.send_oneway(Message(TOPIC, b"x"), queue=MessageQueue(TOPIC, "bad", 0))
            async with client.consumer("g", TOPIC) as consumer:
                await consumer.wait_assigned()
                await until(lambda: MessageQueue(TOPIC, good.name, 0) in consumer.assigned)
                await until(lambda: good.heartbeats)
            async with client.pull_consumer("pull") as pulling:
                with pytest.raises(RocketpyError):
                    await pulling.pull(MessageQueue(TOPIC, "bad", 0), 0)
                await pulling.pull(MessageQueue(TOPIC, good.name, 0), 0)


async def test_a_port_in_the_digits_of_another_alphabet_is_none() -> None:
    async with open_client_instance(ClientConfig(name_servers="127.0.0.1:\u0663")) as instance:
        with pytest.raises(RemotingConnectError, match=r"^nameserver .* is not an address, expected HOST:PORT$"):
            await instance.name_servers.find_route(TOPIC)
