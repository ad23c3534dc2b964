"""Due times when the wall clock is set."""

from __future__ import annotations

from rocketpy.broker.delay.due_time import ClockSetBack, DueTimes

DELAY_MS = 60_000
BEGIN_MS = 1_000_000


def due_times(end_offset: int = 0) -> DueTimes:
    return DueTimes(delay_ms=DELAY_MS, begin_ms=BEGIN_MS, end_offset=end_offset)


def test_a_step_back_is_reported_once() -> None:
    clock = ClockSetBack(timestamp_ms=5_000, current_time=1.0)
    assert clock.look(timestamp_ms=3_000, current_time=2.0) == 3_000
    assert clock.look(timestamp_ms=4_000, current_time=3.0) == 0


def test_a_step_forward_is_followed_and_counts_for_the_next_step_back() -> None:
    clock = ClockSetBack(timestamp_ms=5_000, current_time=1.0)
    assert clock.look(timestamp_ms=16_000, current_time=2.0) == 0
    assert clock.look(timestamp_ms=7_000, current_time=3.0) == 10_000


def test_what_was_stored_before_a_step_back_is_due_so_much_earlier() -> None:
    times = due_times()
    times.set_back(2, 10_000)
    times.set_back(3, 500)
    now_ms = BEGIN_MS - 10_500
    due_ms = BEGIN_MS + DELAY_MS
    assert times.due_ms(1, due_ms, now_ms) == due_ms - 10_500
    assert times.due_ms(2, due_ms - 10_000, now_ms) == due_ms - 10_500
    assert times.due_ms(3, due_ms - 10_500, now_ms) == due_ms - 10_500


def test_steps_are_dropped_with_their_messages() -> None:
    times = due_times()
    times.set_back(2, 10_000)
    times.passed(1)
    assert times.due_ms(1, BEGIN_MS, BEGIN_MS) == BEGIN_MS - 10_000
    times.passed(2)
    assert times.due_ms(1, BEGIN_MS, BEGIN_MS) == BEGIN_MS  # not asked for any more


def test_messages_of_the_future_that_a_start_finds_wait_for_their_delay_from_then_on() -> None:
    """All of them were stored before the start, whatever stamps say: of clocks set back twice, or of a new log file."""
    times = due_times(end_offset=4)
    ahead = BEGIN_MS + 1_000_000 + DELAY_MS
    assert times.due_ms(0, BEGIN_MS + 10_000, BEGIN_MS) == BEGIN_MS + 10_000
    assert times.due_ms(1, ahead, BEGIN_MS) == BEGIN_MS + DELAY_MS
    assert times.due_ms(2, ahead + 3_000_000, BEGIN_MS + 9) == BEGIN_MS + DELAY_MS
    times.set_back(4, 500)
    assert times.due_ms(2, ahead + 3_000_000, BEGIN_MS + 9) == BEGIN_MS + DELAY_MS - 500
    # Stored after the clock was set back, in the last life.
    assert times.due_ms(3, BEGIN_MS + 20_000, BEGIN_MS) == BEGIN_MS + 19_500


def test_a_message_with_the_stamp_of_a_burst_from_before_the_step() -> None:
    times = due_times()
    stamped = BEGIN_MS + 3_600_000 + DELAY_MS
    assert times.due_ms(0, stamped, BEGIN_MS) == BEGIN_MS + DELAY_MS
    assert times.due_ms(0, stamped, BEGIN_MS + 30_000) == BEGIN_MS + DELAY_MS  # the same, asked again
    assert times.due_ms(1, BEGIN_MS + DELAY_MS, BEGIN_MS) == BEGIN_MS + DELAY_MS


def test_messages_with_a_stamp_of_the_future_are_due_a_delay_after_they_were_stored() -> None:
    times = due_times()
    stamped = BEGIN_MS + 3_600_000
    for queue_offset, now_ms in ((0, BEGIN_MS), (1, BEGIN_MS + 7), (2, BEGIN_MS + 9)):
        times.stored(queue_offset, stamped, now_ms)
    times.stored(3, BEGIN_MS + 10, BEGIN_MS + 10)
    later_ms = BEGIN_MS + DELAY_MS
    assert [times.due_ms(each, stamped + DELAY_MS, later_ms) - later_ms for each in (0, 1, 2)] == [0, 7, 9]
    assert times.due_ms(3, later_ms + 10, later_ms) == later_ms + 10
    times.set_back(4, 500)
    assert times.due_ms(2, stamped + DELAY_MS, later_ms) == later_ms + 9 - 500


def test_for_an_unknown_level_the_time_in_the_unit_counts() -> None:
    times = DueTimes(delay_ms=None, begin_ms=BEGIN_MS, end_offset=1)
    assert times.due_ms(0, BEGIN_MS + 10**9, BEGIN_MS) == BEGIN_MS + 10**9
