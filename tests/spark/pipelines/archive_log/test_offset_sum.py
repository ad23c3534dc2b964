"""Sums over offsets: they say unbroken for a range, and for nothing that is none."""

from __future__ import annotations

from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from rocketpy.spark.pipelines.archive_log.offset_sum import OffsetSum


def sums(offsets: list[int]) -> OffsetSum:
    return reduce(OffsetSum.plus, [OffsetSum(1, each, each, each, each * each, each) for each in offsets])


@given(st.integers(0, 2**62), st.integers(1, 40))
def test_each_offset_once_is_unbroken(first: int, count: int) -> None:
    assert sums(list(range(first, first + count))).is_unbroken


@given(st.lists(st.integers(0, 12), min_size=1, max_size=6))
def test_few_offsets_are_unbroken_only_if_each_is_there_once(offsets: list[int]) -> None:
    expected = sorted(offsets) == list(range(min(offsets), max(offsets) + 1))
    assert sums(offsets).is_unbroken == expected


def test_offsets_that_cancel_each_other_in_the_count_or_the_sum_do_not_pass() -> None:
    assert not sums([0, 0, 2]).is_unbroken
    assert not sums([0, 2, 2, 2, 4]).is_unbroken
    assert not sums([0, 0, 3, 3]).is_unbroken  # the exclusive or is right, too
