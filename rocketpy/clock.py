"""Wall clock, always passed in.

Deadlines use Trio's clock (``trio.current_time()``, mockable in tests); timestamps in records and tables use a
:class:`Clock`. A wall clock may step back, so no deadline is computed from it.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time in milliseconds since the epoch."""

    def timestamp_ms(self) -> int:
        """Return the current wall time; it may step back."""
        ...


class SystemClock:
    """The machine's own wall clock."""

    def timestamp_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that moves only when set: for tests and simulation, with the same contract."""

    def __init__(self, timestamp_ms: int = 1_700_000_000_000) -> None:
        self._timestamp_ms = timestamp_ms

    def timestamp_ms(self) -> int:
        """Return the time last set."""
        return self._timestamp_ms

    def advance_ms(self, milliseconds: int) -> None:
        """Move the clock; a negative number steps it back."""
        self._timestamp_ms += milliseconds
