"""The kernels of a pull: which units span one read, and whether records are what their units say."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rocketpy.protocol.kernels.pull import are_records, records_of, span_of, tagged_units
from rocketpy.protocol.stored_message import MESSAGE_MAGIC_CODE

UNIT = struct.Struct(">qiq")
HEAD = struct.Struct(">ii20xq")
GAP_MAX = 50
SIZES = st.sampled_from([36, 37, 100, 35, 0, -1, -(2**31), 2**31 - 1])
OFFSETS = st.one_of(st.integers(0, 500), st.sampled_from([-1, -(2**63), 2**63 - 1, 2**62]))


def units_of(places: list[tuple[int, int]]) -> bytes:
    return b"".join(UNIT.pack(offset, size, 7) for offset, size in places)


def record(offset: int, size: int) -> bytes:
    return HEAD.pack(size, MESSAGE_MAGIC_CODE, offset).ljust(size, b"x")


def log_of(places: list[tuple[int, int]]) -> bytes:
    """The log from the first place on, with other bytes between."""
    begin = places[0][0]
    log = bytearray(b"-" * (places[-1][0] + places[-1][1] - begin))
    for offset, size in places:
        log[offset - begin : offset - begin + size] = record(offset, size)
    return bytes(log)


def in_order(gaps: list[tuple[int, int]], begin: int) -> list[tuple[int, int]]:
    """Places with these gaps before them, and sizes."""
    places = []
    for gap, size in gaps:
        places.append((begin + gap, size))
        begin += gap + size
    return places


GAPS = st.lists(st.tuples(st.sampled_from([0, 0, 1, GAP_MAX]), st.integers(36, 90)), min_size=1, max_size=6)


@given(st.lists(st.tuples(OFFSETS, SIZES), max_size=5))
@example([(0, 36), (36, 36)])
@example([(0, 36), (36 + GAP_MAX, 36)])
@example([(0, 36), (37 + GAP_MAX, 36)])
@example([(0, 36), (35, 36)])
@example([(2**63 - 1, 36)])
def test_units_span_what_is_between_the_first_and_the_last(places: list[tuple[int, int]]) -> None:
    ends = [offset + size for offset, size in places]
    is_close = all(0 <= offset - end <= GAP_MAX for (offset, _), end in zip(places[1:], ends, strict=False))
    found = span_of(units_of(places), GAP_MAX)
    if not places or not is_close or any(offset < 0 or size < 36 for offset, size in places) or places[0][0] > 2**62:
        assert found is None
    else:
        begin = places[0][0]
        assert found == (begin, ends[-1] - begin, sum(size for _, size in places), places[-1][1])


@given(GAPS, st.sampled_from([0, 1 << 40]))
def test_records_are_found_and_taken_out(gaps: list[tuple[int, int]], begin: int) -> None:
    places = in_order(gaps, begin)
    units, log, first = units_of(places), log_of(places), places[0][0]
    assert are_records(units, log, first)
    verdicts = bytes(number % 3 for number in range(len(places)))
    expected = b"".join(record(*place) for number, place in enumerate(places) if number % 3 == 1)
    assert records_of(units, log, first, verdicts) == expected


CODES = st.sampled_from([-(2**63), -(2**31) - 1, -(2**31), -1, 0, 1, 2**31 - 1, 2**63 - 1])


@given(st.lists(CODES, max_size=8), st.lists(CODES, max_size=3), st.integers(1, 9), st.binary(max_size=19))
def test_units_with_a_tag_are_taken_out(found: list[int], codes: list[int], count_max: int, rest: bytes) -> None:
    """Up to the last one that there is room for; an address of an extension may be anything."""
    units = [UNIT.pack(number, 100 + number, code) for number, code in enumerate(found)]
    wanted = [n for n, code in enumerate(found) if code in codes or code < -(2**31)][:count_max]
    looked_at = wanted[-1] + 1 if len(wanted) == count_max else len(found)
    packed = struct.pack(f">{len(codes)}q", *codes)
    expected = b"".join(units[n] for n in wanted)
    limits = (0, 99 + looked_at) if found else (2**62, 0)
    assert tagged_units(b"".join(units) + rest, packed, count_max, -(2**31) - 1) == (expected, looked_at, *limits)


@given(GAPS, st.integers(0, 10), st.sampled_from([0, 3, 4, 7, 28, 35]), st.binary(min_size=1, max_size=3))
def test_a_record_that_is_not_its_unit_s_is_found_out(
    gaps: list[tuple[int, int]], number: int, position: int, wrong: bytes
) -> None:
    places = in_order(gaps, 5)
    log, first = bytearray(log_of(places)), places[0][0]
    at = places[number % len(places)][0] - first + position
    before = bytes(log)
    log[at : at + len(wrong)] = wrong
    del log[len(before) :]
    heads = [HEAD.unpack_from(log, offset - first) for offset, _ in places]
    is_right = heads == [(size, MESSAGE_MAGIC_CODE, offset) for offset, size in places]
    assert are_records(units_of(places), bytes(log), first) is is_right


@pytest.mark.parametrize("size", range(0, 100, 7))
def test_fewer_bytes_than_the_units_span_are_no_records(size: int) -> None:
    places = [(10, 50), (60, 50)]
    assert are_records(units_of(places), log_of(places), 10)
    assert not are_records(units_of(places), log_of(places)[:size], 10)


@given(st.lists(st.tuples(OFFSETS, SIZES), max_size=4), st.binary(max_size=200), OFFSETS)
def test_units_that_lie_are_never_records(places: list[tuple[int, int]], content: bytes, begin: int) -> None:
    assert are_records(units_of(places), content, begin) is (not places)
