"""Event loop lag: how late scheduled tasks run. Measures the promise "no service runs later than 10 ms".

Every service of the broker is delayed by a task that runs without a checkpoint. This service only sleeps, so its delay
is the loop's lag. A bounded number of recent samples is kept; operators read percentiles as ``serviceLatenessP99Ms``
and ``serviceLatenessMaxMs`` in GET_BROKER_RUNTIME_INFO.

While nothing is late the sleeps grow, because the samples of an idle broker cost more than all its other services. The
first late sample makes them short again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import attrs
import trio

from rocketpy.ticks import next_tick

PERIOD_SECONDS = 0.02
QUIET_PERIOD_SECONDS = 0.5
"""The longest sleep. A task that runs for longer is always seen; of one that runs for half of it, every second.

It ends with a tick of the other services (``rocketpy.ticks``): an idle broker wakes once for all of them, and the work
of those that run before this one is seen as lag.
"""

LATE_SECONDS = 0.002
"""A lag from here on is more than that of a loop in which the services of one tick find nothing to do."""

KEPT_SECONDS = 60.0
SAMPLES_MAX = 3_000
"""Samples of one minute."""


@attrs.frozen
class Lateness:
    """Event loop lag of the last minute, in milliseconds."""

    p50_ms: float
    p99_ms: float
    max_ms: float


class LatenessService:
    """Sleeps and samples by how much it wakes up late."""

    def __init__(self) -> None:
        # When each sample was taken, in Trio time, and its lag.
        self._samples: deque[tuple[float, float]] = deque(maxlen=SAMPLES_MAX)

    def statistics(self) -> Lateness:
        """Return percentiles over the samples of a minute; zeros before the first one."""
        late = sorted(self._latest(KEPT_SECONDS))
        if not late:
            return Lateness(0.0, 0.0, 0.0)
        return Lateness(
            p50_ms=late[len(late) // 2] * 1000,
            p99_ms=late[len(late) * 99 // 100] * 1000,
            max_ms=late[-1] * 1000,
        )

    def late_ms(self) -> float:
        """Return the largest lag of the last second."""
        return max(self._latest(1.0), default=0.0) * 1000

    def _latest(self, seconds: float) -> Iterator[float]:
        """Yield the lags of so many seconds before the newest sample, which is never long ago."""
        if self._samples:
            begin = self._samples[-1][0] - seconds
            yield from (late for taken_at, late in self._samples if taken_at > begin)

    def runtime_info(self) -> dict[str, str]:
        """Return the rows of GET_BROKER_RUNTIME_INFO."""
        lateness = self.statistics()
        return {
            "serviceLatenessP99Ms": f"{lateness.p99_ms:.3f}",
            "serviceLatenessMaxMs": f"{lateness.max_ms:.3f}",
        }

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Measure until cancelled."""
        task_status.started()
        period = PERIOD_SECONDS
        while True:
            due = trio.current_time() + period if period < QUIET_PERIOD_SECONDS else next_tick(period)
            await trio.sleep_until(due)
            now = trio.current_time()
            self._samples.append((now, max(0.0, now - due)))
            is_late = now - due >= LATE_SECONDS
            period = PERIOD_SECONDS if is_late else min(2 * period, QUIET_PERIOD_SECONDS)
