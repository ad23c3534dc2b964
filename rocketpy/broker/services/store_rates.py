"""How many messages per second go in and out, over the last 10 seconds, minute and ten minutes.

Compatibility: the figures that ``StoreStatsService`` (4.9.8) calls putTps, getTotalTps and getTransferedTps; tools show
the first of the three numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import attrs
import trio

from rocketpy.store.results import StoreStatistics

SAMPLE_SECONDS = 1.0
WINDOWS = (10, 60, 600)
"""Lengths of the windows in samples."""


@attrs.frozen
class _Sample:
    time: float
    put_count: int
    get_count: int
    get_message_count: int


@attrs.frozen
class StoreRates:
    """Rates per second, one for each window; a window that is not full yet counts as far as it goes."""

    put: tuple[float, ...]
    get: tuple[float, ...]
    get_messages: tuple[float, ...]


class StoreRatesService:
    """Samples the store's counters once a second; the samples are bounded by the longest window."""

    def __init__(self, *, statistics: Callable[[], StoreStatistics], current_time: Callable[[], float]) -> None:
        self._statistics = statistics
        self._current_time = current_time
        self._samples: deque[_Sample] = deque(maxlen=max(WINDOWS) + 1)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Sample until cancelled."""
        self.sample()
        task_status.started()
        while True:
            await trio.sleep(SAMPLE_SECONDS)
            self.sample()

    def sample(self) -> None:
        """Take one sample of the counters."""
        now = self._statistics()
        self._samples.append(_Sample(self._current_time(), now.put_count, now.get_count, now.get_message_count))

    def rates(self) -> StoreRates:
        """Return the rates up to the last sample."""
        return StoreRates(
            put=self._over_windows(lambda sample: sample.put_count),
            get=self._over_windows(lambda sample: sample.get_count),
            get_messages=self._over_windows(lambda sample: sample.get_message_count),
        )

    def _over_windows(self, count_of: Callable[[_Sample], int]) -> tuple[float, ...]:
        if len(self._samples) < 2:
            return (0.0,) * len(WINDOWS)
        last = self._samples[-1]
        first = [self._samples[max(0, len(self._samples) - 1 - window)] for window in WINDOWS]
        return tuple((count_of(last) - count_of(each)) / (last.time - each.time) for each in first)
