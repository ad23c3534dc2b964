"""Each client language sends, each receives: the same messages come out as went in, for every pair.

All producers send to one topic, each after the other, and one consumer group per language takes everything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import attrs
import pytest

from tests.interop import tools
from tests.interop.clients import LANGUAGES, Program, Received, Sent, ToSend, produce
from tests.interop.cluster import Cluster

# Larger than the 4 KiB above which each of the clients compresses, and worth compressing.
LARGE = "Straße, 東京, кит. ".encode() * 700
PROPERTIES = {"plain": "value", "Länge": "Maß 長さ 😀", "with space": "a b = c", "number": "-17"}


def messages(topic: str, language: str) -> list[ToSend]:
    """Return what a language sends: the body begins with its name, so that each message of the topic is known by it."""
    return [
        ToSend(topic=topic, body=f"{language} plain".encode()),
        ToSend(topic=topic, body=f"{language} äöü 東京 😀".encode(), tags="Schlüssel", keys="größe"),
        ToSend(topic=topic, body=f"{language} keys".encode(), tags="TagA", keys="one two three"),
        ToSend(topic=topic, body=f"{language} properties".encode(), tags="TagB", keys="p", properties=PROPERTIES),
        ToSend(topic=topic, body=f"{language} large ".encode() + LARGE, tags="TagA", keys="large"),
        *(ToSend(topic=topic, body=f"{language} number {index}".encode(), tags="TagC") for index in range(15)),
    ]


@attrs.frozen
class Traffic:
    """What each language sent and was answered, and what each received."""

    asked: Mapping[str, list[ToSend]]
    sent: Mapping[str, list[Sent]]
    received: Mapping[str, list[Received]]


@pytest.fixture(scope="module")
def traffic(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Traffic:
    """The whole conversation between the languages that this machine has."""
    languages = [each for each in LANGUAGES if tools.is_available(each)]
    directory = tmp_path_factory.mktemp("matrix")
    topic = cluster.create_topic("matrix", queues=4)
    asked = {language: messages(topic, language) for language in languages}
    with ExitStack() as stack:
        consumers = {
            language: stack.enter_context(_consumer(language, cluster, topic, directory)) for language in languages
        }
        for consumer in consumers.values():
            consumer.wait_started()
        sent = {
            language: produce(language, cluster.namesrv, asked[language], directory / f"{language}-produce")
            for language in languages
        }
        count = sum(map(len, asked.values()))
        received = {language: consumer.wait_messages(count) for language, consumer in consumers.items()}
    return Traffic(asked, sent, received)


def _consumer(language: str, cluster: Cluster, topic: str, directory: Path) -> Program:
    arguments = {
        "namesrv": cluster.namesrv,
        "group": f"matrix_{language}",
        "topic": topic,
        "names": ",".join(PROPERTIES),
    }
    return Program(language, "consume", directory / f"{language}-consume", **arguments)


def pairs() -> list[object]:
    """Return a parameter per pair of languages, marked with both."""
    return [
        pytest.param(
            sender,
            receiver,
            marks=[getattr(pytest.mark, sender), getattr(pytest.mark, receiver)],
            id=f"{sender}-to-{receiver}",
        )
        for sender in LANGUAGES
        for receiver in LANGUAGES
    ]


def of(sender: str, received: list[Received]) -> dict[bytes, list[Received]]:
    """Return what came from the sender, by body."""
    found: dict[bytes, list[Received]] = defaultdict(list)
    for each in received:
        if each.body.startswith(f"{sender} ".encode()):
            found[each.body].append(each)
    return found


@pytest.mark.parametrize(("sender", "receiver"), pairs())
def test_everything_sent_is_received_once_with_its_body(traffic: Traffic, sender: str, receiver: str) -> None:
    found = of(sender, traffic.received[receiver])
    assert {body: len(each) for body, each in found.items()} == {each.body: 1 for each in traffic.asked[sender]}
    assert all(each.reconsume_times == 0 for copies in found.values() for each in copies)


@pytest.mark.parametrize(("sender", "receiver"), pairs())
def test_tags_keys_and_properties_survive(traffic: Traffic, sender: str, receiver: str) -> None:
    found = of(sender, traffic.received[receiver])
    for asked in traffic.asked[sender]:
        (got,) = found[asked.body]
        assert (got.tags, got.keys) == (asked.tags, asked.keys)
        assert {name: value for name, value in got.properties.items() if name in PROPERTIES} == asked.properties


@pytest.mark.parametrize(("sender", "receiver"), pairs())
def test_ids_and_offsets_are_those_in_the_sender_s_answers(traffic: Traffic, sender: str, receiver: str) -> None:
    found = of(sender, traffic.received[receiver])
    for asked, sent in zip(traffic.asked[sender], traffic.sent[sender], strict=True):
        (got,) = found[asked.body]
        assert sent.status == "SEND_OK"
        assert got.queue_offset == sent.queue_offset
        if sent.queue_id is not None:  # C++ does not say
            assert got.queue_id == sent.queue_id
        assert sent.msg_id is not None
        known = {got.msg_id, got.offset_msg_id, got.properties.get("UNIQ_KEY")}
        if sender == "node" and receiver == "cpp":
            # Node gives its messages no id of their own, so that the id is made of address and physical offset; C++
            # then writes the address in its machine's byte order.
            assert sent.msg_id[16:] in {each[16:] for each in known if each}
        elif sender == receiver == "java":
            assert (got.msg_id, got.offset_msg_id) == (sent.msg_id, sent.offset_msg_id)
            assert got.queue == (sent.broker_name, sent.queue_id)
        elif sender == "cpp" and receiver == "node":
            assert got.properties["UNIQ_KEY"] == sent.msg_id
        else:
            assert sent.msg_id in known


@pytest.mark.parametrize("receiver", [pytest.param(each, marks=getattr(pytest.mark, each)) for each in LANGUAGES])
def test_a_queue_is_received_in_its_order_without_a_gap(traffic: Traffic, receiver: str) -> None:
    offsets: dict[int, list[int]] = defaultdict(list)
    for each in traffic.received[receiver]:
        offsets[each.queue_id].append(each.queue_offset)
    assert len(offsets) == 4
    # The listeners run in several threads, so that the order of printing says nothing; that of offsets is complete.
    assert {queue_id: sorted(each) for queue_id, each in offsets.items()} == {
        queue_id: list(range(len(each))) for queue_id, each in offsets.items()
    }
