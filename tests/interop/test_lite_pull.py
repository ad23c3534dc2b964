"""Lite pull consumers of ours in groups with consumers of Java: queues, offsets that both see, and what each polls."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio

from rocketpy.client import (
    Client,
    ConsumeFromWhere,
    LitePullConfig,
    LitePullConsumer,
    Message,
    MessageExt,
    MessageQueue,
    PullConsumer,
)
from rocketpy.errors import BrokerError
from tests.interop.cluster import Cluster
from tests.interop.conftest import BROKERS, chosen_cluster
from tests.interop.our_client import PATIENT_PRODUCER, eventually
from tests.interop.roles import Roles
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.java

BY_HAND = LitePullConfig(
    consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    auto_commit=False,
    topic_metadata_check_interval=100,
)


@pytest.fixture(scope="module", params=BROKERS)
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """The cluster under test, and then Java's."""
    return chosen_cluster(request)


async def send(client: Client, topic: str, count: int, *, first: int = 0) -> None:
    """Send numbered messages, each to the next queue."""
    async with client.producer(config=PATIENT_PRODUCER) as producer:
        queues = sorted(await producer.publish_queues(topic))
        for number in range(first, first + count):
            await producer.send(Message(topic, b"%d" % number), queue=queues[number % len(queues)])


async def has_queues(consumer: LitePullConsumer | PullConsumer, count: int) -> None:
    """Wait until a rebalance has given a consumer so many queues."""

    async def is_so() -> bool:
        return len(consumer.assigned) == count

    await eventually(is_so, f"{count} queues")


async def poll(consumer: LitePullConsumer, count: int) -> list[MessageExt]:
    """Poll until there are so many messages."""
    found: list[MessageExt] = []
    with trio.fail_after(PATIENCE_SECONDS):
        while len(found) < count:
            found += await consumer.poll(1)
    return found


def numbers(*many: Sequence[object]) -> list[int]:
    """Return the numbers in messages of whatever client, sorted."""
    return sorted(int(each.body) for messages in many for each in messages)  # type: ignore[attr-defined]


async def stored(client: Client, group: str, topic: str) -> set[int]:
    """Return the offsets of a group that the broker has."""
    try:
        table = (await client.admin().offsets.progress(group, topic)).offset_table
    except BrokerError:
        return set()  # it has none
    return {each.consumer_offset for each in table.values()}


@pytest.mark.parametrize("kind", ["lite", "consumer"])
async def test_a_group_is_shared_with_a_member_of_java_and_handed_over_both_ways(
    cluster: Cluster, java: Roles, ours: Client, group: str, kind: str
) -> None:
    topic = cluster.create_topic(f"polled_beside_{kind}", queues=6)
    async with ours.lite_pull_consumer(group, topic, config=BY_HAND) as mine:
        await has_queues(mine, 6)
        async with java.consumer(cluster.namesrv, group, topic, kind=kind) as theirs:
            await has_queues(mine, 3)
            await send(ours, topic, 60)
            polled = await poll(mine, 30)
            handled = await theirs.wait_messages(30)
            assert numbers(polled, handled) == list(range(60))
            assert {each.queue_id for each in polled} == {each.queue_id for each in mine.assigned}
            assert {each.queue_id for each in handled}.isdisjoint(each.queue_id for each in polled)
            await mine.commit()
        await has_queues(mine, 6)
        assert {await mine.committed(each) for each in mine.assigned} == {10}, "Java's commits and ours"
        await send(ours, topic, 12, first=60)
        assert numbers(await poll(mine, 12)) == list(range(60, 72)), "nothing is polled again"
        await mine.commit()
        assert await stored(ours, group, topic) == {12}
    async with java.consumer(cluster.namesrv, group, topic, kind=kind) as theirs:
        await send(ours, topic, 6, first=72)
        assert numbers(await theirs.wait_messages(6)) == list(range(72, 78)), "nothing is handled again"
    await eventually(lambda: _are_stored(ours, group, topic, 13), "Java's offsets are stored")


async def _are_stored(client: Client, group: str, topic: str, consumer_offset: int) -> bool:
    return await stored(client, group, topic) == {consumer_offset}


async def test_what_is_polled_is_committed_by_a_later_poll_as_by_one_of_java(
    cluster: Cluster, java: Roles, ours: Client, topic: str, group: str
) -> None:
    config = LitePullConfig(
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        auto_commit_interval=1_000,
        persist_consumer_offset_interval=100,
    )
    async with ours.lite_pull_consumer(group, topic, config=config) as mine:
        await send(ours, topic, 8)
        await poll(mine, 8)
        assert await stored(ours, group, topic) <= {0, 2}
        await mine.poll(1.1)
        await mine.poll(0)
        await eventually(lambda: _are_stored(ours, group, topic, 2), "a later poll commits")
        await send(ours, topic, 4, first=8)
        assert numbers(await poll(mine, 4)) == [8, 9, 10, 11]
        # not committed when it ends: they come again
    async with java.consumer(cluster.namesrv, group, topic, kind="lite") as theirs:
        assert numbers(await theirs.wait_messages(4)) == [8, 9, 10, 11]


async def test_pull_tasks_share_a_group_with_a_member_of_java(
    cluster: Cluster, java: Roles, ours: Client, group: str
) -> None:
    topic = cluster.create_topic("pulled_beside", queues=4)
    pulled: list[MessageExt] = []
    async with ours.pull_consumer(group, topic) as mine, trio.open_nursery() as nursery:

        async def pull(queue: MessageQueue) -> float:
            begin = await mine.consumer_offset(queue) or 0
            result = await mine.pull(queue, begin)
            pulled.extend(result.messages)
            await mine.commit(queue, result.next_begin_offset)
            return 0.05

        await has_queues(mine, 4)
        nursery.start_soon(mine.run_pull_task, topic, pull)
        async with java.consumer(cluster.namesrv, group, topic) as theirs:
            await has_queues(mine, 2)
            await send(ours, topic, 40)
            handled = await theirs.wait_messages(20)
            await eventually(lambda: _have(pulled, 20), "20 messages are pulled")
            assert numbers(pulled, handled) == list(range(40))
        await has_queues(mine, 4)
        await send(ours, topic, 4, first=40)
        await eventually(lambda: _have(pulled, 24), "4 more are pulled")
        assert numbers(pulled[20:]) == [40, 41, 42, 43], "nothing is pulled again"
        nursery.cancel_scope.cancel()
    assert await stored(ours, group, topic) == {11}


async def _have(messages: Sequence[object], count: int) -> bool:
    return len(messages) >= count


async def test_a_message_that_was_pulled_is_given_back_to_members_with_handlers(
    cluster: Cluster, java: Roles, ours: Client, topic: str, group: str
) -> None:
    await send(ours, topic, 4)
    (broker,) = cluster.brokers
    async with java.consumer(cluster.namesrv, group, topic) as theirs, ours.pull_consumer("giving_back") as mine:
        await theirs.wait_messages(4)
        (message,) = (await mine.pull(MessageQueue(topic, broker, 2), 0)).messages
        assert await mine.send_message_back(message, 1, group=group)
        again = (await theirs.wait_messages(5))[-1]
    assert (again.topic, again.body, again.reconsume_times) == (topic, b"2", 1)
