"""Requests from brokers that are garbage, for groups that are not here, or come in floods."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from rocketpy.client.client import Client, open_client
from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.client.consumer.consumer import Consumer
from rocketpy.client.producer.transaction import LocalTransactionState
from rocketpy.errors import RemotingTimeoutError
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.offset import ResetOffsetBody
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.compression import CompressionType, compressed_sys_flag
from rocketpy.protocol.message import Message, MessageExt, MessageQueue
from rocketpy.protocol.stored_message import encode_message
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.task_pool import COMMANDS_PER_OWNER_MAX
from tests.client.conftest import FIRST, TOPIC
from tests.client.hostile.conftest import World
from tests.client.lying_world import BODIES, TEXTS

CODES = (
    RequestCode.CHECK_TRANSACTION_STATE,
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
    RequestCode.GET_CONSUMER_RUNNING_INFO,
    RequestCode.CONSUME_MESSAGE_DIRECTLY,
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
)
NAMES = {
    "consumerGroup": "g",
    "group": "g",
    "topic": TOPIC,
    "clientId": "c",
    "timestamp": "1",
    "isForce": "true",
    "tranStateTableOffset": "1",
    "commitLogOffset": "2",
    "msgId": "x",
    "brokerName": "broker-a",
    "bornHost": "10.0.0.1:1",
    "storeHost": "10.0.0.1:1",
    "bornTimestamp": "1",
    "storeTimestamp": "1",
    "queueId": "0",
    "flag": "0",
    "sysFlag": "0",
    "properties": "CORRELATION_ID\x01none\x02",
    "reconsumeTimes": "0",
    "producerGroup": "p",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4",
}
"""Fields of all the headers."""


@asynccontextmanager
async def at_work(world: World) -> AsyncIterator[tuple[Client, Consumer, Connection, list[bytes]]]:
    """Yield a client with all roles that brokers ask, and the broker's side of a connection."""
    handled: list[bytes] = []

    async def check(half: MessageExt) -> LocalTransactionState:
        return LocalTransactionState.UNKNOW

    async def handler(batch: MessageBatch) -> None:
        handled.extend(each.body for each in batch)

    world.cluster.add_topic("Other", 1)
    async with (
        open_client(world.address, environment=world.environment) as client,
        client.transaction_producer("p", check=check),
        client.consumer("g", TOPIC, config=FIRST) as consumer,
        client.consumer("orderly", "Other") as orderly,
        client.lite_pull_consumer("lite", "Other") as lite,
        trio.open_nursery() as nursery,
    ):
        await lite.poll(0)
        await nursery.start(consumer.run, handler)
        await nursery.start(orderly.run_orderly, handler)
        await trio.sleep(1)
        yield client, consumer, world.cluster.broker.peers[0], handled
        nursery.cancel_scope.cancel()


async def still_works(world: World, client: Client, handled: list[bytes], body: bytes) -> None:
    world.cluster.broker.put(TOPIC, 0, body)
    async with client.producer("other") as producer:
        await producer.send(Message(TOPIC, b"x"))
    await trio.sleep(2)
    assert body in handled


async def answer_of(connection: Connection, request: RemotingCommand) -> int | None:
    """Return the code of the answer, None without one."""
    try:
        return (await connection.request(request, 0.5)).code
    except RemotingTimeoutError:
        return None


@pytest.mark.parametrize("code", CODES)
async def test_garbage_is_answered_with_an_error_or_not_at_all(
    world: World, autojump_clock: MockClock, code: RequestCode, caplog: pytest.LogCaptureFixture
) -> None:
    """Every body of a list with good fields, no field at all, and each field with each text of a list."""
    good = make_request(code)
    cases: list[tuple[dict[str, str] | None, bytes | None]] = [(NAMES, body) for body in (None, *BODIES)]
    cases += [(None, None), ({}, b"{}")]
    cases += [({**NAMES, name: text}, None) for name in NAMES for text in TEXTS[:-1] if text != "\ud800"]
    cases += [({key: value for key, value in NAMES.items() if key != name}, None) for name in NAMES]
    for group in ("orderly", "lite"):
        names = {**NAMES, "consumerGroup": group, "group": group}
        cases += [(names, body) for body in (None, *BODIES)]
        cases += [({**names, name: "-1"}, None) for name in names]
    async with at_work(world) as (client, consumer, broker, handled):
        assigned = consumer.assigned
        answers: set[int | None] = set()

        async def ask(fields: dict[str, str] | None, body: bytes | None) -> None:
            request = RemotingCommand(good.code, ext_fields=fields, body=body)
            answers.add(await answer_of(broker, request))

        for begin in range(0, len(cases), 30):
            async with trio.open_nursery() as nursery:
                for fields, body in cases[begin : begin + 30]:
                    nursery.start_soon(ask, fields, body)
        assert answers <= {None, ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR}
        assert consumer.assigned == assigned
        await still_works(world, client, handled, b"after")
    assert "Traceback" not in caplog.text, "what a broker sends is no bug of the client"


@pytest.mark.parametrize("code", CODES)
async def test_a_group_that_is_not_here_is_answered_as_in_java(
    world: World, autojump_clock: MockClock, code: RequestCode
) -> None:
    strange = {**NAMES, "consumerGroup": "strange", "group": "strange"}
    half = encode_message(MessageExt(topic=TOPIC, body=b"x", properties={"PGROUP": "strange"}))
    async with at_work(world) as (client, _, broker, handled):
        code_of_answer = await answer_of(broker, RemotingCommand(code, ext_fields=strange, body=half))
        expected = {
            RequestCode.CHECK_TRANSACTION_STATE: None,
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: None,
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: None,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: ResponseCode.SUCCESS,
            RequestCode.GET_CONSUMER_RUNNING_INFO: ResponseCode.SYSTEM_ERROR,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: ResponseCode.SYSTEM_ERROR,
            RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: ResponseCode.SUCCESS,
        }[code]
        assert code_of_answer == expected
        await still_works(world, client, handled, b"after")


async def test_unknown_codes_are_refused(world: World, autojump_clock: MockClock) -> None:
    async with at_work(world) as (client, _, broker, handled):
        for code in (-1, 0, 11, 9999, 2**31 - 1):
            refused = await broker.request(RemotingCommand(code), 5.0)
            assert refused.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        await still_works(world, client, handled, b"after")


async def test_offsets_of_a_reset_that_are_none_are_skipped(world: World, autojump_clock: MockClock) -> None:
    """Negative ones, and those of queues that the member does not have."""
    for number in range(4):
        world.cluster.broker.put(TOPIC, 0, b"%d" % number)
    async with at_work(world) as (_, _, broker, handled):
        table = {
            MessageQueue(TOPIC, "broker-a", 0): -7,
            MessageQueue(TOPIC, "broker-a", 1): 0,
            MessageQueue(TOPIC, "elsewhere", 0): 1,
            MessageQueue("Other", "broker-a", 0): 1,
        }
        fields = {"topic": TOPIC, "group": "g", "timestamp": "1", "isForce": "true"}
        body = encode_body(ResetOffsetBody(table))
        broker.oneway(RemotingCommand(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ext_fields=fields, body=body))
        await trio.sleep(10)
        assert sorted(handled) == [b"%d" % number for number in range(4)], "nothing is consumed again"
    assert world.cluster.broker.progress["g", TOPIC, 0] == 4
    assert all(offset >= 0 for offset in world.cluster.broker.progress.values())


async def test_a_compressed_reply_that_is_a_bomb_is_passed_on_as_it_came(
    world: World, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """As any reply that is not compressed as it says: what it would decompress to is never in memory."""
    bomb = zlib.compress(bytes((64 << 20) + 1), 9)
    fields = {**NAMES, "sysFlag": str(compressed_sys_flag(0, CompressionType.ZLIB))}
    replies: list[MessageExt] = []
    async with (
        at_work(world) as (client, _, broker, handled),
        client.producer("asks") as producer,
        trio.open_nursery() as nursery,
    ):

        async def ask() -> None:
            replies.append(await producer.request(Message("Asked", b"?"), timeout_s=8))

        world.cluster.add_topic("Asked", 1)
        nursery.start_soon(ask)
        await trio.sleep(1)
        (asked,) = (each for server in world.cluster.brokers for each in server.messages("Asked"))
        fields["properties"] = f"CORRELATION_ID\x01{asked.properties['CORRELATION_ID']}\x02"
        request = RemotingCommand(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, ext_fields=fields, body=bomb)
        assert await answer_of(broker, request) == ResponseCode.SUCCESS
        await trio.sleep(1)
        assert [each.body for each in replies] == [bomb]
        assert "expected at most" in caplog.text
        await still_works(world, client, handled, b"after")


async def test_a_flood_runs_a_bounded_number_of_tasks(world: World, autojump_clock: MockClock, client: Client) -> None:
    """Thousands of transactions to check, whose checks wait; the rest is refused, and the client goes on."""
    checking = 0
    highest = 0

    async def check(half: MessageExt) -> LocalTransactionState:
        nonlocal checking, highest
        checking += 1
        highest = max(highest, checking)
        try:
            await trio.sleep(30)
        finally:
            checking -= 1
        return LocalTransactionState.UNKNOW

    half = encode_message(MessageExt(topic=TOPIC, body=b"x", properties={"PGROUP": "p"}))
    async with client.transaction_producer("p", check=check) as producer:
        await producer.producer.send(Message(TOPIC, b"x"))
        await client.admin().cluster_info()
        asking = next(broker for broker in world.cluster.brokers if broker.peers).peers[0]
        tasks_before = trio.lowlevel.current_statistics().tasks_living
        for _ in range(5000):
            asking.oneway(RemotingCommand(RequestCode.CHECK_TRANSACTION_STATE, ext_fields=NAMES, body=half))
        await trio.sleep(5)
        assert trio.lowlevel.current_statistics().tasks_living <= tasks_before + COMMANDS_PER_OWNER_MAX
        assert 0 < highest <= COMMANDS_PER_OWNER_MAX
        await producer.producer.send(Message(TOPIC, b"x"))
        await trio.sleep(40)
        assert checking == 0
        asking.oneway(RemotingCommand(RequestCode.CHECK_TRANSACTION_STATE, ext_fields=NAMES, body=half))
        await trio.sleep(1)
        assert checking == 1, "there is room again"


async def test_a_flood_of_notifications_rebalances_ten_times_a_second(world: World, autojump_clock: MockClock) -> None:
    async with at_work(world) as (client, _, broker, handled):
        before = len(world.cluster.broker.asked(RequestCode.GET_CONSUMER_LIST_BY_GROUP))
        for _ in range(50):
            for _ in range(40):
                broker.oneway(RemotingCommand(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ext_fields=NAMES))
            await trio.sleep(0.1)
        rounds = len(world.cluster.broker.asked(RequestCode.GET_CONSUMER_LIST_BY_GROUP)) - before
        assert rounds <= 2 * 55
        await still_works(world, client, handled, b"after")
