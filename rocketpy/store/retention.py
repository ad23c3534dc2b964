"""Retention policy: when files of the log are deleted, and when a disk counts as full.

:class:`RetentionPolicy` is pure: times and disk usages are passed in. :func:`disk_usage` queries the disk.

The rules are RocketMQ's. Files are deleted oldest first, never the last one, at most ten per run. A run deletes during
the hours of ``deleteWhen``, when a disk is fuller than ``diskMaxUsedSpaceRatio``, and in the twenty runs after an admin
command. It deletes files older than ``fileReservedTime``; above 85 % disk usage it deletes the oldest files of any age;
above 90 % no message is accepted. With several directories of the log, the least full disk counts.

Compatibility: ``DefaultMessageStore.CleanCommitLogService`` (4.9.8). The age of a file is taken from its records, not
from its modification time, which a copy resets: its last record is not younger than the first record of the next file.
The two levels are settings here, as in RocketMQ 5; RocketMQ 4.9 reads them from system properties. Both disks, of the
log and of the queues, are always checked: RocketMQ checks the second only if the first is not too full, and its result
then replaces that of the first.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import attrs

from rocketpy.store.disk.interface import Disk

FILES_PER_RUN_MAX = 10
MANUAL_RUNS = 20
"""Runs that one admin command triggers."""

_MS_PER_HOUR = 3_600_000
_RATIO_PERCENT_MIN, _RATIO_PERCENT_MAX = 10, 95


@attrs.frozen
class DiskUsage:
    """Usage of the disk that holds a directory."""

    path: str
    ratio: float
    """Used space relative to used plus available space; -1 if there is no such directory."""


def used_ratio(used_bytes: int, free_bytes: int) -> float:
    """Return the usage of a disk, rounded up to a whole percent.

    >>> used_ratio(1, 999), used_ratio(75, 25), used_ratio(0, 0)
    (0.01, 0.75, -1.0)
    """
    entire = used_bytes + free_bytes
    return -(-used_bytes * 100 // entire) / 100 if entire > 0 else -1.0


def disk_usage(disk: Disk, path: str) -> DiskUsage:
    """Query the disk of a directory."""
    if not disk.is_directory(path):
        return DiskUsage(path, -1.0)
    return DiskUsage(path, used_ratio(disk.used_bytes(path), disk.free_bytes(path)))


def least_full(usages: Iterable[DiskUsage]) -> DiskUsage:
    """Return the usage that counts for a log in several directories."""
    return min(usages, key=lambda usage: usage.ratio)


@attrs.define(kw_only=True)
class RetentionPolicy:
    """The deletion settings. One object is shared by all users, and :meth:`become` updates it for all of them."""

    delete_hours: frozenset[int]  # of the day, local time
    reserved_ms: int
    used_ratio_max: float  # above it a run deletes at any hour
    clean_forcibly_ratio: float  # above it a run ignores the age of files
    warning_ratio: float  # above it messages are refused
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
        """Return the policy for settings in their own units, clamped where RocketMQ does."""
        return cls(
            delete_hours=delete_hours,
            reserved_ms=file_reserved_hours * _MS_PER_HOUR,
            used_ratio_max=min(max(max_used_percent, _RATIO_PERCENT_MIN), _RATIO_PERCENT_MAX) / 100,
            clean_forcibly_ratio=clean_forcibly_percent / 100,
            warning_ratio=warning_percent / 100,
            is_forcible=is_forcible,
        )

    def become(self, other: RetentionPolicy) -> None:
        """Take over the values of another policy: the settings have changed."""
        self.delete_hours, self.reserved_ms = other.delete_hours, other.reserved_ms
        self.used_ratio_max, self.clean_forcibly_ratio = other.used_ratio_max, other.clean_forcibly_ratio
        self.warning_ratio, self.is_forcible = other.warning_ratio, other.is_forcible

    def is_due(self, now_ms: int, usages: Sequence[DiskUsage]) -> bool:
        """Whether a run deletes files now: by the hour, or because a disk is too full or missing."""
        hour = time.localtime(now_ms // 1000).tm_hour
        return hour in self.delete_hours or any(
            usage.ratio < 0 or usage.ratio > self.used_ratio_max for usage in usages
        )

    def ignores_age(self, usages: Iterable[DiskUsage]) -> bool:
        """Whether files that are not expired are deleted too."""
        return self.is_forcible and any(usage.ratio > self.clean_forcibly_ratio for usage in usages)

    def is_expired(self, last_timestamp_ms: int, now_ms: int) -> bool:
        """Whether a file with this storeTimestamp of its last record is expired."""
        return now_ms >= last_timestamp_ms + self.reserved_ms

    def full_or_why(self, usages: Iterable[DiskUsage]) -> str | None:
        """Return None, or why messages are refused: the disk, its usage and the limit."""
        for usage in usages:
            if usage.ratio > self.warning_ratio:
                return (
                    f"the disk of {usage.path} is {usage.ratio:.0%} full, messages are taken up to "
                    f"{self.warning_ratio:.0%} (diskSpaceWarningLevelRatio)"
                )
        return None

    def takes_new_files(self, usage: DiskUsage) -> bool:
        """Whether a directory is preferred for new files of the log."""
        return usage.ratio <= self.clean_forcibly_ratio
