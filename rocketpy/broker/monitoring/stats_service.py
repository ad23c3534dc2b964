"""Sampling of the statistics, RocketMQ's statistics log lines, and the start of each day's totals.

Two clocks are used. Samples follow Trio's clock, every 10 seconds, 10 minutes and hour, whatever the wall clock does.
Log lines are written when a minute, an hour or a day of the wall clock ends, and days end at local midnight. A wall
clock that is set forward or back makes one line early, late or repeated, but no figure wrong.

Rule: the loop yields to other tasks after every :data:`COUNTERS_PER_SLICE` counters.

Compatibility: ``StatsItemSet.init`` and the timer of ``BrokerStats.record`` in ``BrokerController`` (4.9.8), where
each set of counters has timers of its own. Daily lines are written at midnight, not two seconds before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, tzinfo

import trio

from rocketpy.broker.monitoring.broker_stats import BrokerStats
from rocketpy.broker.monitoring.broker_stats_manager import BrokerStatsManager
from rocketpy.broker.monitoring.stats_item import StatsWindow
from rocketpy.clock import Clock
from rocketpy.containment import Contained

COUNTERS_PER_SLICE = 50

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
MOMENT_LINES_MINUTES = 5
CLOCK_SLACK_MS = 1000
"""Tolerance before a minute's end: a wall clock this much early is slower than Trio's and has not been set back."""

_log = logging.getLogger("rocketpy.broker.stats")
_commercial_log = logging.getLogger("rocketpy.broker.commercial")


def next_midnight_ms(timestamp_ms: int, zone: tzinfo | None = None) -> int:
    """Return the start of the next day in ``zone`` or the local time zone; days have 23 to 25 hours."""
    now = datetime.fromtimestamp(timestamp_ms / 1000).astimezone(zone)
    tomorrow = now.date() + timedelta(days=1)
    # A naive datetime is local time; tomorrow's UTC offset may differ from today's.
    midnight = datetime(tomorrow.year, tomorrow.month, tomorrow.day, tzinfo=zone)
    return int(midnight.timestamp() * 1000)


class BrokerStatsService:
    """Two loops: one samples, one writes log lines and starts days. ``zone`` defaults to the local time zone."""

    def __init__(
        self, *, stats: BrokerStatsManager, broker_stats: BrokerStats, clock: Clock, zone: tzinfo | None = None
    ) -> None:
        self._stats = stats
        self._broker_stats = broker_stats
        self._clock = clock
        self._zone = zone
        self._minutes = 0  # for which lines were written

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Sample, write lines and start days until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._take_notes)
            nursery.start_soon(self._write_lines)
            task_status.started()

    async def sample(self, window: StatsWindow) -> None:
        """Take one sample of every counter."""
        await _in_slices(self._stats.sample(window, trio.current_time()))

    async def write_lines(self, window: StatsWindow) -> None:
        """Write a line for every counter; computes nothing when the log is disabled."""
        if _log.isEnabledFor(logging.INFO):
            await _in_slices(_written(self._stats.lines(window), _log.info))
            if window is StatsWindow.MINUTE and self._minutes % MOMENT_LINES_MINUTES == 0:
                await _in_slices(_written(self._stats.moment_lines(), _log.info))
        if _commercial_log.isEnabledFor(logging.INFO):
            await _in_slices(_written(self._stats.commercial_lines(window), _commercial_log.info))

    # ---- private --------------------------------------------------------------------------------------------------

    async def _take_notes(self) -> None:
        due = {window: trio.current_time() for window in StatsWindow}
        while True:
            for window in StatsWindow:
                if due[window] <= trio.current_time():
                    with Contained(_log, "a sample of the statistics"):
                        await self.sample(window)
                    due[window] += window.period_seconds
            await trio.sleep_until(min(due.values()))

    async def _write_lines(self) -> None:
        now_ms = self._clock.timestamp_ms()
        hour_ends_ms = _next(now_ms, HOUR_MS)
        day_ends_ms = next_midnight_ms(now_ms, self._zone)
        while True:
            minute_ends_ms = _next(now_ms, MINUTE_MS)
            await trio.sleep((minute_ends_ms - now_ms) / 1000)
            now_ms = self._clock.timestamp_ms()
            if minute_ends_ms - CLOCK_SLACK_MS <= now_ms < minute_ends_ms:
                now_ms = minute_ends_ms  # the wall clock is slightly slower than Trio's: use the minute's end
            elif now_ms < minute_ends_ms:  # the clock was set back, so the ends of hour and day change too
                hour_ends_ms = _next(now_ms, HOUR_MS)
                day_ends_ms = next_midnight_ms(now_ms, self._zone)
            await self._write_contained(StatsWindow.MINUTE)
            self._minutes += 1
            if now_ms >= hour_ends_ms:
                await self._write_contained(StatsWindow.HOUR)
                hour_ends_ms = _next(now_ms, HOUR_MS)
            if now_ms >= day_ends_ms:
                await self._write_contained(StatsWindow.DAY)
                self._begin_day()
                day_ends_ms = next_midnight_ms(now_ms, self._zone)

    async def _write_contained(self, window: StatsWindow) -> None:
        with Contained(_log, "writing the statistics"):
            await self.write_lines(window)

    def _begin_day(self) -> None:
        put_count, get_count = self._broker_stats.record()
        log = logging.getLogger("rocketpy.broker")
        log.info("yesterday put message total: %d", put_count)
        log.info("yesterday get message total: %d", get_count)


def _next(now_ms: int, period_ms: int) -> int:
    return (now_ms // period_ms + 1) * period_ms


def _written(lines: Iterator[str], write: Callable[[str], None]) -> Iterator[None]:
    for line in lines:
        write(line)
        yield


async def _in_slices(steps: Iterator[None]) -> None:
    """Run all steps, with a checkpoint after each slice."""
    for count, _ in enumerate(steps, 1):
        if count % COUNTERS_PER_SLICE == 0:
            await trio.lowlevel.checkpoint()
