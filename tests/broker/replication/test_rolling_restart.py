"""Two masters with a slave each, in virtual time: restarted one after the other, and without nameservers for a while,
under messages that are sent and consumed all the time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs
import pytest
import trio

from rocketpy.client.client import open_producer
from rocketpy.client.config import ClientConfig
from rocketpy.client.consumer.pull_consumer import PullConsumer
from rocketpy.client.producer.config import ProducerConfig
from rocketpy.client.results import SendStatus
from rocketpy.errors import RocketpyError
from rocketpy.protocol.message import Message, MessageQueue
from rocketpy.store.config import BrokerRole
from rocketpy.testing.cluster_world import ClusterWorld, SimBroker, environment_of, simulate
from rocketpy.testing.sim.host import SimProcess
from tests.broker.replication.consuming import consume_queues

QUICK = ClientConfig(mq_client_api_timeout=1000, poll_name_server_interval=5000)
QUICK_SENDS = ProducerConfig(send_msg_timeout=1000)
NAMES = ("broker-a", "broker-b")
PERIOD_S = 0.5


@attrs.define(eq=False)
class Cluster:
    """The brokers, what was answered to the producer, and what came to the consumer."""

    world: ClusterWorld
    masters: list[SimBroker]
    slaves: list[SimBroker]
    answers: dict[bytes, SendStatus] = attrs.field(factory=dict)
    failures: list[str] = attrs.field(factory=list)
    consumed: list[bytes] = attrs.field(factory=list)
    is_over: bool = False

    async def produce(self, process: SimProcess) -> None:
        """Send until it is over; what fails on one broker is tried on the other by the client itself."""
        environment = environment_of(process)
        async with open_producer(
            self.world.name_servers, config=QUICK, producer=QUICK_SENDS, environment=environment
        ) as producer:
            process.started()
            number = 0
            while not self.is_over:
                body = b"%d" % number
                try:
                    self.answers[body] = (await producer.send(Message("T", body))).status
                except RocketpyError as failure:
                    self.failures.append(f"{number}: {failure}")
                number += 1
                await trio.sleep(PERIOD_S)

    async def consume(self, process: SimProcess) -> None:
        """Consume every queue of the topic, whatever happens to brokers."""
        await consume_queues(self.world, process, self._consume_queue, config=QUICK)

    async def _consume_queue(self, consumer: PullConsumer, queue: MessageQueue) -> None:
        position = 0
        while True:
            try:
                result = await consumer.pull(queue, position, suspend_ms=2000)
                self.consumed += [message.body for message in result.messages]
                position = result.next_begin_offset
            except RocketpyError:
                await trio.sleep(0.5)

    def count(self, status: SendStatus) -> int:
        """Return how many messages were answered so."""
        return sum(each is status for each in self.answers.values())


def run(disturb: Callable[[Cluster], Awaitable[None]], *, seed: int) -> Cluster:
    """Disturb a cluster under load; return it when everything has come back and was consumed."""

    async def scene(world: ClusterWorld) -> Cluster:
        for _ in range(2):
            await world.start_nameserver()
        cluster = Cluster(world, [], [])
        for name in NAMES:
            cluster.masters.append(
                world.broker(name, key=f"{name}-master", store={"broker_role": BrokerRole.SYNC_MASTER})
            )
            cluster.slaves.append(
                world.broker(
                    name, key=f"{name}-slave", broker={"broker_id": 1}, store={"broker_role": BrokerRole.SLAVE}
                )
            )
        for broker in (*cluster.masters, *cluster.slaves):
            assert await broker.start()
        await trio.sleep(5)
        await world.start_client(cluster.produce)
        await trio.sleep(15)  # until the topic is on both masters, and in the routes
        await world.start_client(cluster.consume)
        await trio.sleep(1)  # it knows the queues
        await disturb(cluster)
        await trio.sleep(10)
        healthy = dict(cluster.answers)
        await trio.sleep(5)
        cluster.is_over = True
        await trio.sleep(5)
        last = {status for body, status in cluster.answers.items() if body not in healthy}
        assert last == {SendStatus.SEND_OK}, "afterwards both pairs are whole again"
        return cluster

    return simulate(scene, seed=seed).result


def check_nothing_lost(cluster: Cluster) -> None:
    """Everything that was answered was consumed: from both brokers, and hardly anything twice."""
    assert set(cluster.answers) <= set(cluster.consumed)
    assert cluster.failures == []
    twice = len(cluster.consumed) - len(set(cluster.consumed))
    assert twice <= len(cluster.answers) // 20, "what was sent again to the other broker"


@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize("seed", [1, 2])
def test_every_program_is_restarted_and_no_message_lost(end: str, seed: int) -> None:
    async def restart_each(cluster: Cluster) -> None:
        for each in (*cluster.world.nameservers, *cluster.slaves, *cluster.masters):
            await getattr(each.host, end)()
            await trio.sleep(2)
            assert await each.start() is not False
            await trio.sleep(12)

    cluster = run(restart_each, seed=seed)
    check_nothing_lost(cluster)
    assert cluster.count(SendStatus.SEND_OK) > 0.8 * len(cluster.answers)
    assert cluster.count(SendStatus.SLAVE_NOT_AVAILABLE) > 0, "while a slave was down"


def test_without_nameservers_what_runs_goes_on() -> None:
    """Clients and slaves keep the routes that they have."""

    async def lose_nameservers(cluster: Cluster) -> None:
        for each in cluster.world.nameservers:
            await each.host.kill()
        before = len(cluster.answers)
        await trio.sleep(100)
        assert len(cluster.answers) - before > 90 / PERIOD_S
        assert cluster.count(SendStatus.SEND_OK) == len(cluster.answers)
        for each in cluster.world.nameservers:
            await each.start()

    check_nothing_lost(run(lose_nameservers, seed=5))
