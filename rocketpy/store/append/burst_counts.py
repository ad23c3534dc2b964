"""Put counters, updated once per burst; a burst costs a few additions."""

from __future__ import annotations

from collections import deque

from rocketpy.clock import Clock
from rocketpy.store.figures import SLOW_BURSTS_MAX, TIMED_BURST, SlowBursts


class BurstCounts:
    """The counters of one appender; they count bursts that are written."""

    def __init__(self, clock: Clock) -> None:
        self._timestamp_ms = clock.timestamp_ms
        self.copy_count = 0  # units of this burst whose message has another one in its own queue
        self.put_count = 0
        self.put_bytes = 0
        self.burst_count = 0
        self.slow_bursts: SlowBursts = deque(maxlen=SLOW_BURSTS_MAX)  # drained by StoreFigures.sample

    def end_burst(self, unit_count: int, began_ms: int | None) -> None:
        """Count a burst that is written; ``began_ms`` is None where waiting is not slowness."""
        message_count, self.copy_count = unit_count - self.copy_count, 0
        self.put_count += message_count
        self.burst_count += 1
        if began_ms is not None and self.burst_count % TIMED_BURST == 1:
            elapsed_ms = self._timestamp_ms() - began_ms
            if elapsed_ms > 0:
                self.slow_bursts.append((elapsed_ms, message_count * TIMED_BURST))
