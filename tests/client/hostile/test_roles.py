"""Brokers that answer each role with garbage, half an answer, byte by byte or a code that does not exist.

A call ends with an error of ours, in its time; a member of a group goes on asking, and has acknowledged nothing that
was not handled. With honest answers each works again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from rocketpy.client.client import Client, open_client
from rocketpy.client.config import ClientConfig
from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.client.consumer.config import ConsumerConfig
from rocketpy.client.consumer.lite_pull.config import LitePullConfig
from rocketpy.client.producer.transaction import LocalTransactionState, Transaction
from rocketpy.errors import RocketpyError
from rocketpy.protocol.bodies.heartbeat import ConsumeFromWhere
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.message import Message, MessageExt, MessageQueue
from rocketpy.remoting.connection import Connection
from tests.client.conftest import TOPIC
from tests.client.hostile.conftest import World

QUEUE = MessageQueue(TOPIC, "broker-a", 0)
FIRST = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
LITE = LitePullConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
SENDS = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
PULLS = (RequestCode.PULL_MESSAGE,)
BOUND_SECONDS = 35.0
"""A pull waits longest: 30 seconds."""


# ---- calls ---------------------------------------------------------------------------------------------------------


async def _send(client: Client) -> object:
    async with client.producer("p") as producer:
        return await producer.send(Message(TOPIC, b"x"), queue=QUEUE)


async def _send_nowait(client: Client) -> object:
    async with client.producer("p") as producer:
        return await producer.send_nowait(Message(TOPIC, b"x"), queue=QUEUE)


async def _batched(client: Client) -> object:
    async with client.producer("p") as producer, producer.batching() as batching:
        return await batching.send(Message(TOPIC, b"x"))


async def _check(half: MessageExt) -> LocalTransactionState:
    return LocalTransactionState.UNKNOW


async def _in_transaction(client: Client) -> object:
    async def execute(transaction: Transaction) -> LocalTransactionState:
        executed.append(transaction)
        return LocalTransactionState.COMMIT_MESSAGE

    executed: list[Transaction] = []
    async with client.transaction_producer("p", check=_check) as producer:
        try:
            return await producer.send_in_transaction(Message(TOPIC, b"x"), execute)
        except RocketpyError:
            assert not executed, "the local transaction runs for a stored half message only"
            raise


async def _request(client: Client) -> object:
    """A request that is stored, and whose reply does not come, is one that works."""
    async with client.producer("p") as producer:
        try:
            await producer.request(Message(TOPIC, b"x"), timeout_s=3.0)
        except RocketpyError as failure:
            if "CODE: 10006" in str(failure):
                return failure
            raise
    raise AssertionError("nothing replies")


async def _pull(client: Client) -> object:
    async with client.pull_consumer("pull") as consumer:
        return await consumer.pull(QUEUE, 0)


async def _stream(client: Client) -> object:
    async with (
        client.pull_consumer("pull") as consumer,
        consumer.open_messages(TOPIC, start="beginning", until_end=True) as stream,
    ):
        return [each async for each in stream]


async def _ask_offset(client: Client) -> object:
    return await client.admin(timeout_ms=3000).offsets.max_offset(QUEUE)


CALLS: dict[str, tuple[Callable[[Client], Awaitable[object]], tuple[RequestCode, ...]]] = {
    "producer": (_send, SENDS),
    "async": (_send_nowait, SENDS),
    "batching": (_batched, SENDS),
    "transaction": (_in_transaction, SENDS),
    "request-reply": (_request, SENDS),
    "pull": (_pull, PULLS),
    "stream": (_stream, PULLS),
    "admin": (_ask_offset, (RequestCode.GET_MAX_OFFSET,)),
}


# ---- members of a group --------------------------------------------------------------------------------------------


async def _concurrently(client: Client, handled: list[bytes]) -> None:
    async def handler(batch: MessageBatch) -> None:
        handled.extend(each.body for each in batch)

    async with client.consumer("g", TOPIC, config=FIRST) as consumer:
        await consumer.run(handler)


async def _orderly(client: Client, handled: list[bytes]) -> None:
    async def handler(batch: MessageBatch) -> None:
        handled.extend(each.body for each in batch)

    async with client.consumer("g", TOPIC, config=FIRST) as consumer:
        await consumer.run_orderly(handler)


async def _polling(client: Client, handled: list[bytes]) -> None:
    async with client.lite_pull_consumer("g", TOPIC, config=LITE) as consumer:
        while True:
            handled.extend(each.body for each in await consumer.poll(1.0))


MEMBERS: dict[str, Callable[[Client, list[bytes]], Awaitable[None]]] = {
    "concurrent": _concurrently,
    "orderly": _orderly,
    "lite pull": _polling,
}


# ---- what brokers do -----------------------------------------------------------------------------------------------


Misbehaviour = Callable[[Connection, RemotingCommand, trio.Nursery], RemotingCommand | bytes | None]
"""Takes the connection, the right answer and a nursery for what lasts; returns what is sent instead."""


def vanish(connection: Connection, answer: RemotingCommand, nursery: trio.Nursery) -> None:
    """Send half an answer and close the connection."""
    frame = encode_frame(answer)
    connection.reply_frame(frame[: len(frame) // 2])
    connection.flush()
    trio.lowlevel.current_trio_token().run_sync_soon(connection.close)


def trickle(connection: Connection, answer: RemotingCommand, nursery: trio.Nursery) -> None:
    """Send a byte every five seconds."""

    async def send_slowly() -> None:
        for byte in encode_frame(answer):
            connection.reply_frame(bytes((byte,)))
            connection.flush()
            await trio.sleep(5)

    nursery.start_soon(send_slowly)


def unknown(connection: Connection, answer: RemotingCommand, nursery: trio.Nursery) -> RemotingCommand:
    """Answer with a code that does not exist."""
    answer.code = 12345
    return answer


def garbage(connection: Connection, answer: RemotingCommand, nursery: trio.Nursery) -> bytes:
    """Send what is no frame."""
    return b"\x00\x00\x00\x08\x00\x00\x00\x04{no}"


WAYS: dict[str, Misbehaviour] = {"vanish": vanish, "trickle": trickle, "unknown": unknown, "garbage": garbage}


def misbehave(world: World, nursery: trio.Nursery, way: str, codes: tuple[RequestCode, ...]) -> None:
    def spoil(
        connection: Connection, request: RemotingCommand, answer: RemotingCommand
    ) -> RemotingCommand | bytes | None:
        return WAYS[way](connection, answer, nursery) if request.code in codes else answer

    for broker in world.cluster.brokers:
        broker.spoil = spoil


def behave(world: World) -> None:
    """Answer honestly, over new connections: half an answer would be the beginning of every later one."""
    for broker in world.cluster.brokers:
        broker.behave()
        for connection in broker.peers:
            connection.close()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("role", CALLS)
async def test_a_call_ends_with_an_error_of_ours_in_its_time(
    world: World, autojump_clock: trio.testing.MockClock, role: str, way: str
) -> None:
    call, codes = CALLS[role]
    world.cluster.broker.put(TOPIC, 0, b"x")
    config = ClientConfig(mq_client_api_timeout=1000)
    async with (
        open_client(world.address, environment=world.environment, config=config) as client,
        trio.open_nursery() as nursery,
    ):
        misbehave(world, nursery, way, codes)
        begun = trio.current_time()
        with pytest.raises(RocketpyError) as caught:
            await call(client)
        assert trio.current_time() - begun < BOUND_SECONDS
        assert len(str(caught.value)) < 1000
        behave(world)
        await trio.sleep(1)
        with trio.fail_after(BOUND_SECONDS):
            await call(client)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("role", MEMBERS)
async def test_a_member_of_a_group_goes_on_and_acknowledges_nothing_that_it_has_not_handled(
    world: World, autojump_clock: trio.testing.MockClock, role: str, way: str
) -> None:
    broker = world.cluster.broker
    for number in range(3):
        broker.put(TOPIC, 0, b"%d" % number)
    handled: list[bytes] = []
    config = ClientConfig(mq_client_api_timeout=1000)
    async with (
        open_client(world.address, environment=world.environment, config=config) as client,
        trio.open_nursery() as nursery,
    ):
        misbehave(world, nursery, way, PULLS)
        nursery.start_soon(MEMBERS[role], client, handled)
        await trio.sleep(60)
        assert handled == []
        assert broker.progress.get(("g", TOPIC, 0), 0) == 0
        assert len(broker.asked(RequestCode.PULL_MESSAGE)) < 400, "there is a pause before each further try"
        behave(world)
        with trio.fail_after(120):
            while broker.progress.get(("g", TOPIC, 0), 0) < 3:
                await trio.sleep(1)
        assert sorted(handled) == [b"0", b"1", b"2"]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("role", MEMBERS)
async def test_ends_of_a_queue_that_contradict_each_other_change_nothing(
    world: World, autojump_clock: trio.testing.MockClock, role: str
) -> None:
    """A lowest offset above the highest: both are for programs to look at."""
    broker = world.cluster.broker
    for number in range(3):
        broker.put(TOPIC, 0, b"%d" % number)

    def contradict(connection: Connection, request: RemotingCommand, answer: RemotingCommand) -> RemotingCommand:
        if request.code == RequestCode.PULL_MESSAGE and answer.ext_fields:
            answer.ext_fields["minOffset"] = "1000"
        return answer

    broker.spoil = contradict
    handled: list[bytes] = []
    async with (
        open_client(world.address, environment=world.environment) as client,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(MEMBERS[role], client, handled)
        await trio.sleep(20)
        nursery.cancel_scope.cancel()
    assert sorted(handled) == [b"0", b"1", b"2"]
    assert broker.progress["g", TOPIC, 0] == 3
