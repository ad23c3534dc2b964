"""Decodes the registration of a broker in slices: it may bring a hundred thousand topics, and one thread serves all.

A body of :data:`WHOLE_SIZE_MAX` bytes is decoded at once, and as loosely as every other. A longer one is what brokers
of RocketMQ write: standard JSON with the keys of ``RegisterBrokerBody``. One pass over the text finds the table of
topics in it and builds nothing; then topics are cut off the table and decoded a few at a time.

Rule: no slice takes longer than 50 ms, whatever the body. What is refused is a
:class:`~rocketpy.errors.RemoteProtocolError`, before anything is registered.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import TypeVar

import msgspec

from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.bodies.codec import decode_body, decode_value
from rocketpy.protocol.bodies.topic import (
    TOPICS_MAX,
    TOPICS_PER_SLICE,
    DataVersion,
    RegisterBrokerBody,
    Slices,
    TopicConfig,
    TopicConfigSerializeWrapper,
    check_topic_count,
    compressed_slices,
)
from rocketpy.protocol.fastjson import loads

WHOLE_SIZE_MAX = 16_384
"""Bound of a body that is decoded at once."""

REGISTRATION_SIZE_MAX = 8 << 20
"""Bound of one that is not compressed: some 50,000 topics. The pass that finds the table takes 3 ms a MiB."""

_TOPIC_SIZE_MAX = 16_384
_SMALL_SIZE_MAX = 16_384
_NULL = msgspec.Raw(b"null")

_TEXT = rb'"(?:[^"\\]|\\.)*+"'
# A name and an object that may hold objects (those of later versions do), and what follows: the next topic or the end.
_ENTRY = re.compile(
    rb"\s*+(" + _TEXT + rb")\s*+:\s*+"
    rb"(\{(?:[^{}\"]|" + _TEXT + rb"|\{(?:[^{}\"]|" + _TEXT + rb")*+\})*+\}|null)\s*+([,}])",
    re.DOTALL,
)
_EMPTY_TABLE = re.compile(rb"\s*+\{\s*+\}\s*+")


class _Wrapper(msgspec.Struct, gc=False):
    dataVersion: msgspec.Raw = _NULL  # noqa: N815
    topicConfigTable: msgspec.Raw = _NULL  # noqa: N815


class _Registration(msgspec.Struct, gc=False):
    topicConfigSerializeWrapper: _Wrapper  # noqa: N815
    filterServerList: msgspec.Raw = _NULL  # noqa: N815


_OuterT = TypeVar("_OuterT")

_REGISTRATION = msgspec.json.Decoder(_Registration)
_WRAPPER = msgspec.json.Decoder(_Wrapper)


def registration_slices(body: bytes, *, is_compressed: bool, topics_max: int = TOPICS_MAX) -> Slices:
    """Decode the body of a registration; :class:`~rocketpy.errors.RemoteProtocolError` when it is none."""
    if is_compressed:
        return (yield from compressed_slices(body, topics_max=topics_max))
    if len(body) <= WHOLE_SIZE_MAX:
        registration = decode_body(body, RegisterBrokerBody)
        check_topic_count(len(registration.topic_config_serialize_wrapper.topic_config_table), topics_max)
        return registration
    parts = _outer(_REGISTRATION, body)
    yield
    filter_servers = loads(_small(parts.filterServerList, "filterServerList"), references=False)
    wrapper = yield from _wrapper_slices(parts.topicConfigSerializeWrapper, topics_max)
    head = decode_value({"filterServerList": filter_servers}, RegisterBrokerBody)
    return RegisterBrokerBody(wrapper, head.filter_server_list)


def old_registration_slices(body: bytes, *, topics_max: int = TOPICS_MAX) -> Slices:
    """Decode the topics that a broker before 3.0.11 registers, without filter servers around them."""
    if len(body) <= WHOLE_SIZE_MAX:
        wrapper = decode_body(body, TopicConfigSerializeWrapper)
        check_topic_count(len(wrapper.topic_config_table), topics_max)
        return RegisterBrokerBody(wrapper)
    parts = _outer(_WRAPPER, body)
    yield
    return RegisterBrokerBody((yield from _wrapper_slices(parts, topics_max)))


def _outer(decoder: msgspec.json.Decoder[_OuterT], body: bytes) -> _OuterT:
    if len(body) > REGISTRATION_SIZE_MAX:
        raise RemoteProtocolError(
            f"RegisterBrokerBody: expected at most {REGISTRATION_SIZE_MAX} bytes, or compressed ones "
            f"(compressedRegister=true), found {len(body)}"
        )
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RemoteProtocolError(
            f"RegisterBrokerBody: expected standard JSON as RocketMQ writes it, for it is longer than {WHOLE_SIZE_MAX} "
            f"bytes, found: {error}"
        ) from None


def _small(raw: msgspec.Raw, name: str) -> bytes:
    content = bytes(raw)
    if len(content) > _SMALL_SIZE_MAX:
        raise RemoteProtocolError(
            f"RegisterBrokerBody.{name}: expected at most {_SMALL_SIZE_MAX} bytes, found {len(content)}"
        )
    return content


def _wrapper_slices(wrapper: _Wrapper, topics_max: int) -> Generator[None, None, TopicConfigSerializeWrapper]:
    version = loads(_small(wrapper.dataVersion, "dataVersion"), references=False)
    topics: dict[str, TopicConfig] = {}
    table = bytes(wrapper.topicConfigTable)
    if table != b"null" and not _EMPTY_TABLE.fullmatch(table, 0, _SMALL_SIZE_MAX):
        yield from _topic_slices(table, topics, topics_max)
    return TopicConfigSerializeWrapper(topics, DataVersion() if version is None else decode_value(version, DataVersion))


def _topic_slices(table: bytes, topics: dict[str, TopicConfig], topics_max: int) -> Generator[None, None, None]:
    """Decode the entries of a table into ``topics``; of a name that is there twice the last one counts."""
    position = table.find(b"{") + 1
    entry_count = 0
    is_last = position == 0
    while not is_last:
        entry = _ENTRY.match(table, position, position + _TOPIC_SIZE_MAX)
        if entry is None:
            found = table[position : position + 64].decode("utf-8", "replace")
            raise RemoteProtocolError(
                f"RegisterBrokerBody.topicConfigTable: expected topics of at most {_TOPIC_SIZE_MAX} bytes, found "
                f"{found!r} at byte {position} of it"
            )
        entry_count += 1
        check_topic_count(entry_count, topics_max)
        if entry.group(2) != b"null":
            topics[str(loads(entry.group(1)))] = decode_value(loads(entry.group(2), references=False), TopicConfig)
        is_last = entry.group(3) == b"}"
        position = entry.end()
        if entry_count % TOPICS_PER_SLICE == 0:
            yield
