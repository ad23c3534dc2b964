"""A master and a slave that cuts its log where it parts from the master's, over losses of power and swaps of roles.

Under ASYNC_FLUSH a loss of power takes messages from either side, and a swap makes the shorter log the master's. So the
logs part again and again, also while a cut is going on. After each event the pair comes to rest: the slave's log is the
master's, byte for byte, from where both begin; or the slave says that nothing in it is the master's.
"""

from __future__ import annotations

from contextlib import suppress

import attrs
import trio

from rocketpy.client.client import open_producer
from rocketpy.client.config import ClientConfig
from rocketpy.client.producer.config import ProducerConfig
from rocketpy.errors import RemotingError, RocketpyError
from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.route import KVTable
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.message import Message
from rocketpy.remoting.client import open_remoting_client
from rocketpy.store.config import BrokerRole
from rocketpy.testing.cluster_world import ClusterWorld, SimBroker, environment_of, simulate
from rocketpy.testing.sim.host import SimProcess

SEEDS = 10
ROUNDS = 8
REST_SECONDS = 150.0
QUICK = ClientConfig(mq_client_api_timeout=1000)
QUICK_SENDS = ProducerConfig(send_msg_timeout=1000, retry_times_when_send_failed=0)
ALARMS_THAT_STAY = ("have no record in common", "keeps 16 tails", "has deleted what came before")


@attrs.define
class Seen:
    """What happened in a history."""

    cuts: int = 0
    rests: int = 0
    alarms: int = 0


async def send(world: ClusterWorld, count: int) -> None:
    """Send messages of several sizes; what is refused is not sent again."""

    async def run(process: SimProcess) -> None:
        async with open_producer(
            world.name_servers, config=QUICK, producer=QUICK_SENDS, environment=environment_of(process)
        ) as producer:
            for _ in range(count):
                body = world.randomness.randbytes(world.randomness.choice((3, 100, 3000, 20_000)))
                with suppress(RocketpyError):
                    await producer.send(Message("T", body))

    await world.run_client(run)


async def figures(world: ClusterWorld, broker: SimBroker) -> dict[str, str]:
    """Return the runtime info; nothing while the broker does not answer."""

    async def run(process: SimProcess) -> dict[str, str]:
        async with open_remoting_client(network=process.network) as client:
            with suppress(RemotingError):
                answer = await client.request(broker.address, make_request(RequestCode.GET_BROKER_RUNTIME_INFO), 2)
                return decode_body(answer.body or b"", KVTable).table
        return {}

    return await world.run_client(run)


def log_of(broker: SimBroker) -> dict[int, bytes]:
    """Return the files of a broker's log by their offsets, without what is not written yet."""
    disk, path = broker.host.disk, broker.settings.store.commit_log_path
    found = {}
    for name in disk.list_directory(path):
        file = disk.open(f"{path}/{name}", read_only=True)
        content = file.read(0, file.size()).rstrip(b"\0")
        file.close()
        if content:
            found[int(name)] = content
    return found


async def come_to_rest(world: ClusterWorld, master: SimBroker, slave: SimBroker, seen: Seen) -> None:
    """Wait until the slave has the whole log of the master, or cannot; fail when it has anything else."""
    with trio.fail_after(REST_SECONDS):
        while True:
            of_slave, of_master = await figures(world, slave), await figures(world, master)
            if any(each in of_slave.get("haAlarm", "") for each in ALARMS_THAT_STAY):
                seen.alarms += 1
                return
            if of_slave.get("haState") == "following" and of_master.get("haSlaveLagBytes") == "0":
                break
            await trio.sleep(0.5)
    ours, theirs = log_of(slave), log_of(master)
    assert ours, "it follows"
    for base_offset in [each for each in theirs if each >= min(ours)]:
        assert ours.get(base_offset) == theirs[base_offset], base_offset
    assert {each for each in ours if each >= min(theirs)} <= theirs.keys()
    seen.rests += 1


def take_role(broker: SimBroker, *, is_slave: bool) -> None:
    """Give a broker its role from its next start on."""
    role = BrokerRole.SLAVE if is_slave else BrokerRole.ASYNC_MASTER
    broker.settings = attrs.evolve(
        broker.settings,
        broker=attrs.evolve(broker.settings.broker, broker_id=int(is_slave)),
        store=attrs.evolve(broker.settings.store, broker_role=role),
    )


async def a_history(world: ClusterWorld) -> Seen:
    """Let the logs part in several ways."""
    randomness, seen = world.randomness, Seen()
    await world.start_nameserver()
    cutting = {"ha_truncate_diverged_log": True}
    brokers = [world.broker("broker-a", key=key, store=cutting) for key in ("a", "b")]
    master, slave = brokers
    take_role(slave, is_slave=True)
    for broker in brokers:
        assert await broker.start()
    for _ in range(ROUNDS):
        await send(world, randomness.randrange(1, 12))
        if randomness.random() < 0.6:
            await come_to_rest(world, master, slave, seen)
        event = randomness.choice(("master", "slave", "both", "swap", "kill"))
        if event in ("slave", "both", "kill"):
            await (slave.host.kill() if event == "kill" else slave.host.lose_power())
            await send(world, randomness.randrange(6))
        if event in ("master", "both"):
            await master.host.lose_power()
        if event == "swap":
            for broker in brokers:
                await broker.host.kill()
            master, slave = slave, master
            take_role(master, is_slave=False)
            take_role(slave, is_slave=True)
        for broker in (master, slave):
            if not broker.host.is_running:
                assert await broker.start(), broker.host.failure
        if randomness.random() < 0.3:  # in the middle of whatever follows
            await trio.sleep(randomness.random() * 3)
            await slave.host.lose_power()
            assert await slave.start(), slave.host.failure
    await send(world, 5)
    await come_to_rest(world, master, slave, seen)
    seen.cuts = sum(len(each.host.disk.list_directory("/store/diverged")) for each in brokers)
    return seen


def test_logs_that_part_end_as_one_or_in_an_alarm() -> None:
    total = Seen()
    for seed in range(SEEDS):
        try:
            seen = simulate(a_history, seed=seed).result
        except BaseException as failure:
            failure.add_note(f"in the history of seed {seed}")
            raise
        total = Seen(total.cuts + seen.cuts, total.rests + seen.rests, total.alarms + seen.alarms)
    assert total.cuts >= SEEDS / 2, total
    assert total.rests >= SEEDS, total
