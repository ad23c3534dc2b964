"""What our client sends Java's and Go's receive, and the reverse: every way of sending that both sides have.

One conversation with each broker, at the same time between all clients, and then one test for each promise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack

import attrs
import pytest
import trio

from rocketpy.client import Client, CompressionType, Producer, queue_by_hash
from tests.interop import tools
from tests.interop.clients import Received, Sent, ToSend
from tests.interop.conftest import BROKERS, chosen_cluster
from tests.interop.our_client import (
    FROM_FIRST,
    PATIENT_PRODUCER,
    Collected,
    open_our_client,
    our_answer,
    our_message,
    our_received,
)
from tests.interop.roles import LANGUAGES, ForeignProducer, Roles

pytestmark = pytest.mark.java

OURS = "rocketpy"
PROPERTIES = {"plain": "value", "Länge": "Maß 長さ 😀", "with space": "a b = c", "number": "-17"}
LARGE = "Straße, 東京, кит. ".encode() * 700
"""Larger than the 4 KiB above which each of the clients compresses, and worth compressing."""

KINDS: Mapping[str, tuple[str, ...]] = {
    OURS: ("sync", "async", "oneway", "queue", "hash", "batch", "batching", "delayed", "zlib", "lz4", "zstd"),
    "java": ("sync", "async", "oneway", "hash", "batch", "delayed", "zlib", "lz4", "zstd"),
    "go": ("sync", "async", "oneway", "queue", "batch", "delayed", "zlib"),
}
"""The ways of sending of each client."""

COMPRESSIONS = {"zlib": 0x300, "lz4": 0x100, "zstd": 0x200}
"""The system flags that name a compression; Go writes none, and knows only zlib."""

COUNT = 6
"""Messages of each kind, but for the large ones."""


def asked_of(sender: str, kind: str, topics: tuple[str, str]) -> list[ToSend]:
    """Return what a client sends in one way; each body names both, so that a message is known by it."""
    is_large = kind in COMPRESSIONS
    return [
        ToSend(
            topic=topics[1] if kind in ("lz4", "zstd") else topics[0],
            body=f"{sender} {kind} {number} ".encode() + (LARGE if is_large else "äöü 東京 😀".encode()),
            tags="größe" if number % 2 else "",
            keys=f"{kind}{number} one two" if number % 3 else "",
            properties=PROPERTIES if number % 2 else {},
            shard=number,
            delay=1 if kind == "delayed" else 0,
        )
        for number in range(1 if is_large else COUNT)
    ]


@attrs.define
class Traffic:
    """What each client was asked to send, was answered, and received; by sender and kind, then in order."""

    broker: str
    topics: tuple[str, str]
    asked: dict[tuple[str, str], list[ToSend]] = attrs.field(factory=dict)
    sent: dict[tuple[str, str], list[Sent]] = attrs.field(factory=dict)
    received: dict[str, list[Received]] = attrs.field(factory=dict)

    def pairs(self, sender: str, receiver: str, *kinds: str) -> list[tuple[ToSend, Received]]:
        """Return what was asked for beside what came, once each; ``kinds`` are by default all that both have."""
        by_body: dict[bytes, Received] = {}
        for each in self.received[receiver]:
            assert each.body not in by_body, f"{receiver} received {each.body[:40]!r} twice"
            by_body[each.body] = each
        wanted = [each for each in kinds or KINDS[sender] if can_read(receiver, each)]
        assert wanted
        return [(asked, by_body[asked.body]) for kind in wanted for asked in self.asked[sender, kind]]


def can_read(receiver: str, kind: str) -> bool:
    """Return whether a client can decompress what was sent so."""
    return receiver != "go" or kind not in ("lz4", "zstd")


async def _ours(client: Client, kind: str, messages: Sequence[ToSend]) -> list[Sent]:
    compressions = {"lz4": CompressionType.LZ4, "zstd": CompressionType.ZSTD}
    config = attrs.evolve(PATIENT_PRODUCER, compress_type=compressions.get(kind, CompressionType.ZLIB))
    async with client.producer(f"ours_{kind}", config=config) as producer:
        return await _send(producer, kind, messages)


async def _send(producer: Producer, kind: str, messages: Sequence[ToSend]) -> list[Sent]:
    (topic,) = {each.topic for each in messages}
    ours = [our_message(each) for each in messages]
    match kind:
        case "async":
            pending = [producer.send_nowait(each) for each in ours]
            return [our_answer(await each) for each in pending]
        case "oneway":
            for each in ours:
                await producer.send_oneway(each)
            return []
        case "queue":
            queues = sorted(await producer.publish_queues(topic))
            return [
                our_answer(await producer.send(each, queue=queues[asked.shard % len(queues)]))
                for each, asked in zip(ours, messages, strict=True)
            ]
        case "hash":
            return [
                our_answer(await producer.send(each, queue=queue_by_hash(str(asked.shard))))
                for each, asked in zip(ours, messages, strict=True)
            ]
        case "batch":
            return [our_answer(await producer.send_batch(ours))]
        case "batching":
            async with producer.batching() as batches, trio.open_nursery() as nursery:
                results: dict[int, Sent] = {}

                async def send(number: int) -> None:
                    results[number] = our_answer(await batches.send(ours[number]))

                for number in range(len(ours)):
                    nursery.start_soon(send, number)
            return [results[number] for number in range(len(ours))]
        case _:
            return [our_answer(await producer.send(each)) for each in ours]


FOREIGN_MODES = {"delayed": "sync", "zlib": "sync", "lz4": "sync", "zstd": "sync"}


async def _theirs(producer: ForeignProducer, kind: str, messages: Sequence[ToSend]) -> list[Sent]:
    mode = "orderly" if kind == "queue" else FOREIGN_MODES.get(kind, kind)
    return await producer.send(messages, mode)


async def converse(traffic: Traffic, namesrv: str, processes: Mapping[str, Roles]) -> None:
    """Let all clients consume, then all send at the same time, until all have received everything."""
    senders = (OURS, *processes)
    traffic.asked = {
        (sender, kind): asked_of(sender, kind, traffic.topics) for sender in senders for kind in KINDS[sender]
    }
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(open_our_client(namesrv))
        collected = Collected()
        consumer = await stack.enter_async_context(client.consumer("ours", *traffic.topics, config=FROM_FIRST))
        nursery = await stack.enter_async_context(trio.open_nursery())
        await nursery.start(consumer.run, collected.handle)
        takers = {
            (language, topic): await stack.enter_async_context(process.consumer(namesrv, f"{language}_{topic}", topic))
            for language, process in processes.items()
            for topic in traffic.topics
            if language != "go" or topic == traffic.topics[0]
        }

        async def ours(kind: str) -> None:
            traffic.sent[OURS, kind] = await _ours(client, kind, traffic.asked[OURS, kind])

        async def theirs(language: str, kind: str) -> None:
            settings = {"compress": kind.upper()} if kind in COMPRESSIONS and language == "java" else {}
            async with processes[language].producer(namesrv, f"{language}_{kind}", **settings) as producer:
                traffic.sent[language, kind] = await _theirs(producer, kind, traffic.asked[language, kind])
                if kind == "oneway":
                    await collected.until(lambda: _has(collected, language, kind), "what was sent oneway")

        async with trio.open_nursery() as sending:
            for kind in KINDS[OURS]:
                sending.start_soon(ours, kind)
            for language in processes:
                for kind in KINDS[language]:
                    sending.start_soon(theirs, language, kind)
        counts = {
            topic: sum(each.topic == topic for many in traffic.asked.values() for each in many)
            for topic in traffic.topics
        }
        traffic.received[OURS] = [our_received(each) for each in await collected.wait(sum(counts.values()))]
        for (language, topic), taker in takers.items():
            traffic.received.setdefault(language, []).extend(await taker.wait_messages(counts[topic]))
        nursery.cancel_scope.cancel()


def _has(collected: Collected, language: str, kind: str) -> bool:
    """Return whether all of a kind are there; a foreign producer that is closed earlier may take them with it."""
    beginning = f"{language} {kind} ".encode()
    return sum(each.body.startswith(beginning) for each in collected.messages) == COUNT


@pytest.fixture(scope="module", params=BROKERS)
def traffic(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Traffic:
    """The whole conversation with the broker under test, and with Java's."""
    cluster = chosen_cluster(request)
    directory = tmp_path_factory.mktemp("messages")
    topics = (cluster.create_topic("client_messages"), cluster.create_topic("client_messages_compressed"))
    found = Traffic(cluster.kind, topics)
    with ExitStack() as stack:
        processes = {
            language: stack.enter_context(Roles(language, directory / language))
            for language in LANGUAGES
            if tools.is_available(language)
        }
        trio.run(converse, found, cluster.namesrv, processes)
    return found


def pairs(*kinds: str, ours_only: bool = False) -> list[object]:
    """Return a parameter per pair of clients that has one of ours, of senders that have one of these kinds."""
    found = [(OURS, OURS), *((OURS, each) for each in LANGUAGES), *((each, OURS) for each in LANGUAGES)]
    return [
        pytest.param(
            sender,
            receiver,
            marks=[getattr(pytest.mark, each) for each in (sender, receiver) if each != OURS],
            id=f"{sender}-to-{receiver}",
        )
        for sender, receiver in found
        if (not kinds or set(kinds).intersection(KINDS[sender])) and not (ours_only and sender != OURS)
    ]


@pytest.mark.parametrize(("sender", "receiver"), pairs())
def test_each_way_of_sending_arrives_once_with_its_body_tags_keys_and_properties(
    traffic: Traffic, sender: str, receiver: str
) -> None:
    for asked, got in traffic.pairs(sender, receiver):
        assert got.topic == asked.topic
        assert (got.tags, got.keys, got.reconsume_times) == (asked.tags, asked.keys, 0)
        assert {name: value for name, value in got.properties.items() if name in PROPERTIES} == asked.properties


@pytest.mark.parametrize(("sender", "receiver"), pairs())
def test_the_ids_and_the_place_of_a_message_are_those_in_its_answer(
    traffic: Traffic, sender: str, receiver: str
) -> None:
    for kind in sorted({"sync", "async", "queue", "hash", "batching", "zlib"}.intersection(KINDS[sender])):
        for (_, got), sent in zip(traffic.pairs(sender, receiver, kind), traffic.sent[sender, kind], strict=True):
            assert sent.status == "SEND_OK"
            assert sent.msg_id == got.properties["UNIQ_KEY"]
            assert (sent.broker_name, sent.queue_id, sent.queue_offset) == (*got.queue, got.queue_offset)
            assert got.msg_id in (sent.msg_id, sent.offset_msg_id)
            if kind != "batching":  # the broker names the records of a batch in one answer
                assert sent.offset_msg_id == got.offset_msg_id


@pytest.mark.parametrize(("sender", "receiver"), pairs("batch"))
def test_a_batch_lies_side_by_side_under_one_answer(traffic: Traffic, sender: str, receiver: str) -> None:
    (answer,) = traffic.sent[sender, "batch"]
    assert answer.status == "SEND_OK"
    assert answer.queue_offset is not None
    found = [got for _, got in traffic.pairs(sender, receiver, "batch")]
    assert [(each.queue_id, each.queue_offset) for each in found] == [
        (answer.queue_id, answer.queue_offset + index) for index in range(COUNT)
    ]
    if sender != "go":  # it names the first only
        assert answer.msg_id == ",".join(each.properties["UNIQ_KEY"] for each in found)


@pytest.mark.parametrize(("sender", "receiver"), pairs("queue"))
def test_a_chosen_queue_gets_the_message(traffic: Traffic, sender: str, receiver: str) -> None:
    for asked, got in traffic.pairs(sender, receiver, "queue"):
        assert got.queue_id == asked.shard % 4


@pytest.mark.parametrize(("sender", "receiver"), pairs("hash"))
def test_a_key_leads_to_the_queue_that_java_chooses(traffic: Traffic, sender: str, receiver: str) -> None:
    chosen = [each.queue_id for each in traffic.sent["java", "hash"]]
    assert [got.queue_id for _, got in traffic.pairs(sender, receiver, "hash")] == chosen
    assert len(set(chosen)) > 1


@pytest.mark.parametrize(("sender", "receiver"), pairs("delayed"))
def test_a_delayed_message_comes_after_its_time(traffic: Traffic, sender: str, receiver: str) -> None:
    for _, got in traffic.pairs(sender, receiver, "delayed"):
        assert got.store_timestamp - got.born_timestamp >= 1000
        assert got.properties["REAL_TOPIC"] == got.topic


@pytest.mark.parametrize(("sender", "receiver"), pairs("zlib"))
def test_a_large_body_travels_compressed(traffic: Traffic, sender: str, receiver: str) -> None:
    for kind in sorted(COMPRESSIONS.keys() & KINDS[sender]):
        if can_read(receiver, kind):
            ((_, got),) = traffic.pairs(sender, receiver, kind)
            assert got.sys_flag is not None
            assert got.sys_flag & 0x701 == (1 if sender == "go" else 1 | COMPRESSIONS[kind])
