"""Attempts and their deadlines, as a sender sees them. Order and pipelining are in ``test_send_nowait``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from rocketpy.client.client import open_producer
from rocketpy.client.config import ClientConfig
from rocketpy.client.producer.config import ProducerConfig
from rocketpy.client.producer.producer import Producer, producer_role
from rocketpy.errors import RemotingConnectError, RemotingTimeoutError, RemotingTooMuchRequestError
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.message import Message
from rocketpy.testing.fixture.in_thread import BrokerInThread
from rocketpy.testing.fixture.network import ReservedPort
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeBroker, FakeCluster
from tests.client.opened import opened
from tests.patience import until, until_blocked, wait_until

SEND = RequestCode.SEND_MESSAGE_V2


async def _silence_the_chosen_one(cluster: FakeCluster) -> tuple[FakeBroker, FakeBroker]:
    """Return the broker that got the first attempt, and the other one; both are silent."""
    for broker in cluster.brokers:
        broker.be_silent(SEND)
    await until_blocked(lambda: any(broker.asked(SEND) for broker in cluster.brokers))
    first, second = sorted(cluster.brokers, key=lambda each: not each.asked(SEND))
    return first, second


async def test_a_silent_broker_leaves_time_for_another_one(two_brokers: FakeCluster, mock_clock: MockClock) -> None:
    async with open_producer(two_brokers.address) as producer, trio.open_nursery() as nursery:
        results = []

        async def send() -> None:
            results.append(await producer.send(Message(TOPIC, b"x")))

        nursery.start_soon(send)
        first, second = await _silence_the_chosen_one(two_brokers)
        second.behave()
        mock_clock.jump(0.99)
        await trio.testing.wait_all_tasks_blocked()
        assert second.asked(SEND) == []
        mock_clock.jump(0.01)  # a third of the time
        await until_blocked(lambda: results)
        assert results[0].message_queue.broker_name == second.name
        assert len(first.asked(SEND)) == 1


async def test_the_only_broker_of_a_topic_has_the_whole_time(
    cluster: FakeCluster, mock_clock: MockClock, producer: Producer
) -> None:
    async with trio.open_nursery() as nursery:
        with pytest.raises(RemotingTooMuchRequestError, match="was given no time"):
            await producer.send(Message(TOPIC, b"x"), timeout_s=0)
        failures = []

        async def send() -> None:
            with pytest.raises(RemotingTimeoutError, match="in 3 s") as caught:
                await producer.send(Message(TOPIC, b"x"))
            failures.append(caught.value)

        nursery.start_soon(send)
        cluster.broker.be_silent(SEND)
        await until_blocked(lambda: cluster.broker.asked(SEND))
        mock_clock.jump(1.0)
        await trio.testing.wait_all_tasks_blocked()
        assert len(cluster.broker.asked(SEND)) == 1, "a second one would be stored too"
        mock_clock.jump(1.99)
        await trio.testing.wait_all_tasks_blocked()
        assert failures == []
        mock_clock.jump(0.01)
        await until_blocked(lambda: failures)
    assert len(cluster.broker.asked(SEND)) == 1


async def test_all_attempts_together_take_no_longer_than_the_whole(
    two_brokers: FakeCluster, mock_clock: MockClock
) -> None:
    began = trio.current_time()
    async with open_producer(two_brokers.address) as producer, trio.open_nursery() as nursery:
        failed_at = []

        async def send() -> None:
            with pytest.raises(RemotingTimeoutError):
                await producer.send(Message(TOPIC, b"x"))
            failed_at.append(trio.current_time() - began)

        nursery.start_soon(send)
        await _silence_the_chosen_one(two_brokers)
        for count in (2, 3):
            mock_clock.jump(1.0)
            await until_blocked(lambda n=count: sum(len(each.asked(SEND)) for each in two_brokers.brokers) == n)
        mock_clock.jump(1.0)
        await until_blocked(lambda: failed_at)
    assert failed_at == [pytest.approx(3.0, abs=0.01)]


@pytest.mark.parametrize(
    ("config", "seconds"),
    [
        (ProducerConfig(send_latency_fault_enable=True), 601.0),
        (ProducerConfig(send_latency_fault_enable=True, latency_max=[50], not_available_duration=[5_000]), 6.0),
    ],
    ids=["as in Java", "as configured"],
)
async def test_slow_brokers_are_avoided_when_that_is_set(
    two_brokers: FakeCluster, mock_clock: MockClock, config: ProducerConfig, seconds: float
) -> None:
    """A failure counts as 30 s, which is ten minutes by default."""
    async with open_producer(two_brokers.address, producer=config) as producer, trio.open_nursery() as nursery:
        results = []

        async def send() -> None:
            results.append(await producer.send(Message(TOPIC, b"x")))

        nursery.start_soon(send)
        slow, quick = await _silence_the_chosen_one(two_brokers)
        quick.behave()
        mock_clock.jump(1.0)
        await until_blocked(lambda: results)
        slow.behave()
        for _ in range(8):
            assert (await producer.send(Message(TOPIC, b"x"))).message_queue.broker_name == quick.name
        mock_clock.jump(seconds)
        await trio.testing.wait_all_tasks_blocked(0.01)  # idle connections are closed
        names = {(await producer.send(Message(TOPIC, b"x"))).message_queue.broker_name for _ in range(4)}
        assert names == {"broker-a", "broker-b"}


async def test_with_the_vip_channel_sends_go_to_the_second_port(cluster: FakeCluster) -> None:
    second = ReservedPort()  # bound, so that no process listens there
    cluster.broker.address = f"127.0.0.1:{second.port + 2}"
    cluster.add_topic(TOPIC)
    async with open_producer(cluster.address, config=ClientConfig(vip_channel_enabled=True)) as producer:
        for send in (producer.send, producer.send_nowait, producer.send_oneway):
            with pytest.raises(RemotingConnectError, match=f"127.0.0.1:{second.port}"):
                await send(Message(TOPIC, b"x"))
    second.release()


async def test_what_keeps_a_send_from_leaving_is_named_and_nothing_is_stored(
    cluster: FakeCluster, mock_clock: MockClock
) -> None:
    failures: list[RemotingConnectError] = []

    async def send(send: Callable[[Message], Awaitable[object]], topic: str) -> None:
        with pytest.raises(RemotingConnectError) as caught:
            await send(Message(topic, b"x"))
        failures.append(caught.value)

    async with open_producer(cluster.address) as producer, trio.open_nursery() as nursery:
        cluster.name_server.be_silent(RequestCode.GET_ROUTEINFO_BY_TOPIC)
        nursery.start_soon(send, producer.send, TOPIC)
        nursery.start_soon(send, producer.send_oneway, "Oneway")
        await until_blocked(lambda: len(cluster.name_server.asked(RequestCode.GET_ROUTEINFO_BY_TOPIC)) >= 2)
        mock_clock.jump(3)
        await until_blocked(lambda: len(failures) == 2)
    assert sorted(map(str, failures)) == [
        f"no route of {TOPIC}: no answer from {cluster.address} in 3 s",
        "no route or connection for a oneway send to topic Oneway in time",
    ]


async def test_an_answer_that_is_here_counts_although_the_loop_was_blocked_for_longer(broker: BrokerInThread) -> None:
    """Whether the timer or the reader runs first is a matter of chance: here each of some sends takes its own."""
    hasty = ProducerConfig(send_msg_timeout=50, retry_times_when_send_async_failed=0)
    async with (
        opened(broker.name_server) as instance,
        producer_role(instance, "patient", ProducerConfig()) as patient,
        producer_role(instance, "hasty", hasty) as producer,
    ):
        result = await patient.send(Message("Blocked", b"x"))
        queue = result.message_queue
        connection = instance.remoting.connection(broker.address)
        assert connection is not None
        for count in range(1, 11):
            await until(lambda: connection.in_flight_count == 0)  # no heartbeat is
            await patient.send(Message("Blocked", b"x"), queue=queue)
            pending = producer.send_nowait(Message("Blocked", b"x"), queue=queue)  # leaves at once: it is alone
            _block_the_loop(0.06, until=lambda n=count: len(broker.messages("Blocked")) == 2 * n + 1)
            await pending
        assert instance.remoting.connection(broker.address) is connection


def _block_the_loop(seconds: float, *, until: Callable[[], bool]) -> None:
    ends = trio.current_time() + seconds
    wait_until(lambda: until() and trio.current_time() > ends)
