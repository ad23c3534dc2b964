"""Decides whether a hub waits for the next request itself, instead of returning to Trio.

A peer that sends its next request on the answer to the last one is ready again sooner than Trio has polled, and such a
return costs as much as serving the request. While peers are as quick, the hub waits in its own epoll descriptor, within
its slice of time. At first it spins: it looks again and again and does not sleep. On an idle machine a processor that
sleeps takes longer to wake up than a request takes to be served, and waking it costs the peer a system call that is as
long.

Rules:
- Quick peers only: nearly all of the last waits in Trio were shorter than ``QUICK_SECONDS``; a longer one undoes many
  short ones. Not all of them: on a busy machine a few are always longer. An idle hub never waits by itself.
- Alone only: no other driver or task has served something meanwhile. It would get one turn per slice of the hub.
- A vain wait doubles the number of quick returns before the next one, until a wait is not vain. So a client in the same
  thread, which sends nothing while the hub waits, costs next to nothing.
- Spinning likewise: after a vain spin some waits, twice as many each time, sleep at once. Where the process may use one
  processor only, no wait spins, because the peer needs it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

LULL_SECONDS: Final = 0.001
"""How long the hub waits at most. It is the least that epoll can wait, and delays other tasks on top of a slice."""

SPIN_SECONDS: Final = 0.0001
"""How long a wait spins before it sleeps. A producer that waits for answers sends the next message in 15 to 40 us."""

QUICK_SECONDS: Final = 0.0003
"""Between a hub's turn and the next request of a quick peer; a wake-up by Trio is part of it."""

_LOOKS_MAX: Final = 1000
"""Looks of one spin: a bound beside that by time. A look takes a microsecond."""

_NEEDED_MIN: Final = 4
"""More than one, because the order in which Trio runs ready tasks may hide another driver once."""
_NEEDED_MAX: Final = 1024
_UNDONE: Final = 16
"""Quick returns that a slow one undoes: one in a hundred delays the next wait a little, one in ten prevents it."""


class Lull:
    """What one hub knows of its peers' pauses. Times are seconds of a monotonic clock."""

    __slots__ = (
        "_burst_count",
        "_left_at",
        "_needed",
        "_quick_count",
        "_seconds",
        "_sleeps_left",
        "_sleeps_next",
        "_spin_seconds",
    )

    def __init__(self, seconds: float = LULL_SECONDS, *, spin_seconds: float = SPIN_SECONDS) -> None:
        """Let a hub wait for so long at most, and spin for so long; with 0 it never does."""
        self._seconds = seconds
        self._spin_seconds = spin_seconds
        self._sleeps_left = 0  # waits that do not spin, before the next one that does
        self._sleeps_next = 1  # the number of them after the next vain spin
        self._left_at = 0.0
        self._burst_count = 0
        self._quick_count = 0  # quick returns since the last wait in vain, less what slow ones have undone
        self._needed = _NEEDED_MIN  # so many of them before the next wait

    def leave(self, now: float, burst_count: int) -> None:
        """Note that the hub returns to Trio, because no peer is ready or its slice is over."""
        self._left_at = now
        self._burst_count = burst_count

    def come_back(self, now: float, burst_count: int) -> float:
        """Return how long each turn of the next slice may wait, when a peer has become ready; mostly 0."""
        if burst_count != self._burst_count:
            self._quick_count = 0
            return 0.0
        if now - self._left_at >= QUICK_SECONDS:
            self._quick_count = max(0, self._quick_count - _UNDONE)
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

    def wait(
        self,
        poll: Callable[[float, int], list[tuple[int, int]]],
        events_max: int,
        seconds: float,
        monotonic: Callable[[], float],
    ) -> list[tuple[int, int]]:
        """Return what an epoll descriptor reports within a time, spinning at first; it had nothing a moment ago."""
        if self._sleeps_left:
            self._sleeps_left -= 1
        elif self._spin_seconds:
            ready = self._spin(poll, events_max, monotonic)
            if ready:
                self._sleeps_next = 1
                return ready
            self._sleeps_left = self._sleeps_next
            self._sleeps_next = min(2 * self._sleeps_next, _NEEDED_MAX)
        return poll(seconds, events_max)

    def _spin(
        self, poll: Callable[[float, int], list[tuple[int, int]]], events_max: int, monotonic: Callable[[], float]
    ) -> list[tuple[int, int]]:
        ends_at = monotonic() + self._spin_seconds
        for _ in range(_LOOKS_MAX):
            os.sched_yield()  # to a peer that shares this processor, and to the kernel's own threads
            ready = poll(0, events_max)
            if ready:
                return ready
            if monotonic() > ends_at:
                break
        return []


def spin_seconds_here() -> float:
    """Return how long a hub may spin in this process: not at all where it has one processor only."""
    return SPIN_SECONDS if len(os.sched_getaffinity(0)) > 1 else 0.0
