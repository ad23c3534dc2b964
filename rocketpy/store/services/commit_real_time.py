"""Commit of the transient store pool: writes buffered bursts to the files, where readers see them.

::

    put, put ... end_burst     into the pool; SEND_OK means "in the memory of the broker"
             CommitRealTimeService     log, then units, then notifications of arrival; wakes the flush
                       FlushRealTimeService     durable

A burst that fills enough pages wakes the service; otherwise it runs periodically, and at a longer interval also commits
fewer pages than configured. A crash of the process loses what is in the pool, and nothing else. The store itself does
the final commit.

Compatibility: ``CommitLog.CommitRealTimeService`` (4.9.8). There every put wakes the service, here only one that fills
enough pages.

Compose: with a pool only; ``appender`` is the MessageAppender, ``wake_flush`` wakes the FlushRealTimeService.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import attrs
import trio

from rocketpy.store.services.waiting import WakeUp
from rocketpy.ticks import next_tick


class PooledAppender(Protocol):
    """Appends into a pool."""

    wrote_offset: int
    """The end of the log, committed or not."""

    def keep_burst(self) -> None:
        """End a burst in the pool."""
        ...

    def end_burst(self) -> None:
        """Commit everything. StoreError is final."""
        ...


class Pool(Protocol):
    """The pool of uncommitted bytes."""

    committed_offset: int

    def pages_behind(self, wrote_offset: int, /) -> int:
        """Return how many pages end between the committed offset and the end of the log."""
        ...


@attrs.frozen
class CommitStatistics:
    """Counters since the start."""

    uncommitted_bytes: int
    commit_count: int


class CommitRealTimeService:
    """Commits by size and periodically."""

    def __init__(
        self,
        *,
        appender: PooledAppender,
        pool: Pool,
        wake_flush: Callable[[], None],
        interval_ms: int,
        thorough_interval_ms: int,
        least_pages: int,
    ) -> None:
        self._appender = appender
        self._pool = pool
        self._wake_flush = wake_flush
        self._interval_s = interval_ms / 1000
        self._thorough_interval_s = thorough_interval_ms / 1000
        self._least_pages = least_pages
        self._wake_up = WakeUp()
        self._commit_count = 0

    def end_burst(self) -> None:
        """End a burst of the store, leaving it in the pool. Replaces the appender's ``end_burst``."""
        self._appender.keep_burst()
        if self._pool.pages_behind(self._appender.wrote_offset) >= self._least_pages:
            self._wake_up.wake()

    def statistics(self) -> CommitStatistics:
        """Return the counters."""
        return CommitStatistics(self._appender.wrote_offset - self._pool.committed_offset, self._commit_count)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Commit until cancelled; StoreError ends the service."""
        task_status.started()
        thorough_at = trio.current_time()
        while True:
            await self._wake_up.wait_until(next_tick(self._interval_s))
            now = trio.current_time()
            least_pages = self._least_pages
            if now >= thorough_at + self._thorough_interval_s:
                thorough_at, least_pages = now, 0
            if self._commit(least_pages):
                thorough_at = now
                self._wake_flush()

    def _commit(self, least_pages: int) -> bool:
        """Commit if there is enough; return whether there was."""
        wrote_offset = self._appender.wrote_offset
        if wrote_offset <= self._pool.committed_offset or self._pool.pages_behind(wrote_offset) < least_pages:
            return False
        self._appender.end_burst()
        self._commit_count += 1
        return True
