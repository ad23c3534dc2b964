"""Scheduling of a Trio guest: asyncio also polls Trio's sockets, so no thread is needed.

Trio's guest mode waits for sockets in a thread, and each round of answers costs two changes of threads. Here the
asyncio loop watches the epoll descriptor of the guest, which is readable as soon as one of Trio's sockets is, and a
timer stands for the guest's next deadline. Between two ticks the guest is either *scheduled* or *parked*:

- scheduled: a tick is about to come, by ``call_soon``;
- parked: nothing is to be done. Its epoll descriptor, the timer or :meth:`GuestTicks.wake` wake the guest.

Rule: a parked guest says of itself that no tick is scheduled (``guest_tick_scheduled``). So Trio wakes it, by its own
wake-up socket in that epoll, whenever code of the host or of another thread reschedules a task or sets a deadline.
:meth:`GuestTicks.wake` before such a call only saves the socket.

Guest mode is made to park by a clock that answers "no time" when the guest asks how long it may sleep: then it calls
``run_sync_soon_not_threadsafe`` instead of starting a thread. ``trio.testing.wait_all_tasks_blocked`` does not work in
such a guest. All of this needs names of Trio that are not documented (:class:`_GuestState`); without one of them, or
without epoll or ``add_reader``, the guest waits in a thread as Trio does it.
"""

from __future__ import annotations

import asyncio
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import outcome
import trio

TICKS_MAX = 8
"""Ticks in a row, before other callbacks of asyncio have their turn."""

ORPHAN_SECONDS = 5.0
"""How long a guest whose loop has closed may wait for threads, until it is given up."""


class GuestClock(trio.abc.Clock):
    """The system's clock. While :attr:`parks` is set, it notes how long the guest would sleep, and keeps it awake."""

    def __init__(self) -> None:
        self.parks = False
        self._skipped_seconds = 0.0
        self.sleep_seconds: float | None = None
        """Seconds that the guest would sleep, if the last tick has left it without work."""

    def start_clock(self) -> None:
        """Do nothing: the clock goes."""

    def current_time(self) -> float:
        """Return seconds of the monotonic clock."""
        return time.perf_counter() + self._skipped_seconds

    def skip(self, seconds: float) -> None:
        """Go on as if so many seconds had passed."""
        self._skipped_seconds += seconds

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Return the seconds until a deadline."""
        seconds = deadline - self.current_time()
        if not self.parks or seconds <= 0:
            return seconds
        self.sleep_seconds = seconds
        return 0.0


class _Events(Protocol):
    def fileno(self) -> int: ...


@runtime_checkable
class _IOManager(Protocol):
    _epoll: _Events

    def get_events(self, timeout: float) -> Sequence[object]: ...


@runtime_checkable
class _Runner(Protocol):
    guest_tick_scheduled: bool

    @property
    def io_manager(self) -> object: ...


@runtime_checkable
class _GuestState(Protocol):
    """What this module needs to know of Trio's guest mode (0.27 to 0.35)."""

    unrolled_run_next_send: outcome.Outcome[Sequence[object]]

    @property
    def runner(self) -> object: ...

    def guest_tick(self) -> None: ...


class GuestTicks:
    """The ticks of one guest run; :meth:`soon` is its ``run_sync_soon_not_threadsafe``."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.clock = GuestClock()
        self._parts: tuple[_GuestState, _Runner, _IOManager] | None = None
        self._descriptor = -1
        self._is_watching: bool | None = None  # None until the first tick
        self._is_parked = False
        self._is_next = False  # the tick that runs has asked for another one
        self._timer: asyncio.TimerHandle | None = None
        self._is_ticking = False
        self._is_interrupted = False  # by a SIGINT while it was ticking
        self._is_orphan = False  # its loop has closed
        self._is_closed = False
        self._hooks: tuple[Any, Any] = (None, None)  # of Trio, for async generators

    @property
    def is_threadless(self) -> bool:
        """Whether the guest waits in asyncio; known after its first tick."""
        return self._is_watching is True

    def started(self) -> None:
        """Note what Trio has set for its thread; when the run has started."""
        hooks = sys.get_asyncgen_hooks()
        self._hooks = (hooks.firstiter, hooks.finalizer)

    def soon(self, tick: Callable[[], object]) -> None:
        """Run a tick soon, or park the guest if it has nothing to do."""
        if self._is_watching is None:
            self._is_watching = self.clock.parks = self._watch(tick)
            self._loop.call_soon(self._run if self._is_watching else tick)
            return
        if self._parts is None:
            self._loop.call_soon(tick)
            return
        state, runner, _ = self._parts
        events = state.unrolled_run_next_send
        if self.clock.sleep_seconds is None or not isinstance(events, outcome.Value) or events.value:
            self._is_next = True
        else:
            self._is_parked = True
            runner.guest_tick_scheduled = False
            if not self._is_orphan:
                self._set_timer(self.clock.sleep_seconds)

    def wake(self) -> None:
        """Schedule a tick, if the guest is parked."""
        if self._is_parked and not self._is_orphan:
            assert self._parts is not None
            self._is_parked = False
            self._parts[1].guest_tick_scheduled = True
            self._loop.call_soon(self._run)

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt: now, or after the tick that runs, because Trio's own code must not be left by it."""
        if not self._is_ticking:
            raise KeyboardInterrupt
        self._is_interrupted = True

    def run_orphan(self) -> bool:
        """Run a guest that was cancelled to its end, after its loop has closed; whether it has come.

        Its deadlines pass at once: nothing that they bound is worth the time of whoever opens the next client. Threads
        are waited for, :data:`ORPHAN_SECONDS` at most. A guest that waits in a thread cannot be ended without its loop.
        """
        if self._parts is None:
            return self._is_closed
        state, runner, manager = self._parts
        self._is_orphan = True
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(*self._hooks)
        try:
            return self._run_orphan(state, runner, manager)
        finally:
            sys.set_asyncgen_hooks(*hooks)  # those of the loop that runs: the end of the run has set those of its own

    def _run_orphan(self, state: _GuestState, runner: _Runner, manager: _IOManager) -> bool:
        given_up_at = time.perf_counter() + ORPHAN_SECONDS
        while not self._is_closed:
            if self._is_parked:
                seconds = self.clock.sleep_seconds
                assert seconds is not None
                # What can be written or read at once comes before the deadlines.
                events = outcome.capture(manager.get_events, 0)
                if isinstance(events, outcome.Value) and not events.value:
                    if not math.isinf(seconds):
                        self.clock.skip(seconds)
                    elif time.perf_counter() > given_up_at:
                        return False
                    else:
                        events = outcome.capture(manager.get_events, ORPHAN_SECONDS / 100)
                self._is_parked = False
                runner.guest_tick_scheduled = True
                state.unrolled_run_next_send = events
            self.clock.sleep_seconds = None
            state.guest_tick()
        return True

    def close(self) -> None:
        """Stop watching; the run has ended."""
        self._is_parked = False
        self._is_closed = True
        if self._is_watching:
            if not self._loop.is_closed():
                self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._is_watching = False
        if self._timer is not None and not self._loop.is_closed():
            self._timer.cancel()

    # ---- private --------------------------------------------------------------------------------------------------

    def _watch(self, tick: Callable[[], object]) -> bool:
        """Watch the epoll descriptor of the guest; False when that cannot be done."""
        state = getattr(tick, "__self__", None)
        if not isinstance(state, _GuestState) or not isinstance(state.runner, _Runner):
            return False
        manager = state.runner.io_manager
        if not isinstance(manager, _IOManager):
            return False
        descriptor = os.dup(manager._epoll.fileno())  # Trio closes its own before the run tells that it has ended
        try:
            self._loop.add_reader(descriptor, self._arrived)
        except NotImplementedError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        self._parts = state, state.runner, manager
        return True

    def _run(self) -> None:
        """Run ticks until the guest has nothing to do, or others have waited enough."""
        assert self._parts is not None
        tick, clock = self._parts[0].guest_tick, self.clock
        if sys.get_asyncgen_hooks()[0] is not self._hooks[0]:
            # The loop has stopped and goes on, and has set its own, which Trio's call for generators of asyncio.
            # Without Trio's, the end of the loop would close generators of Trio's tasks, and break their nurseries.
            sys.set_asyncgen_hooks(*self._hooks)
        self._is_ticking = True
        for _ in range(TICKS_MAX):
            self._is_next = False
            clock.sleep_seconds = None
            tick()
            if not self._is_next:
                break
        else:
            self._loop.call_soon(self._run)
        self._is_ticking = False
        if self._is_interrupted:
            self._is_interrupted = False
            raise KeyboardInterrupt

    def _arrived(self) -> None:
        """Wake the guest: a socket is ready."""
        if self._is_parked:
            assert self._parts is not None
            state, runner, manager = self._parts
            self._is_parked = False
            runner.guest_tick_scheduled = True
            state.unrolled_run_next_send = outcome.capture(manager.get_events, 0)
            self._run()

    def _set_timer(self, seconds: float) -> None:
        """Wake the guest after so many seconds. An earlier timer stays: a tick in vain is cheaper than a new timer."""
        if math.isinf(seconds):
            return
        due = self._loop.time() + seconds
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._expired)

    def _expired(self) -> None:
        self._timer = None
        if self._is_parked:
            self.wake()
