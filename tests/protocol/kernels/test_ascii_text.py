"""Functions over ASCII text do what their plain definitions say, at every position, and never look outside."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from rocketpy.protocol.java_hash import java_hash
from rocketpy.protocol.kernels import ascii_text

TEXTS = st.one_of(
    st.binary(max_size=40),
    st.lists(st.sampled_from(b' aZ~\x7f\x80\xff\x1f\0"\\!#[]09-'), max_size=40).map(bytes),
    st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7F), max_size=40).map(str.encode),
)
POSITIONS = st.integers(0, 45)


@given(TEXTS, TEXTS, POSITIONS, POSITIONS, POSITIONS)
def test_texts_are_the_same(text: bytes, other: bytes, begin: int, other_begin: int, size: int) -> None:
    parts = text[begin : begin + size], other[other_begin : other_begin + size]
    is_inside = begin + size <= len(text) and other_begin + size <= len(other)
    assert ascii_text.is_same(text, begin, other, other_begin, size) == (is_inside and parts[0] == parts[1])
    assert ascii_text.is_same(text, begin, text, begin, size) == (begin + size <= len(text))
    assert not ascii_text.is_same(text, -1, other, 0, 1)
    assert not ascii_text.is_same(text, 0, other, -1, 1)


@given(TEXTS, POSITIONS)
@example(b"a" * 7 + b'"', 0)
@example(b"a" * 16 + b"\x1f", 1)
@example(b"a" * 16 + b"\x80aaaaaaa", 0)
def test_a_text_ends_at_its_first_other_byte(text: bytes, begin: int) -> None:
    match = re.compile(rb"[\x20-\x7f]*?(?=[^\x20-\x7f]|[\"\\]|\Z)", re.DOTALL).match(text, min(begin, len(text)))
    assert match is not None
    assert ascii_text.text_end(text, begin) == max(begin, match.end())


@given(st.text("0123456789 -a", max_size=22).map(str.encode), POSITIONS)
def test_digits_end_at_the_first_other_byte(text: bytes, begin: int) -> None:
    match = re.compile(rb"[0-9]*").match(text, min(begin, len(text)))
    assert match is not None
    assert ascii_text.digits_end(text, begin) == max(begin, match.end())


@given(st.one_of(st.integers(-(2**70), 2**70).map(str), st.text("0123456789 -+", max_size=20)).map(str.encode))
@example(b"9" * 18)
@example(b"9" * 19)
@example(b"0")
@example(b"00")
def test_numbers_have_one_form(text: bytes) -> None:
    is_number = re.fullmatch(rb"0|[1-9][0-9]{0,17}", text)
    assert ascii_text.number_of(b"1" + text + b"2", 1, 1 + len(text)) == (int(text) if is_number else -1)


@given(TEXTS, POSITIONS, POSITIONS)
def test_a_part_is_copied(text: bytes, begin: int, end: int) -> None:
    end = min(end, len(text))
    writer = BytesWriter()
    ascii_text.copy_text(writer, text, begin, end)
    assert writer.getvalue() == text[begin:end]


@given(st.integers(-(2**63), 2**63 - 1))
@example(0)
@example(10)
@example(99)
@example(-1)
@example(2**63 - 1)
@example(-(2**63))
@example(-(2**63) + 1)
def test_numbers_are_written_in_decimal(value: int) -> None:
    writer = BytesWriter()
    ascii_text.write_decimal(writer, value)
    assert writer.getvalue() == b"%d" % value
    assert ascii_text.decimal_width(value) == len(b"%d" % value)


@given(st.lists(st.sampled_from(b"\0\1\2\3aZ\x7f\x80\xff"), max_size=40).map(bytes), POSITIONS)
@example(b"a" * 7 + b"\2", 0)
@example(b"a" * 16 + b"\0aaaaaaa", 1)
def test_an_entry_ends_at_its_separator_or_with_the_text(text: bytes, begin: int) -> None:
    begin = min(begin, len(text))
    found = re.compile(rb"[\0\2]").search(text, begin)
    expected = len(text) if found is None else -1 if found.group() == b"\0" else found.start()
    assert ascii_text.entry_end(text, begin, len(text)) == expected


@given(st.text(st.characters(max_codepoint=0x7F), max_size=40), POSITIONS, POSITIONS)
def test_a_part_of_a_text_has_the_hash_of_java(text: str, begin: int, end: int) -> None:
    end = min(end, len(text))
    assert ascii_text.java_hash(text.encode(), begin, end) == java_hash(text[begin:end])
