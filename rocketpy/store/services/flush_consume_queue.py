"""Syncs the ConsumeQueues: those with some pages every second, all of them every minute, and then the checkpoint.

Units can be made again from the log, so nobody waits for this; it decides how much of the log recovery walks after a
crash. The time and the end of the log that go into the checkpoint are captured before the thorough flush begins: units
of everything stored up to then are written, and durable when the flush has returned. (RocketMQ takes the time of the
last unit written when the flush is over, which may not be part of it.)

Compatibility: ``DefaultMessageStore.FlushConsumeQueueService`` (4.9.8).

Compose: ``queues`` is the ConsumeQueueTable, ``commit_log`` the CommitLog, ``end_burst`` the appender's: when it has
returned, every record that is written has its units written too.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from contextlib import suppress
from typing import Protocol

import trio

from rocketpy.errors import ShortageError
from rocketpy.runner import RunBlocking
from rocketpy.store.recovery.checkpoint import DurableEnds, StoreCheckpoint
from rocketpy.store.services.flush_once import FlushSource, Syncable, flush_once


class QueueFlush(Syncable, Protocol):
    """What one flush of queues makes durable; one flush holds a bounded number of files."""

    is_last: bool
    """Whether nothing was left over when it was begun."""

    @property
    def queues(self) -> Sized:
        """The queues in it."""
        ...


class QueueFlushSource(FlushSource[QueueFlush], Protocol):
    """Queues with units that are written and not durable."""

    @property
    def unflushed(self) -> Sized:
        """The queues with such units."""
        ...

    @property
    def unit_count(self) -> int:
        """How many units all queues have together, durable or not."""
        ...


class WrittenLog(Protocol):
    """The log, as far as it is written: units of everything in it are written too."""

    wrote_offset: int
    wrote_timestamp_ms: int
    flushed_offset: int


class FlushConsumeQueueService:
    """Syncs queues by time."""

    def __init__(
        self,
        *,
        queues: QueueFlushSource,
        checkpoint: StoreCheckpoint,
        run_blocking: RunBlocking,
        commit_log: WrittenLog,
        end_burst: Callable[[], None],
        interval_ms: int,
        thorough_interval_ms: int,
        least_pages: int,
    ) -> None:
        self._queues = queues
        self._checkpoint = checkpoint
        self._run_blocking = run_blocking
        self._commit_log = commit_log
        self._end_burst = end_burst
        self._interval_s = interval_ms / 1000
        self._thorough_interval_s = thorough_interval_ms / 1000
        self._least_pages = least_pages
        self._flushed_units: tuple[int, int, int] | None = None
        """A place in the log before which all units are durable, their number, and how many had gone with deleted
        queues when they were counted; None if the checkpoint says so."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Flush until cancelled, or until a sync fails; a shortage of descriptors leaves it to the next flush."""
        task_status.started()
        thorough_at = trio.current_time()
        while True:
            await trio.sleep(self._interval_s)
            now = trio.current_time()
            with suppress(ShortageError):
                if now >= thorough_at + self._thorough_interval_s:
                    await self.flush_thoroughly()
                    thorough_at = now
                else:
                    await flush_once(self._queues, self._run_blocking, least_pages=self._least_pages)
                    if self._may_note_units():
                        await self._run_blocking(self._checkpoint.flush)

    async def flush_thoroughly(self) -> None:
        """Make every unit written so far durable, then the checkpoint: also the last act of an orderly end.

        ShortageError when that cannot be done now; then the checkpoint says no more than before.
        """
        self._end_burst()  # part of it may be in the log already, without units
        commit_log = self._commit_log
        timestamp_ms = commit_log.wrote_timestamp_ms
        removed_count = self._checkpoint.removed_unit_count
        written_units = commit_log.wrote_offset, self._queues.unit_count, removed_count
        left = len(self._queues.unflushed)
        # Queues that get units meanwhile line up behind; those that had some at the beginning are what counts.
        while left > 0 and (flush_range := await flush_once(self._queues, self._run_blocking)) is not None:
            left -= len(flush_range.queues)
        checkpoint = self._checkpoint
        checkpoint.logics_msg_timestamp_ms = max(checkpoint.logics_msg_timestamp_ms, timestamp_ms)
        self._flushed_units = written_units
        if not self._may_note_units():
            flushed_offset = commit_log.flushed_offset
            fewer = 0 if checkpoint.ends is None else checkpoint.ends.unit_count
            checkpoint.ends = DurableEnds(flushed_offset, min(flushed_offset, written_units[0]), fewer)
        await self._run_blocking(checkpoint.flush)

    def _may_note_units(self) -> bool:
        """Put what the last thorough flush has made durable into the checkpoint, when the log is durable as far.

        The number of units belongs to that very place. Recovery counts them again: one that is less has lost some.
        """
        flushed_offset = self._commit_log.flushed_offset
        if self._flushed_units is None or flushed_offset < self._flushed_units[0]:
            return False
        durable_offset, unit_count, removed_count = self._flushed_units
        unit_count -= self._checkpoint.removed_unit_count - removed_count  # queues were deleted since
        self._checkpoint.ends = DurableEnds(flushed_offset, durable_offset, max(0, unit_count))
        self._flushed_units = None
        return True
