"""A nameserver and brokers that answer every request code, with answers that a test may spoil.

What the fake cluster does not know is answered with an answer of Java's to that code, as it was recorded. A spoiling is
one of the ways in which an answer can be wrong; :func:`spoil` makes the bytes that travel instead of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from random import Random

import attrs

from rocketpy.client.client import open_client
from rocketpy.client.config import ClientConfig
from rocketpy.client.environment import ClientEnvironment
from rocketpy.clock import ManualClock
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.headers.query import QueryMessageResponseHeader
from rocketpy.protocol.host import encode_host
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.message_id import encode_offset_msg_id
from rocketpy.protocol.stored_message import encode_message
from rocketpy.remoting.connection import Connection
from rocketpy.runner import RunBlocking, run_inline
from rocketpy.testing.sim.network import SimNetwork
from tests.client.fake_cluster import FakeCluster, Scripted, open_fake_cluster
from tests.client.public_calls import TOPIC, UNIQUE_KEY, Caller
from tests.client.recorded_frames import recorded_frames

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"

TEXTS = (
    "",
    "0",
    "-1",
    "-9223372036854775808",
    "9223372036854775807",
    "9" * 40,
    "9" * 5000,
    "1e9",
    "NaN",
    "null",
    "true",
    "[]",
    "{}",
    "::",
    "a..b:1",
    "host:99999",
    "\ud800",
    "\x00",
    "%RETRY%g",
    "x" * 300,
    "7F00000100002A9F0000000000000000",
)
BODIES = (
    b"",
    b"null",
    b"[]",
    b"{}",
    b"7",
    b'"text"',
    b"{" * 3000,
    b"[" * 3000,
    b'{"a":',
    b"\xff\xfe\xff",
    b"\x00" * 91,
    b"\xda\xa3\x20\xa7" * 40,
    b'{"brokerDatas":[{"brokerName":"broker-a","brokerAddrs":{0:"nowhere"}}],"queueDatas":[{"brokerName":"broker-a",'
    b'"perm":6,"readQueueNums":2,"writeQueueNums":2}]}',
    b'{"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":2147483647,"writeQueueNums":2147483647}],'
    b'"brokerDatas":[{"brokerName":"broker-a","brokerAddrs":{"0":"a..b:1"}}]}',
    b'{"orderTopicConf":"broker-a:99999999999;x:1","queueDatas":[],"brokerDatas":[]}',
    b'{"lockOKMQSet":[{"topic":"Other","brokerName":"b","queueId":-1}]}',
    b'{"consumerIdList":[null,7,"x"]}',
)
WAYS = (
    "text field",
    "missing field",
    "no fields",
    "body",
    "cut body",
    "flipped bit",
    "number in body",
    "code",
    "opaque",
    "twice",
    "cut frame",
    "garbage",
    "silence",
    "remark",
    "other answer",
)


@attrs.frozen
class Spoiling:
    """How one answer is wrong; ``a`` and ``b`` choose what of it."""

    way: str
    a: int
    b: int


@cache
def recorded_answers() -> dict[int, list[RemotingCommand]]:
    """Java's answers by the code of the request."""
    found: dict[int, list[RemotingCommand]] = {}
    for each in recorded_frames():
        if each.kind == "response" and each.command.code == 0 and len(found.get(each.request_code, ())) < 4:
            found.setdefault(each.request_code, []).append(each.command)
    return found


def spoil(connection: Connection, answer: RemotingCommand, spoiling: Spoiling) -> RemotingCommand | bytes | None:
    """Return what travels instead of an answer; None for nothing."""
    a, b, fields, body = spoiling.a, spoiling.b, dict(answer.ext_fields or {}), answer.body or b""
    match spoiling.way:
        case "text field" if fields:
            fields[sorted(fields)[a % len(fields)]] = TEXTS[b % len(TEXTS)]
            answer.ext_fields = fields
        case "missing field" if fields:
            del fields[sorted(fields)[a % len(fields)]]
            answer.ext_fields = fields
        case "no fields":
            answer.ext_fields = None
        case "body":
            answer.body = BODIES[a % len(BODIES)]
        case "cut body":
            answer.body = body[: a % (len(body) + 1)]
        case "flipped bit" if body:
            position = a % len(body)
            answer.body = body[:position] + bytes((body[position] ^ 1 << b % 8,)) + body[position + 1 :]
        case "number in body" if body:
            digits = [index for index, byte in enumerate(body) if 48 <= byte <= 57]
            if digits:
                position = digits[a % len(digits)]
                answer.body = body[:position] + TEXTS[1 + b % 12].encode() + body[position + 1 :]
        case "code":
            answer.code = (1, 2, 10, 17, 19, 20, 21, 206, 999, -1, 2**31 - 1)[a % 11]
        case "opaque":
            answer.opaque += a % 5 - 2
        case "twice":
            return encode_frame(answer) * 2
        case "cut frame":
            frame = encode_frame(answer)
            connection.reply_frame(frame[: a % len(frame)])
            connection.flush()
            connection.close()
            return None
        case "garbage":
            return (b"HTTP/1.1 400 Bad\r\n\r\n", b"\x00" * 64, b"\xff" * 64, b"\x00\x00\x00\x08\x00\x00\x00\x02{}zz")[
                a % 4
            ]
        case "silence":
            return None
        case "remark":
            answer.code, answer.remark = 1, "r" * 100_000
        case "other answer":
            others = recorded_answers()
            choice = others[sorted(others)[a % len(others)]]
            other = choice[b % len(choice)]
            answer.code, answer.ext_fields, answer.body = other.code, other.ext_fields, other.body
    try:
        return encode_frame(answer)
    except UnicodeEncodeError:
        return b"\x00\x00\x00\x04\x00\x00\x00\x09"


def answer_all(scripted: Scripted) -> None:
    """Let a server answer every code of the client's that it does not know, as Java answered it.

    A message that is looked for by id or key is the broker's own: its record says where the next request goes.
    """

    def replay(connection: Connection, request: RemotingCommand) -> RemotingCommand:
        found = recorded_answers().get(request.code)
        answer = RemotingCommand(0) if found is None else attrs.evolve(found[request.opaque % len(found)])
        answer.opaque, answer.flag = request.opaque, 1
        return answer

    def message(connection: Connection, request: RemotingCommand) -> RemotingCommand:
        properties = {"KEYS": "k", "UNIQ_KEY": UNIQUE_KEY, "PGROUP": "p", "RETRY_TOPIC": TOPIC}
        found = MessageExt(TOPIC, b"found", properties, store_host=scripted.address, store_timestamp=1)
        header = QueryMessageResponseHeader(index_last_update_timestamp=1, index_last_update_phyoffset=1)
        return make_response(request, header=header, body=encode_message(found))

    for code in (RequestCode.VIEW_MESSAGE_BY_ID, RequestCode.QUERY_MESSAGE):
        scripted.register(code, message)
    for code in RequestCode:
        if code not in scripted.known_codes:
            scripted.register(code, replay)


@asynccontextmanager
async def open_lying_world(
    run_blocking: RunBlocking = run_inline,
) -> AsyncIterator[tuple[FakeCluster, ClientEnvironment]]:
    """Open two brokers and a nameserver that answer everything, and the environment of a client beside them."""
    network = SimNetwork(randomness=Random(1))
    async with open_fake_cluster(("broker-a", "broker-b"), network=network) as cluster:
        for topic, queue_nums in ((TOPIC, 2), ("%RETRY%g", 1), (TRACE_TOPIC, 1), ("cluster_REPLY_TOPIC", 1)):
            cluster.add_topic(topic, queue_nums)
        for server in (cluster.name_server, *cluster.brokers):
            answer_all(server)
        for broker in cluster.brokers:
            for number in range(4):
                broker.put(TOPIC, number % 2, b"%d" % number, {"KEYS": "k", "TAGS": "a"})
        yield (
            cluster,
            ClientEnvironment(
                network=network.host("10.0.1.1"),
                clock=ManualClock(),
                randomness=Random(7),
                process_id=1,
                run_blocking=run_blocking,
            ),
        )


@asynccontextmanager
async def open_caller(cluster: FakeCluster, environment: ClientEnvironment) -> AsyncIterator[Caller]:
    """Open a client of the cluster, for calls."""
    config = ClientConfig(name_servers=cluster.address, mq_client_api_timeout=1000)
    async with open_client(cluster.address, config=config, environment=environment) as client:
        offset_msg_id = encode_offset_msg_id(encode_host(cluster.broker.address), 0)
        yield Caller(client, cluster.address, cluster.broker.address, environment, config, offset_msg_id)


def lie(cluster: FakeCluster, spoilings: Sequence[Spoiling], *, always: bool) -> None:
    """Spoil the first answers of the cluster, one for each spoiling; with ``always`` all of them, in turns."""
    left = list(spoilings)

    def spoiled(
        connection: Connection, request: RemotingCommand, answer: RemotingCommand
    ) -> RemotingCommand | bytes | None:
        if not left:
            return answer
        spoiling = left.pop(0)
        if always:
            left.append(spoiling)
        return spoil(connection, answer, spoiling)

    for server in (cluster.name_server, *cluster.brokers):
        server.spoil = spoiled
