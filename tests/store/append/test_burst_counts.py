"""Counters of bursts."""

from __future__ import annotations

from rocketpy.clock import ManualClock
from rocketpy.store.append.burst_counts import BurstCounts
from rocketpy.store.figures import SLOW_BURSTS_MAX, TIMED_BURST


def test_messages_are_counted_and_not_units() -> None:
    counts = BurstCounts(ManualClock())
    counts.copy_count = 2
    counts.end_burst(5, None)
    counts.end_burst(1, None)
    assert (counts.put_count, counts.burst_count, counts.copy_count) == (4, 2, 0)


def test_one_of_some_bursts_is_timed_for_all_of_them() -> None:
    clock = ManualClock()
    counts = BurstCounts(clock)
    began_ms = clock.timestamp_ms()
    clock.advance_ms(7)
    for _ in range(TIMED_BURST):
        counts.end_burst(3, began_ms)
    assert list(counts.slow_bursts) == [(7, 3 * TIMED_BURST)]
    counts.end_burst(3, clock.timestamp_ms())
    counts.end_burst(3, None)
    assert len(counts.slow_bursts) == 1, "neither a quick one nor one that has waited in a pool"


def test_slow_bursts_that_are_never_collected_are_bounded() -> None:
    clock = ManualClock()
    counts = BurstCounts(clock)
    began_ms = clock.timestamp_ms()
    clock.advance_ms(1)
    for _ in range(TIMED_BURST * (SLOW_BURSTS_MAX + 10)):
        counts.end_burst(1, began_ms)
    assert len(counts.slow_bursts) == SLOW_BURSTS_MAX
