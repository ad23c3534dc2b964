"""A whole cluster in one process: the product's own programs, every fault, and one trace for one seed."""

from __future__ import annotations

import socket
import threading

import pytest
import trio

from rocketpy.client.client import open_producer, open_pull_consumer
from rocketpy.client.config import ClientConfig
from rocketpy.client.producer.config import ProducerConfig
from rocketpy.client.results import SendStatus
from rocketpy.errors import RocketpyError, SettingsError, StoreError
from rocketpy.protocol.message import Message
from rocketpy.store.config import FlushDiskType
from rocketpy.testing.cluster_world import ClusterWorld, environment_of, simulate
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


def test_the_same_seed_is_the_same_history_and_another_seed_another_one() -> None:
    first, again, other = (simulate(eventful, seed=seed) for seed in (5, 5, 6))
    assert first == again
    assert first.trace_hash != other.trace_hash
    assert first.event_count > 100


def test_nothing_is_asked_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither sockets nor threads: virtual time would not wait for them."""

    def refuse(*_: object) -> None:
        raise AssertionError("not simulated")

    for name in ("connect", "bind", "listen", "accept"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    simulate(eventful, seed=1)


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
