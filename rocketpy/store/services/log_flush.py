"""Who makes the log of a store durable, put together as the settings ask.

Under SYNC_FLUSH group commit, which answers whoever waits. Otherwise flushing in real time; with a transient store pool
committing before it, which is what a burst ends in then.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast

import trio

from rocketpy.runner import RunBlocking
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
    """The services of one log's durability, and the end of a burst that suits them."""

    def __init__(
        self,
        config: MessageStoreConfig,
        *,
        files: StoreFiles,
        appender: MessageAppender,
        run_blocking: RunBlocking,
        run_sync: RunBlocking,
        flush_replies: Callable[[], None],
    ) -> None:
        self._commit_log = files.commit_log
        source = cast("FlushSource[LogFlushRange]", files.commit_log)  # it takes back only ranges that it gave
        self.end_burst: Callable[[], None] = appender.end_burst  # for the store's users
        self.group_commit: GroupCommitService | None = None
        self.flush_real_time: FlushRealTimeService | None = None
        self.commit_real_time: CommitRealTimeService | None = None
        if config.is_sync_flush:
            self.group_commit = GroupCommitService(
                commit_log=source,
                checkpoint=files.checkpoint,
                run_blocking=run_sync,
                sync_flush_timeout_ms=config.sync_flush_timeout,
                end_burst=appender.end_burst,
                flush_replies=flush_replies,
            )
            return
        self.flush_real_time = flush = _flush_real_time(config, files, source, run_blocking)
        if appender.pool is not None:
            self.commit_real_time = _commit_real_time(config, appender, appender.pool, flush)
            self.end_burst = self.commit_real_time.end_burst
        elif not config.flush_commit_log_timed:
            self.end_burst = partial(_end_burst_and_wake, appender, flush)

    async def start(self, nursery: trio.Nursery) -> None:
        """Start what there is."""
        for service in (self.group_commit, self.flush_real_time, self.commit_real_time):
            if service is not None:
                await nursery.start(service.run)

    async def flush(self, physical_end: int) -> None:
        """Return when what is written of the log up to a place is durable: with the service that syncs it anyway."""
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
