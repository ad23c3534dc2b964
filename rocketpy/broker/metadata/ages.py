"""How long ago something was, over restarts, so that two machines can compare it without equal clocks.

A moment is a number of milliseconds that never steps: monotonic time. A file has wall time instead, because monotonic
time begins anew with each start. So a step of the wall clock counts only if it comes between a write of the file and
the next start. A moment of a file is never after the start that has read it.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from rocketpy.clock import Clock


@attrs.frozen
class Ages:
    """The two clocks of one broker: wall time, and seconds that never step."""

    _clock: Clock
    _current_time: Callable[[], float]

    def now_ms(self) -> int:
        """Return the present moment."""
        return int(self._current_time() * 1000)

    def ago_ms(self, moment_ms: int) -> int:
        """Return how long ago a moment was."""
        return self.now_ms() - moment_ms

    def timestamp_ms(self, moment_ms: int) -> int:
        """Return a moment as wall time, for a file."""
        return self._clock.timestamp_ms() - self.ago_ms(moment_ms)

    def moment_ms(self, timestamp_ms: int) -> int:
        """Return the moment of a wall time that a file has."""
        return self.now_ms() - max(0, self._clock.timestamp_ms() - timestamp_ms)
