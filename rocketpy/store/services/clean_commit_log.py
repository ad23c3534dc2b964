"""Deletes files of the CommitLog, oldest first, by age or for lack of space, and detects full disks.

:mod:`rocketpy.store.retention` decides which files are deleted, and when. This service keeps the order of the steps: a
file is removed from the log on the event loop, so that no reader finds it; a worker thread unlinks it and syncs its
directory; only then the next file follows. So after a loss of power the remaining files are still contiguous. A reader
of a deleted file can finish, see :mod:`rocketpy.store.services.close_files`.

Compatibility: ``DefaultMessageStore.CleanCommitLogService`` (4.9.8). When unexpired files are deleted because the disk
is nearly full, its usage is checked again after each one; RocketMQ deletes ten in any case. Read-only directories are
not counted in the usage of the log's disks.

Compose: ``refuse_while`` is the appender's, and called after every check; ``report_full`` is called when that changes;
``log_shrunk`` wakes CleanConsumeQueueService.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Sequence

import attrs
import trio

from rocketpy.clock import Clock
from rocketpy.errors import ShortageError
from rocketpy.runner import RunBlocking
from rocketpy.store.disk.interface import Disk
from rocketpy.store.files.mapped_file import MappedFile
from rocketpy.store.log.commit_log import CommitLog, first_store_timestamp
from rocketpy.store.retention import (
    FILES_PER_RUN_MAX,
    MANUAL_RUNS,
    DiskUsage,
    RetentionPolicy,
    disk_usage,
    least_full,
)
from rocketpy.store.services.close_files import CloseFilesService
from rocketpy.store.services.waiting import call_until_done
from rocketpy.store.status import RunningFlag, RunningFlags
from rocketpy.ticks import next_tick

FIRST_RUN_SECONDS = 60.0
DISK_CHECK_SECONDS = 10.0
_FIRST_DISK_CHECK_SECONDS = 1.0


@attrs.frozen
class CleanCommitLogStatistics:
    """Counters since the start, and how full the disks were at the last check."""

    deleted_count: int
    hanged_count: int  # of those, deleted while they were read
    held_count: int  # of those, still being read
    manual_runs: int  # remaining
    usages: tuple[DiskUsage, ...]  # the log's and the queues'; empty before the first check


class CleanCommitLogService:
    """Cleans one log."""

    def __init__(
        self,
        *,
        commit_log: CommitLog,
        disk: Disk,
        clock: Clock,
        run_blocking: RunBlocking,
        policy: RetentionPolicy,
        log_paths: Sequence[str],
        queue_path: str,
        interval_ms: int,
        pause_ms: int,
        running_flags: RunningFlags,
        close_files: CloseFilesService,
        refuse_while: Callable[[str | None], None],
        report_full: Callable[[str | None], None],
        log_shrunk: Callable[[], None],
    ) -> None:
        self._commit_log = commit_log
        self._disk = disk
        self._clock = clock
        self._run_blocking = run_blocking
        self._policy = policy
        self._log_paths = tuple(log_paths)
        self._queue_path = queue_path
        self._interval_s = interval_ms / 1000
        self._pause_s = pause_ms / 1000
        self._running_flags = running_flags
        self._close_files = close_files
        self._refuse_while = refuse_while
        self._report_full = report_full
        self._log_shrunk = log_shrunk
        self._manual_runs = 0
        self._usages: tuple[DiskUsage, ...] = ()
        self._deleted_count = 0
        self._hanged_count = 0
        self._hanged: list[MappedFile] = []  # deleted while they were read

    def execute_delete_files_manually(self) -> None:
        """Let the next twenty runs delete expired files at any hour of the day."""
        self._manual_runs = MANUAL_RUNS

    def statistics(self) -> CleanCommitLogStatistics:
        """Return the counters."""
        self._hanged = [each for each in self._hanged if each.is_held]
        return CleanCommitLogStatistics(
            self._deleted_count, self._hanged_count, len(self._hanged), self._manual_runs, self._usages
        )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Check the disks and delete files until cancelled; StoreError ends the service."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_disks)
            task_status.started()
            await trio.sleep(FIRST_RUN_SECONDS)
            while True:
                await self.clean()
                await trio.sleep(self._interval_s)

    async def check_disks(self) -> tuple[DiskUsage, ...]:
        """Check how full the disks are, and accept or refuse messages accordingly from now on."""
        self._usages = usages = await self._run_blocking(self._ask)
        why = self._policy.full_or_why(usages)
        self._refuse_while(why)
        if self._running_flags.set(RunningFlag.DISK_FULL, to=why is not None):
            self._report_full(why)
        return usages

    async def clean(self) -> int:
        """Do one run; return how many files were deleted."""
        usages = await self.check_disks()
        is_due = self._policy.is_due(self._clock.timestamp_ms(), usages)
        if self._manual_runs > 0:
            self._manual_runs -= 1
            is_due = True
        count = 0
        while is_due and count < FILES_PER_RUN_MAX and await self._may_delete_first(usages):
            await self._delete_first()
            count += 1
            await trio.sleep(self._pause_s)
            if self._policy.ignores_age(usages):
                usages = await self.check_disks()
        if count:
            self._log_shrunk()
        return count

    # ---- private --------------------------------------------------------------------------------------------------

    async def _watch_disks(self) -> None:
        await trio.sleep(_FIRST_DISK_CHECK_SECONDS)
        while True:
            await self.check_disks()
            await trio.sleep_until(next_tick(DISK_CHECK_SECONDS))

    def _ask(self) -> tuple[DiskUsage, ...]:
        log = least_full([disk_usage(self._disk, path) for path in self._log_paths])
        return log, disk_usage(self._disk, self._queue_path)

    async def _may_delete_first(self, usages: tuple[DiskUsage, ...]) -> bool:
        """Whether the first file may be deleted now."""
        commit_log = self._commit_log
        if commit_log.first_to_go() is None:
            return False
        if self._policy.ignores_age(usages):
            return True
        following = commit_log.files[1]
        try:
            file = following.hold()
        except ShortageError:
            return False  # no descriptor: the next run tries again
        try:
            # The first record of the next file is an upper bound for all records of the first file, and a close one
            # unless nothing was sent for long.
            timestamp_ms = await self._run_blocking(first_store_timestamp, file)
        finally:
            following.release()
        timestamp_ms = timestamp_ms or commit_log.wrote_timestamp_ms
        return timestamp_ms > 0 and self._policy.is_expired(timestamp_ms, self._clock.timestamp_ms())

    async def _delete_first(self) -> None:
        mapped_file = self._commit_log.take_first(self._close_files.close)
        if mapped_file.is_held:
            self._hanged_count += 1
            self._hanged.append(mapped_file)
        self._deleted_count += 1
        await self._run_blocking(self._disk.unlink, mapped_file.path)
        await call_until_done(self._run_blocking, self._disk.sync_directory, os.path.dirname(mapped_file.path))
        await self._close_files.wait_closed()
