"""Wiring of the services that make the log durable, by the settings.

SYNC_FLUSH: GroupCommitService, which answers waiting requests. ASYNC_FLUSH: FlushRealTimeService; with a transient
store pool also CommitRealTimeService before it, and then a burst ends in the pool.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast

import trio

from rocketpy.runner import BeginBlocking, RunBlocking
from rocketpy.store.append.appender import MessageAppender
from rocketpy.store.append.transient_store_pool import TransientStorePool
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.recovery.store_files import StoreFiles
from rocketpy.store.results import PutMessageStatus
from rocketpy.store.services.commit_real_time import CommitRealTimeService
from rocketpy.store.services.flush_once import FlushSource
from rocketpy.store.services.flush_real_time import FlushRealTimeService
from rocketpy.store.services.group_commit import GroupCommitService, LogFlushRange


class LogFlush:
    """The services that make one log durable, and the matching ``end_burst``."""

    def __init__(
        self,
        config: MessageStoreConfig,
        *,
        files: StoreFiles,
        appender: MessageAppender,
        run_blocking: RunBlocking,
        begin_sync: BeginBlocking | None = None,
        flush_replies: Callable[[], None],
    ) -> None:
        """``begin_sync`` begins the syncs of SYNC_FLUSH; without it they are calls of ``run_blocking``."""
        self._commit_log = files.commit_log
        # end_flush gets only ranges that begin_flush of the same log has returned.
        source = cast("FlushSource[LogFlushRange]", files.commit_log)
        self.end_burst: Callable[[], None] = appender.end_burst  # the one that the store exposes
        self.group_commit: GroupCommitService | None = None
        self.flush_real_time: FlushRealTimeService | None = None
        self.commit_real_time: CommitRealTimeService | None = None
        if config.is_sync_flush:
            self.group_commit = GroupCommitService(
                commit_log=source,
                checkpoint=files.checkpoint,
                run_blocking=run_blocking,
                begin_blocking=begin_sync,
                sync_flush_timeout_ms=config.sync_flush_timeout,
                end_burst=appender.end_burst,
                flush_replies=flush_replies,
            )
            appender.watch_log(self.group_commit.begin_wanted)
            return
        self.flush_real_time = flush = _flush_real_time(config, files, source, run_blocking)
        if appender.pool is not None:
            self.commit_real_time = _commit_real_time(config, appender, appender.pool, flush)
            self.end_burst = self.commit_real_time.end_burst
        elif not config.flush_commit_log_timed:
            self.end_burst = partial(_end_burst_and_wake, appender, flush)

    async def start(self, nursery: trio.Nursery) -> None:
        """Start the configured services."""
        for service in (self.group_commit, self.flush_real_time, self.commit_real_time):
            if service is not None:
                await nursery.start(service.run)

    async def flush(self, physical_end: int) -> None:
        """Return when the log is durable up to an offset.

        The service that owns the log's syncs does it, so that no two of them run at once.
        """
        if self.group_commit is None:
            assert self.flush_real_time is not None, "one of the two services"
            await self.flush_real_time.flush()
            return
        while self._commit_log.flushed_offset < physical_end:
            flushed = trio.Event()
            self.group_commit.wait_durable(physical_end, partial(_flushed, flushed))
            await flushed.wait()


def _flush_real_time(
    config: MessageStoreConfig, files: StoreFiles, source: FlushSource[LogFlushRange], run_blocking: RunBlocking
) -> FlushRealTimeService:
    return FlushRealTimeService(
        commit_log=source,
        checkpoint=files.checkpoint,
        run_blocking=run_blocking,
        interval_ms=config.flush_interval_commit_log,
        thorough_interval_ms=config.flush_commit_log_thorough_interval,
        least_pages=config.flush_commit_log_least_pages,
        is_timed=config.flush_commit_log_timed,
    )


def _commit_real_time(
    config: MessageStoreConfig, appender: MessageAppender, pool: TransientStorePool, flush: FlushRealTimeService
) -> CommitRealTimeService:
    return CommitRealTimeService(
        appender=appender,
        pool=pool,
        wake_flush=flush.wake,
        interval_ms=config.commit_interval_commit_log,
        thorough_interval_ms=config.commit_commit_log_thorough_interval,
        least_pages=config.commit_commit_log_least_pages,
    )


def _flushed(flushed: trio.Event, status: PutMessageStatus) -> None:
    flushed.set()


def _end_burst_and_wake(appender: MessageAppender, flush: FlushRealTimeService) -> None:
    appender.end_burst()
    flush.wake()
