"""Syncs the ConsumeQueues: those with some pages every second, all of them every minute, and then the checkpoint.

Units can be made again from the log, so nobody waits for this; it decides how much of the log recovery walks after a
crash. The time that goes into the checkpoint is captured before the thorough flush begins: units of everything stored
up to then are written, and durable when the flush has returned. (RocketMQ takes the time of the last unit written when
the flush is over, which may not be part of it.)

Compatibility: ``DefaultMessageStore.FlushConsumeQueueService`` (4.9.8).

Compose: ``queues`` is the ConsumeQueueTable, ``written_timestamp_ms`` returns the storeTimestamp of the last message
whose unit is written (after ``end_burst``, ``CommitLog.wrote_timestamp_ms``).
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Protocol

import trio

from rocketpy.runner import RunBlocking
from rocketpy.store.checkpoint import StoreCheckpoint
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


class FlushConsumeQueueService:
    """Syncs queues by time."""

    def __init__(
        self,
        *,
        queues: QueueFlushSource,
        checkpoint: StoreCheckpoint,
        run_blocking: RunBlocking,
        written_timestamp_ms: Callable[[], int],
        interval_ms: int,
        thorough_interval_ms: int,
        least_pages: int,
    ) -> None:
        self._queues = queues
        self._checkpoint = checkpoint
        self._run_blocking = run_blocking
        self._written_timestamp_ms = written_timestamp_ms
        self._interval_s = interval_ms / 1000
        self._thorough_interval_s = thorough_interval_ms / 1000
        self._least_pages = least_pages

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Flush until cancelled, or until a sync fails."""
        task_status.started()
        thorough_at = trio.current_time()
        while True:
            await trio.sleep(self._interval_s)
            now = trio.current_time()
            if now >= thorough_at + self._thorough_interval_s:
                thorough_at = now
                await self.flush_thoroughly()
            else:
                await flush_once(self._queues, self._run_blocking, least_pages=self._least_pages)

    async def flush_thoroughly(self) -> None:
        """Make every unit written so far durable, then the checkpoint: also the last act of an orderly end."""
        timestamp_ms = self._written_timestamp_ms()
        left = len(self._queues.unflushed)
        # Queues that get units meanwhile line up behind; those that had some at the beginning are what counts.
        while left > 0 and (flush_range := await flush_once(self._queues, self._run_blocking)) is not None:
            left -= len(flush_range.queues)
        checkpoint = self._checkpoint
        checkpoint.logics_msg_timestamp_ms = max(checkpoint.logics_msg_timestamp_ms, timestamp_ms)
        await self._run_blocking(checkpoint.flush)
