"""No answer to any request of the client keeps its loop longer than 50 ms of processor time: the mirror of
``tests/broker/test_worst_requests.py``.

Every code that the client sends is answered with the worst texts for a JSON reader, with an honest answer that is
grown to a megabyte, with fields and remarks as long as a header lets them be, and with records that grow a
thousandfold. What the client reads off its loop does not count, and must end.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from functools import cache, partial

import pytest
import trio
from trio.testing import MockClock

from rocketpy.client.routes import QUEUES_OF_TOPIC_MAX
from rocketpy.protocol.codes import RequestCode, SerializeType
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.compression import DECOMPRESSED_SIZE_MAX
from rocketpy.protocol.fastjson import dumps, loads
from rocketpy.protocol.frame import HEADER_LENGTH_MAX, encode_frame
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import encode_message
from rocketpy.protocol.sysflag import COMPRESSED_FLAG
from rocketpy.remoting.connection import Connection
from rocketpy.runner import ON_LOOP_BYTES_MAX
from tests.client.fake_cluster import FakeCluster
from tests.client.hostile.test_answers import CALL_OF, outcome
from tests.client.lying_world import open_caller, open_lying_world, recorded_answers
from tests.client.public_calls import GROUP, TOPIC, Caller
from tests.stages import TIER
from tests.worst_answers import SIZE, Workers, grown, in_a_task
from tests.worst_requests import SLICE_SECONDS_MAX, WORST_JSON, counted_slices, least_longest, worst_json

FIELD_SIZE = HEADER_LENGTH_MAX - 10_000
STEP = 8 if TIER == "dev" else 2
"""Each code gets one of so many of the worst texts; all codes together get them all."""

_ROUTE = (
    b'{"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":%d,"writeQueueNums":%d}],'
    b'"brokerDatas":[{"brokerName":"broker-a","brokerAddrs":{"0":"nowhere:1"}}]}'
)

Change = Callable[[RemotingCommand], None]


@cache
def bomb() -> bytes:
    """A record that grows to more than a client unpacks."""
    body = zlib.compress(bytes(DECOMPRESSED_SIZE_MAX - 10), 9)
    return encode_message(MessageExt(TOPIC, body, {"UNIQ_KEY": "k", "KEYS": "k"}, sys_flag=COMPRESSED_FLAG))


@cache
def short_bomb() -> bytes:
    """A record that is short enough to be read on the loop, but for what it grows to."""
    body = zlib.compress(bytes(DECOMPRESSED_SIZE_MAX // 2), 9)[: ON_LOOP_BYTES_MAX - 200]
    return encode_message(MessageExt(TOPIC, body, {"PGROUP": "p", "UNIQ_KEY": "k"}, sys_flag=COMPRESSED_FLAG))


@cache
def record_of_properties() -> bytes:
    """A record with as many properties as fit."""
    return encode_message(MessageExt(TOPIC, b"", {f"{number:x}": "" for number in range(5_000)}))


@cache
def small_record() -> bytes:
    return encode_message(MessageExt(TOPIC, b"", {}))


@cache
def _json(what: str) -> bytes:
    return worst_json(what, SIZE)


def bodies_of(code: int) -> Iterator[tuple[str, bytes]]:
    """Yield the worst bodies of answers to a code, each with what it is."""
    for what in list(WORST_JSON)[code % STEP :: STEP]:
        yield what, _json(what)
    for number, answer in enumerate(recorded_answers().get(code, ())):
        if answer.body and answer.body[:1] in b"{[":
            yield f"honest answer {number}, grown", dumps(grown(loads(answer.body), SIZE)).encode()
    if code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
        yield "as many queues as a route may have", _ROUTE % (QUEUES_OF_TOPIC_MAX, QUEUES_OF_TOPIC_MAX)
    yield "settings", b"a=b\n" * (SIZE // 4)
    yield "settings without end", b"a\\\n" * (SIZE // 3)
    yield "bombs", bomb() * 32
    yield "a short bomb", short_bomb()
    yield "properties", record_of_properties() * (SIZE // len(record_of_properties()))
    yield "small records", small_record() * (SIZE // len(small_record()))


def changes_of(code: int, fields: dict[str, str]) -> Iterator[tuple[str, Change]]:
    """Yield what makes an answer worse, each with what it is."""
    for what, body in bodies_of(code):
        yield what, partial(_set_body, body)
    for number, name in enumerate(sorted(fields)):
        piece = ("9", "\x01", "a=b;", "{", "-")[(code + number) % 5]
        yield f"field {name} full of {piece!r}", partial(_set_field, name, piece * (FIELD_SIZE // len(piece)))
    yield "a remark", _set_remark


def _set_body(body: bytes, answer: RemotingCommand) -> None:
    answer.body = body


def _set_field(name: str, text: str, answer: RemotingCommand) -> None:
    answer.serialize_type = SerializeType.ROCKETMQ  # without escapes, which would take the time of the server
    answer.ext_fields = {**(answer.ext_fields or {}), name: text}


def _set_remark(answer: RemotingCommand) -> None:
    answer.code, answer.remark = 1, "r" * FIELD_SIZE


def lie_about(cluster: FakeCluster, code: int, change: Change) -> list[RemotingCommand]:
    """Change the answers to one code from now on; return the list of those that were."""
    changed: list[RemotingCommand] = []

    def lying(connection: Connection, request: RemotingCommand, answer: RemotingCommand) -> RemotingCommand | bytes:
        if request.code != code:
            return answer
        if code == RequestCode.PULL_MESSAGE:
            answer.code = 0
        change(answer)
        changed.append(answer)
        return encode_frame(answer)

    for server in (cluster.name_server, *cluster.brokers):
        server.behave()
        server.spoil = lying
    for broker in cluster.brokers:
        for queue_id in (0, 1):
            broker.put(TOPIC, queue_id, b"more", {"TAGS": "a"})
            broker.progress.setdefault((GROUP, TOPIC, queue_id), 0)
    return changed


@pytest.mark.parametrize("code", CALL_OF, ids=lambda code: code.name)
async def test_no_answer_keeps_the_loop(code: RequestCode, autojump_clock: MockClock) -> None:
    """And the call works again afterwards, with the client that has heard all that."""
    name, found = CALL_OF[code], []
    async with open_lying_world(Workers()) as (cluster, environment), open_caller(cluster, environment) as caller:
        fields = await honest_fields(cluster, caller, code)
        with counted_slices() as slices:
            for what, change in changes_of(code, fields):
                await trio.sleep(1)  # a connection that was spoiled is made anew
                changed = lie_about(cluster, code, change)
                least = await least_longest(slices, partial(in_a_task, partial(outcome, name, caller)))
                assert changed, f"{name} sends no {code.name} ({what})"
                if least >= SLICE_SECONDS_MAX:
                    found.append(f"{code.name}, {what}: {least * 1000:.0f} ms")
        for server in (cluster.name_server, *cluster.brokers):
            server.behave()
        await trio.sleep(60)
        assert await outcome(name, caller) == "a result"
    assert not found, "\n".join(found)


async def honest_fields(cluster: FakeCluster, caller: Caller, code: int) -> dict[str, str]:
    """Make the call; return the fields of the answer to a code."""
    answers = lie_about(cluster, code, lambda answer: None)
    await outcome(CALL_OF[RequestCode(code)], caller)
    return dict(answers[0].ext_fields or {})
