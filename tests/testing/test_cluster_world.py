"""A whole cluster in one process: the product's own programs, every fault, and one trace for one seed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading

import pytest
import trio

from rocketpy.client.client import open_producer, open_pull_consumer
from rocketpy.client.config import ClientConfig
from rocketpy.client.producer.config import ProducerConfig
from rocketpy.client.results import SendStatus
from rocketpy.errors import RocketpyError, SettingsError, StoreError
from rocketpy.protocol.message import Message
from rocketpy.store.config import BrokerRole, FlushDiskType
from rocketpy.testing.cluster_world import ClusterWorld, SimBroker, environment_of, simulate
from rocketpy.testing.sim.host import SimProcess

QUICK = ClientConfig(mq_client_api_timeout=1000)
QUICK_SENDS = ProducerConfig(send_msg_timeout=1000, retry_times_when_send_failed=0)
NO_FLUSH = {"flush_interval_commit_log": 30_000, "flush_commit_log_thorough_interval": 30_000}
"""Nothing is flushed within half a minute."""

SYNC = {"flush_disk_type": FlushDiskType.SYNC_FLUSH}


async def send(world: ClusterWorld, *bodies: bytes) -> list[SendStatus | None]:
    """Send messages by a client of its own; return each status, None where an error came instead."""

    async def run(process: SimProcess) -> list[SendStatus | None]:
        statuses: list[SendStatus | None] = []
        environment = environment_of(process)
        async with open_producer(
            world.name_servers, config=QUICK, producer=QUICK_SENDS, environment=environment
        ) as producer:
            for body in bodies:
                try:
                    statuses.append((await producer.send(Message("T", body))).status)
                except RocketpyError:
                    statuses.append(None)
                await trio.sleep(0.1)
        return statuses

    return await world.run_client(run)


async def receive(world: ClusterWorld) -> list[bytes]:
    """Return the bodies of all messages, by a client of its own."""

    async def run(process: SimProcess) -> list[bytes]:
        environment = environment_of(process)
        async with (
            open_pull_consumer(world.name_servers, group="g", environment=environment) as consumer,
            consumer.open_messages("T", start="beginning", until_end=True) as messages,
        ):
            return [message.body async for message in messages]

    return await world.run_client(run)


async def started(world: ClusterWorld, **store: object) -> None:
    """Start a nameserver and a broker."""
    await world.start_nameserver()
    assert await world.broker("broker-a", store=store).start()


async def eventful(world: ClusterWorld) -> list[bytes]:
    """A scene with something of everything."""
    await started(world, **SYNC)
    await world.start_nameserver()
    second = world.broker("broker-b")
    assert await second.start()
    first = world.brokers["broker-a"]
    await send(world, *(b"%d" % number for number in range(20)))
    first.host.pause()
    await send(world, *(b"paused %d" % number for number in range(4)))
    first.host.resume()
    await first.host.lose_power()
    second.host.clock.set_rate(1.1)
    await second.host.kill()
    assert await first.start()
    assert await second.start()
    await send(world, b"last")
    return sorted(await receive(world))


def test_messages_go_through_nameserver_broker_and_clients() -> None:
    async def scene(world: ClusterWorld) -> None:
        await started(world)
        assert await send(world, b"1", b"2", b"3") == [SendStatus.SEND_OK] * 3
        assert sorted(await receive(world)) == [b"1", b"2", b"3"]

    simulate(scene, seed=1)


def test_the_same_seed_is_the_same_history_and_another_seed_another_one() -> None:
    first, again, other = (simulate(eventful, seed=seed) for seed in (5, 5, 6))
    assert first == again
    assert first.trace_hash != other.trace_hash
    assert first.event_count > 100


def test_the_same_seed_is_the_same_history_in_another_process() -> None:
    """Whatever Python's hashes are there, and whatever happened in it before."""
    code = (
        "from tests.testing.test_cluster_world import eventful\n"
        "from rocketpy.testing.cluster_world import simulate\n"
        "print(simulate(eventful, seed=5).trace_hash)"
    )
    hashes = {
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        ).stdout.strip()
        for hash_seed in ("1", "2")
    }
    assert hashes == {simulate(eventful, seed=5).trace_hash}


def test_nothing_is_asked_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither sockets nor threads: virtual time would not wait for them."""

    def refuse(*_: object) -> None:
        raise AssertionError("not simulated")

    for name in ("connect", "bind", "listen", "accept"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    simulate(eventful, seed=1)


def test_under_sync_flush_what_is_acknowledged_survives_a_loss_of_power() -> None:
    async def scene(world: ClusterWorld) -> None:
        await started(world, **SYNC)
        broker = world.brokers["broker-a"]
        assert await send(world, b"1", b"2") == [SendStatus.SEND_OK] * 2
        await broker.host.lose_power(lambda count: 0)
        assert await broker.start()
        assert sorted(await receive(world)) == [b"1", b"2"]

    simulate(scene, seed=2)


def test_under_async_flush_it_may_be_lost() -> None:
    """Else the test above would show nothing."""

    async def scene(world: ClusterWorld) -> list[bytes]:
        await started(world, **NO_FLUSH)
        broker = world.brokers["broker-a"]
        assert await send(world, b"1", b"2") == [SendStatus.SEND_OK] * 2
        await broker.host.lose_power(lambda count: 0)
        assert await broker.start()
        await send(world, b"3")
        return await receive(world)

    assert simulate(scene, seed=2).result == [b"3"]


def test_a_group_does_not_get_what_takes_the_place_of_lost_messages_that_it_had() -> None:
    """The limit of a promise, shown: the message is kept, and the group has gone past its queue offset."""

    async def scene(world: ClusterWorld) -> None:
        await world.start_nameserver()
        broker = world.broker("broker-a", broker={"default_topic_queue_nums": 1}, store=NO_FLUSH)
        assert await broker.start()
        await send(world, b"1")
        await trio.sleep(40)  # flushed
        got: list[bytes] = []

        async def consume(process: SimProcess) -> None:
            async with (
                open_pull_consumer(world.name_servers, group="g", environment=environment_of(process)) as consumer,
                consumer.open_messages("T", start="beginning") as messages,
            ):
                process.started()
                async for message in messages:
                    got.append(message.body)

        await world.start_client(consume)
        await send(world, b"lost")
        assert got == [b"1", b"lost"]
        await broker.host.lose_power(lambda count: 0)
        assert await broker.start()
        await send(world, b"in its place", b"next")
        await trio.sleep(30)
        assert got == [b"1", b"lost", b"next"]
        assert await receive(world) == [b"1", b"in its place", b"next"]

    simulate(scene, seed=13)


def test_a_broker_whose_disk_fails_ends_and_says_why() -> None:
    async def scene(world: ClusterWorld) -> None:
        await started(world, **SYNC)
        broker = world.brokers["broker-a"]
        broker.host.disk.fail_call("sync")
        assert await send(world, b"1") == [None]
        await trio.sleep(1)
        assert not broker.host.is_running
        assert isinstance(broker.host.failure, StoreError)

    simulate(scene, seed=6)


async def started_pair(world: ClusterWorld, **store: object) -> tuple[SimBroker, SimBroker]:
    """Start a nameserver, a SYNC_MASTER and its slave, and let them meet."""
    await world.start_nameserver()
    master = world.broker("broker-a", store={**store, "broker_role": BrokerRole.SYNC_MASTER})
    slave = world.slave(master, store=store)
    assert await master.start()
    assert await slave.start()
    await trio.sleep(10)
    return master, slave


def test_a_slave_has_what_a_sync_master_acknowledges() -> None:
    async def scene(world: ClusterWorld) -> None:
        master, slave = await started_pair(world)
        assert await send(world, b"1", b"2") == [SendStatus.SEND_OK] * 2
        assert slave.log == master.log
        assert slave.log.end_offset > 0
        await slave.host.kill()
        assert await send(world, b"3") == [SendStatus.SLAVE_NOT_AVAILABLE]
        assert await slave.start()
        await trio.sleep(15)
        assert await send(world, b"4") == [SendStatus.SEND_OK]
        assert slave.log == master.log

    simulate(scene, seed=10)


def test_brokers_start_again_in_the_other_role() -> None:
    async def scene(world: ClusterWorld) -> None:
        master, slave = await started_pair(world)
        assert await send(world, b"1") == [SendStatus.SEND_OK]
        await master.host.kill()
        await slave.host.stop()
        slave.change(broker={"broker_id": 0}, store={"broker_role": BrokerRole.SYNC_MASTER})
        master.change(broker={"broker_id": 1}, store={"broker_role": BrokerRole.SLAVE})
        assert await slave.start()
        assert await master.start()
        await trio.sleep(15)
        assert await send(world, b"2") == [SendStatus.SEND_OK]
        assert sorted(await receive(world)) == [b"1", b"2"]
        assert master.log == slave.log

    simulate(scene, seed=11)


def test_a_pair_is_the_same_history_for_the_same_seed() -> None:
    async def scene(world: ClusterWorld) -> None:
        master, slave = await started_pair(world)
        await send(world, b"1", b"2")
        world.network.cut(master.host.address, slave.host.address)
        await send(world, b"3")
        await slave.host.lose_power()
        world.network.heal(master.host.address, slave.host.address)
        assert await slave.start()
        await trio.sleep(15)

    assert simulate(scene, seed=12) == simulate(scene, seed=12)


def test_settings_that_no_broker_may_start_with_are_refused() -> None:
    async def scene(world: ClusterWorld) -> None:
        await world.broker("broker-a", store={"enable_d_leger_commit_log": True}).start()

    with pytest.raises(BaseExceptionGroup) as caught:
        simulate(scene, seed=0)
    assert caught.group_contains(SettingsError)


def test_a_scene_that_fails_while_a_process_is_paused_ends() -> None:
    async def scene(world: ClusterWorld) -> None:
        await started(world)
        world.brokers["broker-a"].host.pause()
        raise ZeroDivisionError

    with pytest.raises(BaseExceptionGroup) as caught:
        simulate(scene, seed=0)
    assert caught.group_contains(ZeroDivisionError)
