"""What a member does and answers when its broker asks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import trio

from rocketpy.client.client import open_client
from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.client.consumer.consumer import Consumer
from rocketpy.client.consumer.statuses import ConsumeConcurrentlyStatus, ConsumeOrderlyStatus
from rocketpy.protocol.bodies.codec import decode_body, encode_body
from rocketpy.protocol.bodies.offset import ResetOffsetBody
from rocketpy.protocol.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.client import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    ResetOffsetRequestHeader,
)
from rocketpy.protocol.message import MessageExt, MessageQueue
from rocketpy.protocol.stored_message import encode_message
from tests.client.conftest import FIRST, TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.patience import PATIENCE_SECONDS, until

QUEUE = MessageQueue(TOPIC, "broker-a", 0)


class Handler:
    """Notes offsets; waits at the first one that ``hold`` names."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.hold: int | None = None

    async def concurrently(self, batch: MessageBatch) -> ConsumeConcurrentlyStatus | None:
        await self._handle(batch.messages)
        return None

    async def orderly(self, batch: MessageBatch) -> ConsumeOrderlyStatus | None:
        await self._handle(batch.messages)
        return None

    async def _handle(self, messages: Sequence[MessageExt]) -> None:
        self.seen += [each.queue_offset for each in messages]
        if self.hold in self.seen:
            await trio.sleep_forever()


@asynccontextmanager
async def member(cluster: FakeCluster, handler: Handler, *, is_orderly: bool = False) -> AsyncIterator[Consumer]:
    """A consumer of the group g that runs."""
    cluster.add_topic("%RETRY%g", 1)
    with trio.fail_after(PATIENCE_SECONDS):
        async with (
            open_client(cluster.address) as client,
            client.consumer("g", TOPIC, config=FIRST) as consumer,
            trio.open_nursery() as nursery,
        ):
            if is_orderly:
                await nursery.start(consumer.run_orderly, handler.orderly)
            else:
                await nursery.start(consumer.run, handler.concurrently)
            yield consumer
            nursery.cancel_scope.cancel()


async def asked(cluster: FakeCluster, code: RequestCode, header: object, body: bytes | None = None) -> RemotingCommand:
    return await cluster.broker.peers[0].request(make_request(code, header, body), PATIENCE_SECONDS)


def tell(cluster: FakeCluster, code: RequestCode, header: object, body: bytes | None = None) -> None:
    cluster.broker.peers[0].oneway(make_request(code, header, body, oneway=True))


async def test_a_notification_rebalances_at_once(cluster: FakeCluster) -> None:
    async with member(cluster, Handler()) as consumer:
        assert len(consumer.assigned) == 5
        cluster.broker.let_join("g", "0.0.0.0@before")
        await until(lambda: [each.queue_id for each in consumer.assigned if each.topic == TOPIC] == [2, 3])


async def test_offsets_are_reset_and_what_is_in_flight_does_not_count(cluster: FakeCluster) -> None:
    for number in range(5):
        cluster.broker.put(TOPIC, 0, b"%d" % number)
    handler = Handler()
    handler.hold = 3
    async with member(cluster, handler):
        await until(lambda: len(handler.seen) == 5)
        handler.hold = None
        handler.seen.clear()
        table = ResetOffsetBody({QUEUE: 1, MessageQueue("Other", "broker-a", 0): 9})
        header = ResetOffsetRequestHeader(topic=TOPIC, group="g", timestamp=0)
        tell(cluster, RequestCode.RESET_CONSUMER_CLIENT_OFFSET, header, encode_body(table))
        await until(lambda: sorted(handler.seen) == [1, 2, 3, 4])
    assert cluster.broker.progress["g", TOPIC, 0] == 5
    assert ("g", "Other", 0) not in cluster.broker.progress


async def test_a_report_says_what_is_in_flight(cluster: FakeCluster) -> None:
    for number in range(3):
        cluster.broker.put(TOPIC, 0, b"%d" % number)
    handler = Handler()
    handler.hold = 1
    async with member(cluster, handler, is_orderly=True):
        await until(lambda: handler.seen == [0, 1])
        header = GetConsumerRunningInfoRequestHeader(consumer_group="g", client_id="c", jstack_enable=True)
        answer = await asked(cluster, RequestCode.GET_CONSUMER_RUNNING_INFO, header)
    info = decode_body(answer.body, ConsumerRunningInfo)
    queue = info.mq_table[QUEUE]
    assert (queue.commit_offset, queue.cached_msg_count, queue.cached_msg_max_offset) == (1, 1, 2)
    assert (queue.transaction_msg_count, queue.transaction_msg_min_offset) == (1, 1)
    assert queue.locked
    assert not queue.dropped
    assert queue.last_lock_timestamp > 0
    assert queue.last_pull_timestamp > 0
    assert queue.last_consume_timestamp > 0
    idle = info.mq_table[MessageQueue(TOPIC, "broker-a", 1)]
    assert idle.last_consume_timestamp > 0, "since it was assigned, or operators would take it for blocked"
    properties = info.properties
    assert properties["PROP_CONSUMEORDERLY"] == "true"
    assert properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
    assert properties["PROP_CLIENT_VERSION"] == "V4_9_8"
    assert properties["PROP_NAMESERVER_ADDR"] == f"{cluster.address};"
    assert properties["PROP_THREADPOOL_CORE_SIZE"] == "20"
    assert properties["consumerGroup"] == "g"
    assert {each.topic for each in info.subscription_set} == {TOPIC, "%RETRY%g"}
    assert info.status_table[TOPIC].consume_ok_tps > 0


async def test_one_message_is_consumed_on_demand(cluster: FakeCluster) -> None:
    handler = Handler()
    message = MessageExt(TOPIC, b"by hand", queue_offset=40)
    header = ConsumeMessageDirectlyResultRequestHeader(consumer_group="g", broker_name="broker-a")
    async with member(cluster, handler):
        answer = await asked(cluster, RequestCode.CONSUME_MESSAGE_DIRECTLY, header, encode_message(message))
        assert decode_body(answer.body, ConsumeMessageDirectlyResult).consume_result == "CR_SUCCESS"
        assert handler.seen == [40]
        nothing = await asked(cluster, RequestCode.CONSUME_MESSAGE_DIRECTLY, header)
        assert nothing.code == ResponseCode.SYSTEM_ERROR
        assert nothing.remark is not None
        assert "expected one message, found 0" in nothing.remark
