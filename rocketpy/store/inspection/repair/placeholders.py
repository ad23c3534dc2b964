"""Records that replace lost ones in a damaged range of the log, so that nothing after the range is lost.

A placeholder has the topic, queue id, queue offset and size of the lost message, a zero body with the right checksum,
and the property ``ROCKETPY_DAMAGED`` with its physical offset: a consumer gets a message that explains itself, instead
of a gap in the queue. Bytes that belong to no queue are covered by a filler: a record of the type *prepared*, which
gets neither queue offset nor unit.

Compatibility: both are valid records for a Java broker too; the property is ours. RocketMQ has no repair tool: it
truncates the log at the first damaged record, at the next start that scans it.

The hosts are 0.0.0.0:0, because no client sent these records. Their timestamps are those of the previous record, so
that a search by time still works.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from zlib import crc32

from rocketpy.protocol.host import HOST_V4_SIZE
from rocketpy.protocol.properties import encode_properties
from rocketpy.protocol.stored_message import PROPERTIES_SIZE, RECORD_SIZE_MIN, CheckedMessage, pack_record_head
from rocketpy.protocol.sysflag import TRANSACTION_PREPARED_TYPE

PROPERTY_DAMAGED = "ROCKETPY_DAMAGED"
FILLER_TOPIC = "ROCKETPY_DAMAGED"
FILLER_SIZE_MIN = RECORD_SIZE_MIN + 1
FILLER_SIZE_MAX = 4 << 20
"""A Java broker reads a record in one piece when it recovers."""
_DAMAGED = PROPERTY_DAMAGED.encode()
_NO_HOST = bytes(HOST_V4_SIZE)
_CHUNK = 1 << 20


def is_placeholder(record: CheckedMessage) -> bool:
    """Whether a record stands for a message that was lost."""
    return _DAMAGED in record.properties_text and PROPERTY_DAMAGED in record.properties


def placeholder_size_min(topic: str) -> int:
    """Return the smallest placeholder of a topic: one without the property."""
    return RECORD_SIZE_MIN + len(topic.encode())


def placeholder_size(topic: str, physical_offset: int) -> int:
    """Return the size of a placeholder without body, with the property for an offset of as many digits."""
    return placeholder_size_min(topic) + len(PROPERTY_DAMAGED) + 1 + len(str(physical_offset)) + 1


def placeholder(
    topic: str,
    queue_id: int,
    queue_offset: int,
    physical_offset: int,
    size: int,
    timestamp_ms: int,
    more_properties: Mapping[str, str] | None = None,
) -> tuple[bytes, int, bytes]:
    """Return a record as the bytes before its body, the size of its zero body, and the bytes after it.

    ``size`` is that of the record, at least :func:`placeholder_size_min`. A record too small for properties has none.
    """
    topic_bytes = topic.encode()
    properties = encode_properties({PROPERTY_DAMAGED: str(physical_offset), **(more_properties or {})}).encode()
    if RECORD_SIZE_MIN + len(topic_bytes) + len(properties) > size:
        properties = encode_properties({PROPERTY_DAMAGED: str(physical_offset)}).encode()
    if RECORD_SIZE_MIN + len(topic_bytes) + len(properties) > size:
        properties = b""
    return _record(topic_bytes, queue_id, queue_offset, physical_offset, size, timestamp_ms, properties, 0)


def filler(physical_offset: int, size: int, timestamp_ms: int) -> tuple[bytes, int, bytes]:
    """Return a record without queue, as :func:`placeholder` does; ``size`` is at least ``FILLER_SIZE_MIN``."""
    topic = FILLER_TOPIC.encode()[: size - RECORD_SIZE_MIN]
    properties = encode_properties({PROPERTY_DAMAGED: str(physical_offset)}).encode()
    if RECORD_SIZE_MIN + len(topic) + len(properties) > size:
        properties = b""
    return _record(topic, 0, 0, physical_offset, size, timestamp_ms, properties, TRANSACTION_PREPARED_TYPE)


def _record(
    topic: bytes,
    queue_id: int,
    queue_offset: int,
    physical_offset: int,
    size: int,
    timestamp_ms: int,
    properties: bytes,
    sys_flag: int,
) -> tuple[bytes, int, bytes]:
    body_size = size - RECORD_SIZE_MIN - len(topic) - len(properties)
    assert body_size >= 0, (topic, size)
    head = pack_record_head(
        size,
        _crc_of_zeros(body_size),
        queue_id,
        0,
        queue_offset,
        physical_offset,
        sys_flag,
        timestamp_ms,
        _NO_HOST,
        timestamp_ms,
        _NO_HOST,
        0,
        0,
        body_size,
    )
    tail = bytes((len(topic),)) + topic + PROPERTIES_SIZE.pack(len(properties)) + properties
    return head, body_size, tail


@lru_cache(1024)
def _crc_of_zeros(size: int) -> int:
    crc = 0
    for begin in range(0, size, _CHUNK):
        crc = crc32(bytes(min(_CHUNK, size - begin)), crc)
    return crc & 0x7FFF_FFFF
