"""The entries of a burst of keys in a file of the index: where their slots are, and their bytes.

    key:    key hash i32 | physical offset i64 | timestamp i64                  as index_hashes.py makes them
    slots:  position i32 | ...             in the file, one for each key
    older:  entry u32    | ...             what was in the slots before
    entry:  key hash i32 | physical offset i64 | seconds i32 | older i32

All are packed one after the other, big-endian. ``seconds`` are those since the file's begin, ``older`` is the number of
the next older entry of the same slot. Between the steps numbers stay in bytes: an integer object of more than 30 bits
costs as much as all that is done here with a key.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

_KEY_SIZE: Final[i64] = 20
_SECONDS_MAX: Final[i64] = 0x7FFF_FFFF
_POSITION_MAX: Final[i64] = 0x7FFF_FFFF
_NUMBER_MAX: Final[i64] = 0x7FFF_FFFF


def distinct_keys(keys: bytes) -> bytes:
    """Return the keys without those that are the same as an earlier one of their message.

    Usually that is the very object. Keys of a message are those in a row with one physical offset.
    """
    size = i64(len(keys))
    kept: BytesWriter | None = None
    begin: i64 = 0  # where the keys of the message begin
    at: i64 = _KEY_SIZE
    copied: i64 = 0  # what is before has been decided on
    while at < size:
        physical_offset = read_i64_be(keys, at + 4)
        if read_i64_be(keys, begin + 4) != physical_offset:
            begin = at
        else:
            hashed = read_i32_be(keys, at)
            earlier = begin
            while earlier < at and read_i32_be(keys, earlier) != hashed:
                earlier += _KEY_SIZE
            if earlier < at:
                if kept is None:
                    kept = BytesWriter()
                kept.write(keys[copied:at])
                copied = at + _KEY_SIZE
        at += _KEY_SIZE
    if kept is None:
        return keys
    kept.write(keys[copied:])
    return kept.getvalue()


def slot_positions(keys: bytes, first_position: int, slot_count: int) -> bytes:
    """Return the position of each key's slot, where slots are words from ``first_position`` on."""
    first: i64 = first_position
    count: i64 = slot_count
    if first < 0 or count < 0 or count > _POSITION_MAX or first > _POSITION_MAX - 4 * count:
        raise ValueError(f"expected slots that end before {_POSITION_MAX}, found {count} from {first} on")
    positions = BytesWriter()
    at: i64 = 0
    while at < i64(len(keys)):
        write_i32_be(positions, i32(first + i64(read_i32_be(keys, at)) % count * 4))
        at += _KEY_SIZE
    return positions.getvalue()


def pack_entries(keys: bytes, older: bytes, first: int, begin_timestamp_ms: int) -> tuple[bytes, int]:
    """Return the entries of keys, and how many of their slots were empty before; ``first`` is the first one's number.

    What was in a slot counts as nothing if it is no number, or higher than the entry's own.

    Compatibility: ``IndexFile.putKey`` (4.9.8).
    """
    begin: i64 = begin_timestamp_ms
    number: i64 = first
    empty_count: i64 = 0
    last: i64 = 0
    seconds: i64 = 0
    if number < 0 or number > _NUMBER_MAX:
        raise ValueError(f"expected a number of 0 to {_NUMBER_MAX} for an entry, found {number}")
    entries = BytesWriter()
    at: i64 = 0
    older_at: i64 = 0
    while at < i64(len(keys)):
        timestamp = read_i64_be(keys, at + 12)
        if timestamp != last:
            last = timestamp
            seconds = 0
            if begin > 0 and timestamp > begin:
                seconds = (timestamp - begin) // 1000
                if seconds > _SECONDS_MAX:
                    seconds = _SECONDS_MAX
        previous = i64(read_i32_be(older, older_at))
        if previous < 0 or previous > number:
            previous = 0
        if previous == 0:
            empty_count += 1
        write_i32_be(entries, read_i32_be(keys, at))
        write_i64_be(entries, read_i64_be(keys, at + 4))
        write_i32_be(entries, i32(seconds))
        write_i32_be(entries, i32(previous))
        number += 1
        at += _KEY_SIZE
        older_at += 4
    return entries.getvalue(), empty_count
