"""When delayed messages are due although somebody sets the clock.

A unit says when its message is due: by the wall clock of the moment in which it was stored. When that clock is set back
afterwards, the time is further away than it should be, by as much.

- While the broker runs, Trio's clock, which is never set, tells by how much the wall clock went back, and everything
  that was stored before is due so much earlier: on time, whatever the clock says.
- What a start finds was stored in the past, so it is due when its whole delay has passed from the start on, or earlier.
  A message of the future shows that the clock was set back while nobody looked.

So nothing is early, and nothing waits for longer than its delay and once more its delay. A clock that is set forward is
believed: the machine may have slept.

Compatibility: ``ScheduleMessageService.correctDeliverTimestamp`` (4.9.8) delivers at once whatever is due later than
its delay from now, which is too early by up to the whole delay.
"""

from __future__ import annotations

from collections import deque

STEP_MIN_MS = 50
"""Less is no step: a clock that is being adjusted, or the rounding of the two."""


class ClockSetBack:
    """Compares the two clocks from look to look."""

    def __init__(self, *, timestamp_ms: int, current_time: float) -> None:
        self._ahead_ms = timestamp_ms - current_time * 1000

    def look(self, *, timestamp_ms: int, current_time: float) -> int:
        """Return by how many milliseconds the wall clock was set back since the last look; 0 if it was not."""
        ahead_ms = timestamp_ms - current_time * 1000
        step_ms = self._ahead_ms - ahead_ms
        self._ahead_ms = ahead_ms
        return round(step_ms) if step_ms >= STEP_MIN_MS else 0


class DueTimes:
    """The times of one queue. ``delay_ms`` is how long its messages wait, None when nobody knows any more."""

    def __init__(self, *, delay_ms: int | None, begin_ms: int, end_offset: int) -> None:
        """``end_offset`` is the queue's at the start, ``begin_ms`` the wall time then."""
        self._delay_ms = delay_ms
        self._begin_ms = begin_ms
        self._begin_end = end_offset
        self._set_backs: deque[tuple[int, int]] = deque()  # messages before an offset are due so many ms earlier

    def set_back(self, end_offset: int, step_ms: int) -> None:
        """Take into account that the clock was set back when the queue had messages up to an offset."""
        self._set_backs.append((end_offset, step_ms))

    def passed(self, queue_offset: int) -> None:
        """Forget what is of no use for messages from an offset on."""
        while self._set_backs and self._set_backs[0][0] <= queue_offset:
            self._set_backs.popleft()

    def due_ms(self, queue_offset: int, unit_ms: int, now_ms: int) -> int:
        """Return when a message is due by the wall clock as it is now; ``unit_ms`` is what its unit says."""
        if self._delay_ms is not None and queue_offset < self._begin_end:
            latest_ms = self._begin_ms + self._delay_ms
            unit_ms = latest_ms if unit_ms >= latest_ms + STEP_MIN_MS else unit_ms
        due_ms = unit_ms - sum(step_ms for end_offset, step_ms in self._set_backs if queue_offset < end_offset)
        if self._delay_ms is not None and queue_offset >= self._begin_end:
            excess_ms = due_ms - now_ms - self._delay_ms
            if excess_ms >= STEP_MIN_MS:
                # Stamped by a clock that was set back before the message was written.
                self._set_backs.appendleft((queue_offset + 1, excess_ms))
                due_ms -= excess_ms
        return due_ms
