"""The hashes of the index keys of a burst, eight characters in a step.

    h = 31 * h + byte, in 32 bits, begun with what stands before the key: ``topic#``

Eight characters are one word, and neighbours in it are combined, as in the general path: bytes to pairs
(31 * left + right), pairs to fours, fours to all eight. A sum never leaves its part of the word, because the characters
are ASCII. (40 ns a key of 32 characters byte by byte, 7 ns this way.)

The index has |h|, and 0 for the one number whose negative does not fit. What is made of a key, one after the other:

    key hash i32 | physical offset i64 | timestamp i64                          20 bytes, big-endian
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

from librt.strings import BytesWriter, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

_BITS: Final[i64] = 0x0101_0101_0101_0101
"""One bit of each byte. (A constant of 64 bits would be an integer object.)"""
_PAIRS: Final[i64] = 0x00FF_00FF_00FF_00FF
_FOURS: Final[i64] = 0x0000_FFFF_0000_FFFF
_LOW: Final[i64] = 0xFFFF_FFFF
_SIGN: Final[i64] = 0x8000_0000
_KEY_SIZE: Final[i64] = 20
_POWER_8: Final[i64] = 31**8 % 2**32


def hash_work(
    work: Sequence[tuple[object, ...]],
    count_max: int,
    prefix_of: Callable[[str], int],
    hash_other: Callable[[str, bytes], int],
) -> tuple[bytes, int]:
    """Return the keys of messages, until that are ``count_max`` or more, and of how many messages they are.

    Of each message ``work`` has topic, keys, physical offset and timestamp; keys that are bytes are those of a batch,
    made by the kernel that wrote its records. ``prefix_of`` returns the hash of ``topic#``, unsigned; ``hash_other``
    that of ``topic#key`` for a key that is not ASCII.

    Compatibility: ``String.hashCode`` and ``IndexFile.indexKeyHashMethod`` (4.9.8).
    """
    messages = cast(list[tuple[object, ...]], work)
    packed = BytesWriter()
    last_topic = ""
    last_timestamp: object = None
    timestamp: i64 = 0
    before: i64 = -1
    number: i64 = 0
    left: i64 = count_max
    while left > 0 and number < i64(len(messages)):
        message = messages[number]
        made = message[1]
        if isinstance(made, bytes):
            packed.write(made)
            left -= i64(len(made)) // _KEY_SIZE
            number += 1
            continue
        topic = cast(str, message[0])
        if before < 0 or topic != last_topic:
            before = prefix_of(topic)
            last_topic = topic
        physical_offset = i64(cast(int, message[2]))
        if message[3] is not last_timestamp:  # it is one object for all messages of a burst
            last_timestamp = message[3]
            timestamp = i64(cast(int, last_timestamp))
        keys = cast(Sequence[object], made)
        key_number: i64 = 0
        key_count: i64 = len(keys)
        while key_number < key_count:
            key = cast(bytes, keys[key_number])
            hashed = hash_ascii(before, key, 0, len(key))
            if hashed < 0:
                hashed = i64(i32(hash_other(topic, key)))  # of an int: compiled, i32 of an i64 drops what does not fit
            write_key(packed, hashed, physical_offset, timestamp)
            key_number += 1
        left -= key_count
        number += 1
    return packed.getvalue(), number


def count_keys(work: Sequence[tuple[object, ...]], begin: int) -> int:
    """Return how many keys the messages of ``work`` have, from the one with the number ``begin`` on."""
    messages = cast(list[tuple[object, ...]], work)
    number: i64 = begin
    count: i64 = 0
    while number < i64(len(messages)):
        keys = messages[number][1]
        if isinstance(keys, bytes):
            count += i64(len(keys)) // _KEY_SIZE
        else:
            count += i64(len(cast(Sequence[object], keys)))
        number += 1
    return count


def write_key(packed: BytesWriter, hashed: i64, physical_offset: i64, timestamp_ms: i64) -> None:
    """Write what is made of a key; the hash is one of those above."""
    if hashed < -_SIGN or hashed >= _SIGN:
        raise ValueError(f"expected a hash of 32 bits, found {hashed}")
    write_i32_be(packed, i32(hashed))
    write_i64_be(packed, physical_offset)
    write_i64_be(packed, timestamp_ms)


def hash_ascii(before: i64, text: bytes, begin: i64, end: i64) -> i64:
    """Return the hash of a part of a text, begun with ``before``; -1 if it is not ASCII."""
    value = before
    position = begin
    while position + 8 <= end:
        word = read_i64_be(text, position)
        if (word >> 7) & _BITS:
            return -1
        word = ((word >> 8) & _PAIRS) * 31 + (word & _PAIRS)
        word = ((word >> 16) & _FOURS) * 961 + (word & _FOURS)
        value = (value * _POWER_8 + (word >> 32) * 923_521 + (word & _LOW)) & _LOW
        position += 8
    while position < end:
        byte: i64 = text[position]
        if byte > 0x7F:
            return -1
        value = (value * 31 + byte) & _LOW
        position += 1
    if value == _SIGN:
        value = 0
    elif value > _SIGN:
        value = 0x1_0000_0000 - value
    return value
