"""No request of a broker keeps the loop of a client longer than 50 ms of processor time, has it keep a name or start
tasks without end, or fills its log: the mirror of ``test_worst_answers.py`` for what brokers ask.

Every code that a client serves comes with the worst texts for a JSON reader, with what it wants a hundred thousandfold,
with records that grow a thousandfold, and with fields as long as a header lets them be.
"""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import attrs
import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock

import rocketpy.client
from rocketpy.client.broker_requests import BYTES_AT_WORK_MAX
from rocketpy.client.client import open_client
from rocketpy.client.consumer.group.assigned_queues import AssignedQueues
from rocketpy.client.consumer.offsets.offset_store import OffsetTable
from rocketpy.client.consumer.queue.process_queue import ProcessQueue
from rocketpy.client.producer.transaction import LocalTransactionState
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.offset import ResetOffsetBody
from rocketpy.protocol.codes import RequestCode, ResponseCode, SerializeType
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import FRAME_LENGTH_MAX, HEADER_LENGTH_MAX
from rocketpy.protocol.message import Message, MessageExt, MessageQueue
from rocketpy.protocol.stored_message import encode_message
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.task_pool import COMMANDS_PER_OWNER_MAX
from tests.client.conftest import TOPIC
from tests.client.hostile.conftest import World
from tests.client.hostile.test_broker_requests import CODES, NAMES, answer_of, at_work, still_works
from tests.client.hostile.test_worst_answers import short_bomb
from tests.forgotten import growth, sizes_within
from tests.stages import TIER
from tests.worst_answers import SIZE, Workers
from tests.worst_requests import SLICE_SECONDS_MAX, WORST_JSON, counted_slices, least_longest, worst_json

LONGEST = FRAME_LENGTH_MAX - HEADER_LENGTH_MAX
"""Bytes of a body."""
FIELD_SIZE = HEADER_LENGTH_MAX - 10_000
STEP = 8 if TIER == "dev" else 2
"""Each code gets one of so many of the worst texts; all codes together get them all."""

ASKED_OF_A_CLIENT = {
    RequestCode.CHECK_TRANSACTION_STATE,
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
    RequestCode.GET_CONSUMER_RUNNING_INFO,
    RequestCode.CONSUME_MESSAGE_DIRECTLY,
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
}


def half(group: str = "p", body: bytes = b"x", sys_flag: int = 0, **properties: str) -> bytes:
    return encode_message(MessageExt(TOPIC, body, {"PGROUP": group, **properties}, sys_flag=sys_flag))


@cache
def wanted_bodies() -> dict[str, bytes]:
    """What the codes want, as much of it as fits."""
    queue = b'{"brokerName":"broker-a","queueId":%d,"topic":"' + TOPIC.encode() + b'"}:7'
    count = LONGEST // (len(queue) + 6)
    return {
        "offsets of a reset": b'{"offsetTable":{' + b",".join(queue % number for number in range(count)) + b"}}",
        "a long half message": half(body=bytes(LONGEST - 1000)),
        "a half message with many properties": half(**{f"{number:x}": "" for number in range(4_900)}),
        "a record that grows": short_bomb(),
        "two records": half() * 2,
        "zeros": bytes(LONGEST),
    }


def bodies_of(code: int) -> Iterator[tuple[str, bytes]]:
    """Yield the worst bodies for a code, each with what it is."""
    for what in list(WORST_JSON)[code % STEP :: STEP]:
        yield what, worst_json(what, SIZE)
    yield from wanted_bodies().items()


def requests_of(code: int) -> Iterator[tuple[str, RemotingCommand]]:
    """Yield the worst requests of a code, each with what it is."""
    for what, body in bodies_of(code):
        yield what, RemotingCommand(code, ext_fields=NAMES, body=body)
    for number, name in enumerate(NAMES):
        piece = ("9", "\x01", "{", "-", "%", "€")[(code + number) % 6]
        text = piece * (FIELD_SIZE // 3)
        # Without escapes, which would take the time of the broker.
        yield (
            f"field {name} full of {piece!r}",
            RemotingCommand(code, ext_fields={**NAMES, name: text}, body=half(), serialize_type=SerializeType.ROCKETMQ),
        )
    pairs = "".join(f"{number:x}\x01\x02" for number in range(FIELD_SIZE // 8))
    yield (
        "as many properties as fit",
        RemotingCommand(code, ext_fields={**NAMES, "properties": pairs}, serialize_type=SerializeType.ROCKETMQ),
    )


def working(world: World) -> World:
    """Return the world with worker threads, in which a client reads what is long."""
    return attrs.evolve(world, environment=attrs.evolve(world.environment, run_blocking=Workers()))


def a_connection(world: World) -> Connection:
    """Return the broker's end of a connection that lives; a client closes one on which a pull was not answered."""
    return world.cluster.broker.peers[-1]


async def ask(world: World, request: RemotingCommand) -> int | None:
    """Return the code of the answer, None without one."""
    return await answer_of(a_connection(world), attrs.evolve(request, ext_fields=dict(request.ext_fields or {})))


@pytest.mark.parametrize("code", CODES)
async def test_no_request_keeps_the_loop(world: World, autojump_clock: MockClock, code: RequestCode) -> None:
    world, found = working(world), []
    async with at_work(world) as (client, _, _, handled):
        with counted_slices() as slices:
            for what, request in requests_of(code):
                least = await least_longest(slices, partial(ask, world, request))
                if least >= SLICE_SECONDS_MAX:
                    found.append(f"{code.name}, {what}: {least * 1000:.0f} ms")
        await still_works(world, client, handled, b"after")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("code", [RequestCode.GET_CONSUMER_RUNNING_INFO, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT])
async def test_no_report_about_many_queues_keeps_the_loop(
    world: World, autojump_clock: MockClock, code: RequestCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic may have 65,535 of them."""
    queues = [MessageQueue(TOPIC, "broker-a", number) for number in range(5_000)]
    process_queues = [ProcessQueue(each) for each in queues]
    world = working(world)
    async with at_work(world) as (client, _, _, handled):
        with monkeypatch.context() as patched, counted_slices() as slices:
            patched.setattr(AssignedQueues, "process_queues", property(lambda self: process_queues))
            patched.setattr(OffsetTable, "of_topic", lambda self, topic: dict.fromkeys(queues, 7))
            least = await least_longest(slices, partial(ask, world, RemotingCommand(code, ext_fields=NAMES)))
        assert least < SLICE_SECONDS_MAX
        await still_works(world, client, handled, b"after")


def test_no_code_that_a_client_serves_is_missing() -> None:
    """Found by the tables of handlers, whose keys are codes."""
    served = set()
    for path in Path(rocketpy.client.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Dict):
                served |= {
                    RequestCode[key.attr]
                    for key in node.keys
                    if isinstance(key, ast.Attribute) and getattr(key.value, "id", "") == "RequestCode"
                }
    assert served == ASKED_OF_A_CLIENT == set(CODES)


@pytest.mark.parametrize("code", CODES)
async def test_a_flood_starts_a_bounded_number_of_tasks_and_leaves_neither_names_nor_many_lines(
    world: World, autojump_clock: MockClock, code: RequestCode, caplog: pytest.LogCaptureFixture
) -> None:
    """Of each code a thousand at once: every other one as it should be, the others with names of their own."""
    caplog.set_level(logging.INFO, logger="rocketpy")
    offsets = encode_body(ResetOffsetBody({MessageQueue(TOPIC, "broker-a", 0): 0}))
    body = offsets if code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET else half()
    async with at_work(world) as (client, _, _, handled):
        connection, highest = a_connection(world), 0
        sizes = sizes_within(client)
        before = trio.lowlevel.current_statistics().tasks_living
        for number in range(1000):
            fields = dict(NAMES)
            if number % 2:
                record = MessageExt(
                    f"T{number}", b"x", {"PGROUP": f"p{number % 4}"}, born_host=f"10.1.{number // 250}.1:1"
                )
                body = encode_message(record)
                fields |= {name: f"{text}{number}" for name, text in NAMES.items() if not text.isdigit()}
                fields |= {"consumerGroup": f"g{number}"[: number % 4 + 1]}
            connection.oneway(RemotingCommand(code, ext_fields=fields, body=body))
            if number % 50 == 49:
                await trio.lowlevel.checkpoint()
                highest = max(highest, trio.lowlevel.current_statistics().tasks_living)
        for _ in range(50):
            await trio.sleep(0.01)
            highest = max(highest, trio.lowlevel.current_statistics().tasks_living)
        assert highest <= before + 2 * COMMANDS_PER_OWNER_MAX  # a reset has the old reader end and a new one begin
        await still_works(world, client, handled, b"after")
        grown = growth(sizes, sizes_within(client))
    assert len(caplog.records) < 50, "\n".join(caplog.messages[:60])
    named = {title: each for title, each in grown.items() if each[1] > each[0] + 50 and "at_work" not in title}
    assert named == {}, "a table has what requests name"


async def test_requests_that_wait_for_the_program_hold_a_bounded_number_of_bytes(
    world: World, autojump_clock: MockClock
) -> None:
    """Sixty-four checks of one connection may wait, of 16 MiB each; beyond the bound they are refused."""
    held = 0

    async def check(message: MessageExt) -> LocalTransactionState:
        nonlocal held
        held += len(message.body)
        await trio.sleep(60)
        return LocalTransactionState.UNKNOW

    codes: list[int | None] = []
    async with (
        open_client(world.address, environment=world.environment) as client,
        client.transaction_producer("p", check=check) as producer,
    ):
        for _ in range(4):  # connections to both brokers
            await producer.producer.send(Message(TOPIC, b"x"))
        connections = [broker.peers[-1] for broker in world.cluster.brokers]
        large = RemotingCommand(
            RequestCode.CHECK_TRANSACTION_STATE, ext_fields=NAMES, body=half(body=bytes(LONGEST // 2))
        )

        async def send(connection: Connection) -> None:
            codes.append(await answer_of(connection, attrs.evolve(large)))

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                for connection in connections:
                    nursery.start_soon(send, connection)
        assert 0 < held <= BYTES_AT_WORK_MAX
        assert codes.count(ResponseCode.SYSTEM_BUSY) == 10 - held // (LONGEST // 2)
        await trio.sleep(61)
        held = 0
        await send(connections[0])
        assert held, "there is room again"
