"""Takes the notes that statistics are worked out from, writes RocketMQ's statistics lines, and begins the days.

Two clocks are at work. Notes are taken by Trio's, every 10 seconds, 10 minutes and hour, whatever the wall clock does.
Lines are written when a minute, an hour or a day of the wall clock ends, and days end at the machine's midnight; a
wall clock that is set forward or back makes one line early, late or twice, and no figure wrong.

Rule: however many counters there are, nobody waits for them: after :data:`COUNTERS_PER_SLICE` of them others run.

Compatibility: ``StatsItemSet.init`` and the timer of ``BrokerStats.record`` in ``BrokerController`` (4.9.8), where
each set of counters has timers of its own. Lines of a day are written at midnight, not two seconds before.
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
"""So much may a wall clock lack of a minute's end: it has not been set back, it is only slower."""

_log = logging.getLogger("rocketpy.broker.stats")
_commercial_log = logging.getLogger("rocketpy.broker.commercial")


def next_midnight_ms(timestamp_ms: int, zone: tzinfo | None = None) -> int:
    """Return when the next day begins, in ``zone`` or where this machine is: days have 23 to 25 hours."""
    now = datetime.fromtimestamp(timestamp_ms / 1000).astimezone(zone)
    tomorrow = now.date() + timedelta(days=1)
    # Without a zone of its own a datetime is local time; the offset of tomorrow may not be the one of now.
    midnight = datetime(tomorrow.year, tomorrow.month, tomorrow.day, tzinfo=zone)
    return int(midnight.timestamp() * 1000)


class BrokerStatsService:
    """Two loops: one takes notes, one writes lines and begins days. ``zone`` is the machine's if left out."""

    def __init__(
        self, *, stats: BrokerStatsManager, broker_stats: BrokerStats, clock: Clock, zone: tzinfo | None = None
    ) -> None:
        self._stats = stats
        self._broker_stats = broker_stats
        self._clock = clock
        self._zone = zone
        self._minutes = 0  # that lines were written for

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Take notes, write lines and begin days until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._take_notes)
            nursery.start_soon(self._write_lines)
            task_status.started()

    async def sample(self, window: StatsWindow) -> None:
        """Take one note of every counter."""
        await _in_slices(self._stats.sample(window, trio.current_time()))

    async def write_lines(self, window: StatsWindow) -> None:
        """Write a line for every counter; nothing is worked out for a log that nobody keeps."""
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
                now_ms = minute_ends_ms  # a wall clock a little slower than Trio's: that minute is meant
            elif now_ms < minute_ends_ms:  # it was set back, and the ends of hour and day with it
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
    """Take all steps, and let others run now and then."""
    for count, _ in enumerate(steps, 1):
        if count % COUNTERS_PER_SLICE == 0:
            await trio.lowlevel.checkpoint()
