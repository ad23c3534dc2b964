"""No request keeps the loop of a nameserver for long: every code, its worst known requests, and tables at their limits.

One thread serves all clients, so what counts is the longest time between two checkpoints, not the sum. A new code
needs its worst requests here: a code without any fails.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from rocketpy.nameserver.kv_config import VALUE_LENGTH_MAX
from rocketpy.nameserver.settings_requests import SETTINGS_SIZE_MAX
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.registration import REGISTRATION_SIZE_MAX
from rocketpy.protocol.bodies.topic import DataVersion, RegisterBrokerBody, TopicConfig, TopicConfigSerializeWrapper
from rocketpy.protocol.codes import RequestCode, SerializeType
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import FRAME_LENGTH_MAX, HEADER_LENGTH_MAX, encode_frame
from tests.nameserver.conftest import NameserverOnBytes
from tests.nameserver.namesrv_requests import BROKER, request
from tests.nameserver.routes.brokers import registration
from tests.nameserver.test_processor import FIELDS
from tests.worst_requests import SLICE_SECONDS_MAX, counted_slices, least_longest, longest_slice, worst_json

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection

BODY_SIZE = FRAME_LENGTH_MAX - 4096
FIELD = HEADER_LENGTH_MAX - 8192
TOPICS = 40_000
"""Of each of two brokers; a slice costs what it costs however many there are."""
TOPICS_TO_READ = 10_000
"""In the other two forms of a registration, which differ in how they are read: 250 ms if it were done at a stretch."""


class Served:
    """A nameserver whose every step is a task of its own, so that it can be timed."""

    def __init__(self, nameserver: NameserverOnBytes) -> None:
        self.nameserver = nameserver

    async def ask(self, frame: bytes, connection: Connection | None = None) -> int:
        """Serve a frame; return the length of what is answered."""
        connection = connection or self.nameserver.connect()
        transport = self.nameserver.transport
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._serve, frame, connection)
        while transport.tasks:
            tasks, transport.tasks = transport.tasks, []
            async with trio.open_nursery() as nursery:
                for function, arguments in tasks:
                    nursery.start_soon(function, *arguments)
        return len(connection.take_outgoing())

    async def _serve(self, frame: bytes, connection: Connection) -> None:
        connection.receive(frame)
        connection.serve(10)
        await trio.lowlevel.checkpoint()


def registered_topics(count: int, *, name: str = "t", counter: int = 1) -> TopicConfigSerializeWrapper:
    topics = [TopicConfig(f"{name}{number}") for number in range(count)]
    return TopicConfigSerializeWrapper({topic.topic_name: topic for topic in topics}, DataVersion(1, counter))


def fill_routes(nameserver: NameserverOnBytes) -> None:
    """Fill the tables of routes: 1,000 brokers with one topic, two with TOPICS more."""
    route_info, config = nameserver.route_info, nameserver.config
    for number in range(config.brokers_max - 2):
        register(nameserver, number, [TopicConfig("of all")], connection=number // config.brokers_per_connection_max)
    for number, name in ((config.brokers_max - 2, "a"), (config.brokers_max - 1, "b")):
        topics = registered_topics(TOPICS, name=name).topic_config_table.values()
        register(nameserver, number, list(topics), connection=name)
    assert route_info.statistics().live_addresses == config.brokers_max


async def fill_kv_config(nameserver: NameserverOnBytes) -> None:
    """Fill the KV table to its limit."""
    config = nameserver.config
    text = "\x01" * (VALUE_LENGTH_MAX // 6)
    for number in range(config.kv_config_bytes_max // VALUE_LENGTH_MAX - 1):
        await nameserver.kv_config.put("ORDER_TOPIC_CONFIG", f"k{number}", text)
    async with trio.open_nursery() as nursery:
        for number in range(2000):
            nursery.start_soon(nameserver.kv_config.put, f"n{number}", "k", "v")


def register(nameserver: NameserverOnBytes, number: int, topics: list[TopicConfig], connection: object) -> None:
    nameserver.route_info.register_broker(
        registration(
            addr=f"10.0.{number // 250}.{number % 250}:10911",
            name=f"broker-{number}",
            cluster=f"c{number % 16}",
            filter_servers=["filter"],
        ),
        connection=connection,  # type: ignore[arg-type]
        now=0.0,
    )
    nameserver.route_info.put_topics(f"broker-{number}", topics)


@cache
def _json(name: str, size: int) -> bytes:
    return worst_json(name, size)


def bodies(code: RequestCode, fields: dict[str, str]) -> Iterator[tuple[str, RemotingCommand]]:
    """Some of the worst texts as the body; ``test_registration.py`` of the protocol has all of them."""
    for name in ("many empty arrays", "references as keys", "one bare key again and again"):
        yield f"body of {name}", request(code, _json(name, BODY_SIZE), **fields)
        if code == RequestCode.REGISTER_BROKER:
            text = _json(name, REGISTRATION_SIZE_MAX - 100)
            table = b'{"topicConfigSerializeWrapper":{"topicConfigTable":' + text + b"}}"
            yield f"table of {name}", request(code, table, **fields)
            yield f"compressed {name}", request(code, zlib.compress(text), **fields, compressed="true")


def with_fields(code: RequestCode, fields: dict[str, str]) -> Iterator[tuple[str, RemotingCommand]]:
    """A field at a time as long as a header lets it be, in both forms."""
    for field in fields:
        for name, text in (("digits", "9"), ("control characters", "\x01")):
            for serialize_type in SerializeType:
                size = FIELD // (6 if text == "\x01" and serialize_type is SerializeType.JSON else 1)
                command = request(code, **{**fields, field: text * size})
                command.serialize_type = serialize_type
                yield f"{field} of {name} in {serialize_type.name}", command


def registrations() -> Iterator[tuple[str, RemotingCommand]]:
    """Many topics, again and again with another version, in each of the three forms."""
    wrapper = registered_topics(1, counter=2)
    fields = {**BROKER, "brokerName": "broker-7", "brokerAddr": "10.0.0.7:10911", "clusterName": "c7"}
    text = with_many_topics(encode_body(RegisterBrokerBody(topic_config_serialize_wrapper=wrapper)), TOPICS)
    yield "many topics", request(RequestCode.REGISTER_BROKER, text, **fields)
    body = RegisterBrokerBody(topic_config_serialize_wrapper=registered_topics(TOPICS_TO_READ, counter=2))
    yield (
        "many topics, compressed",
        request(RequestCode.REGISTER_BROKER, body.encode_compressed(), **fields, compressed="true"),
    )
    old = request(RequestCode.REGISTER_BROKER, with_many_topics(encode_body(wrapper), TOPICS_TO_READ), **fields)
    old.version = 36
    yield "many topics of an old broker", old
    zeros = zlib.compressobj()
    bomb = b"".join([*(zeros.compress(bytes(1 << 20)) for _ in range(70)), zeros.flush()])
    yield "zeros without end", request(RequestCode.REGISTER_BROKER, bomb, **fields, compressed="true")


def with_many_topics(text: bytes, count: int) -> bytes:
    """Return a registration of one topic with many of them: to encode them all takes longer than to register them."""
    begin = text.index(b'"t0":')
    end = text.index(b"}", begin) + 1
    topic = text[begin:end].decode()
    topics = ",".join([topic.replace("t0", f"t{number}") for number in range(count)])
    return text[:begin] + topics.encode() + text[end:]


def settings_texts() -> Iterator[tuple[str, RemotingCommand]]:
    for name, text in (
        ("many lines", "a=b\n"),
        ("many long lines", f"{'k' * 100}={'v' * 100}\n"),
        ("many live settings", "clusterTest=true\n"),
        ("escapes", "\\u0001"),
        ("one long key", "k"),
        ("backslashes", "\\"),
        ("empty lines", "\n"),
        ("comments", "#\n"),
        ("continued lines", "a\\\n"),
    ):
        size = SETTINGS_SIZE_MAX // len(text)
        yield f"settings: {name}", request(RequestCode.UPDATE_NAMESRV_CONFIG, (text * size).encode())


READS_BODY = (RequestCode.REGISTER_BROKER, RequestCode.QUERY_DATA_VERSION)
LARGE = "broker-998"  # has many topics
GOOD: dict[RequestCode, list[dict[str, str]]] = {
    RequestCode.PUT_KV_CONFIG: [{"namespace": "ns", "key": "k", "value": "\x01" * (VALUE_LENGTH_MAX // 8)}],
    RequestCode.GET_KV_CONFIG: [{"namespace": "ORDER_TOPIC_CONFIG", "key": "k0"}],
    RequestCode.DELETE_KV_CONFIG: [{"namespace": "ORDER_TOPIC_CONFIG", "key": "k1"}],
    RequestCode.GET_KVLIST_BY_NAMESPACE: [{"namespace": "ORDER_TOPIC_CONFIG"}],
    RequestCode.REGISTER_BROKER: [BROKER],
    RequestCode.UNREGISTER_BROKER: [{**BROKER, "brokerAddr": "10.0.3.248:10911"}],
    RequestCode.QUERY_DATA_VERSION: [BROKER],
    RequestCode.GET_ROUTEINFO_BY_TOPIC: [{"topic": "of all"}],
    RequestCode.GET_BROKER_CLUSTER_INFO: [{}],
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: [{"brokerName": LARGE}],
    RequestCode.ADD_WRITE_PERM_OF_BROKER: [{"brokerName": LARGE}],
    RequestCode.DELETE_TOPIC_IN_NAMESRV: [{"topic": "of all", "clusterName": "c3"}, {"topic": "of all"}],
    RequestCode.GET_TOPICS_BY_CLUSTER: [{"cluster": "c6"}, {"cluster": "c7"}],
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: [{}],
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: [{}],
    RequestCode.GET_UNIT_TOPIC_LIST: [{}],
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: [{}],
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: [{}],
    RequestCode.GET_NAMESRV_CONFIG: [{}],
    RequestCode.UPDATE_NAMESRV_CONFIG: [{}],
}
"""Every code of a nameserver, and good requests for all that it may ask of tables that are full."""


def worst(code: RequestCode) -> Iterator[tuple[str, RemotingCommand]]:
    fields = FIELDS.get(code, {})
    for number, each in enumerate(GOOD[code]):
        yield f"good request {number}", request(code, **each)
    if fields:
        yield from with_fields(code, fields)
    if code in READS_BODY:
        yield from bodies(code, fields)
    if code == RequestCode.REGISTER_BROKER:
        yield from registrations()
    if code == RequestCode.UPDATE_NAMESRV_CONFIG:
        yield from settings_texts()


def worst_unread(code: RequestCode) -> Iterator[tuple[str, RemotingCommand]]:
    """A field or a body that the code does not read: what it costs has nothing to do with tables."""
    fields = FIELDS.get(code, {})
    if not fields:
        yield from with_fields(code, {"unknown": ""})
    if code not in READS_BODY:
        yield "a large body", request(code, _json("many empty arrays", BODY_SIZE), **fields)


async def test_every_code_has_its_worst_requests(nameserver: NameserverOnBytes) -> None:
    for code in RequestCode:
        await nameserver.ask(request(code))
    assert sorted(GOOD) == sorted({*RequestCode} - {*nameserver.unsupported})


async def test_no_request_keeps_the_loop_for_long(tmp_path: Path) -> None:
    full = NameserverOnBytes(tmp_path / "full", run_blocking=trio.to_thread.run_sync)
    fill_routes(full)
    await fill_kv_config(full)
    empty = NameserverOnBytes(tmp_path / "empty", run_blocking=trio.to_thread.run_sync)
    too_long = []
    with counted_slices() as slices:  # to collect full tables before each request would take most of the time
        for nameserver, requests in ((full, worst), (empty, worst_unread)):
            served = Served(nameserver)
            for code, what, command in ((each, *named) for each in GOOD for named in requests(each)):
                seconds = await least_longest(slices, partial(served.ask, encode_frame(command)))
                if seconds >= SLICE_SECONDS_MAX:
                    too_long.append(f"{code.name}, {what}: {seconds * 1000:.0f} ms")
    assert too_long == []


async def test_the_end_of_a_connection_with_large_brokers_does_not_either(tmp_path: Path) -> None:
    nameserver = NameserverOnBytes(tmp_path, run_blocking=trio.to_thread.run_sync)
    fill_routes(nameserver)
    connections = iter([nameserver.connect() for _ in range(3)])

    async def end() -> None:
        connection = next(connections)
        for name in ("broker-998", "broker-999"):
            number = int(name.removeprefix("broker-"))
            register(nameserver, number, [], connection=connection)

        async def close() -> None:
            connection.close()
            await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(close)

    assert await longest_slice(end, attempts=3) < SLICE_SECONDS_MAX
