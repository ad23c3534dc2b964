"""The keys of messages, hashed by the kernel: what the general path has for them, compiled and not."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rocketpy.protocol.java_hash import index_key_hash, java_hash
from rocketpy.protocol.kernels.index_hashes import count_keys, hash_work

KEYS = st.one_of(
    st.text(st.characters(max_codepoint=0x7F), max_size=200),
    st.text(max_size=40),
    st.text(st.sampled_from("\x7f\x80zß😀"), max_size=20),
)
WORK = st.lists(
    st.tuples(
        st.sampled_from(("T", "TopicTest", "größe", "%RETRY%group")),
        st.lists(KEYS, max_size=5),
        st.integers(0, 2**62),
        st.sampled_from((0, 1, 1_700_000_000_000, 2**62)),
    ),
    max_size=12,
)


def before(topic: str) -> int:
    return java_hash(f"{topic}#") & 0xFFFF_FFFF


def hash_other(topic: str, key: bytes) -> int:
    return index_key_hash(f"{topic}#{key.decode()}")


@given(WORK, st.integers(1, 20))
@example([("", ["polygenelubricants"], 0, 0)], 1)
def test_each_key_has_the_hash_of_java_and_what_its_message_has(
    work: list[tuple[str, list[str], int, int]], count_max: int
) -> None:
    expected, message_count = b"", 0
    for topic, keys, physical_offset, timestamp_ms in work:
        if len(expected) // 20 >= count_max:
            break
        message_count += 1
        for key in keys:
            expected += struct.pack(">iqq", index_key_hash(f"{topic}#{key}"), physical_offset, timestamp_ms)
    encoded = [(topic, tuple(key.encode() for key in keys), *rest) for topic, keys, *rest in work]
    assert hash_work(encoded, count_max, before, hash_other) == (expected, message_count)
    assert count_keys(encoded, 0) == sum(len(keys) for _, keys, _, _ in work)
    assert count_keys(encoded, 1) == sum(len(keys) for _, keys, _, _ in work[1:])


@pytest.mark.parametrize(
    ("unsigned", "expected"),
    [(0x7FFF_FFFF, 0x7FFF_FFFF), (0x8000_0000, 0), (0x8000_0001, 0x7FFF_FFFF), (0xFFFF_FFFF, 1)],
)
def test_hashes_are_made_positive_as_java_does(unsigned: int, expected: int) -> None:
    packed, _ = hash_work([("", [b""], 5, 6)], 1, lambda topic: unsigned, hash_other)
    assert packed == struct.pack(">iqq", expected, 5, 6)


def test_only_what_is_not_ascii_is_hashed_elsewhere() -> None:
    asked: list[bytes] = []

    def hash_elsewhere(topic: str, key: bytes) -> int:
        asked.append(key)
        return 7

    keys = [b"a" * 40, b"a" * 39 + b"\x80", b"\xc3\xa4", b"", b"a" * 8 + b"\xff" + b"a" * 9, b"\x7f" * 17]
    hash_work([("T", keys, 0, 0)], 1, before, hash_elsewhere)
    assert asked == [keys[1], keys[2], keys[4]]
