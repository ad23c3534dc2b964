"""A clock for tests of the hub and its waits."""

from __future__ import annotations


class SteppingClock:
    """It stands still but for what is added; a step is added at each reading. Seconds."""

    def __init__(self, step: float = 0.0) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now
