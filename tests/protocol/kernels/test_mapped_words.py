"""Words are exchanged one after the other, big-endian in the mapping, on machines of either byte order."""

from __future__ import annotations

import struct
import sys

from hypothesis import given
from hypothesis import strategies as st

from rocketpy.protocol.kernels.mapped_words import exchange_packed, highest_word

WORDS = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=20)


@given(WORDS, st.lists(st.integers(0, 1_000)), st.integers(0, 2**31 - 2_000), st.booleans())
def test_each_word_gets_the_next_value(words: list[int], chosen: list[int], first: int, is_little: bool) -> None:
    """``is_little`` that is not this machine's is the other byte order in the file."""
    order = ">" if is_little == (sys.byteorder == "little") else "<"
    buffer = bytearray(struct.pack(f"{order}{len(words)}I", *words))
    expected, old = list(words), []
    indexes = [index % len(words) for index in chosen]
    for value, index in enumerate(indexes, first):
        old.append(expected[index])
        expected[index] = value
    positions = struct.pack(f">{len(indexes)}i", *(4 * index for index in indexes))
    found = exchange_packed(memoryview(buffer).cast("I"), positions, first, is_little)
    assert found == struct.pack(f">{len(old)}I", *old)
    assert buffer == struct.pack(f"{order}{len(words)}I", *expected)
    assert highest_word(positions) == max((4 * index for index in indexes), default=-1)
