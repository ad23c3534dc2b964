"""Syncs the ConsumeQueues: queues with enough dirty pages every second, all of them before each checkpoint.

Units can be rebuilt from the log, so no request waits for this flush; it determines how much of the log recovery scans
after a crash. So while messages come, a thorough flush and a checkpoint follow every CHECKPOINT_SECONDS, or
CHECKPOINT_BYTES of the log: a restart scans about as much, however long the log is. A few messages wait for the
thorough interval of the settings. What a start has scanned is covered at once, while the store already serves: a store
that is killed before its first checkpoint would be scanned again, a store of a Java broker as a whole.

The timestamp and the end of the log for the checkpoint are captured before the thorough flush begins: the units of
everything stored until then are written, and durable when the flush has returned. (RocketMQ takes the timestamp of the
last unit written when the flush is over, which may not be part of it.)

Each queue file is synced alone. One ``syncfs`` would take a tenth of the time for thousands of queues, but it waits for
every dirty page of the file system: those of a log that is appended to at full speed, and of other programs.

Compatibility: ``DefaultMessageStore.FlushConsumeQueueService`` (4.9.8), which flushes thoroughly every minute only.

Compose: ``queues`` is the ConsumeQueueTable, ``commit_log`` the CommitLog, ``end_burst`` the appender's: on its return,
every written record has its units written too; ``flush_log`` makes the log durable up to an offset.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sized
from contextlib import suppress
from typing import Protocol

import trio

from rocketpy.errors import ShortageError
from rocketpy.runner import RunBlocking
from rocketpy.store.recovery.checkpoint import DurableEnds, StoreCheckpoint
from rocketpy.store.services.flush_once import FlushSource, Syncable, flush_once
from rocketpy.ticks import next_tick

CHECKPOINT_SECONDS = 5.0
"""The interval of checkpoints while messages come."""

CHECKPOINT_BYTES_MIN = 1 << 20
"""Bytes of the log that are worth a checkpoint of their own: a restart scans as much in a few milliseconds."""

CHECKPOINT_BYTES = 32 << 20
"""Bytes of the log after which a checkpoint does not wait for its interval. It takes a while to become durable, and the
log grows meanwhile: at 100 MiB/s about as much again."""

_PAUSE_FACTOR = 4
"""How many times as long as the last flush took the next one waits: a fifth of the time is spent in them."""

_QUICK_TICK_SECONDS = 0.25
"""How often the log is looked at while it grows so fast that CHECKPOINT_BYTES come within a few seconds."""


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
        flush_log: Callable[[int], Awaitable[None]],
        interval_ms: int,
        thorough_interval_ms: int,
        least_pages: int,
    ) -> None:
        self._queues = queues
        self._checkpoint = checkpoint
        self._run_blocking = run_blocking
        self._commit_log = commit_log
        self._end_burst = end_burst
        self._flush_log = flush_log
        self._interval_s = interval_ms / 1000
        self._thorough_interval_s = thorough_interval_ms / 1000
        self._least_pages = least_pages
        self._flushed_units: tuple[int, int, int] | None = None
        """A physical offset before which all units are durable, their number, and the number of units in queues
        deleted until they were counted; None once the checkpoint has them."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Flush until cancelled, or until a sync fails. After a shortage of descriptors the next flush covers it."""
        task_status.started()
        ends = self._checkpoint.ends
        covered_offset = 0 if ends is None else ends.durable_offset
        flushed_at = free_at = looked_at = trio.current_time()
        seen_offset = self._commit_log.wrote_offset
        is_uncovered = seen_offset - covered_offset >= CHECKPOINT_BYTES_MIN
        while True:
            is_quick = self._commit_log.wrote_offset - seen_offset > CHECKPOINT_BYTES // 4
            seen_offset = self._commit_log.wrote_offset
            tick_s = min(self._interval_s, _QUICK_TICK_SECONDS) if is_quick else self._interval_s
            if not is_uncovered:
                await trio.sleep_until(next_tick(tick_s))
            now = trio.current_time()
            new_bytes = self._commit_log.wrote_offset - covered_offset
            with suppress(ShortageError):
                is_thorough = is_uncovered or self._is_thorough(now - flushed_at, new_bytes, is_free=now >= free_at)
                is_uncovered = False  # in a shortage it waits for its interval as any other does
                if is_thorough:
                    offset = self._commit_log.wrote_offset
                    await self.flush_thoroughly(flush_log=self._flush_log)
                    flushed_at, covered_offset = now, offset
                    # With thousands of queues a flush is worth a pause: the processor time of a sync is 60 us.
                    ended_at = trio.current_time()
                    free_at = ended_at + min(_PAUSE_FACTOR * (ended_at - now), CHECKPOINT_SECONDS)
                elif now >= looked_at + self._interval_s or not is_quick:
                    looked_at = now
                    await flush_once(self._queues, self._run_blocking, least_pages=self._least_pages)
                    if self._may_note_units():
                        await self._run_blocking(self._checkpoint.flush)

    def _is_thorough(self, seconds: float, new_bytes: int, *, is_free: bool) -> bool:
        """Return whether the next flush is a thorough one, so long and so many bytes of the log after the last."""
        if seconds >= self._thorough_interval_s:
            return True
        return is_free and new_bytes >= (CHECKPOINT_BYTES_MIN if seconds >= CHECKPOINT_SECONDS else CHECKPOINT_BYTES)

    async def flush_thoroughly(self, *, flush_log: Callable[[int], Awaitable[None]] | None = None) -> None:
        """Make all units written so far durable, then the checkpoint. Also a step of a clean shutdown.

        With ``flush_log`` the log becomes durable as far as the units, so that the checkpoint covers both to the same
        offset; a clean shutdown has done that before. ShortageError if it is not possible now; then the checkpoint is
        unchanged.
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
        if flush_log is not None and commit_log.flushed_offset < written_units[0]:
            await flush_log(written_units[0])
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
