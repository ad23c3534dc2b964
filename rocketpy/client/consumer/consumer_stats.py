"""Rates and times of a consumer by topic, as an operator sees them.

Totals are counted, and sampled regularly; a rate is the difference to the oldest sample in the window.

Failed messages are those of the last hour, the rest is of the last minute.

Compatibility: ``ConsumerStatsManager`` (4.9.8).
"""

from __future__ import annotations

from collections import deque

import attrs
import trio

from rocketpy.protocol.bodies.running import ConsumeStatus

SAMPLE_SECONDS = 10.0
MINUTE_SAMPLES = 6
HOUR_SAMPLES = 360


@attrs.define
class _Totals:
    pulls: int = 0
    pull_s: float = 0.0
    pulled: int = 0
    batches: int = 0
    consume_s: float = 0.0
    consumed: int = 0
    failed: int = 0


class ConsumerStats:
    """Counters of one consumer."""

    def __init__(self) -> None:
        self._topics: dict[str, _Totals] = {}
        self._samples: dict[str, deque[tuple[float, _Totals]]] = {}

    def add_pulled(self, topic: str, count: int, seconds: float) -> None:
        """Count one pull."""
        totals = self._of(topic)
        totals.pulls += 1
        totals.pull_s += seconds
        totals.pulled += count

    def add_consumed(self, topic: str, count: int, seconds: float) -> None:
        """Count one batch that succeeded."""
        totals = self._of(topic)
        totals.batches += 1
        totals.consume_s += seconds
        totals.consumed += count

    def add_failed(self, topic: str, count: int) -> None:
        """Count messages that are to be consumed again."""
        self._of(topic).failed += count

    def sample(self, now: float) -> None:
        """Note the totals at this time; a topic that has not been counted for an hour is forgotten."""
        for topic, totals in list(self._topics.items()):
            samples = self._samples[topic]
            if len(samples) == HOUR_SAMPLES and samples[0][1] == totals:
                del self._topics[topic], self._samples[topic]
            else:
                samples.append((now, attrs.evolve(totals)))

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            await trio.sleep(SAMPLE_SECONDS)
            self.sample(trio.current_time())

    def status(self, topic: str, now: float) -> ConsumeStatus:
        """Return the rates of a topic: per second, and times in ms."""
        totals = self._topics.get(topic)
        if totals is None:
            return ConsumeStatus()
        samples = self._samples[topic]
        began, minute = samples[-MINUTE_SAMPLES] if len(samples) >= MINUTE_SAMPLES else samples[0]
        seconds = max(now - began, 1.0)
        pulls, batches = totals.pulls - minute.pulls, totals.batches - minute.batches
        return ConsumeStatus(
            pull_rt=1000 * (totals.pull_s - minute.pull_s) / pulls if pulls else 0.0,
            pull_tps=(totals.pulled - minute.pulled) / seconds,
            consume_rt=1000 * (totals.consume_s - minute.consume_s) / batches if batches else 0.0,
            consume_ok_tps=(totals.consumed - minute.consumed) / seconds,
            consume_failed_tps=(totals.failed - minute.failed) / seconds,
            consume_failed_msgs=totals.failed - samples[0][1].failed,
        )

    def _of(self, topic: str) -> _Totals:
        totals = self._topics.get(topic)
        if totals is None:
            totals = self._topics[topic] = _Totals()
            first: tuple[float, _Totals] = (trio.current_time(), _Totals())
            self._samples[topic] = deque([first], maxlen=HOUR_SAMPLES)
        return totals
