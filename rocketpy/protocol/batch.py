"""The body of SEND_BATCH_MESSAGE: messages back to back.

+------------+-----------+--------------+----------+--------------+------+------------------+------------+
| total size | magic (0) | body CRC (0) | flag     | body length  | body | properties size  | properties |
| i32        | i32       | i32          | i32      | i32          |      | i16              | UTF-8      |
+------------+-----------+--------------+----------+--------------+------+------------------+------------+

All big-endian. A writer gives the total size of the item with itself; a reader trusts the two inner lengths only, as
the broker does. Topic, queue, sysFlag and the rest of a message are in the request's header.
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
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
assert _OVERHEAD_SIZE == 22
assert _IGNORED_HEAD.size == _HEAD.size == 20


class BatchItem(NamedTuple):
    """One message of a batch; ``properties`` are the bytes of its text. A tuple, because batches are the fast path."""

    flag: int
    body: bytes
    properties: bytes


def encode_batch_body(messages: Iterable[Message]) -> bytes:
    """Return the body of a batch; that the messages share topic and WAIT is for the caller to see to.

    Raises :class:`~rocketpy.errors.LocalProtocolError` when properties do not fit their length field, which RocketMQ
    does not notice, or hold half of a surrogate pair.
    """
    parts: list[bytes] = []
    for message in messages:
        try:
            properties = encode_properties(message.properties).encode()
        except UnicodeEncodeError as failure:
            raise LocalProtocolError(f"batch: properties hold text that UTF-8 cannot: {failure.reason}") from failure
        if len(properties) > PROPERTIES_SIZE_MAX:
            raise LocalProtocolError(
                f"batch: expected at most {PROPERTIES_SIZE_MAX} bytes of properties, found {len(properties)}"
            )
        body = message.body
        total_size = _OVERHEAD_SIZE + len(body) + len(properties)
        parts += (
            _HEAD.pack(total_size, 0, 0, message.flag, len(body)),
            body,
            _PROPERTIES_SIZE.pack(len(properties)),
            properties,
        )
    return b"".join(parts)


def decode_batch_body(body: bytes) -> list[BatchItem]:
    """Return the messages of a batch; an empty body has none.

    Raises :class:`~rocketpy.errors.RemoteProtocolError` naming item and position when a length is negative or leads
    beyond the body.
    """
    return list(starmap(BatchItem, split_batch_body(body)))


def split_batch_body(body: bytes) -> list[tuple[int, bytes, bytes]]:
    """Return flag, body and properties of each message as :func:`decode_batch_body` does, in plain tuples: faster."""
    items: list[tuple[int, bytes, bytes]] = []
    position, end = 0, len(body)
    while position < end:
        body_start = position + _HEAD.size
        if body_start > end:
            raise _refusal(items, position, "20 bytes of head", f"{end - position}")
        flag, body_size = _IGNORED_HEAD.unpack_from(body, position)
        body_end = body_start + body_size
        if body_size < 0 or body_end + 2 > end:
            raise _refusal(items, position, f"a body of 0 to {end - body_start - 2} bytes", f"{body_size}")
        (properties_size,) = _PROPERTIES_SIZE.unpack_from(body, body_end)
        position = body_end + 2 + properties_size
        if properties_size < 0 or position > end:
            raise _refusal(items, body_end, f"properties of 0 to {end - body_end - 2} bytes", f"{properties_size}")
        items.append((flag, body[body_start:body_end], body[body_end + 2 : position]))
    return items


def _refusal(items: Sized, position: int, expected: str, found: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"batch: expected {expected}, found {found} in item {len(items)} at byte {position}")
