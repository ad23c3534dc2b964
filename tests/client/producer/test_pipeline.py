"""Attempts and their deadlines, as a sender sees them. Order and pipelining are in ``test_send_nowait``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from rocketpy.client.client import open_client, open_producer
from rocketpy.client.config import ClientConfig
from rocketpy.client.environment import ClientEnvironment
from rocketpy.client.hooks import SendMessageContext
from rocketpy.client.instance import ClientInstance
from rocketpy.client.producer.config import ProducerConfig
from rocketpy.client.producer.producer import Producer, producer_role
from rocketpy.client.producer.selectors import queue_by_hash
from rocketpy.errors import (
    BrokerError,
    RemotingConnectError,
    RemotingSendRequestError,
    RemotingTimeoutError,
    RemotingTooMuchRequestError,
)
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.message import Message, MessageQueue
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.deferred import DEFERRED, Deferred
from rocketpy.runner import run_inline
from rocketpy.testing.fixture.in_thread import BrokerInThread
from rocketpy.testing.fixture.network import ReservedPort
from rocketpy.testing.sim.network import SimNetwork
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeBroker, FakeCluster, open_fake_cluster
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
    no_pauses = ProducerConfig(retry_pause_max=0)
    config = ClientConfig(vip_channel_enabled=True)
    async with open_producer(cluster.address, config=config, producer=no_pauses) as producer:
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


@pytest.mark.parametrize(("late_s", "is_kept"), [(0.0, False), (0.6, True)], ids=["in time", "late"])
async def test_a_send_without_an_answer_closes_the_shared_connection_unless_the_loop_was_blocked(
    cluster: FakeCluster, mock_clock: MockClock, late_s: float, is_kept: bool
) -> None:
    """An attempt to the only broker is extended to the end of the send, and is not late by that."""
    async with opened(cluster.address) as instance, producer_role(instance, "p", ProducerConfig()) as producer:
        await producer.send(Message(TOPIC, b"x"))
        connection = instance.remoting.connection(cluster.broker.address)
        cluster.broker.be_silent(SEND)
        pending = producer.send_nowait(Message(TOPIC, b"x"))
        await until_blocked(lambda: len(cluster.broker.asked(SEND)) == 2)
        for seconds in (1.0, 2.0 + late_s):
            mock_clock.jump(seconds)
            await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(RemotingTimeoutError):
            await pending
        assert connection is not None
        assert connection.is_closed is not is_kept


async def test_a_send_that_is_cancelled_here_while_its_route_is_looked_up_does_not_leave(cluster: FakeCluster) -> None:
    held: list[tuple[Connection, RemotingCommand]] = []

    def hold(connection: Connection, request: RemotingCommand) -> Deferred:
        held.append((connection, request))
        return DEFERRED

    async with open_producer(cluster.address) as producer:
        await until(lambda: cluster.broker.heartbeats)  # it is connected: what is sent leaves at once
        cluster.name_server.register(RequestCode.GET_ROUTEINFO_BY_TOPIC, hold)
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(producer.send, Message(TOPIC, b"cancelled"))
                await until(lambda: held)
                pending = producer.send_nowait(Message(TOPIC, b"goes on"))
                scope.cancel()
        for connection, request in held:
            body = encode_body(cluster.route(1), standard=True)
            connection.reply_deferred(encode_frame(make_response(request, body=body)))
        assert cluster.name_server.server is not None
        cluster.name_server.server.flush_replies()
        await pending
    assert cluster.broker.bodies(TOPIC) == [b"goes on"]


def _block_the_loop(seconds: float, *, until: Callable[[], bool]) -> None:
    ends = trio.current_time() + seconds
    wait_until(lambda: until() and trio.current_time() > ends)


class EndsMeanwhile:
    """Ends the connection when the first of several sends that have waited for it is about to leave."""

    hook_name = "ends meanwhile"

    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance
        self.count = 0

    def send_message_before(self, context: SendMessageContext) -> None:
        self.count += 1
        if self.count == 1:
            self._instance.remoting.close_connection(context.broker_address)

    def send_message_after(self, context: SendMessageContext) -> None: ...


async def test_a_connection_that_ends_meanwhile_costs_the_sends_that_wait_for_it_no_attempt(
    cluster: FakeCluster,
) -> None:
    """Only that which was about to leave; each of these has one attempt."""
    queue = MessageQueue(TOPIC, "broker-a", 0)
    async with opened(cluster.address) as instance:
        hook = EndsMeanwhile(instance)
        async with producer_role(instance, "p", ProducerConfig(), send_hooks=[hook]) as producer:
            first, *others = [producer.send_nowait(Message(TOPIC, b"%d" % number), queue=queue) for number in range(4)]
            with pytest.raises(RemotingSendRequestError):
                await first
            for each in others:
                await each
    assert cluster.broker.bodies(TOPIC) == [b"1", b"2", b"3"]
    assert hook.count == 4


# ---- pauses ----------------------------------------------------------------------------------------------------------


class Attempts:
    """Notes when attempts begin and how they end."""

    hook_name = "attempts"

    def __init__(self) -> None:
        self.times: list[float] = []
        self.failures: list[Exception | None] = []

    def send_message_before(self, context: SendMessageContext) -> None:
        self.times.append(trio.current_time())

    def send_message_after(self, context: SendMessageContext) -> None:
        self.failures.append(context.exception)


@attrs.frozen
class Restarting:
    """Brokers in a simulated network, and a producer of theirs that is connected."""

    cluster: FakeCluster
    network: SimNetwork
    producer: Producer
    attempts: Attempts

    async def stop(self, broker: FakeBroker) -> None:
        self.network.close_port(broker.address)
        await trio.sleep(0.01)  # until the producer has seen it

    def start(self, broker: FakeBroker) -> None:
        self.network.open_port(broker.address)


@asynccontextmanager
async def restarting(*brokers: str, config: ProducerConfig | None = None) -> AsyncIterator[Restarting]:
    network, attempts = SimNetwork(randomness=Random(1)), Attempts()
    environment = ClientEnvironment(network=network.host("10.0.1.1"), randomness=Random(7), run_blocking=run_inline)
    async with open_fake_cluster(brokers, network=network) as cluster:
        cluster.add_topic(TOPIC, 2)
        async with (
            open_client(cluster.address, environment=environment) as client,
            client.producer("p", config=config, send_hooks=[attempts]) as producer,
        ):
            for _ in range(4):
                await producer.send(Message(TOPIC, b"warm"))
            attempts.times.clear()
            attempts.failures.clear()
            yield Restarting(cluster, network, producer, attempts)


async def test_the_restart_of_the_only_broker_is_a_pause_of_its_sends(autojump_clock: MockClock) -> None:
    """Also of those that were on their way when it ended, and not a burst of attempts."""
    async with restarting("broker-a") as world, trio.open_nursery() as nursery:
        broker, began = world.cluster.broker, trio.current_time()
        broker.be_silent(SEND)
        for _ in range(10):
            nursery.start_soon(world.producer.send, Message(TOPIC, b"on its way"))
        await until(lambda: len(broker.asked(SEND)) == 14)
        broker.behave()
        await world.stop(broker)
        for _ in range(10):
            nursery.start_soon(world.producer.send, Message(TOPIC, b"new"))
        await trio.sleep(1.5)
        assert sum(body == b"new" for body in broker.bodies(TOPIC)) == 0
        world.start(broker)
    assert trio.current_time() - began < 2.6
    stored = [body for body in broker.bodies(TOPIC) if body != b"warm"]
    assert sorted(stored) == [b"new"] * 10 + [b"on its way"] * 10
    assert len(world.attempts.times) < 20 * 7
    times = sorted(world.attempts.times)
    assert max(times.count(each) for each in times[-20:]) < 10, "they come back one by one"


async def test_another_broker_is_tried_at_once(autojump_clock: MockClock) -> None:
    async with restarting("broker-a", "broker-b", "broker-c") as world:
        gone, away, here = world.cluster.brokers
        await world.stop(gone)
        await world.stop(away)
        began = trio.current_time()
        for _ in range(6):
            assert (await world.producer.send(Message(TOPIC, b"x"))).message_queue.broker_name == here.name
    assert trio.current_time() - began < 0.05
    assert len(world.attempts.times) > 6


async def test_after_each_pause_all_brokers_are_tried_again(autojump_clock: MockClock) -> None:
    async with restarting("broker-a", "broker-b") as world:
        for broker in world.cluster.brokers:
            await world.stop(broker)
        with pytest.raises(RemotingConnectError):
            await world.producer.send(Message(TOPIC, b"x"))
    times = world.attempts.times
    assert len(times) >= 8
    assert all(second - first < 0.01 for first, second in zip(times[::2], times[1::2], strict=True))
    assert all(third - second > 0.04 for second, third in zip(times[1::2], times[2::2], strict=False))


@pytest.mark.parametrize("send_timeout_s", [0.01, 0.3, 3.0])
async def test_a_broker_that_does_not_come_back_fails_a_send_within_its_time(
    autojump_clock: MockClock, send_timeout_s: float
) -> None:
    async with restarting("broker-a") as world:
        await world.stop(world.cluster.broker)
        began = trio.current_time()
        with pytest.raises(RemotingConnectError, match=world.cluster.broker.address) as caught:
            await world.producer.send(Message(TOPIC, b"x"), timeout_s=send_timeout_s)
        took = trio.current_time() - began
        count = len(world.attempts.times)
    assert send_timeout_s - 0.1 <= took <= send_timeout_s
    assert 1 <= count <= 11
    names = ", ".join(["broker-a"] * count)
    assert caught.value.__notes__ == [f"sent {count} times to topic {TOPIC}, brokers: {names}"]


async def test_without_pauses_it_is_java_s_rule(autojump_clock: MockClock) -> None:
    async with restarting("broker-a", config=ProducerConfig(retry_pause_max=0)) as world:
        await world.stop(world.cluster.broker)
        began = trio.current_time()
        for send in (world.producer.send, world.producer.send_nowait):
            world.attempts.times.clear()
            with pytest.raises(RemotingConnectError):
                await send(Message(TOPIC, b"x"))
            assert len(world.attempts.times) == 3
    assert trio.current_time() - began < 0.05


async def test_refusals_of_the_only_broker_are_tried_again_after_pauses_as_often_as_set(
    autojump_clock: MockClock,
) -> None:
    async with restarting("broker-a") as world:
        world.cluster.broker.refuse(SEND, ResponseCode.SYSTEM_ERROR, "starting")
        with pytest.raises(BrokerError, match="starting"):
            await world.producer.send(Message(TOPIC, b"x"))
        first, second, third = world.attempts.times
    assert 0.05 <= second - first <= 0.11
    assert 0.1 <= third - second <= 0.21


async def test_a_chosen_queue_has_one_attempt_also_when_nothing_leaves(autojump_clock: MockClock) -> None:
    """Sends after it would overtake it."""
    async with restarting("broker-a") as world:
        await world.stop(world.cluster.broker)
        for queue in (MessageQueue(TOPIC, "broker-a", 0), queue_by_hash("k")):
            with pytest.raises(RemotingConnectError):
                await world.producer.send(Message(TOPIC, b"x"), queue=queue)
    assert len(world.attempts.times) == 2


@pytest.mark.parametrize("ends", ["cancelled", "closed"])
async def test_a_send_that_ends_in_a_pause_is_not_tried_again(autojump_clock: MockClock, ends: str) -> None:
    async with restarting("broker-a") as world:
        await world.stop(world.cluster.broker)
        pending = None
        with trio.move_on_after(0.03) as scope:  # the first pause is longer
            if ends == "closed":
                pending = world.producer.send_nowait(Message(TOPIC, b"x"))
                await world.producer.aclose()
            await world.producer.send(Message(TOPIC, b"x"))
        world.start(world.cluster.broker)
        await trio.sleep(5)
        if pending is not None:
            with pytest.raises(RemotingSendRequestError, match="was closed before"):
                pending.result()
    assert scope.cancelled_caught
    assert len(world.attempts.times) == len(world.attempts.failures) == 1
    assert world.cluster.broker.bodies(TOPIC) == [b"warm"] * 4
