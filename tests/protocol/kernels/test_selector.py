"""The parts of the kernel of selectors; what it decides as a whole is in ``selector/test_sql92_kernel.py``."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rocketpy.protocol.kernels.selector import (
    FALSE,
    NULL,
    TRUE,
    UNDECIDED,
    AllOf,
    AnyOf,
    Decision,
    Fixed,
    Inverse,
    Property,
    Selector,
    stands_at,
)
from rocketpy.protocol.properties import decode_properties

VALUES = [FALSE, TRUE, NULL, UNDECIDED]


def found_in(content: bytes, begin: int, end: int, names: list[bytes]) -> dict[bytes, bytes]:
    """What the kernel finds of the named properties in a part of some bytes."""
    properties = [Property(name) for name in names]
    Selector(properties, Fixed(TRUE)).find(content, begin, end)
    return {each.name: content[each.begin : each.end] for each in properties if each.end}


BYTES = st.sampled_from(
    [b"\0", b"\1", b"\2", b"\3", b"a", b"b", b"aaaaaaaa", b"\x7f", b"\x80", b"\x81", b"\x83", b"\xff"]
)
TEXTS = st.lists(BYTES, max_size=40).map(b"".join)


@given(TEXTS, st.binary(min_size=8, max_size=9), st.sampled_from([b"", b"\2a\1after", b"a" * 8, b"\xff"]))
@example(b"a\1" + b"\x80" * 8 + b"\2a", b"\xff" * 8, b"\1after")
@example(b"aaaaaaaaa\1b\2aaaaaaaa\1a\2a\1aa", bytes(8), b"")
@example(b"aaaaaaaab\1b", bytes(8), b"")
@example(b"\2\2a\1b\2\1b\2a\1\2", bytes(8), b"")
def test_any_bytes_are_taken_apart_at_their_separators(text: bytes, before: bytes, after: bytes) -> None:
    """Wherever they stand in a word, whatever stands before and after the text."""
    names = [b"a", b"aa", b"aaaaaaaa", b"aaaaaaaaa", b"a" * 70, b"\xff", b"\x80b"]
    expected = {}
    for entry in text.split(b"\2"):
        name, _, value = entry.partition(b"\1")
        if name in names and value:
            expected[name] = value
    assert found_in(before + text + after, len(before), len(before) + len(text), names) == expected


@pytest.mark.parametrize("size", [1, 7, 8, 9, 16, 61, 62, 63, 100])
def test_names_of_any_length_are_told_apart(size: int) -> None:
    """By each of their bytes, and by their length."""
    name = bytes(97 + number % 26 for number in range(size))
    for position in range(size):
        other = name[:position] + b"-" + name[position + 1 :]
        for each in (other, name + b"x", name[:-1], b"x" + name):
            content = bytes(8) + each + b"\1value"
            assert found_in(content, 8, len(content), [name]) == {}
    for after in (b"", b"\2"):
        content = bytes(8) + name + b"\1value" + after
        assert found_in(content, 8, len(content), [b"-" * size, name]) == {name: b"value"}


@given(st.binary(max_size=30), st.integers(0, 5), st.integers(0, 29))
def test_a_text_stands_where_its_bytes_are(text: bytes, position: int, changed: int) -> None:
    content = bytearray(b"-" * position + text + b"-")
    assert stands_at(bytes(content), position, text)
    if changed < len(text):
        content[position + changed] ^= 1
        assert not stands_at(bytes(content), position, text)


@given(st.lists(st.text("ab\1\2", max_size=10), max_size=6).map("".join), st.integers(8, 17))
def test_values_are_those_of_the_properties(text: str, before: int) -> None:
    """Of a repeated name the last one; a value may have the separator of names."""
    names = ["a", "b", "ab", "aba"]
    content = b"x" * before + text.encode() + b"\2a\1after"
    found = found_in(content, before, before + len(text), [name.encode() for name in names])
    decoded = decode_properties(text)
    assert found == {name.encode(): decoded[name].encode() for name in names if name in decoded}


def decided(part: Decision) -> int:
    return part.decide(b"")


def test_logic_has_three_values_and_stops_where_java_s_does() -> None:
    for first in VALUES:
        for second in VALUES:
            parts: list[Decision] = [Fixed(first), Fixed(second)]
            pair = (first, second)
            known = first if first in (FALSE, UNDECIDED) else second if second in (FALSE, UNDECIDED) else None
            assert decided(AllOf(parts)) == (known if known is not None else NULL if NULL in pair else TRUE)
            known = first if first in (TRUE, UNDECIDED) else second if second in (TRUE, UNDECIDED) else None
            assert decided(AnyOf(parts)) == (known if known is not None else NULL if NULL in pair else FALSE)
    assert [decided(Inverse(Fixed(value))) for value in VALUES] == [TRUE, FALSE, NULL, UNDECIDED]


def test_a_part_that_decides_nothing_leaves_it_to_the_general_path() -> None:
    assert decided(Decision()) == UNDECIDED
