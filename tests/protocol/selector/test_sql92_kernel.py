"""Selectors as the kernel evaluates them: what it decides is what the closures decide, for any text and any bytes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rocketpy.protocol.kernels import selector as kernel
from rocketpy.protocol.selector.sql92 import compile_sql92
from rocketpy.protocol.selector.sql92_errors import SelectorError
from rocketpy.protocol.selector.sql92_grammar import parse
from rocketpy.protocol.selector.sql92_kernel import kernel_judge, kernel_selector
from rocketpy.protocol.stored_message import RECORD_HEADS, decode_record_properties
from tests.protocol.selector import sql92_oracle as oracle
from tests.protocol.selector.test_sql92 import LEAVES, PROPERTIES, TEXTS, VERDICTS, grown

UNIT = struct.Struct(">qiq")
USUAL = "WAIT = 'true' AND (price IS NULL OR price BETWEEN 10 AND 20)"
NAMES = st.sampled_from(["a", "b", "c", "price", "", "ab", "ü", "longer_than_eight"])
VALUES = st.one_of(TEXTS, st.sampled_from(["10", "20", "a\x01b", "", "é", "0" * 9, "9" * 10, "00", "true", "\0"]))
ENTRIES = st.one_of(st.tuples(NAMES, VALUES).map("\x01".join), st.sampled_from(["", "a", "\x01x", "a\x01", "\x01"]))
TEXTS_OF_PROPERTIES = st.lists(ENTRIES, max_size=6).map("\x02".join).map(str.encode)


def record_of(text: bytes, *, body: bytes = b"body", address_bits: int = 0, topic: bytes = b"T") -> bytes:
    """A record with a text of properties; of its head only what is read is right."""
    head = bytearray(RECORD_HEADS[address_bits].size)
    struct.pack_into(">i", head, 36, address_bits << 4)
    struct.pack_into(">i", head, len(head) - 4, len(body))
    return bytes(head) + body + bytes((len(topic),)) + topic + struct.pack(">H", len(text) & 0xFFFF) + text


def judged(selector: kernel.Selector, records: list[bytes]) -> bytes:
    """The verdicts on records that stand back to back at some offset."""
    offset, units = 1 << 40, b""
    for each in records:
        units += UNIT.pack(offset, len(each), 0)
        offset += len(each)
    return selector.judge(units, b"".join(records), 1 << 40)


def assert_agreement(text: str, records: list[bytes]) -> bytes | None:
    """Compare the kernel's verdicts with the definition; return them, None for a selector that it does not have."""
    as_kernel = kernel_selector(parse(text))
    if as_kernel is None:
        return None
    verdicts = judged(as_kernel, records)
    selector = compile_sql92(text)
    assert len(verdicts) == len(records)
    for verdict, record in zip(verdicts, records, strict=True):
        if verdict != kernel.UNDECIDED:
            assert bool(verdict) is selector.matches(decode_record_properties(record)), record
    return verdicts


@given(st.recursive(LEAVES, grown, max_leaves=6), st.lists(PROPERTIES, min_size=1, max_size=3))
@example(("AND", ("property", "a"), ("=", ("property", "b"), ("constant", "Integer", 1))), [{"b": "x"}])
def test_what_the_kernel_decides_the_closures_decide(
    expression: oracle.Expression, all_properties: list[dict[str, str]]
) -> None:
    try:
        text = oracle.text_of(expression)
        parse(text)
    except SelectorError:
        return
    texts = ["\x02".join(f"{k}\x01{v}" for k, v in each.items()) for each in all_properties]
    assert_agreement(text, [record_of(each.encode("utf-8", "replace")) for each in texts])


@pytest.mark.parametrize("text", [str(each["expression"]) for each in VERDICTS if "compile" not in each])
def test_java_s_selectors_are_decided_as_by_closures(text: str) -> None:
    texts = [b"", b"a\x011", b"a\x01x\x02b\x012", b"a\x01-1\x02b\x01true", b"a\x011.5", b"a\x01tag1\x02b\x01abc"]
    assert_agreement(text, [record_of(each) for each in texts])


@pytest.mark.parametrize(
    "text",
    [
        USUAL,
        "a = 5",
        "a <> 5",
        "a > 5 AND a < 7",
        "a >= -5 OR b <= 5",
        "a NOT IN ('1', 'abc')",
        "a IN ('1', 'abc')",
        "NOT (a = 'x')",
        "a IS NOT NULL",
        "a",
        "a AND TRUE",
        "longer_than_eight = 'longer than eight'",
        "a BETWEEN 3000000000 AND 4000000000",
    ],
)
@settings(max_examples=30)
@given(
    texts=st.lists(st.one_of(TEXTS_OF_PROPERTIES, st.binary(max_size=30)), min_size=1, max_size=4),
    bits=st.integers(0, 3),
)
@example(texts=[b"a\x015\x02a\x01", b"a\x015\x02a\x016", b"\x01a\x015", b"a\x015\x02"], bits=0)
@example(
    texts=[b"WAIT\x01true\x02price\x0110", b"WAIT\x01true", b"WAIT\x01true\x02price\x0121", b"price\x0115"], bits=3
)
@example(texts=[b"longer_than_eight\x01longer than eight", b"longer_than_eighT\x01longer than eight"], bits=0)
def test_usual_selectors_are_evaluated_by_the_kernel(text: str, texts: list[bytes], bits: int) -> None:
    records = [record_of(each, address_bits=bits, body=b"b" * number) for number, each in enumerate(texts)]
    assert assert_agreement(text, records) is not None


def test_the_kernel_decides_what_is_usual() -> None:
    assert assert_agreement("NOT NULL", [record_of(b"")]) == bytes((0,))
    texts = [b"WAIT\x01true", b"WAIT\x01true\x02price\x0110", b"WAIT\x01true\x02price\x019", b"", b"WAIT\x01false"]
    assert assert_agreement(USUAL, [record_of(each) for each in texts]) == bytes((1, 1, 0, 0, 0))


@pytest.mark.parametrize("value", ["-1", "+1", " 1", "x", "1x", "1234567890", "é", "1.0"])
def test_a_value_that_is_no_plain_number_is_left_to_the_closures(value: str) -> None:
    assert assert_agreement("a > 5", [record_of(f"a\x01{value}".encode())]) == bytes((kernel.UNDECIDED,))


@pytest.mark.parametrize(
    "text",
    ["a > b", "5 < a", "a = 1.5", "a = 'ü'", "a = TRUE", "(a = 1) = (b = 2)", "a IN (" + ", ".join(["'x'"] * 17) + ")"]
    + [" OR ".join(["a = 1"] * 100), "a = 9223372036854775807"],
)
def test_a_selector_with_an_unusual_part_is_left_to_the_closures(text: str) -> None:
    assert kernel_selector(parse(text)) is None


@given(record=st.binary(max_size=300), position=st.integers(0, 120), value=st.binary(min_size=1, max_size=4))
@example(record=b"", position=87, value=b"\xff")
def test_a_record_whose_lengths_lie_is_not_read_beyond_its_end(record: bytes, position: int, value: bytes) -> None:
    """Of its own bytes and of those after it."""
    whole = bytearray(record_of(b"a\x015\x02b\x01x"))
    whole[position : position + len(value)] = value
    assert_agreement("a = 5", [record, bytes(whole), record_of(b"a\x015")])


@pytest.mark.parametrize(
    "place", [(-1, 200), (5, 200), (1 << 62, 100), (0, 1 << 30), (0, -1), (0, 90), (-(1 << 63), 91)]
)
def test_units_that_lie_are_undecided(place: tuple[int, int]) -> None:
    as_kernel = kernel_selector(parse("a = 5"))
    assert as_kernel is not None
    assert as_kernel.judge(UNIT.pack(*place, 0), record_of(b"a\x015"), 0) == bytes((kernel.UNDECIDED,))


def test_a_selector_keeps_nothing_of_the_record_before() -> None:
    assert assert_agreement("a = 'x'", [record_of(b"a\x01x"), record_of(b""), record_of(b"a\x01x")]) == b"\1\0\1"


def test_the_kernel_is_made_once_for_a_selector() -> None:
    selector = compile_sql92("made_once = 1")
    made = selector.judge(kernel_judge)
    assert made is not None
    assert selector.judge(lambda root: None) is made
    unusual = compile_sql92("made_once > 1.5")
    assert unusual.judge(kernel_judge) is None
    assert unusual.judge(lambda root: made) is None
