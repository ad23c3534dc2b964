"""What docs/replication.md says under "Promote a slave, and bring the old master home", in virtual time."""

from __future__ import annotations

import pytest
import trio

from rocketpy.client.client import open_producer, open_pull_consumer
from rocketpy.client.config import ClientConfig
from rocketpy.client.producer.config import ProducerConfig
from rocketpy.client.results import SendStatus
from rocketpy.protocol.message import Message
from rocketpy.store.config import BrokerRole
from rocketpy.testing.cluster_world import ClusterWorld, SimBroker, environment_of, simulate
from rocketpy.testing.sim.host import SimProcess

QUICK = ClientConfig(mq_client_api_timeout=1000, poll_name_server_interval=5000)
QUICK_SENDS = ProducerConfig(send_msg_timeout=5000)
CAUGHT_UP_S = 10


async def send(world: ClusterWorld, prefix: str, count: int = 20) -> set[SendStatus]:
    """Send messages; return the statuses that came."""

    async def run(process: SimProcess) -> set[SendStatus]:
        environment = environment_of(process)
        async with open_producer(
            world.name_servers, config=QUICK, producer=QUICK_SENDS, environment=environment
        ) as producer:
            bodies = [f"{prefix} {number}".encode() for number in range(count)]
            return {(await producer.send(Message("T", body))).status for body in bodies}

    return await world.run_client(run)


async def contents(world: ClusterWorld) -> set[str]:
    """Return every message of the topic, from the broker that the nameservers route to."""

    async def run(process: SimProcess) -> set[str]:
        async with (
            open_pull_consumer(
                world.name_servers, group="g", config=QUICK, environment=environment_of(process)
            ) as consumer,
            consumer.open_messages("T", start="beginning", until_end=True) as messages,
        ):
            return {message.body.decode() async for message in messages}

    return await world.run_client(run)


def expected(*prefixes: str, count: int = 20) -> set[str]:
    return {f"{prefix} {number}" for prefix in prefixes for number in range(count)}


def become_master(broker: SimBroker) -> None:
    broker.change(broker={"broker_id": 0}, store={"broker_role": BrokerRole.SYNC_MASTER})


def become_slave(broker: SimBroker) -> None:
    broker.change(broker={"broker_id": 1}, store={"broker_role": BrokerRole.SLAVE})


@pytest.mark.parametrize("end", ["kill", "lose_power"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_slave_is_promoted_and_the_old_master_comes_home(end: str, seed: int) -> None:
    async def scene(world: ClusterWorld) -> None:
        await world.start_nameserver()
        first, second = world.broker("broker-a", key="first"), world.broker("broker-a", key="second")
        become_master(first)
        become_slave(second)
        assert await first.start()
        assert await second.start()
        await trio.sleep(CAUGHT_UP_S)
        assert await send(world, "before") == {SendStatus.SEND_OK}

        # The master's machine is lost; the slave takes its place.
        await getattr(first.host, end)()
        await second.host.stop()
        become_master(second)
        assert await second.start()
        assert await send(world, "alone") == {SendStatus.SLAVE_NOT_AVAILABLE}
        assert await contents(world) == expected("before", "alone")

        # The old master comes home as a slave.
        become_slave(first)
        first.host.power_on()
        assert await first.start()
        await trio.sleep(CAUGHT_UP_S)
        assert await send(world, "again") == {SendStatus.SEND_OK}

        # And the roles are exchanged once more, in order.
        await second.host.stop()
        await first.host.stop()
        become_master(first)
        become_slave(second)
        assert await first.start()
        assert await contents(world) == expected("before", "alone", "again")
        assert await second.start()
        await trio.sleep(CAUGHT_UP_S)
        assert await send(world, "home") == {SendStatus.SEND_OK}
        assert await contents(world) == expected("before", "alone", "again", "home")

    simulate(scene, seed=seed)
