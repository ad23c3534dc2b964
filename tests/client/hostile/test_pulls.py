"""Brokers that answer pulls with garbage: typed errors for a pull, a pause and another try for a group, nothing lost.

Rule: no answer makes a group acknowledge a message that was not handled, and no answer is asked for without a pause.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from contextlib import nullcontext

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from rocketpy.client.client import Client
from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.client.consumer.queue import answers
from rocketpy.client.consumer.queue.answers import BODIES_SIZE_MAX
from rocketpy.client.consumer.statuses import ConsumeOrderlyStatus
from rocketpy.client.results import PullStatus
from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.compression import CompressionType, compressed_sys_flag
from rocketpy.protocol.message import MessageExt, MessageQueue
from rocketpy.protocol.stored_message import encode_message
from rocketpy.remoting.connection import Connection
from tests.client.conftest import FIRST, TOPIC
from tests.client.fake_cluster import FakeBroker, Spoil
from tests.client.hostile.conftest import World, consuming
from tests.client.hostile.test_group_members import MEMBERS

QUEUE = MessageQueue(TOPIC, "broker-a", 0)
Change = Callable[[RemotingCommand], None]


def of_queue(change: Change) -> Spoil:
    """Change the answers to pulls of the queue."""

    def spoil(connection: Connection, request: RemotingCommand, answer: RemotingCommand) -> RemotingCommand:
        fields = request.ext_fields or {}
        if request.code == RequestCode.PULL_MESSAGE and (fields["topic"], fields["queueId"]) == (TOPIC, "0"):
            change(answer)
        return answer

    return spoil


def fields(**changed: str | None) -> Change:
    def change(answer: RemotingCommand) -> None:
        all_fields = {**(answer.ext_fields or {}), **changed}
        answer.ext_fields = {name: value for name, value in all_fields.items() if value is not None}

    return change


def record(**changes: object) -> bytes:
    message = MessageExt(topic=TOPIC, body=b"spoiled", properties={"a": "b"}, queue_id=0, queue_offset=0)
    return encode_message(attrs.evolve(message, **changes))  # type: ignore[arg-type]


def body(*records: bytes) -> Change:
    def change(answer: RemotingCommand) -> None:
        answer.code, answer.body = ResponseCode.SUCCESS, b"".join(records)
        fields(nextBeginOffset="3", minOffset="0", maxOffset="3")(answer)

    return change


def patched(position: int, form: str, value: int) -> bytes:
    """Return a record with another number at a position."""
    whole = bytearray(record())
    struct.pack_into(form, whole, position, value)
    return bytes(whole)


def bomb(size: int) -> bytes:
    return zlib.compress(bytes(size), 9)


COMPRESSED = compressed_sys_flag(0, CompressionType.ZLIB)
PROPERTIES = len(record()) - len("a\x01b") - 2

SPOILED: dict[str, Change] = {
    "no fields": lambda answer: setattr(answer, "ext_fields", None),
    "no next offset": fields(nextBeginOffset=None),
    "next offset is text": fields(nextBeginOffset="soon"),
    "next offset is beyond int64": fields(nextBeginOffset="9" * 30),
    "negative next offset": fields(nextBeginOffset="-1"),
    "next offset goes backwards": lambda answer: (body(record())(answer), fields(nextBeginOffset="0")(answer))[0],
    "next offset past the end": fields(nextBeginOffset="999999999"),
    "no max offset": fields(maxOffset=None),
    "found without a next offset that advances": lambda answer: fields(nextBeginOffset="0")(answer),
    "another topic": body(record(topic="Other")),
    "another queue": body(record(queue_id=1)),
    "an offset before the one asked for": body(record(queue_offset=-5)),
    "an offset past the next": body(record(queue_offset=3)),
    "offsets that go back": body(record(queue_offset=2), record(queue_offset=1)),
    "an offset twice": body(record(queue_offset=1), record(queue_offset=1)),
    "a record that is cut": body(record()[:-3]),
    "half a record at the end": body(record(), record(queue_offset=1)[:40]),
    "no record": body(b"\x00" * 200),
    "a total size of zero": body(patched(0, ">i", 0)),
    "a negative total size": body(patched(0, ">i", -1)),
    "a total size beyond the body": body(patched(0, ">i", 10_000)),
    "another magic": body(patched(4, ">i", 1)),
    "a wrong checksum": body(patched(8, ">i", 1)),
    "a negative body size": body(patched(84, ">i", -1)),
    "a body size beyond the record": body(patched(84, ">i", 2**30)),
    "properties longer than the record": body(patched(PROPERTIES, ">h", 32_000)),
    "properties of a negative size": body(patched(PROPERTIES, ">h", -1)),
    "a body that does not decompress": body(record(sys_flag=COMPRESSED)),
    "a compression that does not exist": body(record(sys_flag=0x701)),
    "a body cut in its compression": body(record(body=bomb(1000)[:-4], sys_flag=COMPRESSED)),
    "a body of gigabytes": body(record(body=bomb(BODIES_SIZE_MAX + 1), sys_flag=COMPRESSED)),
}


def fill(broker: FakeBroker) -> None:
    for number in range(3):
        broker.put(TOPIC, 0, b"%d" % number)
        broker.put(TOPIC, 1, b"of queue 1, %d" % number)


@pytest.mark.parametrize("change", SPOILED.values(), ids=SPOILED.keys())
async def test_a_pull_is_a_protocol_error(
    world: World, autojump_clock: MockClock, change: Change, client: Client
) -> None:
    fill(world.cluster.broker)
    async with client.pull_consumer("g") as consumer:
        await consumer.queues(TOPIC)
        world.cluster.broker.spoil = of_queue(change)
        with pytest.raises(RemoteProtocolError) as caught:
            await consumer.pull(QUEUE, 0)
        assert len(str(caught.value)) < 500
        assert len((await consumer.pull(MessageQueue(TOPIC, "broker-a", 1), 0)).messages) == 3
        world.cluster.broker.behave()
        assert len((await consumer.pull(QUEUE, 0)).messages) == 3


@pytest.mark.parametrize("role", MEMBERS)
@pytest.mark.parametrize(
    "kind",
    ["no fields", "next offset goes backwards", "next offset past the end", "an offset past the next"]
    + ["a record that is cut", "a body that does not decompress"],
)
async def test_a_group_pulls_again_and_consumes_the_other_queues_meanwhile(
    world: World, autojump_clock: MockClock, kind: str, role: str, client: Client
) -> None:
    """All of them are one error of a pull; here are those of the fields, and of records in different ways."""
    broker = world.cluster.broker
    fill(broker)
    broker.spoil = of_queue(SPOILED[kind])
    handled: list[bytes] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(MEMBERS[role], client, handled)
        await trio.sleep(20)
        assert sorted(handled) == [b"of queue 1, %d" % number for number in range(3)]
        assert broker.progress.get(("g", TOPIC, 0), 0) == 0
        asked = [each for each in broker.asked(RequestCode.PULL_MESSAGE) if (each.ext_fields or {})["queueId"] == "0"]
        assert len(asked) < 80, "there is a pause before each further try"
        broker.behave()
        await trio.sleep(10)
        assert sorted(handled) == sorted([b"0", b"1", b"2", *(b"of queue 1, %d" % number for number in range(3))])
        nursery.cancel_scope.cancel()
    assert broker.progress["g", TOPIC, 0] == 3


# ---- what is bounded, and goes on ------------------------------------------------------------------------------------


async def test_what_decompresses_to_too_much_is_taken_in_parts(
    world: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    """Each body is half of what an answer may have; the answer has ten of them."""
    bodies_size_max = 1 << 20
    monkeypatch.setattr(answers, "BODIES_SIZE_MAX", bodies_size_max)
    size = bodies_size_max // 2
    compressed = bomb(size)
    for _ in range(10):
        world.cluster.broker.put(TOPIC, 0, compressed).sys_flag = COMPRESSED
    async with client.pull_consumer("g") as consumer:
        found, offset = [], 0
        while offset < 10:
            result = await consumer.pull(QUEUE, offset)
            assert sum(len(each.body) for each in result.messages) <= bodies_size_max + size
            found += [each.queue_offset for each in result.messages]
            offset = result.next_begin_offset
        assert found == list(range(10))


async def test_messages_of_several_queues_are_taken_as_they_are(
    world: World, autojump_clock: MockClock, client: Client
) -> None:
    """A broker may put one message into queues of other topics too: its record names the first one."""
    properties = {"INNER_MULTI_DISPATCH": f"{TOPIC}", "INNER_MULTI_QUEUE_OFFSET": "0"}
    dispatched = record(topic="First", queue_id=7, queue_offset=100, properties=properties)
    world.cluster.broker.spoil = of_queue(body(dispatched, record(queue_offset=1)))
    async with client.pull_consumer("g") as consumer:
        result = await consumer.pull(QUEUE, 0)
    assert [each.topic for each in result.messages] == ["First", TOPIC]


NOTHING: dict[str, Change] = {
    "nothing new": lambda answer: setattr(answer, "code", ResponseCode.PULL_NOT_FOUND),
    "nothing that matches": lambda answer: setattr(answer, "code", ResponseCode.PULL_RETRY_IMMEDIATELY),
    "illegal": lambda answer: setattr(answer, "code", ResponseCode.PULL_OFFSET_MOVED),
}


@pytest.mark.parametrize("change", NOTHING.values(), ids=NOTHING.keys())
async def test_an_offset_that_never_advances_is_not_asked_for_without_a_pause(
    world: World, autojump_clock: MockClock, change: Change, client: Client
) -> None:
    broker = world.cluster.broker
    fill(broker)

    def standing(answer: RemotingCommand) -> None:
        change(answer)
        answer.body = None
        fields(nextBeginOffset="0", maxOffset="3")(answer)

    broker.spoil = of_queue(standing)
    async with consuming(client, ignore):
        await trio.sleep(30)
        asked = [each for each in broker.asked(RequestCode.PULL_MESSAGE) if (each.ext_fields or {})["queueId"] == "0"]
        assert len(asked) < 400
    assert broker.progress.get(("g", TOPIC, 0), 0) == 0


async def ignore(batch: MessageBatch) -> ConsumeOrderlyStatus | None:
    return None


async def test_skipping_past_the_end_commits_no_further_than_the_end(
    world: World, autojump_clock: MockClock, client: Client
) -> None:
    """Java's brokers skip a whole file of a ConsumeQueue where a record is missing, perhaps past the end."""
    broker = world.cluster.broker
    fill(broker)

    def far(answer: RemotingCommand) -> None:
        answer.code, answer.body = ResponseCode.PULL_RETRY_IMMEDIATELY, None
        fields(nextBeginOffset="300000", maxOffset="2")(answer)

    broker.spoil = of_queue(far)
    async with client.consumer("g", TOPIC, config=FIRST) as consumer:
        await consumer.wait_assigned()
        await trio.sleep(10)
    assert broker.progress["g", TOPIC, 0] == 2


@pytest.mark.parametrize("until_end", [False, True])
async def test_a_stream_raises_the_garbage_of_a_broker(
    world: World, autojump_clock: MockClock, until_end: bool, client: Client
) -> None:
    broker = world.cluster.broker
    fill(broker)
    async with client.pull_consumer("g") as consumer:
        broker.spoil = of_queue(body(b"garbage"))
        with pytest.raises(RemoteProtocolError):
            async with consumer.open_messages(TOPIC, start="beginning", until_end=until_end) as stream:
                async for _ in stream:
                    pass


@pytest.mark.parametrize("until_end", [False, True])
@pytest.mark.parametrize("step", [0, 1, -1])
async def test_a_stream_does_not_follow_a_broker_in_circles(
    world: World, autojump_clock: MockClock, step: int, until_end: bool, client: Client
) -> None:
    """The offset is illegal, wherever the broker says to go on; a stream with an end gives up."""
    broker = world.cluster.broker
    fill(broker)

    def circling(connection: Connection, request: RemotingCommand, answer: RemotingCommand) -> RemotingCommand:
        if request.code == RequestCode.PULL_MESSAGE:
            answer.code, answer.body = ResponseCode.PULL_OFFSET_MOVED, None
            asked = int((request.ext_fields or {})["queueOffset"])
            fields(nextBeginOffset=str((asked + step) % 3), maxOffset="3")(answer)
        return answer

    broker.spoil = circling
    async with client.pull_consumer("g") as consumer:
        assert (await consumer.pull(QUEUE, 1)).status is PullStatus.OFFSET_ILLEGAL
        with pytest.raises(RemoteProtocolError) if until_end else nullcontext():
            async with consumer.open_messages(TOPIC, start="beginning", until_end=until_end) as stream:
                with trio.move_on_after(20):
                    await anext(stream)
    assert len(broker.asked(RequestCode.PULL_MESSAGE)) < 900
