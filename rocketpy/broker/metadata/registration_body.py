"""Encoding of registration bodies from cached pieces: a topic is encoded only when it changes.

A broker registers every 30 seconds and after each change, always with all of its topics; encoding costs ten
microseconds per topic. The cache costs about as much memory as the body itself.

A table that does not fit a frame is registered in parts. A nameserver takes the topics of a registration whose data
version differs from the last one of that address, and keeps topics that a registration does not name.
Each part therefore has its own version, and only the last part has the table's::

    part 1: topics 0..k, version (timestamp, -counter*2^20 - 1)
    part 2: topics k..n, version (timestamp, counter)          the table is complete

so an incomplete registration leaves the nameserver with a version that is not the table's.

Rule: a body of one part has the bytes of ``encode_body(RegisterBrokerBody(...))``, and all parts have the topics of one
snapshot, although other tasks run after every :data:`TOPICS_PER_SLICE` encoded pieces.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

import trio

from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.topic import (
    COMPRESSION_LEVEL,
    DataVersion,
    TopicConfig,
    TopicConfigSerializeWrapper,
    compressed_begin,
    compressed_end,
    compressed_topic,
)
from rocketpy.protocol.fastjson import dumps

TOPICS_PER_SLICE = 100
TOPICS_LOOKED_AT_PER_SLICE = 5000
PART_BYTES_MAX = 4 << 20
"""Bound of one part before compression: far below a frame, and cheap for the nameserver."""

_BEGIN = b'{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":'
_TABLE = b',"topicConfigTable":{'
_END = b"}}}"
_PARTS_BITS = 20


class RegistrationBody:
    """Encodes the topics of one broker as JSON, with cached pieces."""

    def __init__(self) -> None:
        self._pieces: dict[str, tuple[TopicConfig, bytes]] = {}

    async def encode(self, wrapper: TopicConfigSerializeWrapper) -> list[bytes]:
        """Return the bodies that register these topics, in the order in which they have to be sent."""
        pieces = self._pieces = await _renewed(self._pieces, wrapper, _json_topic)
        parts = list(_parts([encoded for _, encoded in pieces.values()]))
        bodies = []
        for number, part in enumerate(parts, 1):
            version = encode_body(_version_of_part(wrapper.data_version, number, len(parts)))
            bodies.append(b"".join((_BEGIN, version, _TABLE, b",".join(part), _END)))
            await trio.lowlevel.checkpoint()
        return bodies


class CompressedRegistrationBody:
    """Encodes the topics of one broker in the compressed form (``compressedRegister``), which loses order and flags."""

    def __init__(self) -> None:
        self._pieces: dict[str, tuple[TopicConfig, bytes]] = {}

    async def encode(self, wrapper: TopicConfigSerializeWrapper) -> list[bytes]:
        """Return the bodies that register these topics, in the order in which they have to be sent."""
        pieces = self._pieces = await _renewed(self._pieces, wrapper, _compressed_topic)
        parts = list(_parts([encoded for _, encoded in pieces.values() if encoded]))
        bodies = []
        for number, part in enumerate(parts, 1):
            version = _version_of_part(wrapper.data_version, number, len(parts))
            bodies.append(await _compressed(version, part))
        return bodies


async def _renewed(
    known: dict[str, tuple[TopicConfig, bytes]],
    wrapper: TopicConfigSerializeWrapper,
    encode: Callable[[TopicConfig], bytes],
) -> dict[str, tuple[TopicConfig, bytes]]:
    """Return the pieces of a table; pieces of unchanged topics come from ``known``."""
    pieces = {}
    made_count = 0
    for number, (topic, config) in enumerate(wrapper.topic_config_table.items(), 1):
        if number % TOPICS_LOOKED_AT_PER_SLICE == 0:
            await trio.lowlevel.checkpoint()
        piece = known.get(topic)
        if piece is None or (piece[0] is not config and piece[0] != config):
            piece = config, encode(config)
            made_count += 1
            if made_count % TOPICS_PER_SLICE == 0:
                await trio.lowlevel.checkpoint()
        pieces[topic] = piece
    await trio.lowlevel.checkpoint()
    return pieces


def _json_topic(config: TopicConfig) -> bytes:
    return dumps(config.topic_name).encode() + b":" + encode_body(config)


def _compressed_topic(config: TopicConfig) -> bytes:
    """Return the piece of a topic, none of one whose name has a space.

    That is the topic of a broker or cluster with such a name, to which nothing can be sent. The form has words with
    spaces between them, so a nameserver would refuse all topics because of this one.
    """
    return b"" if " " in config.topic_name else compressed_topic(config)


def _parts(pieces: list[bytes]) -> Iterator[list[bytes]]:
    """Group pieces into parts of bounded size, in order; at least one part."""
    part: list[bytes] = []
    size = 0
    for piece in pieces:
        if part and size + len(piece) > PART_BYTES_MAX:
            yield part
            part, size = [], 0
        part.append(piece)
        size += len(piece) + 1
    yield part


def _version_of_part(version: DataVersion, number: int, count: int) -> DataVersion:
    """Return the table's version for the last part, otherwise a version that no table and no other part has."""
    assert number < 1 << _PARTS_BITS, number
    if number == count:
        return version
    return DataVersion(version.timestamp, -(version.counter << _PARTS_BITS) - number)


async def _compressed(version: DataVersion, topics: list[bytes]) -> bytes:
    """Return one compressed body, with checkpoints between slices: compressing costs more than encoding."""
    stream = zlib.compressobj(COMPRESSION_LEVEL)
    compressed = [stream.compress(compressed_begin(version, len(topics)))]
    for start in range(0, len(topics), TOPICS_PER_SLICE):
        compressed.append(stream.compress(b"".join(topics[start : start + TOPICS_PER_SLICE])))
        await trio.lowlevel.checkpoint()
    compressed += stream.compress(compressed_end()), stream.flush()
    return b"".join(compressed)
