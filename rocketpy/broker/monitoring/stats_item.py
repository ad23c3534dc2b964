"""Counters with samples: sums and rates over the last minute, hour and day.

A :class:`StatsItem` only grows. It is sampled every 10 seconds, 10 minutes and hour; the difference between the first
and the last sample of a window is the figure of that window::

    window   samples   interval   covers
    minute         7       10 s   the last 60 s
    hour           7     10 min   the last 60 min
    day           25        1 h   the last 24 h

Rule: times are seconds of a monotonic clock, passed in; nothing here reads a clock, waits or logs.

Compatibility: ``StatsItem``, ``RTStatsItem``, ``StatsItemSet``, ``MomentStatsItemSet`` (4.9.8). A set here is bounded:
additions for new keys beyond :data:`ITEMS_MAX` are dropped.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterator

import attrs

ITEMS_MAX = 100_000
"""Bound of the keys in one set; each key costs about a kilobyte."""


class StatsWindow(enum.Enum):
    """A time window of the figures: its name in log lines, seconds between two samples, and number of samples."""

    MINUTE = ("Minute", 10, 7)
    HOUR = ("Hour", 600, 7)
    DAY = ("Day", 3600, 25)

    def __init__(self, title: str, period_seconds: int, notes_max: int) -> None:
        self.title = title
        self.period_seconds = period_seconds
        self.notes_max = notes_max


@attrs.frozen(slots=True)
class StatsSnapshot:
    """A counter's figures within a window: sum, number of additions, rate per second, average per addition."""

    sum: int = 0
    tps: float = 0.0
    times: int = 0
    avgpt: float = 0.0


NOTHING = StatsSnapshot()


class StatsItem:
    """One counter: ``value`` is the sum, ``times`` the number of additions. Callers may increase both directly."""

    __slots__ = ("_notes", "times", "value")

    def __init__(self) -> None:
        self.value = 0
        self.times = 0
        # For each window: time, value and times of its samples, oldest first.
        self._notes: dict[StatsWindow, deque[tuple[float, int, int]]] = {}

    def add(self, value: int, times: int = 1) -> None:
        """Add to both."""
        self.value += value
        self.times += times

    def sample(self, window: StatsWindow, now: float) -> None:
        """Take a sample; before the first one the counter is taken as 0 one period ago."""
        notes = self._notes.get(window)
        if notes is None:
            notes = self._notes[window] = deque(maxlen=window.notes_max)
            notes.append((now - window.period_seconds, 0, 0))
        notes.append((now, self.value, self.times))

    def snapshot(self, window: StatsWindow) -> StatsSnapshot:
        """Return the figures of a window; zeros before its first sample."""
        notes = self._notes.get(window)
        if notes is None:
            return NOTHING
        (began, first_value, first_times), (ended, value, times) = notes[0], notes[-1]
        added, count = value - first_value, times - first_times
        return StatsSnapshot(
            sum=added,
            tps=added / (ended - began) if ended > began else 0.0,
            times=count,
            avgpt=added / count if count > 0 else 0.0,
        )


class StatsItemSet:
    """The counters of one name, by key. With ``is_response_time`` values are milliseconds, logged without a sum."""

    def __init__(self, name: str, *, is_response_time: bool = False) -> None:
        self.name = name
        self.is_response_time = is_response_time
        self.table: dict[str, StatsItem] = {}
        self.dropped_count = 0  # additions dropped because the set was full

    def get(self, key: str) -> StatsItem | None:
        """Return a counter, None when there is none."""
        return self.table.get(key)

    def add(self, key: str, value: int, times: int = 1) -> None:
        """Add to the counter of a key; a new key is created unless the set is full."""
        item = self.table.get(key)
        if item is None:
            if len(self.table) >= ITEMS_MAX:
                self.dropped_count += 1
                return
            item = self.table[key] = StatsItem()
        item.value += value
        item.times += times

    def snapshot(self, key: str, window: StatsWindow) -> StatsSnapshot:
        """Return the figures of a key, zeros for an unknown one."""
        item = self.table.get(key)
        return NOTHING if item is None else item.snapshot(window)

    def sample(self, window: StatsWindow, now: float) -> Iterator[None]:
        """Sample every counter; yields after each, so that the caller may pause."""
        for item in list(self.table.values()):
            item.sample(window, now)
            yield

    def lines(self, window: StatsWindow) -> Iterator[str]:
        """Return RocketMQ's line of each counter for a window."""
        for key, item in list(self.table.items()):
            found = item.snapshot(window)
            if self.is_response_time:
                text = f"TIMES: {found.times} AVGRT: {found.avgpt:.2f}"
            else:
                text = f"SUM: {found.sum} TPS: {found.tps:.2f} AVGPT: {found.avgpt:.2f}"
            yield f"[{self.name}] [{key}] Stats In One {window.title}, {text}"


class MomentStatsItemSet:
    """The last value of each key under one name; values are not summed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.table: dict[str, int] = {}

    def set(self, key: str, value: int) -> None:
        """Set a value, if the key is known or the set has room."""
        if key in self.table or len(self.table) < ITEMS_MAX:
            self.table[key] = value

    def lines(self) -> Iterator[str]:
        """Return RocketMQ's line of each value."""
        for key, value in list(self.table.items()):
            yield f"[{self.name}] [{key}] Stats Every 5 Minutes, Value: {value}"


def remove_prefixed(table: dict[str, StatsItem], name: str) -> None:
    """Remove the keys that begin with ``name@``."""
    _remove(table, [key for key in table if key.startswith(f"{name}@")])


def remove_infixed(table: dict[str, StatsItem] | dict[str, int], name: str) -> None:
    """Remove the keys that have ``@name@`` within."""
    _remove(table, [key for key in table if f"@{name}@" in key])


def remove_suffixed(table: dict[str, StatsItem] | dict[str, int], name: str) -> None:
    """Remove the keys that end with ``@name``."""
    _remove(table, [key for key in table if key.endswith(f"@{name}")])


def _remove(table: dict[str, StatsItem] | dict[str, int], keys: list[str]) -> None:
    for key in keys:
        del table[key]
