"""The body of a batch, read in one pass and written as records in a second.

Items back to back, big-endian; magic and CRC are not read (:mod:`rocketpy.protocol.batch`):

    +------------+-------+-----+------+-------------+------+-----------------+------+
    | total size | magic | CRC | flag | body length | body | text size (i16) | text |
    | 0          | 4     | 8   | 12   | 16          | 20   |                 |      |
    +------------+-------+-----+------+-------------+------+-----------------+------+

``text`` is ``name 1 value 2 name 1 value``. The three names that queues and index need are read where they stand once,
with a value in ASCII; nothing else is taken apart. An item becomes a record, a unit of its queue, and the keys of its
message as the index takes them (:mod:`.index_hashes`):

    | total size | magic | CRC | queueId | flag | queueOffset | physicalOffset | rest ... | body length | body
    | 0          | 4     | 8   | 12      | 16   | 20          | 28             | 36       | -4          |
    | topic size u8, topic | text size i16 | text, 2, the text of the whole batch |

    | physical offset i64 | size i32 | tags code i64 |
    | key hash i32 | physical offset i64 | timestamp i64 | ...

A body of any other form (a length that lies, a name that is repeated or that may be the broker's own, a NUL) is
declined: the general path takes it.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

from librt.strings import (
    BytesWriter,
    read_i16_be,
    read_i32_be,
    read_i64_be,
    write_i16_be,
    write_i32_be,
    write_i64_be,
)
from mypy_extensions import i16, i32, i64

from rocketpy.protocol.kernels.ascii_text import entry_end, java_hash
from rocketpy.protocol.kernels.index_hashes import hash_ascii, write_key

_UNIQ: Final = 0x554E4951
_UNDERSCORE_KEY: Final = 0x5F4B4559
_KEYS: Final = 0x4B455953
_TAGS: Final = 0x54414753
_INNE: Final = 0x494E4E45
_TRAN: Final = 0x5452414E
_ONES: Final = 0x01010101_01010101
_THREES: Final = 0x03030303_03030303
_KEYS_MAX: Final = 128  # INDEX_KEYS_MAX; a text with more of them is declined
_OVERHEAD: Final = 22
_SPACE: Final = 0x20
_SPAN_SIZE: Final = 16
_HEAD_SIZE_MIN: Final = 40
_SUFFIX_MAX: Final = 0x7FFF  # of the properties of a record


class BatchItems:
    """The items of a body in which each has the common form."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.count: i64 = 0
        self.bodies_size: i64 = 0
        self.texts_size: i64 = 0
        """Bytes of all texts as they are stored: with the text of the whole batch, and a separator before it."""
        self.longest_text: i64 = 0
        self.tags_codes: list[int] = []
        self.spans = BytesWriter()
        """Where in the body the values of each stand that are indexed, i32 each: UNIQ_KEY's begin and end, KEYS'."""

    def records(
        self,
        head: bytes,
        topic: bytes,
        suffix: bytes,
        physical_offset: int,
        queue_offset: int,
        hash_before: int,
        timestamp_ms: int,
    ) -> tuple[bytes, bytes, bytes, list[int]]:
        """Return the records; the units of all, and their keys; and the physical offset of each.

        ``head`` is of a record with zeros where records differ, ``topic`` begins with its size, ``suffix`` is the text
        of the whole batch. What of them does not fit a field has been refused. ``hash_before`` is the hash of
        ``topic#``, unsigned, or -1 for no keys; ``timestamp_ms`` is that of the keys.
        """
        log, units, keys = BytesWriter(), BytesWriter(), BytesWriter()
        spans = self.spans.getvalue()
        before = i64(hash_before)
        timestamp = i64(timestamp_ms)
        span_at: i64 = 0
        body, crc_of, tags_codes = self.body, crc32, self.tags_codes
        magic, queue_id = read_i32_be(head, 4), read_i32_be(head, 12)
        if len(head) < _HEAD_SIZE_MIN:  # compiled, a slice that ends before it begins is a SystemError
            raise ValueError(f"expected a head of at least {_HEAD_SIZE_MIN} bytes, found {len(head)}")
        rest = head[36:-4]
        suffix_size = i64(len(suffix))
        fixed_size = i64(len(head)) + i64(len(topic)) + 2
        physical = i64(physical_offset)
        in_queue = i64(queue_offset)
        physical_offsets: list[int] = []
        at: i64 = 0
        number: i64 = 0
        while number < self.count:
            body_at = at + 20
            body_size = i64(read_i32_be(body, at + 16))
            text_at = body_at + body_size + 2
            text_size = i64(read_i16_be(body, text_at - 2))
            text_end = text_at + text_size
            is_separated = text_size == 0 or body[text_end - 1] == 2
            stored_size = text_size + suffix_size + (0 if is_separated else 1)
            size = fixed_size + body_size + stored_size
            own_body = body[body_at : text_at - 2]
            write_i32_be(log, i32(size))
            write_i32_be(log, magic)
            write_i32_be(log, i32(crc_of(own_body) & 0x7FFFFFFF))
            write_i32_be(log, queue_id)
            write_i32_be(log, read_i32_be(body, at + 12))
            write_i64_be(log, in_queue)
            write_i64_be(log, physical)
            log.write(rest)
            write_i32_be(log, i32(body_size))
            log.write(own_body)
            log.write(topic)
            write_i16_be(log, i16(stored_size))
            log.write(body[text_at:text_end])
            if not is_separated:
                log.append(2)
            log.write(suffix)
            write_i64_be(units, physical)
            write_i32_be(units, i32(size))
            write_i64_be(units, i64(tags_codes[number]))
            if before >= 0:
                key_at = i64(read_i32_be(spans, span_at))
                key_end = i64(read_i32_be(spans, span_at + 4))
                if key_end > key_at:
                    write_key(keys, hash_ascii(before, body, key_at, key_end), physical, timestamp)
                key_at = i64(read_i32_be(spans, span_at + 8))
                keys_end = i64(read_i32_be(spans, span_at + 12))
                while key_at < keys_end:
                    key_end = word_end(body, key_at, keys_end)
                    if key_end > key_at:
                        write_key(keys, hash_ascii(before, body, key_at, key_end), physical, timestamp)
                    key_at = key_end + 1
            span_at += _SPAN_SIZE
            physical_offsets.append(physical)
            physical += size
            in_queue += 1
            number += 1
            at = text_end
        return log.getvalue(), units.getvalue(), keys.getvalue(), physical_offsets

    def read_text(self, begin: i64, end: i64) -> bool:
        """Read tags and keys of one text; False if it is not of the common form."""
        body = self.body
        unique_at: i64 = 0
        unique_end: i64 = 0
        keys_at: i64 = 0
        keys_end: i64 = 0
        code: i64 = 0
        has_tags = False
        at = begin
        while at < end:
            value_at: i64 = 0
            if (
                end - at > 9
                and read_i32_be(body, at) == _UNIQ
                and read_i32_be(body, at + 4) == _UNDERSCORE_KEY
                and body[at + 8] == 1
            ):
                value_at = at + 9
                at = value_end(body, value_at, end)
                if at <= value_at or unique_end > 0:
                    return False
                unique_at = value_at
                unique_end = at
            elif end - at > 5 and body[at + 4] == 1 and read_i32_be(body, at) == _KEYS:
                value_at = at + 5
                at = value_end(body, value_at, end)
                if at <= value_at or keys_end > 0:
                    return False
                keys_at = value_at
                keys_end = at
            elif end - at > 5 and body[at + 4] == 1 and read_i32_be(body, at) == _TAGS:
                value_at = at + 5
                at = value_end(body, value_at, end)
                if at <= value_at or has_tags:
                    return False
                has_tags = True
                code = java_hash(body, value_at, at)
            else:
                if end - at > 4:
                    name = read_i32_be(body, at)
                    if name in (_INNE, _TRAN):  # perhaps a property that only a broker may write
                        return False
                at = entry_end(body, at, end)
                if at < 0:
                    return False
            at += 1
        self.tags_codes.append(code)
        write_i32_be(self.spans, i32(unique_at))
        write_i32_be(self.spans, i32(unique_end))
        write_i32_be(self.spans, i32(keys_at))
        write_i32_be(self.spans, i32(keys_end))
        return keys_end == 0 or word_count(body, keys_at, keys_end) + (1 if unique_end > 0 else 0) <= _KEYS_MAX


def read_batch(body: bytes, suffix_size: int, count_max: int) -> BatchItems | None:
    """Return the items of a body, None unless there are 1 to ``count_max`` of the common form.

    ``suffix_size`` is that of the text of the whole batch.
    """
    items = BatchItems(body)
    end = i64(len(body))
    limit = i64(count_max)
    added = i64(suffix_size)
    if added < 0 or added > _SUFFIX_MAX:
        return None
    at: i64 = 0
    while at < end:
        room = end - at - _OVERHEAD
        if room < 0 or items.count == limit:
            return None
        body_size = i64(read_i32_be(body, at + 16))
        if body_size < 0 or body_size > room:
            return None
        text_at = at + _OVERHEAD + body_size
        text_size = i64(read_i16_be(body, text_at - 2))
        if text_size < 0 or text_size > room - body_size:
            return None
        at = text_at + text_size
        if not items.read_text(text_at, at):
            return None
        stored_size = text_size + added
        if text_size > 0 and body[at - 1] != 2:
            stored_size += 1
        items.count += 1
        items.bodies_size += body_size
        items.texts_size += stored_size
        if stored_size > items.longest_text:
            items.longest_text = stored_size
    return items if items.count else None


def value_end(body: bytes, at: i64, end: i64) -> i64:
    """Return where a value ends, at its separator or with the text; -1 if it is not ASCII or has another control."""
    while end - at >= 8:
        word = read_i64_be(body, at)
        # The usual test of eight bytes at once: one is above 0x7F, or below 3. Shifted, because a constant of more than
        # 62 bits would be an object.
        if (word | (word - _THREES) & ~word) >> 7 & _ONES:
            break
        at += 8
    while at < end:
        byte = i64(body[at])
        if byte == 2:
            return at
        if byte < 2 or byte > 0x7F:
            return -1
        at += 1
    return end


def word_end(body: bytes, at: i64, end: i64) -> i64:
    """Return where a word of KEYS ends, at a space or with the value."""
    while at < end and body[at] != _SPACE:
        at += 1
    return at


def word_count(body: bytes, at: i64, end: i64) -> i64:
    """Return how many words a value of KEYS has."""
    count: i64 = 0
    while at < end:
        after = word_end(body, at, end)
        if after > at:
            count += 1
        at = after + 1
    return count


def message_ids(host: bytes, physical_offsets: list[int]) -> bytes:
    """Return offset message ids, joined by commas: the broker's address and the offset, in upper-case hexadecimal."""
    ids = BytesWriter()
    for offset in physical_offsets:
        if len(ids) > 0:
            ids.append(44)
        ids.write(host)
        write_i64_be(ids, hexadecimal(i64(offset) >> 32))
        write_i64_be(ids, hexadecimal(i64(offset)))
    return ids.getvalue()


def hexadecimal(number: i64) -> i64:
    """Return the lowest 32 bits of a number as the eight bytes of their hexadecimal text."""
    spread = number & 0xFFFFFFFF
    spread = (spread << 16 | spread) & 0x0000FFFF_0000FFFF
    spread = (spread << 8 | spread) & 0x00FF00FF_00FF00FF
    spread = (spread << 4 | spread) & 0x0F0F0F0F_0F0F0F0F
    are_letters = (spread + 0x06060606_06060606) >> 4 & 0x01010101_01010101
    return spread + 0x30303030_30303030 + are_letters * 7
