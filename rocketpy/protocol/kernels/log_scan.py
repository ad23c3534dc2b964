"""The plain records in a section of the log, checked one after the other.

A record with IPv4 hosts, big-endian; what is named here is checked, or returned:

    +------------+-------+---------+---------+-----+-------------+----------------+---------+-----+
    | total size | magic | bodyCRC | queueId | ... | queueOffset | physicalOffset | sysFlag | ... |
    | 0          | 4     | 8       | 12      |     | 20          | 28             | 36      |     |
    +------------+-------+---------+---------+-----+-------------+----------------+---------+-----+
    | storeTimestamp | ... | body size | body | topic size u8, topic | text size i16 | text |
    | 56             |     | 84        | 88   |       the tail, as one piece of bytes      |      |
    +----------------+-----+-----------+------+--------------------------------------------+------+

What is between body and text is one key of a dictionary, which has the queues of the topic and the size of the text.
The general path, and the definition, is the loop in ``store/log/plain_records.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias
from zlib import crc32

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

_MAGIC: Final[i64] = -626_843_481
_HEAD_SIZE: Final[i64] = 88
_RECORD_SIZE_MIN: Final[i64] = 91
_OTHER_FLAGS: Final[i64] = 0x10 | 0x20 | 0x4  # hosts of IPv6; no queue: prepared, or rolled back
_CRC_BITS: Final[i64] = 0x7FFF_FFFF

Tail: TypeAlias = tuple[dict[int, Any], int]
"""The queues of a topic by their ids, and the size of the text."""


def take_plain(
    data: bytes,
    begin: int,
    end_max: int,
    offset: int,
    count_max: int,
    check_crc: bool,
    tails: dict[bytes, Tail],
    learn: Callable[[bytes], Tail | None],
) -> list[tuple[Any, int, int, int, int, bytes]]:
    """Return the plain records from a position on, which is a physical offset; none ends after ``end_max``.

    Of each: queue, queue offset, physical offset, size, storeTimestamp and text. Their queues continue after them.
    ``learn`` is called for a tail that ``tails`` does not have.
    """
    records: list[tuple[Any, int, int, int, int, bytes]] = []
    at: i64 = begin
    physical_offset: i64 = offset
    last_begin: i64 = len(data) - _RECORD_SIZE_MIN
    limit: i64 = end_max
    left: i64 = count_max
    while left > 0 and at <= last_begin:
        size = i64(read_i32_be(data, at))
        body_begin = at + _HEAD_SIZE
        body_end = body_begin + i64(read_i32_be(data, at + 84))
        end = at + size
        if (
            i64(read_i32_be(data, at + 4)) != _MAGIC
            or read_i64_be(data, at + 28) != physical_offset
            or (i64(read_i32_be(data, at + 36)) & _OTHER_FLAGS) != 0
            or body_end < body_begin
            or body_end >= end
            or end > limit
        ):
            break
        text_begin = body_end + i64(data[body_end]) + 3
        tail = data[body_end:text_begin]
        found = tails.get(tail)
        if found is None:
            found = learn(tail)
            if found is None:
                break
        if text_begin + i64(found[1]) != end:
            break
        if check_crc and (i64(crc32(data[body_begin:body_end])) & _CRC_BITS) != i64(read_i32_be(data, at + 8)):
            break
        queue = found[0].get(int(i64(read_i32_be(data, at + 12))))
        queue_offset = int(read_i64_be(data, at + 20))
        if queue is None or queue.next_offset != queue_offset:
            break
        queue.next_offset = queue_offset + 1
        records.append((queue, queue_offset, physical_offset, size, read_i64_be(data, at + 56), data[text_begin:end]))
        at = end
        physical_offset += size
        left -= 1
    return records
