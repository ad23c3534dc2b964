"""The parts of the kernel of selectors; what it decides as a whole is in ``selector/test_sql92_kernel.py``."""

from __future__ import annotations

import re

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
    separator_from,
    stands_at,
)
from rocketpy.protocol.properties import decode_properties

VALUES = [FALSE, TRUE, NULL, UNDECIDED]


@given(
    st.lists(st.sampled_from([b"\0", b"\1", b"\2", b"\3", b"a", b"\x7f", b"\x80", b"\xff"]), max_size=40).map(b"".join)
)
@example(b"\x80" * 8 + b"\2")
@example(b"a" * 7 + b"\1")
def test_the_next_separator_is_found(text: bytes) -> None:
    for begin in range(len(text) + 1):
        found = re.compile(b"[\1\2]").search(text, begin)
        assert separator_from(text, begin, len(text)) == (len(text) if found is None else found.start())


@given(st.binary(max_size=30), st.integers(0, 5), st.integers(0, 29))
def test_a_text_stands_where_its_bytes_are(text: bytes, position: int, changed: int) -> None:
    content = bytearray(b"-" * position + text + b"-")
    assert stands_at(bytes(content), position, text)
    if changed < len(text):
        content[position + changed] ^= 1
        assert not stands_at(bytes(content), position, text)


@given(st.lists(st.text("ab\1\2", max_size=10), max_size=6).map("".join), st.integers(0, 9))
def test_values_are_those_of_the_properties(text: str, before: int) -> None:
    """Of a repeated name the last one; a value may have the separator of names."""
    names = ["a", "b", "ab", "aba"]
    properties = [Property(name.encode()) for name in names]
    content = b"x" * before + text.encode() + b"\2a\1after"
    Selector(properties, Fixed(TRUE)).find(content, before, before + len(text))
    found = {
        name: content[each.begin : each.end].decode() for name, each in zip(names, properties, strict=True) if each.end
    }
    decoded = decode_properties(text)
    assert found == {name: decoded[name] for name in names if name in decoded}


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
