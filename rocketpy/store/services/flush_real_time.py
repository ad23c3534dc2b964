"""Periodic flush of the log under ASYNC_FLUSH: every half second, and thoroughly every ten; no acknowledgement waits.

With ``flushCommitLogTimed``, the default, the interval is fixed. Without it, every burst wakes the service, and it
syncs as soon as enough pages are dirty.

Compatibility: ``CommitLog.FlushRealTimeService`` (4.9.8). The service ends by cancellation; the store itself does the
final flush.

Compose: under ASYNC_FLUSH only; ``commit_log`` is the CommitLog.
"""

from __future__ import annotations

import trio

from rocketpy.runner import RunBlocking
from rocketpy.store.recovery.checkpoint import StoreCheckpoint
from rocketpy.store.services.flush_once import FlushSource, flush_once
from rocketpy.store.services.group_commit import LogFlushRange
from rocketpy.store.services.waiting import WakeUp
from rocketpy.ticks import next_tick


class FlushRealTimeService:
    """Syncs the log periodically."""

    def __init__(
        self,
        *,
        commit_log: FlushSource[LogFlushRange],
        checkpoint: StoreCheckpoint,
        run_blocking: RunBlocking,
        interval_ms: int,
        thorough_interval_ms: int,
        least_pages: int,
        is_timed: bool = True,
    ) -> None:
        self._commit_log = commit_log
        self._checkpoint = checkpoint
        self._run_blocking = run_blocking
        self._interval_s = interval_ms / 1000
        self._thorough_interval_s = thorough_interval_ms / 1000
        self._least_pages = least_pages
        self._is_timed = is_timed
        self._wake_up = WakeUp()
        # The await of the worker thread forces a lock: the kernel reports a write-back error to one sync only, so of
        # two concurrent syncs one would succeed although the disk has failed.
        self._syncing = trio.Lock()

    def wake(self) -> None:
        """Check whether enough pages are dirty for a sync; no effect with a fixed interval."""
        if not self._is_timed:
            self._wake_up.wake()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Flush until cancelled, or until a sync fails."""
        task_status.started()
        thorough_at = trio.current_time()
        while True:
            await self._wake_up.wait_until(next_tick(self._interval_s))
            now = trio.current_time()
            is_thorough = now >= thorough_at + self._thorough_interval_s
            if is_thorough:
                thorough_at = now
            await self.flush(least_pages=0 if is_thorough else self._least_pages)

    async def flush(self, *, least_pages: int = 0) -> None:
        """Sync what is written now, if it is at least ``least_pages``; then durable on return. StoreError is final."""
        async with self._syncing:
            flush_range = await flush_once(self._commit_log, self._run_blocking, least_pages=least_pages)
            if flush_range is not None:
                self._checkpoint.physic_msg_timestamp_ms = max(
                    self._checkpoint.physic_msg_timestamp_ms, flush_range.store_timestamp_ms
                )
