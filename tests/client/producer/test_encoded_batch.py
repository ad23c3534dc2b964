"""Batches that a program has encoded itself: stored as they are, in turn, within the window."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketpy.client.begun import beginning_of
from rocketpy.client.client import open_client, open_producer
from rocketpy.client.config import ClientConfig
from rocketpy.client.hooks import SendMessageContext
from rocketpy.client.producer.config import ProducerConfig
from rocketpy.client.producer.encoded_batch import EncodedBatch
from rocketpy.errors import ClientError, RemotingTimeoutError
from rocketpy.protocol.batch import encode_batch_body
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.message import Message, MessageQueue
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.patience import PATIENCE_SECONDS, until, until_blocked

QUEUE = MessageQueue(TOPIC, "broker-a", 0)
BATCH = RequestCode.SEND_BATCH_MESSAGE


def encoded(*bodies: bytes, topic: str = TOPIC) -> EncodedBatch:
    """Return a batch as a program would encode it."""
    messages = [
        Message(topic, each, {"n": str(n), "WAIT": "true", "UNIQ_KEY": f"K{n}"}) for n, each in enumerate(bodies)
    ]
    return EncodedBatch(topic, encode_batch_body(messages))


async def test_an_encoded_batch_is_stored_as_it_is_and_its_result_is_that_of_its_first_message(
    cluster: FakeCluster,
) -> None:
    async with open_producer(cluster.address) as producer, producer.batching() as batches:
        first = await batches.send_encoded(encoded(b"a", b"b", b"c"), queue=QUEUE)
        second = await batches.send_encoded(encoded(b"d"), queue=QUEUE)
        assert [(await each).queue_offset for each in (first, second)] == [0, 3]
    stored = cluster.broker.queues[TOPIC, 0]
    assert [(each.body, each.properties["UNIQ_KEY"], each.properties["n"]) for each in stored] == [
        (b"a", "K0", "0"),
        (b"b", "K1", "1"),
        (b"c", "K2", "2"),
        (b"d", "K0", "0"),
    ]


async def test_what_was_collected_for_its_queue_leaves_before_it(cluster: FakeCluster) -> None:
    async with open_producer(cluster.address) as producer, producer.batching(batch_max_delay_ms=60_000) as batches:
        batches.send_nowait(Message(TOPIC, b"collected"), queue=QUEUE)
        await batches.send_encoded(encoded(b"encoded"), queue=QUEUE)
    assert [each.body for each in cluster.broker.queues[TOPIC, 0]] == [b"collected", b"encoded"]


@pytest.mark.parametrize(
    ("batch", "fault"),
    [
        (EncodedBatch("a b", b"x"), "illegal"),
        (EncodedBatch("%RETRY%g", b"x"), "Retry Group is not supported"),
        (EncodedBatch(TOPIC, b""), "length is zero"),
        (EncodedBatch(TOPIC, bytes(1001)), "MAX: 1000, found 1001"),
        (EncodedBatch("Other", b"x"), "not equal mq's topic"),
    ],
)
async def test_what_no_broker_would_accept_is_refused_before_any_request(
    cluster: FakeCluster, batch: EncodedBatch, fault: str
) -> None:
    """Nor does it take room in the window, whichever form of the call is used."""
    config = ProducerConfig(max_message_size=1000, back_pressure_for_async_send_num=1)
    with trio.fail_after(PATIENCE_SECONDS):  # a window that is not empty would keep the block
        async with open_producer(cluster.address, producer=config) as producer, producer.batching() as batches:
            begin = beginning_of(batches.send_encoded)
            assert begin is not None
            with pytest.raises(ClientError, match=fault):
                await batches.send_encoded(batch, queue=QUEUE)
            with pytest.raises(ClientError, match=fault):
                begin(batch, queue=QUEUE)
            assert cluster.broker.requests == []
            assert begin(encoded(b"x")) is not None, "there is room, so it needs no task"


async def test_it_waits_for_room_in_the_window(cluster: FakeCluster, mock_clock: MockClock) -> None:
    """Each batch counts as one message, and with the bytes of its body."""
    config = ProducerConfig(back_pressure_for_async_send_num=1, send_msg_timeout=300)
    async with open_producer(cluster.address, producer=config) as producer, producer.batching() as batches:
        cluster.broker.be_silent(BATCH)
        first = await batches.send_encoded(encoded(b"1", b"2", b"3"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(batches.send_encoded, encoded(b"4"))
            await until_blocked(lambda: cluster.broker.asked(BATCH))
            assert len(nursery.child_tasks) == 1
            nursery.cancel_scope.cancel()
        assert not first.is_done
        mock_clock.jump(0.3)
        await until_blocked(lambda: first.is_done)
    with pytest.raises(RemotingTimeoutError):
        first.result()


async def test_hooks_see_its_messages(cluster: FakeCluster) -> None:
    seen: list[Message] = []

    class Hook:
        hook_name = "seeing"

        def send_message_before(self, context: SendMessageContext) -> None:
            seen.extend(context.messages)

        def send_message_after(self, context: SendMessageContext) -> None:
            pass

    async with (
        open_client(cluster.address) as client,
        client.producer(send_hooks=[Hook()]) as producer,
        producer.batching() as batches,
    ):
        await (await batches.send_encoded(encoded(b"a", b"b")))
    assert [(each.topic, each.body, each.properties["UNIQ_KEY"]) for each in seen] == [
        (TOPIC, b"a", "K0"),
        (TOPIC, b"b", "K1"),
    ]


async def test_its_topic_gets_the_namespace(cluster: FakeCluster) -> None:
    cluster.add_topic("NS%Mine")
    config = ClientConfig(namespace="NS")
    async with open_producer(cluster.address, config=config) as producer, producer.batching() as batches:
        result = await (await batches.send_encoded(encoded(b"x", topic="Mine")))
    assert result.message_queue.topic == "Mine"
    await until(lambda: cluster.broker.bodies("NS%Mine") == [b"x"])
