"""Syncs the ConsumeQueues: queues with enough dirty pages every second, all of them every minute, then the checkpoint.

Units can be rebuilt from the log, so no request waits for this flush; it determines how much of the log recovery scans
after a crash. The timestamp and the end of the log for the checkpoint are captured before the thorough flush begins:
the units of everything stored until then are written, and durable when the flush has returned. (RocketMQ takes the
timestamp of the last unit written when the flush is over, which may not be part of it.)

Compatibility: ``DefaultMessageStore.FlushConsumeQueueService`` (4.9.8).

Compose: ``queues`` is the ConsumeQueueTable, ``commit_log`` the CommitLog, ``end_burst`` the appender's: on its return,
every written record has its units written too.
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
from rocketpy.ticks import next_tick


class QueueFlush(Syncable, Protocol):
    """The range that one flush of queues makes durable; a flush holds a bounded number of files."""

    is_last: bool
    """Whether it covers all queues that were dirty when it began."""

    @property
    def queues(self) -> Sized:
        """The queues that it covers."""
        ...


class QueueFlushSource(FlushSource[QueueFlush], Protocol):
    """Queues with units that are written but not durable."""

    @property
    def unflushed(self) -> Sized:
        """The dirty queues."""
        ...

    @property
    def unit_count(self) -> int:
        """The total number of units in all queues, durable or not."""
        ...


class WrittenLog(Protocol):
    """The written part of the log, all of whose units are written too."""

    wrote_offset: int
    wrote_timestamp_ms: int
    flushed_offset: int


class FlushConsumeQueueService:
    """Syncs queues periodically."""

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
        """A physical offset before which all units are durable, their number, and the number of units in queues
        deleted until they were counted; None once the checkpoint has them."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Flush until cancelled, or until a sync fails. After a shortage of descriptors the next flush covers it."""
        task_status.started()
        thorough_at = trio.current_time()
        while True:
            await trio.sleep_until(next_tick(self._interval_s))
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
        """Make all units written so far durable, then the checkpoint. Also a step of a clean shutdown.

        ShortageError if that is not possible now; then the checkpoint is unchanged.
        """
        self._end_burst()  # a part of the burst may be in the log already, without its units
        commit_log = self._commit_log
        timestamp_ms = commit_log.wrote_timestamp_ms
        removed_count = self._checkpoint.removed_unit_count
        written_units = commit_log.wrote_offset, self._queues.unit_count, removed_count
        left = len(self._queues.unflushed)
        # Queues that become dirty meanwhile queue up after those that were dirty at the beginning, which are the ones
        # that the captured offset depends on.
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
        """Record the last thorough flush in the checkpoint, if the log is durable up to the same offset.

        The number of units belongs to exactly that offset. Recovery counts again: a smaller number means lost units.
        """
        flushed_offset = self._commit_log.flushed_offset
        if self._flushed_units is None or flushed_offset < self._flushed_units[0]:
            return False
        durable_offset, unit_count, removed_count = self._flushed_units
        unit_count -= self._checkpoint.removed_unit_count - removed_count  # queues were deleted since
        self._checkpoint.ends = DurableEnds(flushed_offset, durable_offset, max(0, unit_count))
        self._flushed_units = None
        return True
