"""The text of properties, held against Java's own, quirks included."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.protocol import properties
from rocketpy.protocol.properties import (
    ALL_INDEX_KEYS,
    INDEX_KEYS_MAX,
    RESERVED_PROPERTIES,
    decode_properties,
    encode_properties,
    index_keys,
    index_keys_of,
)
from tests.recorded import VECTORS

# What survives: neither separator, and something in name and value.
PARTS = st.text(alphabet=st.characters(exclude_characters="\x01\x02"), min_size=1)


@pytest.mark.parametrize("vector", VECTORS["properties_encode"], ids=lambda vector: vector["hex"] or "empty")
def test_text_is_written_as_java_writes_it(vector: dict[str, object]) -> None:
    assert encode_properties(vector["map"]).encode().hex() == vector["hex"]  # type: ignore[arg-type]


@pytest.mark.parametrize("vector", VECTORS["properties_decode"], ids=lambda vector: vector["hex"] or "empty")
def test_text_is_read_as_java_reads_it(vector: dict[str, object]) -> None:
    assert decode_properties(bytes.fromhex(str(vector["hex"])).decode()) == vector["map"]


@given(st.dictionaries(PARTS, PARTS), st.booleans())
def test_what_is_written_is_read_again(values: dict[str, str], older_writer: bool) -> None:
    """Older writers put a separator after the last entry too."""
    text = encode_properties(values) + ("\x02" if older_writer else "")
    assert decode_properties(text) == values
    assert list(decode_properties(text)) == list(values)


@given(st.text(alphabet="ab\x01\x02"))
def test_any_text_is_read_and_means_the_same_when_written_again(text: str) -> None:
    values = decode_properties(text)
    assert all(values)
    assert all(values.values())
    assert decode_properties(encode_properties(values)) == values


def test_every_name_is_reserved_but_four() -> None:
    names = {value for name, value in vars(properties).items() if name.startswith("PROPERTY_") and len(value) > 1}
    assert names - RESERVED_PROPERTIES == {
        "CHECK_IMMUNITY_TIME_IN_SECONDS",
        "TRANSACTION_CHECK_TIMES",
        "TRAN_PREPARED_QUEUE_OFFSET",
        "INNER_MULTI_DISPATCH",
    }
    assert names > RESERVED_PROPERTIES


def test_the_unique_key_comes_first_and_blanks_separate_keys() -> None:
    assert index_keys("u", " a  b ") == (b"u", b"a", b"b")
    assert index_keys(None, None) == index_keys("", "") == ()


def test_the_first_keys_of_a_message_are_indexed_and_no_more() -> None:
    keys = [f"k{number}" for number in range(INDEX_KEYS_MAX + 5)]
    assert index_keys("u", " ".join(keys)) == (b"u", *(key.encode() for key in keys[: INDEX_KEYS_MAX - 1]))
    assert len(index_keys(None, " ".join(keys[:INDEX_KEYS_MAX]))) == INDEX_KEYS_MAX


def test_index_keys_come_from_two_properties_and_the_unique_key_is_first() -> None:
    assert index_keys_of({"KEYS": " a  b ", "UNIQ_KEY": "u"}) == (b"u", b"a", b"b")
    assert index_keys_of({"KEYS": "ü"}) == ("ü".encode(),)
    assert index_keys_of({}) == ()
    assert len(index_keys_of({"KEYS": "k " * 1000})) == INDEX_KEYS_MAX, "as many as append gives"
    assert len(index_keys_of({"KEYS": "k " * 16_000}, ALL_INDEX_KEYS)) == 16_000
