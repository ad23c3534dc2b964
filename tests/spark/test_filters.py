"""Which messages a read wants."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from rocketpy.spark.filters import ALL, EVERYTHING, MessageFilter, Range


def test_a_range_ends_before_its_end() -> None:
    assert [number for number in range(6) if Range(2, 4).holds(number)] == [2, 3]
    assert ALL.holds(-(2**63))


def test_two_ranges_intersect() -> None:
    assert Range(1, None).intersect(Range(None, 5)) == Range(1, 5)
    assert Range(1, 9).intersect(Range(3, 5)) == Range(3, 5)
    assert Range(1, 3).intersect(Range(3, 5)).is_empty
    assert not ALL.intersect(Range(3)).is_empty


def test_everything_has_no_condition() -> None:
    assert MessageFilter() == EVERYTHING
