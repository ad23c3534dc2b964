"""How long ago something was, within a life and over a restart."""

from __future__ import annotations

from rocketpy.broker.metadata.ages import Ages
from rocketpy.clock import ManualClock


def test_within_a_life_no_step_of_the_wall_clock_counts() -> None:
    seconds = [10.0]
    clock = ManualClock()
    ages = Ages(clock, lambda: seconds[0])
    moment = ages.now_ms()
    seconds[0] += 2.5
    clock.advance_ms(-3_600_000)
    assert ages.ago_ms(moment) == 2500
    assert ages.timestamp_ms(moment) == clock.timestamp_ms() - 2500


def test_over_a_restart_wall_time_counts_and_never_after_the_start() -> None:
    clock = ManualClock(1_000_000)
    timestamp = Ages(clock, lambda: 77.0).timestamp_ms(76_000)
    assert timestamp == 999_000
    clock.advance_ms(4000)
    later = Ages(clock, lambda: 3.0)
    assert later.ago_ms(later.moment_ms(timestamp)) == 5000
    clock.advance_ms(-60_000)
    assert later.ago_ms(later.moment_ms(timestamp)) == 0
