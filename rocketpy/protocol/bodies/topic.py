"""Topics as brokers keep and register them."""

from __future__ import annotations

import zlib
from collections.abc import Generator, Sequence
from enum import StrEnum
from struct import Struct
from typing import Annotated

import attrs

from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.bodies.codec import JavaEnum, decode_body, decode_value, encode_body
from rocketpy.protocol.compression import DECOMPRESSED_SIZE_MAX
from rocketpy.protocol.fastjson import dumps, loads
from rocketpy.protocol.headers.codec import Int32, Int64
from rocketpy.protocol.value_methods import ValueMethods

_LENGTH = Struct(">i")
COMPRESSION_LEVEL = 9
"""Of a compressed registration."""

TOPICS_MAX = 100_000
"""Bound of the topics of one registration, unless the reader sets another."""

TOPICS_PER_SLICE = 250
_PIECE_SIZE = 65_536
_SMALL_SIZE_MAX = 16_384
"""Bound of a text other than a topic in a compressed registration: a version, the filter servers."""


class TopicFilterType(StrEnum):
    """Java's ``TopicFilterType``; the second one changes nothing in 4.9."""

    SINGLE_TAG = "SINGLE_TAG"
    MULTI_TAG = "MULTI_TAG"


@attrs.frozen
class DataVersion(ValueMethods):
    """Version of a table: a counter and the time of the last change; tables with equal versions are equal."""

    timestamp: Int64 = 0
    counter: Int64 = 0

    def next_version(self, timestamp_ms: int) -> DataVersion:
        """Return the version after a change at the wall time ``timestamp_ms``."""
        return DataVersion(timestamp_ms, self.counter + 1)


@attrs.frozen
class TopicConfig(ValueMethods):
    """A topic on one broker; ``perm`` is a sum of read 4, write 2 and inherit 1."""

    topic_name: str
    read_queue_nums: Int32 = 16
    write_queue_nums: Int32 = 16
    perm: Int32 = 6
    topic_filter_type: Annotated[str, JavaEnum.of(TopicFilterType)] = TopicFilterType.SINGLE_TAG.value
    topic_sys_flag: Int32 = 0
    order: bool = False


@attrs.frozen
class TopicConfigSerializeWrapper(ValueMethods):
    """All topics of a broker: ``topics.json``, GET_ALL_TOPIC_CONFIG, and registrations of old brokers."""

    topic_config_table: dict[str, TopicConfig] = attrs.field(factory=dict)
    data_version: DataVersion = attrs.field(factory=DataVersion)


@attrs.frozen
class RecordMark(ValueMethods):
    """The end of a record in a log, its size, and its SHA-256 in hexadecimal digits. Not in RocketMQ."""

    offset: Int64
    size: Int32
    digest: str


@attrs.frozen
class ReplicatedTopics(ValueMethods):
    """What a slave is told of its master's topics: GET_ALL_TOPIC_CONFIG where topics were deleted.

    Compatibility: ``TopicConfigSerializeWrapper`` with one key more, which RocketMQ ignores: the deleted topics, each
    with the place in the log up to which its records were deleted.
    """

    topic_config_table: dict[str, TopicConfig] = attrs.field(factory=dict)
    data_version: DataVersion = attrs.field(factory=DataVersion)
    deleted_topics: dict[str, RecordMark] = attrs.field(factory=dict)


@attrs.frozen
class RegisterBrokerBody(ValueMethods):
    """Body of a broker's registration, in two forms: JSON, and the compressed form of ``compressedRegister``.

    The compressed form is one zlib stream of: length i32, the DataVersion's JSON; the number of topics i32; for each
    length i32 and ``name readQueueNums writeQueueNums perm filterType``; length i32, the filter servers' JSON. It
    loses ``topic_sys_flag`` and ``order``.
    """

    topic_config_serialize_wrapper: TopicConfigSerializeWrapper = attrs.field(factory=TopicConfigSerializeWrapper)
    filter_server_list: Sequence[str] = attrs.field(factory=list)

    def encode_compressed(self) -> bytes:
        """Return the compressed form."""
        wrapper = self.topic_config_serialize_wrapper
        parts = [compressed_begin(wrapper.data_version, len(wrapper.topic_config_table))]
        parts += map(compressed_topic, wrapper.topic_config_table.values())
        parts.append(compressed_end(self.filter_server_list))
        return zlib.compress(b"".join(parts), COMPRESSION_LEVEL)

    @classmethod
    def decode_compressed(cls, body: bytes) -> RegisterBrokerBody:
        """Return the value of a compressed body at once; see :func:`compressed_slices`."""
        return run_slices(compressed_slices(body))


Slices = Generator[None, None, RegisterBrokerBody]
"""A registration that is decoded a few milliseconds at a time: it yields between them, and returns the value."""


def run_slices(slices: Slices) -> RegisterBrokerBody:
    """Return the value of ``slices`` without a break."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            value: RegisterBrokerBody = end.value
            return value


def compressed_slices(body: bytes, *, topics_max: int = TOPICS_MAX) -> Slices:
    """Decode a compressed body in slices; bounded whatever comes.

    Raises :class:`~rocketpy.errors.RemoteProtocolError`. Compatibility: a topic that is not five words is refused; Java
    registers one without a name.
    """
    content = bytearray()
    yield from _inflated(body, content)
    reader = _CompressedReader(content)
    data_version = decode_body(reader.read_small(), DataVersion)
    topic_count = reader.read_length()
    check_topic_count(topic_count, topics_max)
    topics: dict[str, TopicConfig] = {}
    for number in range(topic_count):
        topic = _read_topic(reader.read_small())
        topics[topic.topic_name] = topic
        if number % TOPICS_PER_SLICE == TOPICS_PER_SLICE - 1:
            yield
    document = {"filterServerList": loads(reader.read_small(), references=False)}
    return attrs.evolve(
        decode_value(document, RegisterBrokerBody),
        topic_config_serialize_wrapper=TopicConfigSerializeWrapper(topics, data_version),
    )


def check_topic_count(found: int, topics_max: int) -> None:
    """Refuse a registration with more topics than a broker may bring."""
    if found > topics_max:
        raise RemoteProtocolError(f"RegisterBrokerBody: expected at most {topics_max} topics, found {found}")


def _inflated(body: bytes, content: bytearray) -> Generator[None, None, None]:
    """Unpack a zlib stream into ``content``, in pieces that are small on both sides."""
    inflater = zlib.decompressobj()
    for start in range(0, len(body), _PIECE_SIZE):
        piece = body[start : start + _PIECE_SIZE]
        while piece and not inflater.eof:
            try:
                content += inflater.decompress(piece, _PIECE_SIZE * 16)
            except zlib.error as error:
                raise RemoteProtocolError(
                    f"RegisterBrokerBody: expected a whole ZLIB stream, found damage: {error}"
                ) from None
            if len(content) > DECOMPRESSED_SIZE_MAX:
                raise RemoteProtocolError(
                    f"RegisterBrokerBody: expected at most {DECOMPRESSED_SIZE_MAX} bytes out of ZLIB, found more"
                )
            piece = inflater.unconsumed_tail
            yield
    if not inflater.eof:
        raise RemoteProtocolError("RegisterBrokerBody: expected a whole ZLIB stream, found damage: it ends too early")


@attrs.define(eq=False)
class _CompressedReader:
    _content: bytearray
    _position: int = 0

    def read_length(self) -> int:
        """Read a length or a number of items; every item takes at least 4 bytes, so content bounds both."""
        start, self._position = self._position, self._position + _LENGTH.size
        if self._position > len(self._content):
            raise RemoteProtocolError(f"RegisterBrokerBody: expected 4 bytes, found the end at byte {start}")
        length: int = _LENGTH.unpack_from(self._content, start)[0]
        if not 0 <= length <= len(self._content) - self._position:
            raise RemoteProtocolError(
                f"RegisterBrokerBody: expected a length of 0 to {len(self._content) - self._position}, "
                f"found {length} at byte {start}"
            )
        return length

    def read_small(self) -> bytes:
        """Read a length and as many bytes, which are few in all that has a length of its own."""
        length = self.read_length()
        start, self._position = self._position, self._position + length
        if length > _SMALL_SIZE_MAX:
            raise RemoteProtocolError(
                f"RegisterBrokerBody: expected at most {_SMALL_SIZE_MAX} bytes at byte {start}, found {length}"
            )
        return bytes(self._content[start : self._position])


def _sized(content: bytes) -> bytes:
    return _LENGTH.pack(len(content)) + content


def compressed_begin(data_version: DataVersion, topic_count: int) -> bytes:
    """Return what is in front of the topics in the compressed form, before compression."""
    return _sized(encode_body(data_version)) + _LENGTH.pack(topic_count)


def compressed_topic(topic: TopicConfig) -> bytes:
    """Return one topic in the compressed form, before compression."""
    numbers = f"{topic.read_queue_nums} {topic.write_queue_nums} {topic.perm}"
    return _sized(f"{topic.topic_name} {numbers} {topic.topic_filter_type}".encode())


def compressed_end(filter_server_list: Sequence[str] = ()) -> bytes:
    """Return what follows the topics in the compressed form, before compression."""
    return _sized(dumps(list(filter_server_list)).encode())


def _read_topic(content: bytes) -> TopicConfig:
    text = content.decode("utf-8", "replace")
    words = text.split(" ")
    if len(words) != 5:
        raise RemoteProtocolError(f"RegisterBrokerBody: expected a topic in five words, found {text[:64]!r}")
    names = ("topicName", "readQueueNums", "writeQueueNums", "perm", "topicFilterType")
    return decode_value(dict(zip(names, words, strict=True)), TopicConfig)
