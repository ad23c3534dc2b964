"""The run of a pair's machines in steps: between two calls nothing moves.

After each step the driver looks at what has happened; what it raises then is raised by the call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from rocketpy.testing.sim.stepped_run import SteppedRun

STEP_SECONDS_MAX = 600.0


class Steps:
    """The Trio run, and actions within it.

    ``begin`` gets the nursery of everything that runs; ``look`` is called after each step.
    """

    def __init__(self, *, begin: Callable[[trio.Nursery], None], look: Callable[[], None]) -> None:
        self._begin = begin
        self._look = look
        self._request: Callable[[], Awaitable[None]] | None = None
        self._wake = trio.lowlevel.ParkingLot()
        self._run = SteppedRun(self._live, time_passes=lambda seconds: None)

    def open(self) -> None:
        """Let the run begin."""
        self._run.settle()

    def close(self) -> None:
        """End everything, whatever happened."""
        if not self._run.is_over:
            self._run.cancel(STEP_SECONDS_MAX)

    def do(self, action: Callable[[], Awaitable[object]]) -> None:
        """Run an action to its end."""
        done: list[bool] = []

        async def request() -> None:
            await action()
            done.append(True)

        self._request = request
        self._wake.unpark_all()
        self._go(lambda: self._run.run_until(lambda: bool(done), STEP_SECONDS_MAX))
        assert done, f"not done in {STEP_SECONDS_MAX} s"

    def settle(self) -> None:
        """Let everything happen that needs no time."""
        self._go(self._run.settle)

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        self._go(lambda: self._run.pass_time(seconds))

    def run_until(self, condition: Callable[[], bool], seconds_max: float) -> None:
        """Let time pass until a condition is true, or for as long as that may take."""
        self._go(lambda: self._run.run_until(condition, seconds_max))

    async def _live(self) -> None:
        async with trio.open_nursery() as nursery:
            self._begin(nursery)
            while True:
                await self._wake.park()
                assert self._request is not None
                request, self._request = self._request, None
                await request()

    def _go(self, step: Callable[[], object]) -> None:
        step()
        if self._run.is_over:
            self._run.result()
        self._look()
