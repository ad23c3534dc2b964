"""Handlers, checks and hooks of a program that misbehave: their own call fails, everything else goes on.

A clock that jumps while a handler runs is an event loop that was blocked by it.
"""

from __future__ import annotations

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from rocketpy.client.client import Client, open_client
from rocketpy.client.config import ClientConfig
from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.client.consumer.statuses import ConsumeOrderlyStatus
from rocketpy.client.producer.producer import Producer
from rocketpy.client.producer.transaction import LocalTransactionState, Transaction
from rocketpy.errors import RemotingError
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.headers.send import CheckTransactionStateRequestHeader
from rocketpy.protocol.message import Message, MessageExt
from rocketpy.protocol.stored_message import encode_message
from tests.client.conftest import FIRST, LITE_FIRST, TOPIC
from tests.client.fake_cluster import FakeBroker, Scripted
from tests.client.hostile.conftest import World, consuming

DAY_MS = 24 * 3600 * 1000


def fill(broker: FakeBroker, count: int = 4) -> None:
    for number in range(count):
        broker.put(TOPIC, number % 2, b"%d" % number)


class MyError(BaseException):
    """What ``except Exception`` does not catch."""


async def test_an_orderly_handler_that_never_ends_stops_its_queue_only(
    world: World, autojump_clock: MockClock, client: Client
) -> None:
    """As in Java it has no time limit. The consumer can leave meanwhile, and gives the lock back."""
    broker = world.cluster.broker
    fill(broker, 8)
    handled: list[bytes] = []

    async def handler(batch: MessageBatch) -> None:
        if batch.messages[0].body == b"2":
            await trio.sleep_forever()
        handled.append(batch.messages[0].body)

    async with consuming(client, handler, is_orderly=True):
        await trio.sleep(300)
        assert sorted(handled) == [b"0", b"1", b"3", b"5", b"7"]
    assert (broker.progress["g", TOPIC, 0], broker.progress["g", TOPIC, 1]) == (1, 4)
    assert not broker.locks


@pytest.mark.parametrize("is_orderly", [False, True])
async def test_a_handler_that_cancels_itself_has_handled_nothing(
    world: World, autojump_clock: MockClock, is_orderly: bool, client: Client
) -> None:
    """Its own scope: it returns None then, which is success, as its author has to know. The consumer's: all ends."""
    broker = world.cluster.broker
    fill(broker)

    async def handler(batch: MessageBatch) -> None:
        nursery.cancel_scope.cancel()
        await trio.lowlevel.checkpoint()
        raise AssertionError("it is cancelled")

    async with (
        client.consumer("g", TOPIC, config=FIRST) as consumer,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(consumer.run_orderly if is_orderly else consumer.run, handler)
    assert not broker.sent_back
    assert not any(offset for (_, topic, _), offset in broker.progress.items() if topic == TOPIC)
    assert not broker.locks


@pytest.mark.parametrize("is_orderly", [False, True])
async def test_what_is_no_exception_ends_the_consumer_and_acknowledges_nothing(
    world: World, autojump_clock: MockClock, is_orderly: bool
) -> None:
    broker = world.cluster.broker
    fill(broker)

    async def handler(batch: MessageBatch) -> None:
        raise MyError

    with pytest.raises(BaseExceptionGroup) as caught:
        async with (
            open_client(world.address, environment=world.environment) as client,
            client.consumer("g", TOPIC, config=FIRST) as consumer,
        ):
            await (consumer.run_orderly if is_orderly else consumer.run)(handler)
    assert caught.group_contains(MyError)
    assert not any(offset for (_, topic, _), offset in broker.progress.items() if topic == TOPIC)
    assert not broker.locks
    assert broker.asked(RequestCode.UNREGISTER_CLIENT)


@pytest.mark.parametrize("is_orderly", [False, True])
async def test_a_blocked_event_loop_fails_what_was_under_way_and_nothing_after(
    world: World, autojump_clock: MockClock, is_orderly: bool, producer: Producer, client: Client
) -> None:
    """Everything that had a deadline meanwhile is late, heartbeats and locks too."""
    broker = world.cluster.broker
    fill(broker, 8)
    handled: list[bytes] = []

    async def handler(batch: MessageBatch) -> None:
        if batch.messages[0].body in (b"0", b"5"):
            autojump_clock.jump(45)
        handled.append(batch.messages[0].body)

    async with consuming(client, handler, is_orderly=is_orderly):
        outcomes = []
        for _ in range(10):
            try:
                outcomes.append((await producer.send(Message(TOPIC, b"sent"))).status.name)
            except RemotingError as failure:
                outcomes.append(type(failure).__name__)
        await trio.sleep(60)
        assert outcomes[-1] == "SEND_OK"
        assert set(outcomes) <= {"SEND_OK", "RemotingTimeoutError", "RemotingSendRequestError"}
        assert set(handled) >= {b"%d" % number for number in range(8)}


async def test_a_blocked_event_loop_and_a_clock_that_is_set_lose_no_message_of_a_poll(
    world: World, autojump_clock: MockClock, client: Client
) -> None:
    broker = world.cluster.broker
    fill(broker, 8)
    polled: list[bytes] = []
    async with client.lite_pull_consumer("g", TOPIC, config=LITE_FIRST) as consumer:
        for moved_ms in (0, -40 * DAY_MS, 60 * DAY_MS, -1, 0, 0):
            world.clock.advance_ms(moved_ms)
            polled += [each.body for each in await consumer.poll(20.0)]
            autojump_clock.jump(100)
            broker.put(TOPIC, 0, b"more")
        while messages := await consumer.poll(20.0):
            polled += [each.body for each in messages]
        await consumer.commit()
    assert sorted(polled) == sorted([b"%d" % number for number in range(8)] + [b"more"] * 6)
    assert (broker.progress["g", TOPIC, 0], broker.progress["g", TOPIC, 1]) == (10, 4)


# ---- transactions --------------------------------------------------------------------------------------------------


def verdicts(server: Scripted) -> list[str]:
    return [(each.ext_fields or {})["commitOrRollback"] for each in server.asked(RequestCode.END_TRANSACTION)]


@pytest.mark.parametrize("returned", [None, True, 8, "COMMIT_MESSAGE", object(), ConsumeOrderlyStatus.COMMIT])
async def test_nonsense_of_a_local_transaction_or_a_check_is_unknown(
    world: World, autojump_clock: MockClock, returned: object, client: Client
) -> None:
    for broker in world.cluster.brokers:
        broker.register(RequestCode.END_TRANSACTION, lambda connection, request: None)

    async def check(half: MessageExt) -> object:
        return returned

    async def execute(transaction: Transaction) -> object:
        return returned

    async with client.transaction_producer("p", check=check) as producer:
        result = await producer.send_in_transaction(Message(TOPIC, b"x"), execute)  # type: ignore[arg-type]
        assert result.local_transaction_state is LocalTransactionState.UNKNOW
        header = CheckTransactionStateRequestHeader(tran_state_table_offset=1, commit_log_offset=2)
        half = MessageExt(topic=TOPIC, body=b"x", properties={"PGROUP": "p"})
        request = make_request(RequestCode.CHECK_TRANSACTION_STATE, header, encode_message(half), oneway=True)
        asked = next(broker for broker in world.cluster.brokers if broker.peers)
        asked.peers[0].oneway(request)
        await trio.sleep(1)
    assert [each for broker in world.cluster.brokers for each in verdicts(broker)] == ["0", "0"]


# ---- clocks --------------------------------------------------------------------------------------------------------


async def test_a_wall_clock_that_is_set_changes_nothing(world: World, autojump_clock: MockClock) -> None:
    """Deadlines, locks and pauses are Trio's time; versions of subscriptions only rise; keys stay unique."""
    broker = world.cluster.broker
    world.cluster.add_topic("Second", 1)
    handled: list[bytes] = []

    async def handler(batch: MessageBatch) -> None:
        handled.extend(each.body for each in batch)

    async with (
        open_client(world.address, environment=world.environment, config=ClientConfig()) as client,
        client.producer("p") as producer,
        client.consumer("g", TOPIC, config=FIRST) as consumer,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(consumer.run_orderly, handler)
        ids, versions = [], []
        for step, moved_ms in enumerate((0, -40 * DAY_MS, -1, 60 * DAY_MS, -10 * 365 * DAY_MS, 20 * 365 * DAY_MS)):
            world.clock.advance_ms(moved_ms)
            for _ in range(10):
                ids.append((await producer.send(Message(TOPIC, b"%d" % step))).msg_id)
            consumer.subscribe("Second", f"tag{step}")
            await trio.sleep(30)
            (data,) = broker.heartbeats[-1].consumer_data_set
            versions.append(next(each.sub_version for each in data.subscription_data_set if each.topic == "Second"))
        assert len(set(ids)) == len(ids)
        assert versions == sorted(set(versions))
        assert len(handled) == 60
        nursery.cancel_scope.cancel()
    assert (
        sum(offset for (_, topic, _), offset in broker.progress.items() if topic == TOPIC)
        + sum(offset for (_, topic, _), offset in world.cluster.brokers[1].progress.items() if topic == TOPIC)
        == 60
    )
