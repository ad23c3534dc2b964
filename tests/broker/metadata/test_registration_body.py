"""The body of a registration: the same bytes as the generic encoder's, and no topic encoded twice."""

from __future__ import annotations

import weakref

import attrs
import pytest

from rocketpy.broker.metadata import registration_body
from rocketpy.broker.metadata.registration_body import CompressedRegistrationBody, RegistrationBody
from rocketpy.protocol.bodies.codec import decode_body, encode_body
from rocketpy.protocol.bodies.topic import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from tests.forgotten import is_forgotten
from tests.turns import counted_turns


def wrapper(*topics: TopicConfig, counter: int = 3) -> TopicConfigSerializeWrapper:
    return TopicConfigSerializeWrapper({each.topic_name: each for each in topics}, DataVersion(1_700_000, counter))


def expected(of: TopicConfigSerializeWrapper) -> bytes:
    return encode_body(RegisterBrokerBody(topic_config_serialize_wrapper=of))


TOPICS = (
    TopicConfig("T", 8, 4, 6, order=True),
    TopicConfig('quote"d\\', 1, 1, topic_sys_flag=3),
    TopicConfig("Tö", 1, 1, 2, topic_filter_type="MULTI_TAG"),
)


@pytest.mark.parametrize("topics", [(), TOPICS[:1], TOPICS, TOPICS[::-1]])
async def test_the_bytes_are_those_of_the_generic_encoder(topics: tuple[TopicConfig, ...]) -> None:
    given = wrapper(*topics)
    (encoded,) = await RegistrationBody().encode(given)
    assert encoded == expected(given)
    assert decode_body(encoded, RegisterBrokerBody).topic_config_serialize_wrapper == given


async def test_changes_are_seen() -> None:
    body = RegistrationBody()
    for given in (wrapper(*TOPICS), wrapper(attrs.evolve(TOPICS[0], perm=4), *TOPICS[1:], counter=4), wrapper()):
        assert await body.encode(given) == [expected(given)]


async def test_a_compressed_registration_leaves_out_what_its_form_cannot_have() -> None:
    """The topic of a broker with a space in its name: a nameserver refused all topics because of it."""
    (encoded,) = await CompressedRegistrationBody().encode(
        wrapper(TopicConfig("my broker", 1, 1), TopicConfig("T", 8, 4))
    )
    decoded = RegisterBrokerBody.decode_compressed(encoded).topic_config_serialize_wrapper
    assert decoded == wrapper(TopicConfig("T", 8, 4))


@pytest.mark.parametrize("kind", [RegistrationBody, CompressedRegistrationBody])
async def test_a_deleted_topic_is_not_kept(kind: type[RegistrationBody | CompressedRegistrationBody]) -> None:
    topic = TopicConfig("T", 8, 4)
    reference = weakref.ref(topic)
    body = kind()
    await body.encode(wrapper(topic))
    del topic
    assert not is_forgotten(reference), "encoded once, for the next registration too"
    await body.encode(wrapper(counter=4))
    assert is_forgotten(reference)


async def test_a_topic_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[object] = []

    def noting(value: object) -> bytes:
        encoded.append(value)
        return encode_body(value)

    monkeypatch.setattr(registration_body, "encode_body", noting)
    body = RegistrationBody()
    for _ in range(3):
        await body.encode(wrapper(*map(attrs.evolve, TOPICS)))
    assert sum(isinstance(each, TopicConfig) for each in encoded) == len(TOPICS)


async def test_others_run_while_many_topics_are_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration_body, "TOPICS_PER_SLICE", 10)
    given = wrapper(*(TopicConfig(f"T{number}") for number in range(100)))
    async with counted_turns() as turns:
        assert await RegistrationBody().encode(given) == [expected(given)]
    assert turns.count >= 8


@pytest.mark.parametrize("topics", [(), TOPICS[::2]])
async def test_a_compressed_body_says_the_same(topics: tuple[TopicConfig, ...]) -> None:
    given = wrapper(*(attrs.evolve(each, order=False) for each in topics))
    (encoded,) = await CompressedRegistrationBody().encode(given)
    assert RegisterBrokerBody.decode_compressed(encoded).topic_config_serialize_wrapper == given


@pytest.mark.parametrize("is_compressed", [False, True])
async def test_what_does_not_fit_one_part_is_shared_out(is_compressed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration_body, "PART_BYTES_MAX", 1000)
    given = wrapper(*(TopicConfig(f"T{number}", number, number) for number in range(100)))
    body = CompressedRegistrationBody() if is_compressed else RegistrationBody()
    parts = await body.encode(given)
    decoded = [
        (RegisterBrokerBody.decode_compressed(part) if is_compressed else decode_body(part, RegisterBrokerBody))
        .topic_config_serialize_wrapper
        for part in parts
    ]  # fmt: skip
    assert len(parts) > 2
    assert all(len(each.topic_config_table) < 60 for each in decoded)
    topics = [topic for each in decoded for topic in each.topic_config_table.values()]
    assert topics == list(given.topic_config_table.values())
    versions = [each.data_version for each in decoded]
    assert versions[-1] == given.data_version
    assert len(set(versions)) == len(versions)
    assert all(version.counter < 0 for version in versions[:-1])
    following = await body.encode(attrs.evolve(given, data_version=DataVersion(1_700_000, 4)))
    assert following[0] != parts[0]  # a part of another table is another part


async def test_others_run_while_many_topics_are_compressed() -> None:
    given = wrapper(*(TopicConfig(f"T{number}") for number in range(3000)))
    body = CompressedRegistrationBody()
    await body.encode(given)
    async with counted_turns() as turns:
        await body.encode(given)
    assert turns.count >= 30
