"""The index keys of the records in a section of the log, without an object for any of them.

A record with IPv4 hosts, big-endian; only what is named here is looked at:

    +------------+-------+-----+----------------+---------+-----+----------------+-----+-----------+------+
    | total size | magic | ... | physicalOffset | sysFlag | ... | storeTimestamp | ... | body size | body |
    | 0          | 4     |     | 28             | 36      |     | 56             |     | 84        | 88   |
    +------------+-------+-----+----------------+---------+-----+----------------+-----+-----------+------+
    | topic size u8, topic | text size i16 | text: name 1 value 2 name 1 value |

A record of any other form stops the walk: the general path looks at it. So does one whose text has a NUL: it may be
torn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from rocketpy.protocol.kernels.ascii_text import entry_end
from rocketpy.protocol.kernels.index_hashes import hash_ascii

_MAGIC: Final[i64] = -626_843_481
_HEAD_SIZE: Final[i64] = 88
_OTHER_FLAGS: Final[i64] = 0x10 | 0x20 | 0x4  # hosts of IPv6; no queue: prepared, or rolled back
_UNIQ_KEY: Final[i64] = 0x554E_4951_5F4B_4559
_KEYS: Final[i64] = 0x4B45_5953
_NAME_END: Final[i64] = 1
_SPACE: Final[i64] = 0x20
_KEYS_MAX: Final[i64] = 128  # INDEX_KEYS_MAX


class LogKeys:
    """A walk over sections of the log. ``prefix_of`` returns the hash of ``topic#``, unsigned, for a topic in bytes.

    ``hash_other`` returns that of ``topic#key`` for a key that is not ASCII.
    """

    def __init__(self, prefix_of: Callable[[bytes], int], hash_other: Callable[[bytes, bytes], int]) -> None:
        self._prefix_of = prefix_of
        self._hash_other = hash_other
        self._topic = b""
        self._prefix: i64 = -1
        # Of the text that was read last: where values are, -1 where there is none.
        self._unique_begin: i64 = -1
        self._unique_end: i64 = -1
        self._keys_begin: i64 = -1
        self._keys_end: i64 = -1

    def read(self, data: bytes, begin: int, offset: int, count_max: int) -> tuple[bytes, int]:
        """Return the keys of the records from a position on, and the end of the last record that was read.

        ``offset`` is the position's physical offset. The walk ends before a record that is not whole or of another
        form, and when there are ``count_max`` keys or more. Keys are packed as in ``index_hashes.py``.
        """
        packed = BytesWriter()
        at: i64 = begin
        physical_offset: i64 = offset
        size_max = i64(len(data))
        left: i64 = count_max
        while left > 0 and at <= size_max - _HEAD_SIZE - 3:
            size = i64(read_i32_be(data, at))
            body_size = i64(read_i32_be(data, at + 84))
            end = at + size
            if (
                i64(read_i32_be(data, at + 4)) != _MAGIC
                or read_i64_be(data, at + 28) != physical_offset
                or (i64(read_i32_be(data, at + 36)) & _OTHER_FLAGS) != 0
                or end > size_max
                or body_size < 0
                or body_size > size - _HEAD_SIZE - 3
            ):
                break
            topic_at = at + _HEAD_SIZE + body_size + 1
            text_at = topic_at + i64(data[topic_at - 1]) + 2
            if text_at > end or text_at + i64(read_i16_be(data, text_at - 2)) != end:
                break
            if not self._read_text(data, text_at, end):
                break
            if self._unique_begin >= 0 or self._keys_begin >= 0:
                self._take_topic(data[topic_at : text_at - 2])
                left -= self._add_keys(packed, data, physical_offset, read_i64_be(data, at + 56))
            physical_offset += size
            at = end
        return packed.getvalue(), at

    def _take_topic(self, topic: bytes) -> None:
        if self._prefix < 0 or topic != self._topic:
            self._prefix = self._prefix_of(topic)
            self._topic = topic

    def _add_keys(self, packed: BytesWriter, data: bytes, physical_offset: i64, timestamp_ms: i64) -> i64:
        count: i64 = 0
        if self._unique_begin >= 0:
            self._add(packed, data, self._unique_begin, self._unique_end, physical_offset, timestamp_ms)
            count = 1
        begin = self._keys_begin
        if begin < 0:
            return count
        at = begin
        end = self._keys_end
        while at <= end and count < _KEYS_MAX:
            if at == end or i64(data[at]) == _SPACE:
                if at > begin:
                    self._add(packed, data, begin, at, physical_offset, timestamp_ms)
                    count += 1
                begin = at + 1
            at += 1
        return count

    def _add(
        self, packed: BytesWriter, data: bytes, begin: i64, end: i64, physical_offset: i64, timestamp_ms: i64
    ) -> None:
        hashed = hash_ascii(self._prefix, data, begin, end)
        if hashed < 0:
            hashed = i64(i32(self._hash_other(self._topic, data[begin:end])))
        write_i32_be(packed, i32(hashed))
        write_i64_be(packed, physical_offset)
        write_i64_be(packed, timestamp_ms)

    def _read_text(self, data: bytes, begin: i64, end: i64) -> bool:
        """Find the values of the two names; False if that is for the general path."""
        self._unique_begin = -1
        self._keys_begin = -1
        at = begin
        while at < end:
            value_at: i64 = -1
            is_unique = False
            if end - at > 9 and read_i64_be(data, at) == _UNIQ_KEY and i64(data[at + 8]) == _NAME_END:
                value_at = at + 9
                is_unique = True
            elif end - at > 5 and i64(read_i32_be(data, at)) == _KEYS and i64(data[at + 4]) == _NAME_END:
                value_at = at + 5
            at = entry_end(data, at, end)
            if at < 0:
                return False
            if value_at >= 0 and value_at < at:
                if is_unique:  # of a name that is repeated the last value counts
                    self._unique_begin = value_at
                    self._unique_end = at
                else:
                    self._keys_begin = value_at
                    self._keys_end = at
            at += 1
        return True
