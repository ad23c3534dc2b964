"""Topics: versions, and the compressed form of registrations."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.bodies.codec import decode_body, encode_body
from rocketpy.protocol.bodies.topic import DataVersion, RegisterBrokerBody, TopicConfig, TopicConfigSerializeWrapper
from tests.recorded import BODIES, VECTORS

COMPRESSED = BODIES["RegisterBrokerBody compressed"]
REGISTRATION = RegisterBrokerBody(
    TopicConfigSerializeWrapper(
        {"T": TopicConfig("T", 4, 4, 6), "U": TopicConfig("U", 1, 2, 4, "MULTI_TAG")}, DataVersion(1_700_000_000_000, 3)
    ),
    ["f"],
)
CONTENT = zlib.decompress(REGISTRATION.encode_compressed())


def test_a_version_counts_and_dates_a_change() -> None:
    assert DataVersion(5, 1).next_version(9) == DataVersion(9, 2)
    assert DataVersion(5, 1) != DataVersion(5, 2) != DataVersion(6, 2)


@pytest.mark.parametrize("vector", VECTORS["topic_config_text"], ids=lambda vector: vector["encoded"])
def test_topics_are_those_of_java(vector: dict[str, str]) -> None:
    topic = decode_body(vector["json"], TopicConfig)
    assert encode_body(topic).decode() == vector["json"]
    body = RegisterBrokerBody(TopicConfigSerializeWrapper({topic.topic_name: topic}))
    assert vector["encoded"].encode() in zlib.decompress(body.encode_compressed())
    assert RegisterBrokerBody.decode_compressed(body.encode_compressed()) == body


def test_a_compressed_registration_of_java_is_read_and_written_again_byte_for_byte() -> None:
    body = RegisterBrokerBody.decode_compressed(bytes.fromhex(COMPRESSED["hex"]))
    assert body.topic_config_serialize_wrapper.topic_config_table == {"T": TopicConfig("T", 4, 4, 6)}
    assert body.filter_server_list == ["f"]
    assert zlib.decompress(body.encode_compressed()).hex() == COMPRESSED["inflated_hex"]


def test_the_compressed_form_loses_system_flag_and_order() -> None:
    body = RegisterBrokerBody(TopicConfigSerializeWrapper({"T": TopicConfig("T", topic_sys_flag=3, order=True)}))
    again = RegisterBrokerBody.decode_compressed(body.encode_compressed())
    assert again.topic_config_serialize_wrapper.topic_config_table == {"T": TopicConfig("T")}


def test_every_cut_of_the_content_is_refused() -> None:
    assert RegisterBrokerBody.decode_compressed(zlib.compress(CONTENT)) == REGISTRATION
    for size in range(len(CONTENT)):
        with pytest.raises(RemoteProtocolError, match="expected"):
            RegisterBrokerBody.decode_compressed(zlib.compress(CONTENT[:size]))


def test_every_cut_of_the_stream_is_refused() -> None:
    stream = REGISTRATION.encode_compressed()
    for size in range(len(stream)):
        with pytest.raises(RemoteProtocolError, match="expected a whole ZLIB stream"):
            RegisterBrokerBody.decode_compressed(stream[:size])


@pytest.mark.parametrize(
    "topic", ["T 1 2 6", "T 1 2 6 SINGLE_TAG x", "T x 2 6 SINGLE_TAG", "T 1 2 99999999999 SINGLE_TAG"]
)
def test_a_topic_in_another_form_is_refused(topic: str) -> None:
    content = CONTENT.replace(b"\0\0\0\x12T 4 4 6 SINGLE_TAG", len(topic).to_bytes(4, "big") + topic.encode())
    with pytest.raises(RemoteProtocolError, match="expected"):
        RegisterBrokerBody.decode_compressed(zlib.compress(content))


@pytest.mark.parametrize("number", ["ffffffff", "7fffffff"])
def test_a_hostile_number_of_topics_is_refused_at_once(number: str) -> None:
    version_size = int.from_bytes(CONTENT[:4], "big")
    content = CONTENT[: 4 + version_size] + bytes.fromhex(number) + CONTENT[8 + version_size :]
    with pytest.raises(RemoteProtocolError, match="expected a length of 0 to"):
        RegisterBrokerBody.decode_compressed(zlib.compress(content))


@given(st.binary(max_size=60))
def test_garbage_is_refused(content: bytes) -> None:
    for body in (content, zlib.compress(content)):
        with pytest.raises(RemoteProtocolError):
            RegisterBrokerBody.decode_compressed(body)
