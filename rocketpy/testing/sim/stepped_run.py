"""A Trio run in guest mode, driven step by step from synchronous code: for Hypothesis state machines.

A Hypothesis rule is a plain call, and between two rules nothing may happen. So Trio runs as the guest of a host that is
only a list: :meth:`SteppedRun.settle` runs every task that is ready at this moment, and time stands still until
:meth:`SteppedRun.pass_time`. Nothing sleeps, no thread is used, and the same calls give the same run
(Trio shuffles tasks that are ready together, in an order that Hypothesis seeds by itself).

Between two steps Trio's synchronous calls work as they do inside (an ``Event.set()``, ``trio.current_time()``).

Rule: a run must be brought to its end, by what it does itself or by :meth:`SteppedRun.cancel`; as long as it has not
ended, no other Trio run can begin in this thread.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable

import outcome
import trio

_STEPS_MAX = 100_000
"""So many steps at one moment are a loop that never ends."""

_IDLE_ENOUGH = 2
"""Trio wakes itself through a socket now and then, and sees that one step later."""


class SteppedRun:
    """One run of an async function."""

    def __init__(self, main: Callable[[], Awaitable[None]], *, time_passes: Callable[[float], None]) -> None:
        """Begin a run, without running ``main`` yet. ``time_passes`` is called with the seconds that have passed."""
        self._main = main
        self._time_passes = time_passes
        self._clock = _StandingClock()
        self._ticks: deque[Callable[[], object]] = deque()
        self._scope = trio.CancelScope()
        self._outcome: outcome.Outcome[None] | None = None
        trio.lowlevel.start_guest_run(
            self._run,
            run_sync_soon_threadsafe=self._ticks.append,
            done_callback=self._done,
            host_uses_signal_set_wakeup_fd=True,
            clock=self._clock,
        )

    @property
    def is_over(self) -> bool:
        """Whether ``main`` has returned or raised."""
        return self._outcome is not None

    def result(self) -> None:
        """Raise what ``main`` has raised."""
        assert self._outcome is not None, "the run is over"
        self._outcome.unwrap()

    def settle(self) -> None:
        """Let everything happen that can happen without time passing."""
        clock, idle_count = self._clock, 0
        for _ in range(_STEPS_MAX):
            if self.is_over or idle_count == _IDLE_ENOUGH:
                return
            clock.is_idle = False
            self._ticks.popleft()()
            idle_count = idle_count + 1 if clock.is_idle else 0
        raise AssertionError(f"the run is still busy after {_STEPS_MAX} steps at one moment")

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and everything happen in it."""
        end = self._clock.now + seconds
        self.settle()
        while not self.is_over and self._clock.next_deadline <= end:
            self._go_to(self._clock.next_deadline)
        if not self.is_over:
            self._go_to(end)

    def run_until(self, condition: Callable[[], bool], seconds_max: float) -> bool:
        """Let time pass until something is so, or the run is over; return whether it is so."""
        end = self._clock.now + seconds_max
        self.settle()
        while not (self.is_over or condition()) and self._clock.next_deadline <= end:
            self._go_to(self._clock.next_deadline)
        return condition()

    def cancel(self, seconds_max: float = 60.0) -> None:
        """Cancel ``main`` and bring it to its end."""
        self._scope.cancel()
        ended = self.run_until(lambda: self.is_over, seconds_max)
        assert ended, "the run has not ended although it was cancelled"

    def _go_to(self, moment: float) -> None:
        seconds = moment - self._clock.now
        if seconds > 0:
            self._clock.now = moment
            self._time_passes(seconds)
        self.settle()

    async def _run(self) -> None:
        with self._scope:
            await self._main()

    def _done(self, run_outcome: outcome.Outcome[None]) -> None:
        self._outcome = run_outcome


class _StandingClock(trio.abc.Clock):
    """Time that moves only on request. Trio asks how long it may sleep exactly when no task is ready."""

    def __init__(self) -> None:
        self.now = 0.0
        self.is_idle = False
        self.next_deadline = math.inf

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        return self.now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        self.is_idle = True
        self.next_deadline = deadline
        return 0.0  # the host decides when to go on, so the run never waits for anything by itself
