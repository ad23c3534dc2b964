"""Master, slave, nameserver and clients in virtual time: consumption goes on without the master, and nothing is lost
or set back when it returns.
"""

from __future__ import annotations

import attrs
import pytest
import trio

from rocketpy.broker.metadata.offsets import ConsumerOffsetManager
from rocketpy.broker.replication.offsets_from_slaves import OffsetsFromSlaves
from rocketpy.broker.replication.slave_synchronize import SlaveSynchronize
from rocketpy.client.client import open_producer, open_pull_consumer
from rocketpy.client.config import ClientConfig
from rocketpy.client.consumer.pull_consumer import PullConsumer
from rocketpy.client.producer.config import ProducerConfig
from rocketpy.errors import RocketpyError
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.headers.offset import UpdateConsumerOffsetRequestHeader
from rocketpy.protocol.message import Message, MessageQueue
from rocketpy.remoting.client import open_remoting_client
from rocketpy.store.config import BrokerRole
from rocketpy.testing.cluster_world import ClusterWorld, SimBroker, environment_of, simulate
from rocketpy.testing.sim.host import SimProcess
from tests.broker.message_broker import pull
from tests.broker.replication.consuming import consume_queues

COUNT = 60
QUEUES = [MessageQueue("T", "broker-a", queue_id) for queue_id in range(2)]
SUBSCRIPTION, SUSPEND = 4, 2
QUICK = ClientConfig(mq_client_api_timeout=1000, poll_name_server_interval=5000)
QUICK_SENDS = ProducerConfig(send_msg_timeout=1000)


SLAVE_OFFSETS: list[ConsumerOffsetManager] = []
"""The table of each slave that was started."""


@pytest.fixture(autouse=True)
def noted_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    SLAVE_OFFSETS.clear()
    make = SlaveSynchronize.__init__

    def noted(self: SlaveSynchronize, **given: object) -> None:
        make(self, **given)  # type: ignore[arg-type]
        offsets = given["offsets"]
        assert isinstance(offsets, ConsumerOffsetManager)
        SLAVE_OFFSETS.append(offsets)

    monkeypatch.setattr(SlaveSynchronize, "__init__", noted)


@attrs.define(eq=False)
class Pair:
    """A master and a slave that follows it."""

    world: ClusterWorld
    master: SimBroker
    slave: SimBroker
    consumed: list[bytes] = attrs.field(factory=list)

    async def send(self, count: int = COUNT) -> None:
        async def run(process: SimProcess) -> None:
            environment = environment_of(process)
            async with open_producer(
                self.world.name_servers, config=QUICK, producer=QUICK_SENDS, environment=environment
            ) as producer:
                for number in range(count):
                    await producer.send(Message("T", b"%d" % number))

        await self.world.run_client(run)

    async def consume(self, process: SimProcess) -> None:
        """Consume one message after the other, and commit it, whatever happens to brokers."""
        await consume_queues(self.world, process, self._consume_queue, config=QUICK)

    async def _consume_queue(self, consumer: PullConsumer, queue: MessageQueue) -> None:
        position = await consumer.start_offset(queue, "stored")
        while True:
            await trio.sleep(1.0)
            try:
                result = await consumer.pull(queue, position, max_msg_nums=1, suspend_ms=2000)
                self.consumed += [message.body for message in result.messages]
                position = result.next_begin_offset
                await consumer.commit(queue, position)
            except RocketpyError:
                continue

    async def progress(self) -> list[int | None]:
        """Return what a client that starts now is told of the group's progress."""

        async def run(process: SimProcess) -> list[int | None]:
            environment = environment_of(process)
            async with open_pull_consumer(
                self.world.name_servers, group="g", config=QUICK, environment=environment
            ) as consumer:
                await consumer.queues("T")
                return [await consumer.consumer_offset(queue) for queue in QUEUES]

        return await self.world.run_client(run)

    async def commit(self, address: str, offset: int) -> None:
        """Commit to one of the two, as a client that reaches only that one."""

        async def run(process: SimProcess) -> None:
            async with open_remoting_client(network=process.network) as client:
                for queue in QUEUES:
                    header = UpdateConsumerOffsetRequestHeader(
                        consumer_group="g", topic="T", queue_id=queue.queue_id, commit_offset=offset
                    )
                    request = make_request(RequestCode.UPDATE_CONSUMER_OFFSET, header)
                    assert (await client.request(address, request, 1.0)).code == ResponseCode.SUCCESS

        await self.world.run_client(run)

    def offsets_of_the_slave(self) -> list[int]:
        """Return the group's offsets in the slave's memory."""
        return [SLAVE_OFFSETS[-1].query_offset("g", "T", queue.queue_id) for queue in QUEUES]

    async def ends(self) -> list[int]:
        """Return the ends of the master's queues."""

        async def run(process: SimProcess) -> list[int]:
            async with open_pull_consumer(
                self.world.name_servers, group="other", config=QUICK, environment=environment_of(process)
            ) as consumer:
                await consumer.queues("T")
                return [await consumer.max_offset(queue) for queue in QUEUES]

        return await self.world.run_client(run)


async def started(world: ClusterWorld, **slave: object) -> Pair:
    await world.start_nameserver()
    master = world.broker("broker-a", key="master")
    follower = world.broker(
        "broker-a", key="slave", broker={"broker_id": 1, **slave}, store={"broker_role": BrokerRole.SLAVE}
    )
    assert await master.start()
    assert await follower.start()
    return Pair(world, master, follower)


@pytest.mark.parametrize(("end", "away_s"), [("kill", 60), ("stop", 60), ("lose_power", 200)])
def test_a_group_goes_on_at_the_slave_and_comes_back_with_its_progress(end: str, away_s: float) -> None:
    """Nameservers route to a master that has fallen silent for two minutes."""

    async def scene(world: ClusterWorld) -> None:
        pair = await started(world)
        await pair.send()
        await trio.sleep(2)
        client = await world.start_client(pair.consume)
        await trio.sleep(15)  # a round of the slave's synchronization, and more
        assert 0 < len(pair.consumed) < COUNT
        if end == "lose_power":
            await trio.sleep(1)  # what is acknowledged under ASYNC_FLUSH is durable after half a second
        await getattr(pair.master.host, end)()
        await trio.sleep(away_s)
        assert len(set(pair.consumed)) == COUNT, "everything is consumed without the master"
        assert len(pair.consumed) <= COUNT + 4, "and hardly anything twice"
        await client.kill()
        if end == "lose_power":
            pair.master.host.power_on()
        assert await pair.master.start()
        assert await pair.progress() == await pair.ends(), "the master knows it before it serves"
        await trio.sleep(30)
        assert await pair.progress() == await pair.ends()

    simulate(scene, seed=3)


def test_a_slave_brings_progress_home_to_a_master_that_asks_no_slave(monkeypatch: pytest.MonkeyPatch) -> None:
    """As RocketMQ's master, which besides loses what was committed to it in its last seconds."""

    async def take(self: OffsetsFromSlaves) -> int:
        return 0

    monkeypatch.setattr(OffsetsFromSlaves, "take", take)

    async def scene(world: ClusterWorld) -> None:
        pair = await started(world)
        await pair.send()
        await trio.sleep(2)
        client = await world.start_client(pair.consume)
        await trio.sleep(15)
        known = [offset or 0 for offset in pair.offsets_of_the_slave()]
        await pair.master.host.kill()
        await trio.sleep(20)
        await client.kill()
        at_slave = pair.offsets_of_the_slave()
        assert min(at_slave) > max(known)
        assert await pair.master.start()
        at_first = await pair.progress()
        assert max(offset or 0 for offset in at_first) < min(at_slave), "it has what its file has"
        for _ in range(40):
            await trio.sleep(0.5)
            assert pair.offsets_of_the_slave() == at_slave, "nothing is set back meanwhile"
        assert await pair.progress() == at_slave

    simulate(scene, seed=6)


def test_a_group_that_is_reset_stays_reset() -> None:
    """Over a restart of the master that comes before the slave has heard of the reset."""

    async def scene(world: ClusterWorld) -> None:
        pair = await started(world)
        await pair.send()
        client = await world.start_client(pair.consume)
        await trio.sleep(45)
        assert set(pair.consumed) == {b"%d" % number for number in range(COUNT)}
        await client.kill()
        await trio.sleep(15)

        async def reset(process: SimProcess) -> None:
            async with open_pull_consumer(
                world.name_servers, group="g", config=QUICK, environment=environment_of(process)
            ) as consumer:
                await _reset(consumer)

        await world.run_client(reset)
        await pair.master.host.stop()
        assert await pair.master.start()
        assert await pair.progress() == [3, 3]
        await trio.sleep(30)
        assert await pair.progress() == [3, 3]

    simulate(scene, seed=4)


def test_a_reset_is_not_undone_by_progress_that_a_slave_brings_home() -> None:
    """The group is reset right after the master has come back, before the slave has noticed that."""

    async def scene(world: ClusterWorld) -> None:
        pair = await started(world)
        await pair.send()
        client = await world.start_client(pair.consume)
        await trio.sleep(15)
        await pair.master.host.kill()
        await trio.sleep(20)
        await client.kill()
        assert min(pair.offsets_of_the_slave()) > 3
        assert await pair.master.start()

        async def reset(process: SimProcess) -> None:
            async with open_pull_consumer(
                world.name_servers, group="g", config=QUICK, environment=environment_of(process)
            ) as consumer:
                await _reset(consumer)

        await world.run_client(reset)
        assert min(pair.offsets_of_the_slave()) > 3, "it has not noticed"
        for _ in range(15):
            assert await pair.progress() == [3, 3]
            await trio.sleep(2)
        assert pair.offsets_of_the_slave() == [3, 3]

    simulate(scene, seed=8)


@pytest.mark.parametrize("seconds_until_the_end", [None, 1, 20])
def test_a_reset_is_not_undone_by_a_commit_to_the_slave_that_the_master_has_never_had(
    seconds_until_the_end: int | None,
) -> None:
    """A consumer commits to the slave while the master is back already; and the master may be gone again soon."""

    async def scene(world: ClusterWorld) -> None:
        pair = await started(world)
        await pair.send()
        await trio.sleep(15)
        await pair.master.host.kill()
        await trio.sleep(5)
        assert await pair.master.start()
        await pair.commit(pair.master.address, 5)
        await pair.commit(pair.slave.address, 9)
        await trio.sleep(0.2)
        await pair.commit(pair.master.address, 3)
        if seconds_until_the_end is not None:
            await trio.sleep(seconds_until_the_end)
            await pair.master.host.stop()
            assert await pair.master.start()
        for _ in range(15):
            assert await pair.progress() == [3, 3]
            await trio.sleep(2)
        assert pair.offsets_of_the_slave() == [3, 3]

    simulate(scene, seed=9)


def test_a_commit_to_the_slave_after_a_reset_is_brought_home() -> None:
    """Although it is lower than what the reset has revoked."""

    async def scene(world: ClusterWorld) -> None:
        pair = await started(world)
        await pair.send()
        await trio.sleep(15)
        await pair.commit(pair.master.address, 9)
        await pair.commit(pair.master.address, 3)
        await trio.sleep(15)
        assert pair.offsets_of_the_slave() == [3, 3]
        await pair.master.host.kill()
        await pair.commit(pair.slave.address, 6)
        await trio.sleep(5)
        assert await pair.master.start()
        await trio.sleep(30)
        assert await pair.progress() == pair.offsets_of_the_slave() == [6, 6]

    simulate(scene, seed=9)


async def _reset(consumer: PullConsumer) -> None:
    await consumer.queues("T")
    for queue in QUEUES:
        await consumer.commit(queue, 3)


def test_a_held_pull_is_answered_by_a_slave_as_soon_as_the_message_is_there() -> None:
    """RocketMQ's slave looks every 5 s."""

    async def scene(world: ClusterWorld) -> None:
        pair = await started(world)
        await pair.send(2)
        await trio.sleep(15)
        arrived = trio.Event()

        async def wait(process: SimProcess) -> None:
            async with open_remoting_client(network=process.network) as client:
                request = pull(topic="T", queue_offset=1, sys_flag=SUBSCRIPTION | SUSPEND)
                process.started()
                answer = await client.request(pair.slave.address, request, 20.0)
                assert answer.code == ResponseCode.SUCCESS
                assert trio.current_time() - sent_at < 0.1
                arrived.set()

        await world.start_client(wait)
        await trio.sleep(3)
        sent_at = trio.current_time()
        await pair.send(2)
        await arrived.wait()

    simulate(scene, seed=5)
