"""Group commit for SYNC_FLUSH: a message is acknowledged once it is durable, and one sync serves all waiting requests.

A sync begins at the end of the burst that has written the message of the first request. Requests that arrive during a
sync are coalesced into the next one, which begins before those of the last one are answered: the disk does not wait for
replies. A request that waits longer than
``syncFlushTimeout`` is answered FLUSH_DISK_TIMEOUT by a timer; the sync itself is never abandoned, and its messages are
durable a little later. A failed sync is final: ``run`` ends with its StoreError, and no waiting request is answered,
because what is on disk is unknown (RocketMQ's flush thread logs the failure and keeps acknowledging).

Compatibility: ``CommitLog.GroupCommitService`` and ``FlushDiskWatcher`` (4.9.8). Replies are sent once per sync.

Compose: under SYNC_FLUSH only; ``commit_log`` is the CommitLog, ``end_burst`` the store's, which calls
:meth:`GroupCommitService.begin_wanted` when it has written; ``begin_blocking`` a worker thread of its own
(:func:`~rocketpy.store.services.worker_thread.open_worker_thread`), in simulation None: :meth:`run` itself calls
``run_blocking``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

import attrs
import trio
from outcome import Error, Outcome, Value, acapture, capture

from rocketpy.runner import BeginBlocking, RunBlocking
from rocketpy.store.recovery.checkpoint import StoreCheckpoint
from rocketpy.store.results import PutMessageStatus, StoredCallback
from rocketpy.store.services.flush_once import FlushSource, Syncable

_TIMER_MIN_SECONDS = 0.01


class LogFlushRange(Syncable, Protocol):
    """The range that one flush of the log makes durable: everything up to an offset, stored no later than a time."""

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
    """Number of requests that wait for the disk, and the duration of the current sync so far."""

    waiting_count: int = 0
    sync_seconds: float = 0.0


class GroupCommitService:
    """Syncs the log and calls waiting requests back."""

    def __init__(
        self,
        *,
        commit_log: FlushSource[LogFlushRange],
        checkpoint: StoreCheckpoint,
        run_blocking: RunBlocking,
        begin_blocking: BeginBlocking | None = None,
        sync_flush_timeout_ms: int,
        end_burst: Callable[[], None],
        flush_replies: Callable[[], None],
    ) -> None:
        self._commit_log = commit_log
        self._checkpoint = checkpoint
        self._run_blocking = run_blocking
        self._begin_blocking = begin_blocking or self._begin_in_run
        self._timeout_s = sync_flush_timeout_ms / 1000
        self._end_burst = end_burst
        self._flush_replies = flush_replies
        # In order of offsets, and so of deadlines, since all wait equally long. Bounded by the deferred replies that
        # connections may have.
        self._requests: deque[tuple[int, float, StoredCallback]] = deque()
        self._is_wanted = False  # a flush was requested since the last one began, with or without a callback
        self._idle = trio.lowlevel.ParkingLot()
        self._syncing: LogFlushRange | None = None
        self._sync_began: float | None = None  # start of the current sync
        self._begun: tuple[Callable[[], None], Callable[[Outcome[None]], None]] | None = None  # to be called by run
        self._is_running = False  # only then a sync is begun
        self._failure: BaseException | None = None  # what run has to raise
        self._flush_count = 0
        self._answered_count = 0
        self._timeout_count = 0

    def wait_durable(self, physical_end: int, callback: StoredCallback) -> None:
        """Call back with PUT_OK when the log is durable up to an offset, or with FLUSH_DISK_TIMEOUT.

        Never calls back directly. The offset is at most the end of the log, including bytes of the current burst.
        """
        self._requests.append((physical_end, trio.current_time() + self._timeout_s, callback))
        self.wake()

    def wake(self) -> None:
        """Request a flush without a callback: for a message whose producer does not wait for the disk."""
        self._is_wanted = True
        # Mostly the end of the current burst is sooner than the task. After a sync its end looks for what is wanted.
        if self._syncing is None and self._idle:
            self._idle.unpark()

    def statistics(self) -> GroupCommitStatistics:
        """Return the counters."""
        return GroupCommitStatistics(len(self._requests), self._flush_count, self._answered_count, self._timeout_count)

    def wait(self) -> FlushWait:
        """Return how many requests wait now, and for how long the current sync has been running."""
        began = self._sync_began
        return FlushWait(len(self._requests), 0.0 if began is None else trio.current_time() - began)

    def begin_wanted(self) -> None:
        """Begin a sync of what is written, if one was requested and none is under way."""
        if not self._is_wanted or self._syncing is not None or not self._is_running or self._failure is not None:
            return
        # Reset before the sync, not after it: a request that arrives during the sync may lie after the range being
        # synced, and needs another flush.
        self._is_wanted = False
        if self._timeout_s <= 0:
            # As in RocketMQ: a timeout that is not positive expires at once, although the message is flushed.
            self._expire()
        # The range is captured before the sync. Bytes appended during it may or may not reach the disk, so they belong
        # to the next one.
        flush_range = self._commit_log.begin_flush()
        if flush_range is None:
            # All written bytes were durable already, and the caller has written all bytes that are waited for.
            self._answer(PutMessageStatus.PUT_OK, self._take(len(self._requests)))
            return
        self._syncing = flush_range
        self._sync_began = trio.current_time()
        self._begin_blocking(flush_range.sync, self._note_synced)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Flush on request until cancelled or until a sync fails; after that no request is called back."""
        try:
            async with trio.open_nursery() as nursery:
                self._is_running = True
                nursery.start_soon(self._expire_by_time)
                task_status.started()
                while self._failure is None:
                    self._write_and_begin()
                    if self._begun is None:
                        await self._idle.park()
                    else:
                        (function, then), self._begun = self._begun, None
                        then(await acapture(self._run_blocking, function))
                raise self._failure
        finally:
            self._is_running = False
            await self._end_sync()
            # After a failed sync neither PUT_OK nor FLUSH_DISK_TIMEOUT would be true: the kernel may have dropped the
            # pages, and a later sync that succeeds would prove nothing. The broker stops; recovery finds out.
            self._requests.clear()

    async def _end_sync(self) -> None:
        """Wait for the sync that is under way, which nothing cancels; one that was not called yet has not begun."""
        if self._begun is not None:
            assert self._syncing is not None, "what was to be called"
            self._commit_log.end_flush(self._syncing, is_synced=False)
            self._syncing = self._begun = None
        with trio.CancelScope(shield=True):
            while self._syncing is not None:
                await self._idle.park()

    def _write_and_begin(self) -> None:
        # Requests may wait for bytes that are still collected in the burst; only written bytes can be synced.
        if self._is_wanted and self._syncing is None:
            self._end_burst()
            self.begin_wanted()

    def _begin_in_run(self, function: Callable[[], None], then: Callable[[Outcome[None]], None]) -> None:
        self._begun = function, then
        if self._idle:
            self._idle.unpark()

    def _note_synced(self, synced: Outcome[None]) -> None:
        """Take the outcome of a sync. It is in no task of this service, so ``run`` raises what goes wrong here."""
        done = capture(self._finish, synced)
        if isinstance(done, Error):
            self._failure = done.error
            self._requests.clear()
        if self._failure is not None or not self._is_running:
            self._idle.unpark_all()

    def _finish(self, synced: Outcome[None]) -> None:
        flush_range, self._syncing, self._sync_began = self._syncing, None, None
        assert flush_range is not None, "begun"
        self._commit_log.end_flush(flush_range, is_synced=isinstance(synced, Value))
        synced.unwrap()  # a StoreError ends the service
        self._flush_count += 1
        # Only after the sync: recovery takes everything up to this timestamp for durable.
        checkpoint = self._checkpoint
        checkpoint.physic_msg_timestamp_ms = max(checkpoint.physic_msg_timestamp_ms, flush_range.store_timestamp_ms)
        # Requests are in order of offsets, so the first one after the range ends the search.
        count = 0
        for physical_end, _, _ in self._requests:
            if physical_end > flush_range.end_offset:
                break
            count += 1
        durable = self._take(count)
        self._write_and_begin()
        self._answer(PutMessageStatus.PUT_OK, durable)

    def _take(self, count: int) -> list[StoredCallback]:
        popleft = self._requests.popleft
        return [popleft()[2] for _ in range(count)]

    def _answer(self, status: PutMessageStatus, callbacks: list[StoredCallback]) -> None:
        if not callbacks:
            return
        self._answered_count += len(callbacks)
        for callback in callbacks:
            callback(status)
        # Once for all callbacks: each of them only queued its reply, so a sync costs one write per connection.
        self._flush_replies()

    async def _expire_by_time(self) -> None:
        """Sleep until the oldest request is due. Later requests are due later, so they need not wake this task."""
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
        self._answer(PutMessageStatus.FLUSH_DISK_TIMEOUT, self._take(count))
