"""Event loop lag: how late scheduled tasks run. Measures the promise "no service runs later than 10 ms".

Every service of the broker is delayed by a task that runs without a checkpoint. This service only sleeps, so its delay
is the loop's lag. A bounded number of recent samples is kept; operators read percentiles as ``serviceLatenessP99Ms``
and ``serviceLatenessMaxMs`` in GET_BROKER_RUNTIME_INFO.
"""

from __future__ import annotations

from collections import deque

import attrs
import trio

PERIOD_SECONDS = 0.02
SAMPLES_PER_SECOND = 50
SAMPLES_MAX = 3_000
"""Samples of one minute."""


@attrs.frozen
class Lateness:
    """Event loop lag of the last minute, in milliseconds."""

    p50_ms: float
    p99_ms: float
    max_ms: float


class LatenessService:
    """Sleeps for a fixed time and samples by how much it wakes up late."""

    def __init__(self) -> None:
        self._late_seconds: deque[float] = deque(maxlen=SAMPLES_MAX)

    def statistics(self) -> Lateness:
        """Return percentiles over the samples; zeros before the first one."""
        late = sorted(self._late_seconds)
        if not late:
            return Lateness(0.0, 0.0, 0.0)
        return Lateness(
            p50_ms=late[len(late) // 2] * 1000,
            p99_ms=late[len(late) * 99 // 100] * 1000,
            max_ms=late[-1] * 1000,
        )

    def late_ms(self) -> float:
        """Return the largest lag of the last second."""
        return max(list(self._late_seconds)[-SAMPLES_PER_SECOND:], default=0.0) * 1000

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
        while True:
            due = trio.current_time() + PERIOD_SECONDS
            await trio.sleep_until(due)
            self._late_seconds.append(max(0.0, trio.current_time() - due))
