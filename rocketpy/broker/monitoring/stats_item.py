"""Counters with samples: sums and rates over the last minute, hour and day.

A :class:`StatsItem` only grows. It is sampled every 10 seconds, 10 minutes and hour; the difference between the first
and the last sample of a window is the figure of that window::

    window   samples   interval   covers
    minute         7       10 s   the last 60 s
    hour           7     10 min   the last 60 min
    day           25        1 h   the last 24 h

Rule: times are seconds of a monotonic clock, passed in; nothing here reads a clock, waits or logs.

Keys are made of names of topics and groups, which come and go. A counter that has not changed for the whole window of
an hour is forgotten, and all sets of a broker share one bound of bytes (:class:`StatsMemory`): beyond it additions for
new keys are dropped.

Compatibility: ``StatsItem``, ``RTStatsItem``, ``StatsItemSet``, ``MomentStatsItemSet`` (4.9.8), which keep every key
for as long as the broker runs.
"""

from __future__ import annotations

import enum
from array import array
from collections.abc import Iterator

import attrs

STATS_BYTES_MAX = 128 << 20
"""Bound of what all statistics of a broker hold: counters with their samples, the fast paths' counters, lag figures."""

ITEM_BYTES = 1_900
"""What a counter takes without its key when each window has all of its samples."""

MOMENT_BYTES = 140
"""What a figure without samples takes without its key."""

CHARACTER_BYTES = 4
"""The most that a character of a key takes."""

_MICROSECONDS = 1_000_000
_NOTE = 3  # numbers of a sample: time in microseconds, value, times


class StatsMemory:
    """What the statistics of one broker hold, in bytes, by the largest size that each entry may get."""

    def __init__(self) -> None:
        self.held_bytes = 0

    def take(self, size: int) -> bool:
        """Count a new entry; False, and nothing is counted, without room for it."""
        if self.held_bytes + size > STATS_BYTES_MAX:
            return False
        self.held_bytes += size
        return True

    def give_back(self, size: int) -> None:
        """Count out an entry that was removed."""
        self.held_bytes -= size


class StatsKey:
    """What the parts of a key are: ``StatsKey("queueId", "topic", "group")`` for ``3@TopicA@GroupA``.

    Only the last part may contain the separator.
    """

    def __init__(self, *parts: str) -> None:
        self.parts = parts

    def has(self, key: str, part: str, name: str) -> bool:
        """Whether a key has a name at a part; False where keys have no such part."""
        if part not in self.parts or name not in key:
            return False
        found = key.split("@", len(self.parts) - 1)
        place = self.parts.index(part)
        return place < len(found) and found[place] == name


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
    """One counter: ``value`` is the sum, ``times`` the number of additions. Callers may increase both directly.

    The samples of a window are one array of integers, because a broker has many counters, each with 39 samples.
    """

    __slots__ = ("_notes", "times", "value")

    def __init__(self) -> None:
        self.value = 0
        self.times = 0
        # For each window: time, value and times of its samples, oldest first.
        self._notes: dict[StatsWindow, array[int]] = {}

    def add(self, value: int, times: int = 1) -> None:
        """Add to both."""
        self.value += value
        self.times += times

    def sample(self, window: StatsWindow, now: float) -> None:
        """Take a sample; before the first one the counter is taken as 0 one period ago."""
        notes = self._notes.get(window)
        if notes is None:
            notes = self._notes[window] = array("q", (_microseconds(now - window.period_seconds), 0, 0))
        notes.extend((_microseconds(now), self.value, self.times))
        if len(notes) > _NOTE * window.notes_max:
            del notes[:_NOTE]

    def is_idle(self, window: StatsWindow) -> bool:
        """Whether the samples cover a whole window in which the counter has not changed."""
        notes = self._notes.get(window)
        return notes is not None and len(notes) == _NOTE * window.notes_max and notes[1:_NOTE] == notes[1 - _NOTE :]

    def snapshot(self, window: StatsWindow) -> StatsSnapshot:
        """Return the figures of a window; zeros before its first sample."""
        notes = self._notes.get(window)
        if notes is None:
            return NOTHING
        (began, first_value, first_times), (ended, value, times) = notes[:_NOTE], notes[-_NOTE:]
        added, count = value - first_value, times - first_times
        seconds = (ended - began) / _MICROSECONDS
        return StatsSnapshot(
            sum=added,
            tps=added / seconds if seconds > 0 else 0.0,
            times=count,
            avgpt=added / count if count > 0 else 0.0,
        )


class StatsItemSet:
    """The counters of one name, by key. With ``is_response_time`` values are milliseconds, logged without a sum.

    With ``keeps_idle`` a counter stays although it does not change: its key is no topic's and no group's.
    """

    def __init__(
        self,
        name: str,
        *,
        key: StatsKey,
        memory: StatsMemory,
        is_response_time: bool = False,
        keeps_idle: bool = False,
    ) -> None:
        self.name = name
        self.is_response_time = is_response_time
        self.table: dict[str, StatsItem] = {}
        self.dropped_count = 0  # additions dropped because there was no room
        self._key = key
        self._memory = memory
        self._keeps_idle = keeps_idle

    def get(self, key: str) -> StatsItem | None:
        """Return a counter, None when there is none."""
        return self.table.get(key)

    def add(self, key: str, value: int, times: int = 1) -> None:
        """Add to the counter of a key; a new key is created if there is room."""
        item = self.table.get(key)
        if item is None:
            if not self._memory.take(ITEM_BYTES + CHARACTER_BYTES * len(key)):
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
        """Sample every counter; yields after each, so that the caller may pause.

        The samples of an hour find the counters that have been idle for an hour, which are forgotten.
        """
        for key, item in list(self.table.items()):
            item.sample(window, now)
            is_idle = window is StatsWindow.HOUR and not self._keeps_idle and item.is_idle(window)
            if is_idle and self.table.get(key) is item:
                self._remove(key)
            yield

    def forget(self, part: str, name: str) -> None:
        """Remove the counters whose key has a name at a part."""
        for key in [key for key in self.table if self._key.has(key, part, name)]:
            self._remove(key)

    def lines(self, window: StatsWindow) -> Iterator[str]:
        """Return RocketMQ's line of each counter for a window."""
        for key, item in list(self.table.items()):
            found = item.snapshot(window)
            if self.is_response_time:
                text = f"TIMES: {found.times} AVGRT: {found.avgpt:.2f}"
            else:
                text = f"SUM: {found.sum} TPS: {found.tps:.2f} AVGPT: {found.avgpt:.2f}"
            yield f"[{self.name}] [{key}] Stats In One {window.title}, {text}"

    def _remove(self, key: str) -> None:
        del self.table[key]
        self._memory.give_back(ITEM_BYTES + CHARACTER_BYTES * len(key))


class MomentStatsItemSet:
    """The last value of each key under one name; values are not summed."""

    def __init__(self, name: str, *, memory: StatsMemory) -> None:
        self.name = name
        self.table: dict[str, int] = {}
        self._memory = memory

    def set(self, key: str, value: int) -> None:
        """Set a value, if the key is known or there is room."""
        if key in self.table or self._memory.take(MOMENT_BYTES + CHARACTER_BYTES * len(key)):
            self.table[key] = value

    def remove(self, key: str) -> None:
        """Remove the value of a key, if there is one."""
        if self.table.pop(key, None) is not None:
            self._memory.give_back(MOMENT_BYTES + CHARACTER_BYTES * len(key))

    def lines(self) -> Iterator[str]:
        """Return RocketMQ's line of each value."""
        for key, value in list(self.table.items()):
            yield f"[{self.name}] [{key}] Stats Every 5 Minutes, Value: {value}"


def _microseconds(seconds: float) -> int:
    return round(seconds * _MICROSECONDS)
