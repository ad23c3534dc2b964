"""Entries have the bytes of ``IndexFile.putKey``, whatever is in the slots and whatever time it is."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from rocketpy.protocol.kernels.index_entries import pack_entries, slot_positions

INT_MAX = 2**31 - 1
TIMES = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(0, 9_000), st.sampled_from((0, 1, 999, 1_000, 1_001)))
KEYS = st.lists(st.tuples(st.integers(0, INT_MAX), st.integers(0, 2**63 - 1), TIMES), max_size=20)


def packed(keys: list[tuple[int, int, int]]) -> bytes:
    return b"".join(struct.pack(">iqq", *key) for key in keys)


@given(KEYS, st.integers(1, 5_000_000), st.integers(0, 400))
def test_slots_are_where_java_has_them(keys: list[tuple[int, int, int]], slot_count: int, first: int) -> None:
    expected = [first + hashed % slot_count * 4 for hashed, _, _ in keys]
    assert slot_positions(packed(keys), first, slot_count) == struct.pack(f">{len(keys)}i", *expected)


@given(KEYS, st.data(), st.integers(1, 10**7), st.one_of(TIMES.filter(lambda time: time < 2**62)))
def test_entries_are_those_of_java(
    keys: list[tuple[int, int, int]], data: st.DataObject, first: int, begin: int
) -> None:
    slots = st.one_of(st.integers(0, 30), st.integers(max(0, first - 5), first + 25), st.integers(0, 2**32 - 1))
    older = data.draw(st.lists(slots, min_size=len(keys), max_size=len(keys)))
    expected, empty_count = b"", 0
    for number, ((hashed, physical_offset, timestamp_ms), slot) in enumerate(zip(keys, older, strict=True), first):
        value = slot if 0 < slot <= number else 0
        empty_count += value == 0
        seconds = min(max((timestamp_ms - begin) // 1000, 0), INT_MAX) if begin > 0 else 0
        expected += struct.pack(">iqii", hashed, physical_offset, seconds, value)
    content = struct.pack(f">{len(older)}I", *older)
    assert pack_entries(packed(keys), content, first, begin) == (expected, empty_count)
