"""Which brokers a producer avoids for a while: those that were slow to answer, or did not.

A pure table; the caller passes the time. Rule: a latency makes its broker unavailable for as long as the largest
threshold that it reaches says, counted from the answer. The next answer of the broker replaces what the last one said.

==============  ====  ====  =======  ========  ========  ========  ========
latency, ms       50   100      550      1000      2000      3000     15000
unavailable, s     0     0       30        60       120       180       600
==============  ====  ====  =======  ========  ========  ========  ========

These are the defaults of ``latency_max`` and ``not_available_duration``.

Compatibility: ``MQFaultStrategy`` and ``LatencyFaultToleranceImpl`` (4.9.8). Among unavailable brokers that are alike
in every respect Java takes a random one, here they take turns in the order in which they became known.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import attrs

LATENCY_MAX_MS = (50, 100, 550, 1000, 2000, 3000, 15_000)
NOT_AVAILABLE_DURATION_MS = (0, 0, 30_000, 60_000, 120_000, 180_000, 600_000)
ISOLATION_LATENCY_MS = 30_000
"""The latency that a failed request counts as."""

FAULT_ITEMS_MAX = 1_000
"""Bound on the brokers whose last latency is kept; beyond it the one that was asked longest ago is forgotten."""

assert len(LATENCY_MAX_MS) == len(NOT_AVAILABLE_DURATION_MS)


@attrs.frozen
class FaultItem:
    """Latency of the last request to a broker, and until when the broker is avoided."""

    latency_ms: float
    available_from: float
    """Trio's time, in seconds."""


class BrokerHealth:
    """Latencies of brokers by name. ``now`` is ``trio.current_time()`` everywhere.

    A latency of at least ``latency_max_ms[i]`` makes a broker unavailable for ``not_available_duration_ms[i]``.
    """

    def __init__(
        self,
        latency_max_ms: Sequence[int] = LATENCY_MAX_MS,
        not_available_duration_ms: Sequence[int] = NOT_AVAILABLE_DURATION_MS,
    ) -> None:
        self._latency_max_ms = latency_max_ms
        self._not_available_duration_ms = not_available_duration_ms
        self._items: dict[str, FaultItem] = {}  # by broker name, the one asked longest ago first
        self._turn = 0

    def update(self, broker_name: str, latency_ms: float, *, now: float, isolation: bool) -> None:
        """Note an answer and how long it took; with ``isolation`` there was none, or a refusal."""
        duration_ms = self.not_available_duration_ms(ISOLATION_LATENCY_MS if isolation else latency_ms)
        self._items.pop(broker_name, None)
        if len(self._items) >= FAULT_ITEMS_MAX:
            del self._items[next(iter(self._items))]
        self._items[broker_name] = FaultItem(latency_ms, now + duration_ms / 1000)

    def not_available_duration_ms(self, latency_ms: float) -> int:
        """Return how long a broker with this latency is avoided."""
        threshold = bisect_right(self._latency_max_ms, latency_ms)
        return self._not_available_duration_ms[threshold - 1] if threshold else 0

    def is_available(self, broker_name: str, now: float) -> bool:
        """Whether a broker may be chosen; an unknown one may."""
        item = self._items.get(broker_name)
        return item is None or now >= item.available_from

    def pick_one_at_least(self, now: float) -> str | None:
        """Return one of the better half of the known brokers, in turns; None when none is known."""
        if not self._items:
            return None
        best = sorted(self._items, key=lambda name: self._rank(name, now))
        half = len(best) // 2
        if half == 0:
            return best[0]
        self._turn += 1
        return best[self._turn % half]

    def remove(self, broker_name: str) -> None:
        """Forget a broker: it no longer has the topic."""
        self._items.pop(broker_name, None)

    def _rank(self, broker_name: str, now: float) -> tuple[bool, float, float]:
        item = self._items[broker_name]
        return (now < item.available_from, item.latency_ms, item.available_from)
