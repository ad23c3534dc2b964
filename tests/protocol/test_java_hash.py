"""The hash of Java's strings, held against Java's own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.protocol.java_hash import index_key_hash, java_hash, tags_code
from tests.recorded import VECTORS

STRINGS = [each for each in VECTORS["strings"] if each["string"] is not None]


def text_of(vector: dict[str, object]) -> str:
    return bytes.fromhex(str(vector["utf16_hex"])).decode("utf-16-be", "surrogatepass")


@pytest.mark.parametrize("vector", STRINGS, ids=lambda vector: text_of(vector)[:20].encode("unicode_escape").decode())
def test_hashes_are_those_of_java(vector: dict[str, object]) -> None:
    text = text_of(vector)
    assert java_hash(text) == vector["hash_code"]
    assert tags_code(text) == vector["tags_code"]
    assert index_key_hash(text) == vector["index_key_hash"]


def test_no_tags_have_code_0() -> None:
    assert tags_code(None) == tags_code("") == 0


def test_the_smallest_int_has_index_hash_0() -> None:
    """Java's Math.abs leaves it negative; RocketMQ then takes 0."""
    assert java_hash("polygenelubricants") == -(2**31)
    assert index_key_hash("polygenelubricants") == 0


@given(st.text(alphabet=st.characters() | st.sampled_from("\ud83d\ude80"), max_size=600))
def test_every_length_is_hashed_as_by_the_definition(text: str) -> None:
    """The product works in blocks of 128 units."""
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(encoded), 2):
        value = (31 * value + int.from_bytes(encoded[index : index + 2], "big")) % 2**32
    assert java_hash(text) == (value - 2**32 if value >= 2**31 else value)
