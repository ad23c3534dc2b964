"""Rates and times of a consumer by topic, as an operator sees them.

Totals are counted, and sampled regularly; a rate is the difference to the oldest sample in the window.

Failed messages are those of the last hour, the rest is of the last minute.

Compatibility: ``ConsumerStatsManager`` (4.9.8).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from functools import reduce

import attrs
import trio

from rocketpy.client.consumer.queue.process_queue import ProcessQueue
from rocketpy.containment import Contained
from rocketpy.protocol.bodies.running import ConsumeStatus

SAMPLE_SECONDS = 10.0
MINUTE_SAMPLES = 6
HOUR_SAMPLES = 360

_log = logging.getLogger("rocketpy.client")


@attrs.define
class _Totals:
    pulls: int = 0
    pull_s: float = 0.0
    pulled: int = 0
    batches: int = 0
    consume_s: float = 0.0
    consumed: int = 0
    failed: int = 0

    def plus(self, other: _Totals) -> _Totals:
        """Return the sums of the messages."""
        return _Totals(
            pulled=self.pulled + other.pulled,
            consumed=self.consumed + other.consumed,
            failed=self.failed + other.failed,
        )


@attrs.frozen
class ConsumerStatistics:
    """What a consumer has in memory now, and its counters since it has joined its group.

    ``unacknowledged_count`` and ``_bytes`` are messages that have been pulled, waiting ones included; ``failed_count``
    are failures, of which a message may have several.
    """

    assigned_count: int
    unacknowledged_count: int
    unacknowledged_bytes: int
    pulled_count: int
    consumed_count: int
    failed_count: int


class ConsumerStats:
    """Counters of one consumer."""

    def __init__(self) -> None:
        self._forgotten = _Totals()  # of topics without samples any more
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
                self._forgotten = self._forgotten.plus(totals)
                del self._topics[topic], self._samples[topic]
            else:
                samples.append((now, attrs.evolve(totals)))

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            await trio.sleep(SAMPLE_SECONDS)
            with Contained(_log, "a sample of statistics"):
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

    def statistics(self, process_queues: Sequence[ProcessQueue] = ()) -> ConsumerStatistics:
        """Return the counters of all topics, with what these queues have in memory."""
        totals = reduce(_Totals.plus, self._topics.values(), self._forgotten)
        return ConsumerStatistics(
            assigned_count=len(process_queues),
            unacknowledged_count=sum(each.message_count for each in process_queues),
            unacknowledged_bytes=sum(each.size_bytes for each in process_queues),
            pulled_count=totals.pulled,
            consumed_count=totals.consumed,
            failed_count=totals.failed,
        )

    def _of(self, topic: str) -> _Totals:
        totals = self._topics.get(topic)
        if totals is None:
            totals = self._topics[topic] = _Totals()
            first: tuple[float, _Totals] = (trio.current_time(), _Totals())
            self._samples[topic] = deque([first], maxlen=HOUR_SAMPLES)
        return totals
