"""Tracing of whole roles: what they leave in the trace topic of a real broker, and that it costs nothing when off."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import trio

from rocketpy.client.admin.messages import MessageAdmin
from rocketpy.client.admin.traces import MessageTrace
from rocketpy.client.client import Client, open_client
from rocketpy.client.config import ClientConfig
from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.client.consumer.config import ConsumerConfig
from rocketpy.client.consumer.lite_pull.config import LitePullConfig
from rocketpy.client.consumer.statuses import ConsumeOrderlyStatus
from rocketpy.client.hooks import ConsumeReturnType, MessageType
from rocketpy.client.producer.config import ProducerConfig
from rocketpy.client.results import LocalTransactionState
from rocketpy.client.trace.trace_data import EndTransactionTrace, PubTrace, SubAfterTrace, SubBeforeTrace, TraceRecord
from rocketpy.client.trace.tracing import ProducerTraces, consumer_traces, producer_traces
from rocketpy.errors import ClientError
from rocketpy.protocol.bodies.heartbeat import ConsumeFromWhere
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.message import Message, MessageExt
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.client.opened import opened
from tests.client.real_cluster import RealCluster, open_real_cluster
from tests.patience import PATIENCE_SECONDS

TRACED = ProducerConfig(enable_msg_trace=True)
CONSUMER = ConsumerConfig(
    enable_msg_trace=True,
    consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    suspend_current_queue_time_millis=10,
)


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[RealCluster]:
    async with open_real_cluster(tmp_path) as cluster:
        yield cluster


@pytest.fixture
async def client(real: RealCluster) -> AsyncIterator[Client]:
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_client(real.address) as client:
            yield client


async def trace(messages: MessageAdmin, msg_id: str, count: int, topic: str | None = None) -> MessageTrace:
    """Return the trace of a message when it has so many records: the broker indexes them a little later."""
    named = {} if topic is None else {"trace_topic": topic}
    while True:
        try:
            found = await messages.trace(msg_id, **named)
            if len(found.views) >= count:
                return found
        except ClientError as failure:
            if failure.response_code not in (17, 208):
                raise
        await trio.sleep(0.02)


def records(found: MessageTrace) -> list[TraceRecord]:
    return [each.record for each in found.views]


async def test_each_kind_of_send_is_traced(real: RealCluster, client: Client) -> None:
    async with client.producer("g", config=TRACED) as producer:
        one = await producer.send(Message("T", b"one", {"TAGS": "t", "KEYS": "k"}))
        later = await producer.send_nowait(Message("T", b"later", {"DELAY": "1"}))
        many = await producer.send_batch([Message("T", b"1"), Message("T", b"22")])
        async with producer.batching() as batches:
            collected = await batches.send(Message("T", b"333"))
    messages = client.admin().messages
    found = await trace(messages, one.msg_id, 1)
    (view,) = found.views
    assert view.client_host == "127.0.0.1"
    assert isinstance(view.record, PubTrace)
    assert (view.record.group, view.record.topic, view.record.msg_id) == ("g", "T", one.msg_id)
    assert (view.record.store_host, view.record.offset_msg_id) == (real.broker_address, one.offset_msg_id)
    for msg_id, size in zip(many.msg_id.split(","), (1, 2), strict=True):
        (record,) = records(await trace(messages, msg_id, 1))
        assert isinstance(record, PubTrace)
        assert (record.body_length, record.msg_id in many.msg_id) == (size, True)
    (record,) = records(await trace(messages, later.msg_id, 1))
    assert isinstance(record, PubTrace)
    assert record.message_type is MessageType.DELAY_MSG
    assert len((await trace(messages, collected.msg_id, 1)).views) == 1


async def test_a_transaction_is_traced_with_its_verdict(client: Client) -> None:
    async def check(message: MessageExt) -> LocalTransactionState:
        return LocalTransactionState.UNKNOW

    async with (
        client.transaction_producer("g", check=check, config=TRACED) as producer,
        producer.transaction(Message("T", b"x", {"KEYS": "k"})) as transaction,
    ):
        await transaction.commit()
    half, verdict = records(await trace(client.admin().messages, transaction.transaction_id, 2))
    assert isinstance(half, PubTrace)
    assert half.message_type is MessageType.TRANS_MSG_HALF
    assert isinstance(verdict, EndTransactionTrace)
    assert (verdict.transaction_state, verdict.from_transaction_check, verdict.group, verdict.keys) == (
        LocalTransactionState.COMMIT_MESSAGE,
        False,
        "g",
        "k",
    )


Run = Callable[[Client, list[str]], Awaitable[None]]


async def consume_in_order(client: Client, handled: list[str]) -> None:
    async def handler(batch: MessageBatch) -> ConsumeOrderlyStatus | None:
        handled.extend(each.msg_id for each in batch)
        scope.cancel()
        return None

    with trio.CancelScope() as scope:
        async with client.consumer("c", "T", config=CONSUMER) as consumer:
            await consumer.run_orderly(handler)


async def poll(client: Client, handled: list[str]) -> None:
    config = LitePullConfig(enable_msg_trace=True, consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    async with client.lite_pull_consumer("c", "T", config=config) as consumer:
        while not handled:
            handled.extend(each.msg_id for each in await consumer.poll())


@pytest.mark.parametrize("consume", [consume_in_order, poll])
async def test_what_is_handled_or_polled_is_traced(client: Client, consume: Run) -> None:
    """Also when the program is cancelled as soon as its handler has run."""
    async with client.producer("p") as producer:
        sent = await producer.send(Message("T", b"x", {"KEYS": "k"}))
    handled: list[str] = []
    await consume(client, handled)
    assert handled == [sent.msg_id]
    before, after = records(await trace(client.admin().messages, sent.msg_id, 2))
    assert isinstance(before, SubBeforeTrace)
    assert isinstance(after, SubAfterTrace)
    assert (before.group, before.keys, before.retry_times, before.region_id) == ("c", "k", 0, None)
    assert (after.request_id, after.group, after.is_success) == (before.request_id, "c", True)
    assert after.return_type is ConsumeReturnType.SUCCESS


async def test_a_topic_of_its_own_and_a_namespace(real: RealCluster) -> None:
    config = ClientConfig(namespace="NS")
    traced = ProducerConfig(enable_msg_trace=True, customized_trace_topic="Mine")
    async with open_client(real.address, config=config) as client:
        async with client.producer("g", config=traced) as producer:
            sent = await producer.send(Message("T", b"x"))
        (record,) = records(await trace(client.admin().messages, sent.msg_id, 1, "Mine"))
    assert isinstance(record, PubTrace)
    assert (record.group, record.topic) == ("g", "T")


async def test_a_broker_that_wants_no_traces_gets_none(tmp_path: Path) -> None:
    async with open_real_cluster(tmp_path, trace_on=False) as real, open_client(real.address) as client:
        async with client.producer("g", config=TRACED) as producer:
            sent = await producer.send(Message("T", b"x"))
        assert not sent.trace_on
        assert await client.admin().route("RMQ_SYS_TRACE_TOPIC") is None


async def test_without_tracing_there_is_no_group_no_hook_and_no_request_of_it(cluster: FakeCluster) -> None:
    async with open_client(cluster.address) as client:
        async with client.producer("p") as producer:
            await producer.send(Message(TOPIC, b"x"))
        async with client.consumer("c", TOPIC) as consumer:
            await consumer.wait_assigned()
    async with (
        opened(cluster.address) as instance,
        producer_traces(instance, "p", ProducerConfig()) as of_producer,
        consumer_traces(instance, "c", ConsumerConfig()) as of_consumer,
    ):
        assert (of_producer, of_consumer) == (ProducerTraces(), ())
    groups = {group.group_name for each in cluster.broker.heartbeats for group in each.producer_data_set}
    assert groups <= {"p"}
    assert len(cluster.broker.asked(RequestCode.SEND_MESSAGE_V2)) == 1


@pytest.mark.parametrize("group", ["a group", ""])
async def test_an_illegal_group_is_refused_as_without_traces(cluster: FakeCluster, group: str) -> None:
    async with open_client(cluster.address) as client:
        with pytest.raises(ClientError, match="the specified group"):
            async with client.producer(group, config=TRACED):
                pass
        with pytest.raises(ClientError, match="the specified group"):
            async with client.consumer(group, TOPIC, config=CONSUMER):
                pass


async def test_a_second_producer_of_a_group_is_refused_as_without_traces(cluster: FakeCluster) -> None:
    async with open_client(cluster.address) as client, client.producer("g", config=TRACED):
        with pytest.raises(ClientError, match=r"The producer group\[g\] has been created before"):
            async with client.producer("g", config=TRACED):
                pass


async def test_a_traced_consumer_of_the_trace_topic_ends(client: Client) -> None:
    """Its own handling leaves no traces, or there would always be more to consume."""
    async with client.producer("p", config=TRACED) as producer:
        await producer.send(Message("T", b"x"))
    handled: list[str] = []
    async with client.consumer("c", "RMQ_SYS_TRACE_TOPIC", config=CONSUMER) as consumer:
        batch = await anext(consumer.batches())
        handled += [each.topic for each in batch]
        await batch.done()
    assert handled == ["RMQ_SYS_TRACE_TOPIC"]
    stats = await client.admin().topics.stats("RMQ_SYS_TRACE_TOPIC")
    assert sum(each.max_offset for each in stats.offset_table.values()) == 1


async def test_a_role_cancelled_with_its_client_leaves_its_traces(real: RealCluster) -> None:
    with trio.CancelScope() as scope:
        async with open_client(real.address) as client, client.producer("g", config=TRACED) as producer:
            sent = await producer.send(Message("T", b"x"))
            scope.cancel()
            await trio.sleep_forever()
    async with open_client(real.address) as client:
        assert len((await trace(client.admin().messages, sent.msg_id, 1)).views) == 1
