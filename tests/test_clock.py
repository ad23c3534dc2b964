"""Wall time, as it is passed in everywhere."""

from __future__ import annotations

import time

import pytest

from rocketpy.clock import Clock, ManualClock, SystemClock


def test_the_system_s_clock_counts_whole_milliseconds_of_now() -> None:
    before = time.time_ns()
    now = SystemClock().timestamp_ms()
    after = time.time_ns()
    assert isinstance(now, int)
    assert before // 1_000_000 <= now <= after // 1_000_000


def test_a_manual_clock_stands_still_until_it_is_advanced() -> None:
    clock = ManualClock(1_000)
    assert [clock.timestamp_ms() for _ in range(3)] == [1_000] * 3
    clock.advance_ms(5)
    assert clock.timestamp_ms() == 1_005


def test_a_manual_clock_may_step_back_as_a_real_one_does() -> None:
    clock = ManualClock(1_000)
    clock.advance_ms(-1_500)
    assert clock.timestamp_ms() == -500


@pytest.mark.parametrize("clock", [SystemClock(), ManualClock()])
def test_every_clock_tells_a_time_in_which_rocketmq_existed(clock: Clock) -> None:
    """Milliseconds, not seconds: stores with stamps of the wrong unit look right until they are searched by time."""
    assert clock.timestamp_ms() > 1_300_000_000_000
