"""Comparison, scan, hash and copy of text, mostly by words of 8 bytes; shared by the kernels of headers and records.

No function reads outside of the bytes that it is given: a position out of range is an IndexError, or the answer "no".
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64, u8

# Each byte of these words is the same. None has more than 62 bits: a longer constant would be an object, which is
# converted wherever it is used.
_ONES: Final[i64] = 0x0101010101010101
_ENTRY_ENDS: Final[i64] = 0x0202020202020202
_SPACES: Final[i64] = 0x2020202020202020
_QUOTES: Final[i64] = 0x2222222222222222
_HALF_BACKSLASHES: Final[i64] = 0x2E2E2E2E2E2E2E2E
_DIGITS_MAX: Final[i64] = 18
"""Digits of a number that is read: more might not fit into 64 bits."""


def is_same(text: bytes, begin: i64, other: bytes, other_begin: i64, size: i64) -> bool:
    """Return whether ``size`` bytes of two texts are equal; False if either is too short."""
    if begin < 0 or other_begin < 0 or size < 0:
        return False
    if begin > i64(len(text)) - size or other_begin > i64(len(other)) - size:  # a sum of the left sides may wrap
        return False
    at: i64 = 0
    while at + 8 <= size:
        if read_i64_le(text, begin + at) != read_i64_le(other, other_begin + at):
            return False
        at += 8
    while at < size:
        if text[begin + at] != other[other_begin + at]:
            return False
        at += 1
    return True


def text_end(text: bytes, begin: i64) -> i64:
    """Return where a run of ASCII characters ends: at a quote, backslash, control character, or byte above 0x7F."""
    at = begin
    half = _HALF_BACKSLASHES  # mypyc would add two constants to one of more than 62 bits
    last = i64(len(text)) - 8
    while at <= last:
        word = read_i64_le(text, at)
        quotes = word ^ _QUOTES
        backslashes = word ^ (half + half)
        # A byte below n makes the highest bit of (byte - n) & ~byte, a zero byte that of (byte - 1) & ~byte.
        found = ((word - _SPACES) & ~word) | ((quotes - _ONES) & ~quotes) | ((backslashes - _ONES) & ~backslashes)
        if (((found | word) >> 7) & _ONES) != 0:
            break
        at += 8
    size = i64(len(text))
    while at < size:
        byte = i64(text[at])
        if byte < 0x20 or byte > 0x7F or byte == 0x22 or byte == 0x5C:
            break
        at += 1
    return at


def entry_end(text: bytes, begin: i64, end: i64) -> i64:
    """Return where an entry of properties ends, at its separator or at ``end``; -1 if it has a NUL."""
    at = begin
    while at + 8 <= end:
        word = read_i64_le(text, at)
        others = word ^ _ENTRY_ENDS
        # The same test: one byte is a NUL or a separator.
        if ((((word - _ONES) & ~word) | ((others - _ONES) & ~others)) >> 7) & _ONES:
            break
        at += 8
    while at < end:
        byte = i64(text[at])
        if byte == 2:
            return at
        if byte == 0:
            return -1
        at += 1
    return end


def java_hash(text: bytes, begin: i64, end: i64) -> i64:
    """Return Java's hash of a part of an ASCII text, as the signed number that it is there."""
    value: i64 = 0
    at = begin
    while at < end:
        value = (value * 31 + i64(text[at])) & 0xFFFFFFFF
        at += 1
    return value - 0x100000000 if value > 0x7FFFFFFF else value


def digits_end(text: bytes, begin: i64) -> i64:
    """Return where a run of decimal digits ends."""
    at = begin
    size = i64(len(text))
    while at < size and 0x30 <= i64(text[at]) <= 0x39:
        at += 1
    return at


def number_of(text: bytes, begin: i64, end: i64) -> i64:
    """Return the number that a text is, written in at most 18 digits and no other way; -1 for any other text."""
    if begin >= end or end - begin > _DIGITS_MAX or (text[begin] == 0x30 and end - begin > 1):
        return -1
    value: i64 = 0
    at = begin
    while at < end:
        digit = i64(text[at]) - 0x30
        if digit < 0 or digit > 9:
            return -1
        value = value * 10 + digit
        at += 1
    return value


def copy_text(writer: BytesWriter, text: bytes, begin: i64, end: i64) -> None:
    """Write the bytes of a text from one position to another."""
    at = begin
    while at + 8 <= end:
        write_i64_le(writer, read_i64_le(text, at))
        at += 8
    while at < end:
        writer.append(text[at])
        at += 1


def decimal_width(value: i64) -> i64:
    """Return how many bytes :func:`write_decimal` writes."""
    if value < 0:  # not by its absolute value: the lowest number of 64 bits has none
        return i64(len(str(value)))
    width: i64 = 1
    while value >= 10:
        value //= 10
        width += 1
    return width


def write_decimal(writer: BytesWriter, value: i64) -> None:
    """Write a number in decimal."""
    if value < 0:
        writer.write(str(value).encode())
        return
    at = i64(len(writer)) + decimal_width(value)
    while i64(len(writer)) < at:
        writer.append(0x30)
    # From the last digit on: to divide by 10 is a multiplication, to divide by a power that varies is not.
    while value > 0:
        at -= 1
        writer[at] = u8(0x30 + value % 10)
        value //= 10
