"""Due times of delayed messages when the wall clock is set.

A unit has its message's due time by the wall clock at which it was stored. If that clock is set back afterwards, the
due time is too far away by the same amount.

- While the broker runs, Trio's clock, which is never set, shows by how much the wall clock was set back. Everything
  that was stored before is due that much earlier: on time, whatever the clock shows.
- A message whose store time is in the future as it is stored is due one whole delay from then: the log does not go
  back to an older time with a new file.
- Messages found by a start were stored in the past, so they are due one whole delay after the start, or earlier. A
  store time in the future shows that the clock was set back while no broker ran.

So no message is early, and none waits longer than twice its delay. A clock that is set forward is trusted: the machine
may have slept.

Compatibility: ``ScheduleMessageService.correctDeliverTimestamp`` (4.9.8) delivers at once any message that is due later
than its delay from now, which is too early by up to the whole delay.
"""

from __future__ import annotations

from collections import deque

import attrs

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
    """Due times of one queue. ``delay_ms`` is the delay of its level, None when the settings no longer have it.

    Corrections are kept in the order in which they were noted; each concerns the messages before an offset.
    """

    def __init__(self, *, delay_ms: int | None, begin_ms: int, end_offset: int) -> None:
        """``end_offset`` is the end of the queue at the start, ``begin_ms`` the wall time then."""
        self._delay_ms = delay_ms
        self._corrections: deque[_Correction] = deque()
        if delay_ms is not None and end_offset:
            self._corrections.append(_Correction(end_offset, latest_ms=begin_ms + delay_ms))

    def set_back(self, end_offset: int, step_ms: int) -> None:
        """Record that the clock was set back by ``step_ms`` when the queue ended at ``end_offset``."""
        self._corrections.append(_Correction(end_offset, step_ms=step_ms))

    def stored(self, queue_offset: int, stamp_ms: int, now_ms: int) -> None:
        """Look at the storeTimestamp of a message that is stored now: one of the future says nothing of its due time.

        The first message of a file of the log may have one, and all of its burst.
        """
        if self._delay_ms is not None and stamp_ms - now_ms >= STEP_MIN_MS:
            self._corrections.append(_Correction(queue_offset + 1, latest_ms=now_ms + self._delay_ms))

    def passed(self, queue_offset: int) -> None:
        """Drop the corrections that concern only messages before ``queue_offset``."""
        while self._corrections and self._corrections[0].end_offset <= queue_offset:
            self._corrections.popleft()

    def due_ms(self, queue_offset: int, unit_ms: int, now_ms: int) -> int:
        """Return a message's due time by the current wall clock; ``unit_ms`` is the due time in its unit."""
        due_ms, is_bounded = unit_ms, False
        for each in self._corrections:
            if queue_offset < each.end_offset:
                due_ms = each.corrected(due_ms)
                is_bounded |= each.latest_ms is not None
        if self._delay_ms is not None and not is_bounded:
            latest_ms = now_ms + self._delay_ms
            if due_ms >= latest_ms + STEP_MIN_MS:
                # Timestamped by a clock that was set back before the message was written.
                self._corrections.append(_Correction(queue_offset + 1, latest_ms=latest_ms))
                due_ms = latest_ms
        return due_ms


@attrs.frozen
class _Correction:
    """Messages before an offset are due by a step earlier, or at the latest at a time; in ms."""

    end_offset: int
    step_ms: int = 0
    latest_ms: int | None = None

    def corrected(self, due_ms: int) -> int:
        due_ms -= self.step_ms
        if self.latest_ms is not None and due_ms >= self.latest_ms + STEP_MIN_MS:
            return self.latest_ms
        return due_ms
