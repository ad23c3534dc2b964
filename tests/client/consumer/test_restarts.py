"""Consumers over restarts of brokers, in a simulated cluster: when they go on, and with which queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial

import attrs
import pytest
import trio

from rocketpy.client.client import open_client, open_producer
from rocketpy.client.config import ClientConfig
from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.client.consumer.group.queue_locks import GRACE_SECONDS
from rocketpy.errors import RocketpyError
from rocketpy.protocol.message import Message, MessageExt, MessageQueue
from rocketpy.store.config import BrokerRole
from rocketpy.testing.cluster_world import ClusterWorld, environment_of, simulate
from rocketpy.testing.sim.host import SimHost, SimProcess
from tests.client.conftest import FIRST, LITE_FIRST

TOPIC = "T"
GOES_ON_SECONDS = 2.0
AWAY_SECONDS = 45.0
"""More than a lock is trusted, and than the pauses between rebalances and between heartbeats."""
QUICK = ClientConfig(mq_client_api_timeout=1000)


@attrs.define(eq=False)
class Member:
    """A consumer and when it got what."""

    style: str
    world: ClusterWorld
    got: list[tuple[float, MessageQueue, int, bytes]] = attrs.field(factory=list)
    assigned: Callable[[], list[MessageQueue]] = list
    host: str = ""

    def bodies(self) -> Counter[bytes]:
        return Counter(body for *_, body in self.got)

    async def run(self, process: SimProcess) -> None:
        self.host = process.network.local_address()
        environment = environment_of(process)
        async with (
            open_client(self.world.name_servers, config=QUICK, environment=environment) as client,
            trio.open_nursery() as nursery,
        ):
            if self.style == "lite":
                async with client.lite_pull_consumer("g", TOPIC, config=LITE_FIRST) as lite:
                    self.assigned = lambda: lite.assigned
                    process.started()
                    nursery.start_soon(self._poll, lite.poll)
                    await process.stop.wait()
                    nursery.cancel_scope.cancel()
            async with client.consumer("g", TOPIC, config=FIRST) as consumer:
                self.assigned = lambda: [each for each in consumer.assigned if each.topic == TOPIC]
                run = consumer.run_orderly if self.style == "orderly" else consumer.run
                nursery.start_soon(run, self._handle)
                process.started()
                await process.stop.wait()
                nursery.cancel_scope.cancel()

    async def _poll(self, poll: Callable[[], Awaitable[list[MessageExt]]]) -> None:
        while True:
            for message in await poll():
                self._note(message)

    async def _handle(self, batch: MessageBatch) -> None:
        for message in batch:
            self._note(message)

    def _note(self, message: MessageExt) -> None:
        queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
        self.got.append((trio.current_time(), queue, message.queue_offset, message.body))


async def produce(world: ClusterWorld, process: SimProcess) -> None:
    """Send a message every quarter of a second, while a broker takes it."""
    config = attrs.evolve(QUICK, poll_name_server_interval=1000)
    async with open_producer(world.name_servers, config=config, environment=environment_of(process)) as producer:
        process.started()
        while not process.stop.is_set():
            try:
                await producer.send(Message(TOPIC, b"x"))
            except RocketpyError:
                pass
            await trio.sleep(0.25)


@attrs.define(eq=False)
class Restart:
    """What members had before a broker was killed, and what they got after it was back."""

    members: list[Member]
    held: list[list[MessageQueue]]
    back_at: float

    def assigned(self) -> list[list[MessageQueue]]:
        return [sorted(member.assigned()) for member in self.members]

    def goes_on(self) -> set[MessageQueue]:
        """Return the queues of which something was got since."""
        return {queue for member in self.members for at, queue, *_ in member.got if at >= self.back_at}


async def restart(world: ClusterWorld, style: str, *, brokers: str, nameserver_goes: bool = False) -> Restart:
    """Kill the first of the brokers under two members, and start it again."""
    nameserver = await world.start_nameserver()
    for name in brokers:
        assert await world.broker(f"broker-{name}").start()
    await world.start_client(partial(produce, world))
    members = [Member(style, world) for _ in range(2)]
    for member in members:
        await world.start_client(member.run)
    await trio.sleep(40)
    found = Restart(members, [sorted(member.assigned()) for member in members], 0.0)
    broker = world.brokers["broker-a"]
    await broker.host.kill()
    if nameserver_goes:
        await nameserver.host.kill()
    await trio.sleep(AWAY_SECONDS)
    assert await broker.start()
    found.back_at = trio.current_time()
    return found


@pytest.mark.parametrize(("end", "seconds"), [(SimHost.kill, 35.0), (SimHost.stop, 2.0)], ids=["killed", "leaves"])
def test_a_survivor_has_all_queues_when_the_locks_of_the_other_member_are_free(
    end: Callable[[SimHost], Awaitable[None]], seconds: float
) -> None:
    async def scene(world: ClusterWorld) -> None:
        await world.start_nameserver()
        assert await world.broker("broker-a").start()
        await world.start_client(partial(produce, world))
        survivor, other = Member("orderly", world), Member("orderly", world)
        await world.start_client(survivor.run)
        host = await world.start_client(other.run)
        await trio.sleep(60)  # the other member has renewed its locks just now
        held = [*survivor.assigned(), *other.assigned()]
        assert len(other.assigned()) == 1
        await end(host)
        await trio.sleep(seconds)
        assert survivor.assigned() == sorted(held)

    simulate(scene, seed=1)


@pytest.mark.parametrize("style", ["concurrent", "orderly", "lite"])
@pytest.mark.parametrize("nameserver_goes", [False, True], ids=["", "nameserver too"])
def test_members_go_on_with_their_queues_within_two_seconds(style: str, nameserver_goes: bool) -> None:
    async def scene(world: ClusterWorld) -> None:
        found = await restart(world, style, brokers="a", nameserver_goes=nameserver_goes)
        assert all(found.held)
        await trio.sleep(GOES_ON_SECONDS)
        assert found.goes_on() == {queue for queues in found.held for queue in queues}
        assert found.assigned() == found.held
        await trio.sleep(5)
        assert found.assigned() == found.held
        got = [(queue, offset) for member in found.members for _, queue, offset, _ in member.got]
        assert len(got) == len(set(got)), "nothing came again"

    simulate(scene, seed=1)


@pytest.mark.parametrize(("style", "seconds"), [("concurrent", GOES_ON_SECONDS), ("orderly", 2 + GRACE_SECONDS)])
def test_queues_whose_route_was_gone_are_taken_again(style: str, seconds: float) -> None:
    """The nameserver has dropped the broker, and the members its queues."""

    async def scene(world: ClusterWorld) -> None:
        found = await restart(world, style, brokers="ab")
        assert not any(queue.broker_name == "broker-a" for queues in found.assigned() for queue in queues)
        await trio.sleep(seconds)
        assert found.goes_on() == {queue for queues in found.held for queue in queues}

    simulate(scene, seed=1)


@pytest.mark.parametrize("style", ["concurrent", "orderly", "lite"])
def test_members_that_live_through_a_promotion_get_what_takes_the_offsets_of_the_lost_tail(style: str) -> None:
    """More of it than was lost, stored before they are back: nothing shows in the offsets that it is another."""

    async def scene(world: ClusterWorld) -> None:
        await world.start_nameserver()
        master = world.broker("broker-a", key="first", store={"broker_role": BrokerRole.ASYNC_MASTER})
        slave = world.slave(master)
        assert await master.start()
        assert await slave.start()
        member = Member(style, world)
        await send(world, "kept", 20)
        await world.start_client(member.run)
        await trio.sleep(30)
        slave.change(store={"ha_master_address": "10.9.9.9:10912"})
        await slave.host.stop()
        assert await slave.start()
        await send(world, "lost", 20)
        await trio.sleep(15)
        assert member.bodies() == Counter({*bodies("kept", 20), *bodies("lost", 20)})
        world.network.cut(member.host, slave.host.address)
        await master.host.kill()
        await slave.host.stop()
        slave.change(broker={"broker_id": 0}, store={"broker_role": BrokerRole.ASYNC_MASTER, "ha_master_address": None})
        assert await slave.start()
        await send(world, "new", 60)
        world.network.heal(member.host, slave.host.address)
        await trio.sleep(40)
        assert member.bodies() == Counter({*bodies("kept", 20), *bodies("lost", 20), *bodies("new", 60)})
        assert len(member.assigned()) == 2

    simulate(scene, seed=1)


def bodies(prefix: str, count: int) -> list[bytes]:
    return [b"%s %d" % (prefix.encode(), number) for number in range(count)]


async def send(world: ClusterWorld, prefix: str, count: int) -> None:
    async def run(process: SimProcess) -> None:
        async with open_producer(world.name_servers, config=QUICK, environment=environment_of(process)) as producer:
            for body in bodies(prefix, count):
                await producer.send(Message(TOPIC, body))

    await world.run_client(run)
