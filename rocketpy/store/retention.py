"""When files of the log go, and when a disk counts as full.

:class:`RetentionPolicy` decides and is pure: times and usages are passed in. :func:`disk_usage` asks the disk.

Rules, all of RocketMQ's: files go oldest first, never the last one, at most ten in a run; a run deletes in the hours of
``deleteWhen``, when a disk is fuller than ``diskMaxUsedSpaceRatio``, and in twenty runs after a command. It deletes
what is older than ``fileReservedTime``, and when a disk is fuller than 85 % whatever is oldest; above 90 % no message
is taken. Of several directories of the log the one whose disk is least full counts.

Compatibility: ``DefaultMessageStore.CleanCommitLogService`` (4.9.8). How old a file is, is what its records say, not
its modification time, which a copy resets: its last record is not younger than the first of the next file. The two
levels are settings here (RocketMQ 5 has them too); RocketMQ 4.9 reads them from system properties. Both disks, the
log's and the queues', decide at once: RocketMQ looks at the second only where the first is not too full, and may find
room there that the first has not.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import attrs

from rocketpy.store.disk.interface import Disk

FILES_PER_RUN_MAX = 10
MANUAL_RUNS = 20
"""So many runs a command sets going."""

_MS_PER_HOUR = 3_600_000
_RATIO_PERCENT_MIN, _RATIO_PERCENT_MAX = 10, 95


@attrs.frozen
class DiskUsage:
    """How full the disk of a directory is."""

    path: str
    ratio: float
    """What is used, of what is used and what is free for us; -1 where there is no such directory."""


def used_ratio(used_bytes: int, free_bytes: int) -> float:
    """Return how full a disk is, rounded up to a whole percent.

    >>> used_ratio(1, 999), used_ratio(75, 25), used_ratio(0, 0)
    (0.01, 0.75, -1.0)
    """
    entire = used_bytes + free_bytes
    return -(-used_bytes * 100 // entire) / 100 if entire > 0 else -1.0


def disk_usage(disk: Disk, path: str) -> DiskUsage:
    """Ask the disk of a directory."""
    if not disk.is_directory(path):
        return DiskUsage(path, -1.0)
    return DiskUsage(path, used_ratio(disk.used_bytes(path), disk.free_bytes(path)))


def least_full(usages: Iterable[DiskUsage]) -> DiskUsage:
    """Return the one that counts for a log in several directories."""
    return min(usages, key=lambda usage: usage.ratio)


@attrs.define(kw_only=True)
class RetentionPolicy:
    """What the settings say about deletion. Whoever needs it holds the same one, which :meth:`become` changes."""

    delete_hours: frozenset[int]  # of the day, local time
    reserved_ms: int
    used_ratio_max: float  # fuller disks set a run going
    clean_forcibly_ratio: float  # fuller disks make it ignore how old files are
    warning_ratio: float  # fuller disks take no message
    is_forcible: bool

    @classmethod
    def of(
        cls,
        *,
        delete_hours: frozenset[int],
        file_reserved_hours: int,
        max_used_percent: int,
        clean_forcibly_percent: int,
        warning_percent: int,
        is_forcible: bool,
    ) -> RetentionPolicy:
        """Return the policy for settings in their own units, some of them within bounds."""
        return cls(
            delete_hours=delete_hours,
            reserved_ms=file_reserved_hours * _MS_PER_HOUR,
            used_ratio_max=min(max(max_used_percent, _RATIO_PERCENT_MIN), _RATIO_PERCENT_MAX) / 100,
            clean_forcibly_ratio=clean_forcibly_percent / 100,
            warning_ratio=warning_percent / 100,
            is_forcible=is_forcible,
        )

    def become(self, other: RetentionPolicy) -> None:
        """Go on as another policy: the settings have changed."""
        self.delete_hours, self.reserved_ms = other.delete_hours, other.reserved_ms
        self.used_ratio_max, self.clean_forcibly_ratio = other.used_ratio_max, other.clean_forcibly_ratio
        self.warning_ratio, self.is_forcible = other.warning_ratio, other.is_forcible

    def is_due(self, now_ms: int, usages: Sequence[DiskUsage]) -> bool:
        """Whether a run is to delete files: it is the hour, or a disk is too full (or is not there)."""
        hour = time.localtime(now_ms // 1000).tm_hour
        return hour in self.delete_hours or any(
            usage.ratio < 0 or usage.ratio > self.used_ratio_max for usage in usages
        )

    def ignores_age(self, usages: Iterable[DiskUsage]) -> bool:
        """Whether files go that are not expired."""
        return self.is_forcible and any(usage.ratio > self.clean_forcibly_ratio for usage in usages)

    def is_expired(self, last_timestamp_ms: int, now_ms: int) -> bool:
        """Whether a file may go whose last record was stored at a time."""
        return now_ms >= last_timestamp_ms + self.reserved_ms

    def full_or_why(self, usages: Iterable[DiskUsage]) -> str | None:
        """Return None, or why no message is taken: which disk is how full, and what the limit is."""
        for usage in usages:
            if usage.ratio > self.warning_ratio:
                return (
                    f"the disk of {usage.path} is {usage.ratio:.0%} full, messages are taken up to "
                    f"{self.warning_ratio:.0%} (diskSpaceWarningLevelRatio)"
                )
        return None

    def takes_new_files(self, usage: DiskUsage) -> bool:
        """Whether a new file of the log goes to a directory, if there are others."""
        return usage.ratio <= self.clean_forcibly_ratio
