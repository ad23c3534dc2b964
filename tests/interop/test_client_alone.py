"""Our client without another one, at our broker and at Java's: what a broker has a part in, and no other client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import attrs
import pytest
import trio

from rocketpy.client import (
    Client,
    Message,
    MessageBatch,
    MessageExt,
    MessageModel,
    MessageQueue,
)
from rocketpy.errors import ClientError, RocketpyError
from tests.interop.cluster import Cluster
from tests.interop.conftest import BROKERS, chosen_cluster, unique_name
from tests.interop.our_client import FROM_FIRST, PATIENT_PRODUCER, open_our_client, open_our_consumer
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.java


@pytest.fixture(scope="module", params=BROKERS)
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """The cluster under test, and then Java's."""
    return chosen_cluster(request)


@pytest.fixture
def queue(cluster: Cluster, request: pytest.FixtureRequest) -> MessageQueue:
    """The only queue of a topic."""
    (broker,) = cluster.brokers
    return MessageQueue(cluster.create_topic(unique_name(request), queues=1), broker, 0)


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    """A client."""
    async with open_our_client(cluster.namesrv) as opened:
        yield opened


async def send(client: Client, topic: str, count: int, *, first: int = 0) -> list[str]:
    """Send messages whose body is their number, and return their offset ids."""
    async with client.producer(config=PATIENT_PRODUCER) as producer:
        sent = [await producer.send(Message(topic, b"%d" % number)) for number in range(first, first + count)]
    return [each.offset_msg_id for each in sent]


async def eventually(condition: Callable[[], Awaitable[object]]) -> None:
    """Wait until something is so."""
    with trio.fail_after(PATIENCE_SECONDS):
        while not await condition():
            await trio.sleep(0.02)


async def test_a_queue_is_not_pulled_while_too_much_of_it_is_in_flight(client: Client, queue: MessageQueue) -> None:
    config = attrs.evolve(FROM_FIRST, pull_threshold_for_queue=4, pull_batch_size=2)
    goes_on = trio.Event()
    seen: list[bytes] = []

    async def hold(batch: MessageBatch) -> None:
        seen.extend(each.body for each in batch)
        await goes_on.wait()

    async def in_flight() -> int:
        info = await client.admin().clients.running_info("flooded", client.client_id)
        return info.mq_table[queue].cached_msg_count

    await send(client, queue.topic, 40)
    async with client.consumer("flooded", queue.topic, config=config) as consumer, trio.open_nursery() as nursery:
        await nursery.start(consumer.run, hold)

        async def is_full() -> bool:
            try:
                return await in_flight() > 4
            except ClientError:  # the broker has not told the nameserver of the group's retry topic yet
                return False

        await eventually(is_full)
        found = [await in_flight() for _ in range(20)]  # another pull would have come meanwhile
        assert set(found) in ({5}, {6}), "a pull has one message or two"
        goes_on.set()

        async def is_everything_seen() -> bool:
            return len(seen) == 40

        await eventually(is_everything_seen)
        nursery.cancel_scope.cancel()
    assert len(set(seen)) == 40


async def test_a_broadcasting_member_goes_on_where_its_file_says(
    cluster: Cluster, queue: MessageQueue, tmp_path: Path
) -> None:
    config = attrs.evolve(FROM_FIRST, message_model=MessageModel.BROADCASTING, local_offset_store_dir=tmp_path)
    for turn in range(2):
        async with open_our_client(cluster.namesrv, instance_name="the_same") as client:
            await send(client, queue.topic, 5, first=5 * turn)
            async with open_our_consumer(client, "its_file", queue.topic, config=config) as (_, collected):
                await collected.wait(5)
        assert sorted(_numbers(collected.messages)) == list(range(5 * turn, 5 * turn + 5))


async def test_a_member_is_asked_for_its_offsets_handed_a_message_and_reset(
    client: Client, queue: MessageQueue
) -> None:
    """The broker passes each request on to the member."""
    topic, admin = queue.topic, client.admin()
    config = attrs.evolve(FROM_FIRST, persist_consumer_offset_interval=100)
    ids = await send(client, topic, 6)
    async with open_our_consumer(client, "asked", topic, config=config) as (_, collected):
        await collected.wait(6)

        async def is_stored() -> bool:
            try:
                table = (await admin.offsets.progress("asked", topic)).offset_table
            except RocketpyError:
                return False  # the group has no route yet
            return [each.consumer_offset for each in table.values()] == [6]

        await eventually(is_stored)
        assert await admin.clients.offsets(topic, "asked") == {client.client_id: {queue: 6}}
        result = await admin.messages.consume_directly("asked", client.client_id, ids[3])
        assert result.consume_result == "CR_SUCCESS"
        assert _numbers(await collected.wait(7))[6:] == [3]
        assert await admin.resets.reset(topic, "asked", 0) == {queue: 0}
        assert sorted(_numbers(await collected.wait(13))[7:]) == [0, 1, 2, 3, 4, 5]


def _numbers(messages: list[MessageExt]) -> list[int]:
    return [int(each.body) for each in messages]
