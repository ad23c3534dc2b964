"""SYNC_FLUSH: an acknowledgement leaves when the disk has its message; one sync serves everybody who waits.

While a sync runs the next requests collect, and the next sync serves all of them. A request that waits longer than
``syncFlushTimeout`` is told FLUSH_DISK_TIMEOUT by a timer; the sync itself is never given up, and what it was for is
durable a little later. A failed sync is final: ``run`` ends with its StoreError and no waiting request is ever called
back, since nobody knows what the disk has (RocketMQ's flush thread logs it and goes on acknowledging).

Compatibility: ``CommitLog.GroupCommitService`` and ``FlushDiskWatcher`` (4.9.8). Replies leave once per sync.

Compose: under SYNC_FLUSH only; ``commit_log`` is the CommitLog, ``end_burst`` the store's, ``run_blocking`` a worker
thread of its own (:func:`~rocketpy.store.services.worker_thread.open_worker_thread`), in simulation the inline runner.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

import attrs
import trio

from rocketpy.runner import RunBlocking
from rocketpy.store.recovery.checkpoint import StoreCheckpoint
from rocketpy.store.results import PutMessageStatus
from rocketpy.store.services.flush_once import FlushSource, Syncable, flush_once

_TIMER_MIN_SECONDS = 0.01

DurableCallback = Callable[[PutMessageStatus], None]


class LogFlushRange(Syncable, Protocol):
    """What one flush of the log makes durable: everything up to an offset, stored no later than a time."""

    end_offset: int
    store_timestamp_ms: int


@attrs.frozen
class GroupCommitStatistics:
    """Counters since the start."""

    waiting: int
    flush_count: int
    answered_count: int
    timeout_count: int


@attrs.frozen
class FlushWait:
    """Requests that wait for the disk, and the seconds for which it has not answered."""

    waiting_count: int = 0
    sync_seconds: float = 0.0


class GroupCommitService:
    """Calls back whoever waits for the disk."""

    def __init__(
        self,
        *,
        commit_log: FlushSource[LogFlushRange],
        checkpoint: StoreCheckpoint,
        run_blocking: RunBlocking,
        sync_flush_timeout_ms: int,
        end_burst: Callable[[], None],
        flush_replies: Callable[[], None],
    ) -> None:
        self._commit_log = commit_log
        self._checkpoint = checkpoint
        self._run_blocking = run_blocking
        self._timeout_s = sync_flush_timeout_ms / 1000
        self._end_burst = end_burst
        self._flush_replies = flush_replies
        # In order of offsets, and so of deadlines. As many as connections may have deferred replies.
        self._requests: deque[tuple[int, float, DurableCallback]] = deque()
        self._is_wanted = False  # someone wants a flush, with or without waiting for it
        self._idle = trio.lowlevel.ParkingLot()
        self._sync_began: float | None = None  # of the sync under way
        self._flush_count = 0
        self._answered_count = 0
        self._timeout_count = 0

    def wait_durable(self, physical_end: int, callback: DurableCallback) -> None:
        """Call back with PUT_OK when the log is durable up to a place, or FLUSH_DISK_TIMEOUT; never from in here.

        The place is not behind the end of the log, bytes that the burst has collected included.
        """
        self._requests.append((physical_end, trio.current_time() + self._timeout_s, callback))
        self.wake()

    def wake(self) -> None:
        """Flush soon although nobody waits: for a message whose sender did not want to."""
        self._is_wanted = True
        if self._idle:
            self._idle.unpark()

    def statistics(self) -> GroupCommitStatistics:
        """Return the counters."""
        return GroupCommitStatistics(len(self._requests), self._flush_count, self._answered_count, self._timeout_count)

    def wait(self) -> FlushWait:
        """Return who waits now, and for how long the sync under way has kept them waiting."""
        began = self._sync_began
        return FlushWait(len(self._requests), 0.0 if began is None else trio.current_time() - began)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled, or until a sync fails; then nobody is called back any more."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._expire_by_time)
                task_status.started()
                while True:
                    while not self._is_wanted:
                        await self._idle.park()
                    await self._flush()
        finally:
            self._requests.clear()

    async def _flush(self) -> None:
        self._is_wanted = False
        if self._timeout_s <= 0:
            self._expire()
        self._end_burst()
        self._sync_began = trio.current_time()
        flush_range = await flush_once(self._commit_log, self._run_blocking)
        self._sync_began = None
        if flush_range is None:
            # Everything written was durable already, and everything asked for is written.
            self._answer(PutMessageStatus.PUT_OK, len(self._requests))
            return
        self._flush_count += 1
        checkpoint = self._checkpoint
        checkpoint.physic_msg_timestamp_ms = max(checkpoint.physic_msg_timestamp_ms, flush_range.store_timestamp_ms)
        count = 0
        for physical_end, _, _ in self._requests:
            if physical_end > flush_range.end_offset:
                break
            count += 1
        self._answer(PutMessageStatus.PUT_OK, count)

    def _answer(self, status: PutMessageStatus, count: int) -> None:
        if not count:
            return
        popleft = self._requests.popleft
        for _ in range(count):
            popleft()[2](status)
        self._answered_count += count
        self._flush_replies()

    async def _expire_by_time(self) -> None:
        """Wake when the oldest request is due. Nothing submitted meanwhile can be due earlier, so nobody wakes this."""
        wait_s = max(self._timeout_s, _TIMER_MIN_SECONDS)
        while True:
            deadline = self._requests[0][1] if self._requests else trio.current_time() + wait_s
            await trio.sleep_until(max(deadline, trio.current_time() + _TIMER_MIN_SECONDS))
            self._expire()

    def _expire(self) -> None:
        now = trio.current_time()
        count = 0
        for _, deadline, _ in self._requests:
            if deadline > now:
                break
            count += 1
        self._timeout_count += count
        self._answer(PutMessageStatus.FLUSH_DISK_TIMEOUT, count)
