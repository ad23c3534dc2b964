"""Due times of delayed messages when the wall clock is set.

A unit has its message's due time by the wall clock at which it was stored. If that clock is set back afterwards, the
due time is too far away by the same amount.

- While the broker runs, Trio's clock, which is never set, shows by how much the wall clock was set back. Everything
  that was stored before is due that much earlier: on time, whatever the clock shows.
- Messages found by a start were stored in the past, so they are due one whole delay after the start, or earlier. A
  store time in the future shows that the clock was set back while no broker ran.

So no message is early, and none waits longer than twice its delay. A clock that is set forward is trusted: the machine
may have slept.

Compatibility: ``ScheduleMessageService.correctDeliverTimestamp`` (4.9.8) delivers at once any message that is due later
than its delay from now, which is too early by up to the whole delay.
"""

from __future__ import annotations

from collections import deque

STEP_MIN_MS = 50
"""Smaller differences are ignored: a clock that is being slewed, or rounding."""


class ClockSetBack:
    """Detector of steps of the wall clock: compares it with Trio's clock."""

    def __init__(self, *, timestamp_ms: int, current_time: float) -> None:
        self._ahead_ms = timestamp_ms - current_time * 1000

    def look(self, *, timestamp_ms: int, current_time: float) -> int:
        """Return by how many milliseconds the wall clock was set back since the last call; 0 if it was not."""
        ahead_ms = timestamp_ms - current_time * 1000
        step_ms = self._ahead_ms - ahead_ms
        self._ahead_ms = ahead_ms
        return round(step_ms) if step_ms >= STEP_MIN_MS else 0


class DueTimes:
    """Due times of one queue. ``delay_ms`` is the delay of its level, None when the settings no longer have it."""

    def __init__(self, *, delay_ms: int | None, begin_ms: int, end_offset: int) -> None:
        """``end_offset`` is the end of the queue at the start, ``begin_ms`` the wall time then."""
        self._delay_ms = delay_ms
        self._begin_ms = begin_ms
        self._begin_end = end_offset
        self._set_backs: deque[tuple[int, int]] = deque()  # messages before an offset are due by a step (ms) earlier

    def set_back(self, end_offset: int, step_ms: int) -> None:
        """Record that the clock was set back by ``step_ms`` when the queue ended at ``end_offset``."""
        self._set_backs.append((end_offset, step_ms))

    def passed(self, queue_offset: int) -> None:
        """Drop the steps that concern only messages before ``queue_offset``."""
        while self._set_backs and self._set_backs[0][0] <= queue_offset:
            self._set_backs.popleft()

    def due_ms(self, queue_offset: int, unit_ms: int, now_ms: int) -> int:
        """Return a message's due time by the current wall clock; ``unit_ms`` is the due time in its unit."""
        if self._delay_ms is not None and queue_offset < self._begin_end:
            latest_ms = self._begin_ms + self._delay_ms
            unit_ms = latest_ms if unit_ms >= latest_ms + STEP_MIN_MS else unit_ms
        due_ms = unit_ms - sum(step_ms for end_offset, step_ms in self._set_backs if queue_offset < end_offset)
        if self._delay_ms is not None and queue_offset >= self._begin_end:
            excess_ms = due_ms - now_ms - self._delay_ms
            if excess_ms >= STEP_MIN_MS:
                # Timestamped by a clock that was set back before the message was written.
                self._set_backs.appendleft((queue_offset + 1, excess_ms))
                due_ms -= excess_ms
        return due_ms
