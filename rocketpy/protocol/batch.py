"""Codec of the body of SEND_BATCH_MESSAGE: messages back to back.

+------------+-----------+--------------+----------+--------------+------+------------------+------------+
| total size | magic (0) | body CRC (0) | flag     | body length  | body | properties size  | properties |
| i32        | i32       | i32          | i32      | i32          |      | i16              | UTF-8      |
+------------+-----------+--------------+----------+--------------+------+------------------+------------+

All big-endian. The total size includes its own field; a reader uses the two inner lengths only, as Java's broker does.
Topic, queue, sysFlag and the other fields of a message are in the request's header.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence, Sized
from functools import lru_cache
from itertools import starmap
from struct import Struct
from typing import NamedTuple

from rocketpy.errors import LocalProtocolError, RemoteProtocolError
from rocketpy.protocol.message import Message
from rocketpy.protocol.properties import PROPERTIES_SIZE_MAX, encode_properties

_HEAD = Struct(">iiiii")
_PROPERTIES_SIZE = Struct(">h")
_IGNORED_HEAD = Struct(">12xii")
_OVERHEAD_SIZE = _HEAD.size + _PROPERTIES_SIZE.size
_ALIKE_MAX = 1000
"""More items are decoded one by one: the struct that decodes all at once grows with them, and is cached."""

assert _OVERHEAD_SIZE == 22
assert _IGNORED_HEAD.size == _HEAD.size == 20


class BatchItem(NamedTuple):
    """One message of a batch; ``properties`` are the bytes of its text."""

    flag: int
    body: bytes
    properties: bytes


class BatchColumns(NamedTuple):
    """The messages of a batch in columns: item N of each column belongs to message N."""

    flags: Sequence[int]
    bodies: Sequence[bytes]
    properties: Sequence[bytes]


def encode_batch_body(messages: Iterable[Message]) -> bytes:
    """Return the body of a batch; the caller ensures that the messages share topic and WAIT.

    Raises :class:`~rocketpy.errors.LocalProtocolError` when properties do not fit their length field, which RocketMQ
    does not notice, or hold half of a surrogate pair.
    """
    return b"".join([encode_batch_item(message.flag, message.body, message.properties) for message in messages])


def encode_batch_item(flag: int, body: bytes, properties: Mapping[str, str]) -> bytes:
    """Return one message of a batch; raises as :func:`encode_batch_body`."""
    try:
        text = encode_properties(properties).encode()
    except UnicodeEncodeError as failure:
        raise LocalProtocolError(f"batch: properties hold text that UTF-8 cannot: {failure.reason}") from failure
    properties_size = len(text)
    if properties_size > PROPERTIES_SIZE_MAX:
        raise LocalProtocolError(
            f"batch: expected at most {PROPERTIES_SIZE_MAX} bytes of properties, found {properties_size}"
        )
    body_size = len(body)
    try:
        head = _HEAD.pack(_OVERHEAD_SIZE + body_size + properties_size, 0, 0, flag, body_size)
    except struct.error as failure:
        raise LocalProtocolError(f"batch: expected an int32 as flag, found {flag!r}") from failure
    return b"".join((head, body, _PROPERTIES_SIZE.pack(properties_size), text))


def decode_batch_body(body: bytes) -> list[BatchItem]:
    """Return the messages of a batch; an empty body has none.

    Raises :class:`~rocketpy.errors.RemoteProtocolError` naming item and position when a length is negative or leads
    beyond the body.
    """
    return list(starmap(BatchItem, zip(*split_batch_body(body), strict=True)))


class BatchCountError(RemoteProtocolError):
    """A batch has more messages than the reader accepts."""


def split_batch_body(body: bytes, *, count_max: int | None = None) -> BatchColumns:
    """Return the messages of a batch as :func:`decode_batch_body` does, in columns: faster.

    Raises BatchCountError as soon as there are more than ``count_max``.
    """
    columns = _split_alike(body) or _split_one_by_one(body, count_max)
    if count_max is not None and len(columns.bodies) > count_max:
        raise BatchCountError(f"batch: expected at most {count_max} items, found {len(columns.bodies)}")
    return columns


def _split_alike(body: bytes) -> BatchColumns | None:
    """Return the columns of a body whose items all have the lengths of the first one, as is usual; else None."""
    end = len(body)
    if end < _OVERHEAD_SIZE:
        return None
    _, body_size = _IGNORED_HEAD.unpack_from(body)
    body_end = _HEAD.size + body_size
    if body_size < 0 or body_end + 2 > end:
        return None
    (properties_size,) = _PROPERTIES_SIZE.unpack_from(body, body_end)
    count, rest = divmod(end, body_end + 2 + properties_size)
    if properties_size < 0 or rest or count > _ALIKE_MAX:
        return None
    fields = _alike_items(count, body_size, properties_size).unpack(body)
    if fields[1::5].count(body_size) < count or fields[3::5].count(properties_size) < count:
        return None
    return BatchColumns(flags=fields[0::5], bodies=fields[2::5], properties=fields[4::5])


@lru_cache(maxsize=64)
def _alike_items(count: int, body_size: int, properties_size: int) -> Struct:
    """Return the struct that decodes such items at once: flag, two lengths, body and properties of each."""
    return Struct(">" + f"12xii{body_size}sh{properties_size}s" * count)


def _split_one_by_one(body: bytes, count_max: int | None) -> BatchColumns:
    flags: list[int] = []
    bodies: list[bytes] = []
    all_properties: list[bytes] = []
    position, end = 0, len(body)
    while position < end:
        body_start = position + _HEAD.size
        if body_start > end:
            raise _refusal(flags, position, "20 bytes of head", f"{end - position}")
        flag, body_size = _IGNORED_HEAD.unpack_from(body, position)
        body_end = body_start + body_size
        if body_size < 0 or body_end + 2 > end:
            raise _refusal(flags, position, f"a body of 0 to {end - body_start - 2} bytes", f"{body_size}")
        (properties_size,) = _PROPERTIES_SIZE.unpack_from(body, body_end)
        position = body_end + 2 + properties_size
        if properties_size < 0 or position > end:
            raise _refusal(flags, body_end, f"properties of 0 to {end - body_end - 2} bytes", f"{properties_size}")
        flags.append(flag)
        bodies.append(body[body_start:body_end])
        all_properties.append(body[body_end + 2 : position])
        if len(flags) == count_max and position < end:
            raise BatchCountError(f"batch: expected at most {count_max} items, found more")
    return BatchColumns(flags, bodies, all_properties)


def _refusal(items: Sized, position: int, expected: str, found: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"batch: expected {expected}, found {found} in item {len(items)} at byte {position}")
