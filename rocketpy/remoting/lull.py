"""Decides whether a hub waits for the next request itself, instead of returning to Trio.

A peer that sends its next request on the answer to the last one is ready again sooner than Trio has polled, and such a
return costs as much as serving the request. While peers are as quick, the hub waits in its own epoll descriptor, within
its slice of time.

Rules:
- Quick peers only: the last waits in Trio were shorter than ``QUICK_SECONDS``. An idle hub never waits by itself.
- Alone only: no other driver or task has served something meanwhile. It would get one turn per slice of the hub.
- A vain wait doubles the number of quick returns before the next one, until a wait is not vain. So a client in the same
  thread, which sends nothing while the hub waits, costs next to nothing.
"""

from __future__ import annotations

from typing import Final

LULL_SECONDS: Final = 0.001
"""How long the hub waits at most. It is the least that epoll can wait, and delays other tasks on top of a slice."""

QUICK_SECONDS: Final = 0.0002
"""Between a hub's turn and the next request of a quick peer; a wake-up by Trio is part of it."""

_NEEDED_MIN: Final = 4
"""More than one, because the order in which Trio runs ready tasks may hide another driver once."""
_NEEDED_MAX: Final = 1024


class Lull:
    """What one hub knows of its peers' pauses. Times are seconds of a monotonic clock."""

    __slots__ = ("_burst_count", "_left_at", "_needed", "_quick_count", "_seconds")

    def __init__(self, seconds: float = LULL_SECONDS) -> None:
        """Let a hub wait for so long at most; with 0 it never waits."""
        self._seconds = seconds
        self._left_at = 0.0
        self._burst_count = 0
        self._quick_count = 0  # quick returns, one after the other
        self._needed = _NEEDED_MIN  # so many of them before the next wait

    def leave(self, now: float, burst_count: int) -> None:
        """Note that the hub returns to Trio, because no peer is ready or its slice is over."""
        self._left_at = now
        self._burst_count = burst_count

    def come_back(self, now: float, burst_count: int) -> float:
        """Return how long each turn of the next slice may wait, when a peer has become ready; mostly 0."""
        if now - self._left_at >= QUICK_SECONDS or burst_count != self._burst_count:
            self._quick_count = 0
            return 0.0
        self._quick_count += 1
        return self._seconds if self._quick_count >= self._needed else 0.0

    def note(self, *, is_vain: bool) -> None:
        """Note how a slice with waiting has ended: with a vain wait, or with its time."""
        if is_vain:
            self._quick_count = 0
            self._needed = min(2 * self._needed, _NEEDED_MAX)
        else:
            self._needed = _NEEDED_MIN
