"""The first send of a topic is answered when a consumer can find the topic, however slow the nameservers are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import pytest
import trio
import trio.testing

from rocketpy.broker.metadata.new_topics import REGISTERED_SECONDS_MAX, NewTopics
from rocketpy.client import Client, Message, Producer, open_client
from rocketpy.store.config import FlushDiskType
from rocketpy.testing.cluster_world import ClusterWorld, environment_of, simulate
from rocketpy.testing.sim.host import SimProcess
from rocketpy.testing.sim.network import Link

Send = Callable[[Producer], Awaitable[object]]
SLOW = Link(delay_s=0.1)
ROUND_TRIP_S = 2 * SLOW.delay_s
SHORT_S = 0.05
"""A time that no nameserver takes part in."""


def message() -> Message:
    return Message("New", b"body")


async def send_one(producer: Producer) -> None:
    await producer.send(message())


async def send_delayed(producer: Producer) -> None:
    await producer.send(Message("New", b"body", {"DELAY": "1"}))


async def send_few(producer: Producer) -> None:
    await producer.send_batch([message(), message()])


async def send_many(producer: Producer) -> None:
    """A batch that a task of the broker stores in slices."""
    await producer.send_batch([message() for _ in range(2_000)])


async def send_at_once(producer: Producer) -> None:
    for pending in [await producer.send_soon(message()) for _ in range(3)]:
        await pending


async def send_without_answer(producer: Producer) -> None:
    await producer.send_oneway(message())


def first_send(
    send: Send, *, link: Link | None = SLOW, store: Mapping[str, object] = {}, then: Send = send_one
) -> tuple[float, float, int]:
    """Return how long the first send of a topic and the next one took, and how many messages were read after the first.

    ``link`` is the one between broker and nameserver; None cuts it.
    """

    async def scene(world: ClusterWorld) -> tuple[float, float, int]:
        nameserver = await world.start_nameserver()
        broker = world.broker("broker-a", store={"mapped_file_size_commit_log": 1 << 20, **store})
        assert await broker.start()
        ends = broker.host.address, nameserver.host.address
        if link is None:
            world.network.cut(*ends)
        else:
            world.network.set_link(ends[0], ends[1], link)
            world.network.set_link(ends[1], ends[0], link)

        async def program(process: SimProcess) -> tuple[float, float, int]:
            async with (
                open_client(world.name_servers, environment=environment_of(process)) as client,
                client.producer("producers") as producer,
            ):
                await producer.send(Message("Known", b"connects"))
                first = await seconds_of(send, producer)
                count = 0 if link is None else await count_read(client)
                return first, await seconds_of(then, producer), count

        return await world.run_client(program)

    return simulate(scene, seed=1).result


async def seconds_of(send: Send, producer: Producer) -> float:
    begun = trio.current_time()
    await send(producer)
    return trio.current_time() - begun


async def count_read(client: Client) -> int:
    count = 0
    async with (
        client.pull_consumer("readers") as consumer,
        consumer.open_messages("New", start="beginning", until_end=True) as messages,
    ):
        async for _ in messages:
            count += 1
    return count


SYNC = {"flush_disk_type": FlushDiskType.SYNC_FLUSH}


@pytest.mark.parametrize("store", [{}, SYNC], ids=["async flush", "sync flush"])
@pytest.mark.parametrize(
    ("send", "count"), [(send_one, 1), (send_delayed, 0), (send_few, 2), (send_many, 2_000), (send_at_once, 3)]
)
def test_a_consumer_finds_a_topic_right_after_its_first_send(
    send: Send, count: int, store: Mapping[str, object]
) -> None:
    first, later, read = first_send(send, store=store)
    assert read == count
    assert ROUND_TRIP_S <= first < ROUND_TRIP_S + SHORT_S
    assert later < SHORT_S


def test_a_nameserver_that_does_not_answer_delays_a_first_send_by_a_fraction_of_its_timeout() -> None:
    first, later, _ = first_send(send_one, link=None)
    assert REGISTERED_SECONDS_MAX <= first < REGISTERED_SECONDS_MAX + SHORT_S
    assert later < SHORT_S


def test_a_send_that_wants_no_answer_does_not_wait() -> None:
    first, _, _ = first_send(send_without_answer, link=None)
    assert first < SHORT_S


def test_without_registration_nothing_waits() -> None:
    topics = NewTopics()
    topics.add("early", 1)
    assert "early" not in topics


async def test_topics_wait_for_the_registration_of_their_change() -> None:
    topics = NewTopics()
    with topics.registering():
        topics.add("first", 1)
        topics.add("second", 2)
        topics.registered(1)
        assert "first" not in topics
        assert "second" in topics
        topics.registered(2)
        assert "second" not in topics


async def test_the_end_of_registration_releases_whatever_waits(autojump_clock: trio.testing.MockClock) -> None:
    topics = NewTopics()
    async with trio.open_nursery() as nursery:
        with topics.registering():
            topics.add("topic", 1)
            nursery.start_soon(topics.wait_registered, "topic")
            await trio.testing.wait_all_tasks_blocked()
    assert trio.current_time() < REGISTERED_SECONDS_MAX
    topics.add("late", 2)
    assert "late" not in topics
