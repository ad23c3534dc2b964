"""The exchange of words in a mapping: each gets a new value, and the old one is returned.

    positions:              i32 | i32 | ...                                big-endian, packed
    old values:             u32 | u32 | ...                                big-endian, packed
    words:                  u32 | u32 | ...        big-endian in the file, words of this machine as they are looked at

A word is read and written by the view's own item access, which makes an integer object of each: native code has no
other way into a mapping. It is two thirds of what a key costs, and still the cheapest way: a slice makes two objects
more, ``pread`` and ``pwrite`` are two system calls, and pages that are read as bytes and written back gain only where
a burst has several keys in a page.
"""

from __future__ import annotations

from typing import Any, cast

from librt.strings import BytesWriter, read_i32_be, write_i32_be
from mypy_extensions import i32, i64


def highest_word(words: bytes) -> int:
    """Return the highest of packed words, which are signed; -1 if none is higher."""
    highest: i64 = -1
    at: i64 = 0
    while at < i64(len(words)):
        word = i64(read_i32_be(words, at))
        if word > highest:
            highest = word
        at += 4
    return highest


def exchange_packed(words: memoryview[int], positions: bytes, first_value: int, is_little: bool) -> bytes:
    """Replace the words at positions, one after the other, by values that count up; return what was there before.

    ``is_little`` says that this machine's words are little-endian.
    """
    view: Any = words  # an index is made an object once, for both accesses
    old = BytesWriter()
    value: i64 = first_value
    if value < 0 or value > 0xFFFF_FFFF:
        raise ValueError(f"expected a value of 32 bits, found {value}")
    at: i64 = 0
    while at < i64(len(positions)):
        index: object = i64(read_i32_be(positions, at)) >> 2
        before = i64(cast(int, view[index]))
        if is_little:
            before = _swapped(before)
            view[index] = _swapped(value)
        else:
            view[index] = value
        if before > 0x7FFF_FFFF:
            before -= 0x1_0000_0000
        write_i32_be(old, i32(before))
        value += 1
        at += 4
    return old.getvalue()


def _swapped(word: i64) -> i64:
    return (word & 0xFF) << 24 | (word & 0xFF00) << 8 | (word & 0xFF0000) >> 8 | (word >> 24) & 0xFF
