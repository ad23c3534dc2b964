"""Admission control: how much of what is available the next batch takes.

Compatibility: the options and rules of ``KafkaMicroBatchStream`` of Spark 4 (``rateLimit``, ``delayBatch``). Limits
count queue offsets, so messages that a filter drops count too. With Trigger.AvailableNow a minimum is ignored: nothing
more will come, and Kafka's source ends such a query with messages left over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from rocketpy.protocol.message import MessageQueue


def share_limit(offsets_max: int, available: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
    """Return how many offsets each queue may advance, in proportion to what each has.

    No queue starves: one that has messages gets at least one, so a batch exceeds the limit by at most one offset for
    each queue.
    """
    total = sum(available.values())
    if total <= offsets_max:
        return dict(available)
    return {queue: min(size, max(1, offsets_max * size // total)) if size else 0 for queue, size in available.items()}


@attrs.define(eq=False)
class BatchDelay:
    """Holds a batch back until it has ``offsets_min`` offsets, or the last one was ``delay_max_s`` ago.

    The first batch after a start does not wait, as with Kafka's source: how long the last run has been over is unknown.
    """

    offsets_min: int
    delay_max_s: float
    clock: Callable[[], float]  # monotonic, in seconds
    _last_batch: float | None = attrs.field(default=None, init=False)

    def admits(self, available: int) -> bool:
        """Return whether a batch of so many offsets may run now; if so, the wait for the next one begins."""
        if not available:
            return False
        now = self.clock()
        is_late = self._last_batch is None or now - self._last_batch >= self.delay_max_s
        if not is_late and available < self.offsets_min:
            return False
        self._last_batch = now
        return True
