"""The namespace of a client: names as brokers have them, and as programs do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from rocketpy.client.client import Client, open_client
from rocketpy.client.config import ClientConfig
from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.client.consumer.config import ConsumerConfig
from rocketpy.client.consumer.statuses import ConsumeConcurrentlyStatus, ConsumeOrderlyStatus
from rocketpy.client.hooks import ConsumeMessageContext, FilterMessageContext
from rocketpy.client.namespace import NO_NAMESPACE, Namespace
from rocketpy.client.replies import reply_to
from rocketpy.errors import ClientError
from rocketpy.protocol.bodies.heartbeat import ConsumeFromWhere
from rocketpy.protocol.message import Message, MessageExt, MessageQueue
from rocketpy.protocol.topic_name import TRACE_TOPIC
from tests.client.conftest import LITE_FIRST
from tests.client.real_cluster import RealCluster, open_real_cluster
from tests.patience import PATIENCE_SECONDS, until

QUEUE = MessageQueue("T", "b", 1)
CONFIG = ConsumerConfig(
    consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, suspend_current_queue_time_millis=10
)


def test_names_of_topics_groups_and_queues() -> None:
    namespace = Namespace("NS")
    for own, full in (("T", "NS%T"), ("%RETRY%g", "%RETRY%NS%g"), ("%DLQ%g", "%DLQ%NS%g"), (TRACE_TOPIC, TRACE_TOPIC)):
        assert namespace.wrap(own) == namespace.wrap(full) == full
        assert namespace.unwrap(full) == namespace.unwrap(own) == own
    assert namespace.unwrap("Other%T") == "Other%T"
    assert namespace.wrap_queue(QUEUE) == MessageQueue("NS%T", "b", 1)
    assert namespace.unwrap_queue(MessageQueue("NS%T", "b", 1)) == QUEUE
    for name in ("T", "NS%T"):
        assert NO_NAMESPACE.wrap(name) == NO_NAMESPACE.unwrap(name) == name
    assert NO_NAMESPACE.wrap_queue(QUEUE) is NO_NAMESPACE.unwrap_queue(QUEUE) is QUEUE


def test_a_message_of_a_retry_topic_has_its_own_topic_again() -> None:
    for origin in ("NS%T", "T"):  # a copy that an orderly consumer of Java has sent has no namespace
        message = MessageExt("%RETRY%NS%g", b"x", {"RETRY_TOPIC": origin})
        Namespace("NS").restore_topic(message)
        assert message.topic == "T"
    message = MessageExt("%RETRY%NS%g", b"x")
    Namespace("NS").restore_topic(message)
    assert message.topic == "%RETRY%g"


# ---- with a broker --------------------------------------------------------------------------------------------------


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[RealCluster]:
    async with open_real_cluster(tmp_path) as cluster:
        yield cluster


@pytest.fixture
async def client(real: RealCluster) -> AsyncIterator[Client]:
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_client(real.address, config=ClientConfig(namespace="NS")) as client:
            yield client


@pytest.fixture
async def outside(real: RealCluster, client: Client) -> AsyncIterator[Client]:
    """A client without a namespace, which sees what brokers see."""
    async with open_client(real.address) as client:
        yield client


async def read_all(client: Client, topic: str, count: int) -> list[MessageExt]:
    """Return the first messages of a topic, when it has so many."""
    async with client.pull_consumer("reader") as consumer:
        while True:
            try:
                async with consumer.open_messages(topic, start="beginning") as messages:
                    return [await messages.__anext__() for _ in range(count)]
            except ClientError:
                await trio.sleep(0.01)


async def test_a_consumer_handles_its_own_topic_and_dead_letters_keep_the_namespace(
    client: Client, outside: Client
) -> None:
    """A message that fails comes again by the retry topic; in the end its dead letter is read like any message."""
    async with client.producer("p") as producer:
        sent = await producer.send(Message("T", b"x"))
    handled: list[tuple[str, MessageQueue, int]] = []
    queues: list[MessageQueue] = []
    config = ConsumerConfig(consume_from_where=CONFIG.consume_from_where, max_reconsume_times=1)

    async def handler(batch: MessageBatch) -> ConsumeConcurrentlyStatus:
        (message,) = batch
        handled.append((message.topic, batch.queue, message.reconsume_times))
        batch.delay_level = 1
        if message.reconsume_times:
            finished.set()
        return ConsumeConcurrentlyStatus.RECONSUME_LATER

    finished = trio.Event()
    async with trio.open_nursery() as nursery, client.consumer("g", "T", config=config) as consumer:
        await nursery.start(consumer.run, handler)
        queues = consumer.assigned
        await finished.wait()
        (dead,) = await read_all(outside, "%DLQ%NS%g", 1)
        nursery.cancel_scope.cancel()
    (again,) = await read_all(client, "%DLQ%g", 1)
    assert {each.topic for each in queues} == {"T", "%RETRY%g"}
    assert [(topic, times) for topic, _, times in handled] == [("T", 0), ("T", 1)]
    assert handled[0][1] == sent.message_queue
    assert handled[1][1].topic == "%RETRY%g"
    assert (dead.topic, again.topic) == ("%DLQ%NS%g", "%DLQ%g")
    assert dead.properties["RETRY_TOPIC"] == "NS%T"
    assert dead.body == again.body == b"x"


async def test_an_orderly_consumer_and_hooks_do_not_see_the_namespace(client: Client) -> None:
    async with client.producer("p") as producer:
        sent = await producer.send(Message("T", b"x"))
    seen: list[tuple[str, str, str]] = []

    class Hook:
        hook_name = "hook"

        def filter_message(self, context: FilterMessageContext) -> None:
            seen.append((context.consumer_group, context.message_queue.topic, context.messages[0].topic))

        def consume_message_before(self, context: ConsumeMessageContext) -> None:
            assert context.namespace == "NS"
            seen.append((context.consumer_group, context.message_queue.topic, context.messages[0].topic))

        def consume_message_after(self, context: ConsumeMessageContext) -> None:
            pass

    async def handler(batch: MessageBatch) -> ConsumeOrderlyStatus | None:
        seen.append(("", batch.queue.topic, batch.messages[0].topic))
        assert batch.queue == sent.message_queue
        scope.cancel()
        return None

    with trio.CancelScope() as scope:
        async with client.consumer("g", config=CONFIG, consume_hooks=[Hook()], filter_hooks=[Hook()]) as consumer:
            consumer.subscribe("T")
            await consumer.run_orderly(handler)
    assert seen == [("NS%g", "T", "T"), ("NS%g", "T", "T"), ("", "T", "T")]


async def test_unsubscribing_names_the_topic_as_subscribing_did(client: Client) -> None:
    """In Java ``unsubscribe`` forgets the namespace."""
    async with client.producer("p") as producer:
        await producer.send(Message("T", b"x"))
        await producer.send(Message("U", b"x"))
    async with client.consumer("g", "T", "U", config=CONFIG) as consumer:
        await consumer.wait_assigned()
        consumer.unsubscribe("T")
        while {each.topic for each in consumer.assigned} != {"U", "%RETRY%g"}:
            await trio.sleep(0.01)


async def test_a_pull_consumer_names_queues_without_the_namespace(client: Client, outside: Client) -> None:
    async with client.producer("p") as producer:
        sent = await producer.send(Message("T", b"x"))
    queue = sent.message_queue
    polled: list[MessageQueue] = []

    async def task(queue: MessageQueue) -> None:
        polled.append(queue)

    async with client.pull_consumer("g", "T") as consumer, trio.open_nursery() as nursery:
        assert queue in await consumer.queues("T")
        assert queue in await consumer.wait_assigned()
        change = await anext(consumer.assignment_changes())
        assert (change.topic, change.assigned) == ("T", tuple(consumer.assigned))
        nursery.start_soon(consumer.run_pull_task, "T", task)
        await until(lambda: queue in polled)
        nursery.cancel_scope.cancel()
    assert {each.topic for each in polled} == {"T"}
    async with client.pull_consumer("g") as consumer:
        (message,) = (await consumer.pull(queue, 0)).messages
        assert message.topic == "T"
        assert await consumer.send_message_back(message, 1)
        assert (await consumer.min_offset(queue), await consumer.max_offset(queue)) == (0, 1)
        assert await consumer.search_offset(queue, 0) == 0
        await consumer.commit(queue, 1)
        assert await consumer.consumer_offset(queue) == 1
    async with outside.pull_consumer("NS%g") as consumer:
        assert await consumer.consumer_offset(MessageQueue("NS%T", queue.broker_name, queue.queue_id)) == 1
    async with outside.pull_consumer("g") as consumer:
        assert await consumer.consumer_offset(MessageQueue("NS%T", queue.broker_name, queue.queue_id)) == 0


async def test_a_lite_pull_consumer_names_queues_without_the_namespace(client: Client, outside: Client) -> None:
    async with client.producer("p") as producer:
        sent = await producer.send(Message("T", b"x"))
    queue = sent.message_queue
    async with client.lite_pull_consumer("g", "T", config=LITE_FIRST) as consumer:
        assert queue in await consumer.wait_assigned()
        change = await anext(consumer.assignment_changes())
        assert (change.topic, queue in change.queues, queue in change.assigned) == ("T", True, True)
        assert queue in await consumer.fetch_message_queues("T")
        assert queue in await anext(consumer.queue_changes("T"))
        (message,) = await consumer.poll()
        assert message.topic == "T"
        await consumer.commit()
        assert await consumer.committed(queue) == 1
        consumer.pause([queue])
        assert consumer.paused == [queue]
        consumer.resume([queue])
        assert consumer.paused == []
        await consumer.commit({queue: 0})
        assert await consumer.committed(queue) == 0
        await consumer.seek(queue, 0)
        await consumer.seek_to_end(queue)
        await consumer.seek_to_begin(queue)
        (message,) = await consumer.poll()
        assert await consumer.min_offset(queue) == 0
        async with client.producer("p") as producer:
            await producer.send(Message("T", b"y"), queue=queue)
        assert await consumer.offset_for_timestamp(queue, 2**62) == 1, "that of the last message"
        await consumer.unsubscribe("T")
        while consumer.assigned:
            await trio.sleep(0.01)
    async with client.lite_pull_consumer("h") as consumer:
        await consumer.assign([queue], expressions={"T": "*"})
        assert consumer.assigned == [queue]
        await consumer.seek(queue, 0)
        (message, *_) = await consumer.poll()
    assert message.topic == "T"
    groups = await outside.admin().topics.consumer_groups("NS%T")
    assert "NS%g" in groups
    assert set(groups) <= {"NS%g", "NS%h"}, "the second commits what it has polled if its end finds the time"


async def test_administration_has_complete_names_which_the_client_knows(client: Client) -> None:
    admin = client.admin()
    await admin.topics.create(client.with_namespace("T"), queue_nums=1)
    assert "NS%T" in await admin.topics.names()
    async with client.producer("p") as producer:
        while len(await producer.publish_queues("T")) != 1:
            await trio.sleep(0.01)
        sent = await producer.send(Message("T", b"x", {"KEYS": "k"}))
    found = await admin.messages.find(client.with_namespace("T"), sent.msg_id)
    assert client.without_namespace(found.topic) == "T"
    assert client.without_namespace("Other%T") == "Other%T"


async def test_a_request_is_answered_over_the_topic_of_the_cluster(client: Client, outside: Client) -> None:
    async with (
        client.producer("p") as producer,
        client.consumer("g", "T", config=CONFIG) as consumer,
        trio.open_nursery() as nursery,
    ):

        async def answer() -> None:
            async for batch in consumer:
                for request in batch:
                    assert request.topic == "T"
                    await producer.send(reply_to(request, request.body.upper()))

        nursery.start_soon(answer)
        reply = await producer.request(Message("T", b"hello"), timeout_s=PATIENCE_SECONDS)
        nursery.cancel_scope.cancel()
    assert (reply.body, reply.topic) == (b"HELLO", "DefaultCluster_REPLY_TOPIC")
    topics = await outside.admin().topics.names()
    assert [each for each in topics if each.endswith("REPLY_TOPIC")] == ["DefaultCluster_REPLY_TOPIC"]
