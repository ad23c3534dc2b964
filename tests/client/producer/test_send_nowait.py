"""Pipelined sends: order, limits, retries, and what happens to what nobody waits for."""

from __future__ import annotations

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from rocketpy.client.client import open_client, open_producer
from rocketpy.client.producer.config import ProducerConfig
from rocketpy.client.producer.pending_send import PendingSend
from rocketpy.client.producer.selectors import queue_by_hash
from rocketpy.errors import (
    BrokerError,
    ClientError,
    RemotingConnectError,
    RemotingError,
    RemotingSendRequestError,
    RemotingTimeoutError,
    RemotingTooMuchRequestError,
)
from rocketpy.protocol.bodies.route import BrokerData, TopicRouteData
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.message import Message, MessageQueue
from tests.client.cancelled_everywhere import cancelled_everywhere
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.patience import until, until_blocked

SEND = RequestCode.SEND_MESSAGE_V2
QUEUE = MessageQueue(TOPIC, "broker-a", 0)


async def test_messages_to_one_queue_keep_their_order_from_the_very_first(cluster: FakeCluster) -> None:
    """Neither route nor connection is there when the first ones are sent, and some have to be compressed."""
    bodies = [b"%d" % number + b"x" * (100_000 if number % 10 == 3 else 1) for number in range(60)]
    async with open_producer(cluster.address) as producer:
        first = [producer.send_nowait(Message(TOPIC, body), queue=QUEUE) for body in bodies[:20]]
        await first[0]
        later = [producer.send_nowait(Message(TOPIC, body), queue=QUEUE) for body in bodies[20:]]
        offsets = [(await each).queue_offset for each in first + later]
    assert offsets == list(range(60))
    assert cluster.broker.server is not None
    assert cluster.broker.server.statistics().accepted_count == 1


async def test_a_key_keeps_its_order_too(cluster: FakeCluster) -> None:
    async with open_producer(cluster.address) as producer:
        for number in range(40):
            producer.send_nowait(Message(TOPIC, b"%d" % number), queue=queue_by_hash(f"order-{number % 4}"))
    for queue_id in range(4):
        numbers = [int(each.body) for each in cluster.broker.queues[TOPIC, queue_id]]
        assert numbers == sorted(numbers)
    assert len(cluster.broker.bodies(TOPIC)) == 40


async def test_leaving_the_block_waits_for_what_is_on_the_way(cluster: FakeCluster) -> None:
    async with open_producer(cluster.address) as producer:
        pending = [producer.send_nowait(Message(TOPIC, b"x")) for _ in range(100)]
    assert all(each.is_done for each in pending)
    assert len(cluster.broker.bodies(TOPIC)) == 100
    with pytest.raises(ClientError, match="SHUTDOWN_ALREADY"):
        producer.send_nowait(Message(TOPIC, b"x"))
    with pytest.raises(ClientError, match="SHUTDOWN_ALREADY"):
        await producer.send(Message(TOPIC, b"x"))


async def test_leaving_the_block_takes_no_longer_than_a_send(
    cluster: FakeCluster, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.broker.be_silent(SEND)
    pending: list[PendingSend] = []
    has_left = trio.Event()

    async def produce() -> None:
        config = ProducerConfig(retry_times_when_send_async_failed=0)
        async with open_producer(cluster.address, producer=config) as producer:
            pending.append(producer.send_nowait(Message(TOPIC, b"x")))
        has_left.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(produce)
        await until_blocked(lambda: cluster.broker.asked(SEND))
        mock_clock.jump(2.9)
        await trio.testing.wait_all_tasks_blocked()
        assert not pending[0].is_done
        mock_clock.jump(0.1)
        await until_blocked(lambda: pending[0].is_done)
        mock_clock.jump(1.0)  # nor does it wait for a broker that does not answer that the producer leaves
        await until_blocked(has_left.is_set)
    with pytest.raises(RemotingTimeoutError):
        await pending[0]


async def test_a_cancelled_block_fails_what_is_on_the_way_at_once(cluster: FakeCluster) -> None:
    cluster.broker.be_silent(SEND)
    with trio.CancelScope() as scope:
        async with open_producer(cluster.address) as producer:
            pending = producer.send_nowait(Message(TOPIC, b"x"))
            await until(lambda: cluster.broker.asked(SEND))
            scope.cancel()
    with pytest.raises(RemotingSendRequestError, match="closed before an answer"):
        await pending


async def test_a_full_window_refuses_or_lets_wait(cluster: FakeCluster) -> None:
    config = ProducerConfig(back_pressure_for_async_send_num=2)
    sent: list[int] = []
    async with open_producer(cluster.address, producer=config) as producer:
        await producer.send(Message(TOPIC, b"first"))
        cluster.broker.be_silent(SEND)
        held = [producer.send_nowait(Message(TOPIC, b"x")) for _ in range(2)]
        with pytest.raises(RemotingTooMuchRequestError, match="2/2 messages"):
            producer.send_nowait(Message(TOPIC, b"x"))

        async def send_soon() -> None:
            await producer.send_soon(Message(TOPIC, b"late"))
            sent.append(1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_soon)
            await until(lambda: len(cluster.broker.asked(SEND)) == 3)
            assert sent == []
            cluster.broker.behave()
            cluster.broker.peers[-1].close()  # the two are tried again
            await until(lambda: sent)
        for each in held:
            await each
    assert sorted(cluster.broker.bodies(TOPIC)) == [b"first", b"late", b"x", b"x"]


async def test_only_transport_failures_are_tried_again(two_brokers: FakeCluster) -> None:
    first, second = two_brokers.brokers
    route = two_brokers.route(1)
    gone, here = route.broker_datas
    async with open_producer(two_brokers.address) as producer:
        for broker in two_brokers.brokers:
            broker.refuse(SEND, ResponseCode.SYSTEM_ERROR, "no")
        with pytest.raises(BrokerError, match="no"):
            await producer.send_nowait(Message(TOPIC, b"x"))
        assert len(first.asked(SEND)) + len(second.asked(SEND)) == 1, "a code is final, as in Java"
    moved = [BrokerData("cluster", gone.broker_name, {0: "127.0.0.1:1"}), here]
    for topic in (TOPIC, "TBW102"):
        two_brokers.name_server.routes[topic] = attrs.evolve(route, broker_datas=moved)
    second.behave()
    async with open_producer(two_brokers.address) as producer:
        results = [await each for each in [producer.send_nowait(Message(TOPIC, b"y")) for _ in range(6)]]
        assert {each.message_queue.broker_name for each in results} == {"broker-b"}
        chosen = MessageQueue(TOPIC, "broker-a", 0)
        with pytest.raises(RemotingConnectError) as caught:
            await producer.send_nowait(Message(TOPIC, b"y"), queue=chosen)
        assert caught.value.__notes__ == ["sent 1 times to topic TopicTest, brokers: broker-a"]
    assert len(second.bodies(TOPIC)) == 6


async def test_a_lost_connection_fails_or_repeats_all_that_was_on_it(cluster: FakeCluster) -> None:
    async with open_producer(cluster.address) as producer:
        await producer.send(Message(TOPIC, b"first"))
        cluster.broker.be_silent(SEND)
        pending = [producer.send_nowait(Message(TOPIC, b"x")) for _ in range(10)]
        chosen = producer.send_nowait(Message(TOPIC, b"chosen"), queue=QUEUE)
        await until(lambda: len(cluster.broker.asked(SEND)) == 12)
        cluster.broker.behave()
        cluster.broker.peers[-1].close()
        for each in pending:
            await each
        with pytest.raises(RemotingSendRequestError, match="ended before it answered"):
            await chosen
    assert sorted(cluster.broker.bodies(TOPIC)) == [b"first"] + [b"x"] * 10


async def test_a_topic_without_route_fails_all_that_wait_for_it(cluster: FakeCluster) -> None:
    del cluster.name_server.routes["TBW102"]
    async with open_producer(cluster.address) as producer:
        pending = [producer.send_nowait(Message("Nowhere", b"x")) for _ in range(3)]
        for each in pending:
            with pytest.raises(ClientError, match="No route info of this topic: Nowhere"):
                await each
        assert (await producer.send_nowait(Message(TOPIC, b"x"))).queue_offset == 0


async def test_an_illegal_message_is_refused_at_once_and_takes_no_room(cluster: FakeCluster) -> None:
    async with open_producer(cluster.address, producer=ProducerConfig(back_pressure_for_async_send_num=1)) as producer:
        for _ in range(2):
            with pytest.raises(ClientError, match="length is zero"):
                producer.send_nowait(Message(TOPIC, b""))
            with pytest.raises(ClientError, match="not equal"):
                producer.send_nowait(Message("Other", b"x"), queue=QUEUE)
            with pytest.raises(ClientError, match="select message queue threw exception"):
                await producer.send_nowait(Message(TOPIC, b"x"), queue=lambda queues, message: queues[99])
        await producer.send_nowait(Message(TOPIC, b"x"))


async def test_send_soon_is_cancelled_before_it_has_sent_anything_or_not_at_all(cluster: FakeCluster) -> None:
    async with open_producer(cluster.address, producer=ProducerConfig(back_pressure_for_async_send_num=1)) as producer:
        sent = 0
        async for attempt in cancelled_everywhere(lambda: producer.send_soon(Message(TOPIC, b"x"))):
            sent += not attempt.was_cancelled
    assert len(cluster.broker.bodies(TOPIC)) == sent == 1


async def test_a_send_cancelled_anywhere_leaves_nothing_behind(cluster: FakeCluster) -> None:
    """Each time from the beginning: without route, without connection; afterwards the producer works as before."""
    checkpoints = 0
    async with open_client(cluster.address) as client:

        async def scene() -> None:
            async with client.producer("p") as producer:
                await producer.send(Message(TOPIC, b"x" * 100_000))

        async for attempt in cancelled_everywhere(scene):
            checkpoints = attempt.checkpoint
            async with client.producer("p") as producer:
                assert (await producer.send(Message(TOPIC, b"after"))).message_queue.topic == TOPIC
    assert checkpoints > 3


async def test_oneway_needs_no_answer(cluster: FakeCluster) -> None:
    cluster.broker.be_silent(SEND)
    async with open_producer(cluster.address) as producer:
        await producer.send_oneway(Message(TOPIC, b"x" * 100_000))
        await producer.send_oneway(Message(TOPIC, b"y"), queue=queue_by_hash(3))
        await until(lambda: len(cluster.broker.asked(SEND)) == 2)
        with pytest.raises(ClientError, match="select message queue return null"):
            await producer.send_oneway(Message(TOPIC, b"y"), queue=lambda queues, message: None)  # type: ignore[arg-type,return-value]
    assert all(each.is_oneway for each in cluster.broker.asked(SEND))


async def test_oneway_raises_what_keeps_it_from_leaving(cluster: FakeCluster) -> None:
    cluster.name_server.routes[TOPIC] = TopicRouteData(
        queue_datas=cluster.route(1).queue_datas, broker_datas=[BrokerData("cluster", "broker-a", {0: "127.0.0.1:1"})]
    )
    async with open_producer(cluster.address) as producer:
        with pytest.raises(RemotingError, match=r"127\.0\.0\.1:1"):
            await producer.send_oneway(Message(TOPIC, b"x"))


async def test_a_cancelled_send_is_not_tried_again(cluster: FakeCluster) -> None:
    cluster.broker.be_silent(SEND)
    async with open_producer(cluster.address) as producer:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(producer.send, Message(TOPIC, b"cancelled"))
            await until(lambda: cluster.broker.asked(SEND))
            nursery.cancel_scope.cancel()
        cluster.broker.behave()
        cluster.broker.peers[-1].close()  # what waited for an answer there would be sent again
        await producer.send(Message(TOPIC, b"next"))
    assert cluster.broker.bodies(TOPIC) == [b"next"]
