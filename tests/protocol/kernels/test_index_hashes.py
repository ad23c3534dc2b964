"""Each kernel does what its general path does, whatever it is given, or says that it does not: compiled and not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rocketpy.protocol.java_hash import index_key_hash, java_hash
from rocketpy.protocol.kernels import index_hashes

TEXTS = st.text(st.characters(max_codepoint=0x7F), max_size=200)


@given(TEXTS, st.lists(TEXTS, max_size=20))
def test_keys_have_the_hash_of_java(topic: str, keys: list[str]) -> None:
    before = java_hash(f"{topic}#") & 0xFFFF_FFFF
    expected = [index_key_hash(f"{topic}#{key}") for key in keys]
    assert index_hashes.hash_ascii_keys(before, [key.encode() for key in keys]) == expected


@given(st.text(max_size=20).filter(lambda text: not text.isascii()), st.lists(TEXTS, max_size=3))
def test_keys_beyond_ascii_are_declined(key: str, others: list[str]) -> None:
    assert index_hashes.hash_ascii_keys(7, [each.encode() for each in (*others, key)]) is None


def test_the_one_hash_without_a_negative_counts_as_0() -> None:
    """Java's ``abs`` leaves it negative, and RocketMQ takes 0 then."""
    text = "polygenelubricants"
    assert java_hash(text) == -(2**31)
    assert index_hashes.hash_ascii_keys(0, [text.encode()]) == [0] == [index_key_hash(text)]
