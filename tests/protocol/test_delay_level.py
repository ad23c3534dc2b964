"""Delay levels are read as RocketMQ reads them, and a wrong one is named."""

from __future__ import annotations

import pytest

from rocketpy.protocol.delay_level import DELAY_LEVELS_MAX, parse_delay_levels, read_delay_level


def test_rocketmqs_own_levels() -> None:
    levels = parse_delay_levels("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")
    seconds = [1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200]
    assert levels == tuple(second * 1000 for second in seconds)


def test_every_unit_and_any_white_space() -> None:
    assert parse_delay_levels("  2s\t3m  4h 5d ") == (2_000, 180_000, 14_400_000, 432_000_000)
    assert parse_delay_levels("0s") == (0,)


@pytest.mark.parametrize("text", ["", "  "])
def test_no_delay_at_all_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="found no delay"):
        parse_delay_levels(text)


@pytest.mark.parametrize("part", ["5", "s", "5x", "-5s", "1.5s", "5 ", "5sm", "1234567890s", "٣s", "5S"])
def test_a_wrong_delay_is_named(part: str) -> None:
    if part == "5 ":
        part = "5"
    with pytest.raises(ValueError, match="level 2 is") as caught:
        parse_delay_levels(f"1s {part} 2m")
    assert repr(part) in str(caught.value)


def test_a_long_wrong_delay_is_shown_shortened() -> None:
    with pytest.raises(ValueError) as caught:
        parse_delay_levels("x" * 10_000)
    assert len(str(caught.value)) < 200


def test_there_is_a_bound_on_levels() -> None:
    assert len(parse_delay_levels("1s " * DELAY_LEVELS_MAX)) == DELAY_LEVELS_MAX
    with pytest.raises(ValueError, match="expected at most"):
        parse_delay_levels("1s " * (DELAY_LEVELS_MAX + 1))


@pytest.mark.parametrize(
    ("text", "level"),
    [("0", 0), ("3", 3), ("+3", 3), ("-1", -1), ("007", 7), ("2147483647", 2**31 - 1), ("-2147483648", -(2**31))],
)
def test_a_level_is_what_java_reads(text: str, level: int) -> None:
    assert read_delay_level(text) == level


@pytest.mark.parametrize("text", ["", " 3", "3 ", "3.0", "soon", "2147483648", "-2147483649", "9" * 21, "٣", "1_0"])
def test_what_java_does_not_read_is_no_level(text: str) -> None:
    assert read_delay_level(text) is None
