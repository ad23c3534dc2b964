"""The background of an open store: which services run, and what an orderly end makes durable after them.

Every service is started before the store is handed out, so a message is accepted only when those who make it durable
are there. One that fails ends the nursery, and with it the store.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast

import trio

from rocketpy.clock import Clock
from rocketpy.runner import RunBlocking
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.disk import Disk
from rocketpy.store.index_catch_up import IndexCatchUp
from rocketpy.store.message_appender import MessageAppender
from rocketpy.store.results import PutMessageStatus
from rocketpy.store.running_flags import RunningFlags
from rocketpy.store.services.clean_commit_log import CleanCommitLogService
from rocketpy.store.services.clean_consume_queue import CleanConsumeQueueService
from rocketpy.store.services.close_files import CloseFilesService
from rocketpy.store.services.commit_real_time import CommitRealTimeService
from rocketpy.store.services.flush_consume_queue import FlushConsumeQueueService, QueueFlushSource
from rocketpy.store.services.flush_once import FlushSource, flush_once
from rocketpy.store.services.flush_real_time import FlushRealTimeService
from rocketpy.store.services.group_commit import GroupCommitService, LogFlushRange
from rocketpy.store.services.reput_message import ReputMessageService
from rocketpy.store.store_files import StoreFiles

_LAST_STEPS_MAX = 2000
"""So many steps of catching up, about 2 s, are done at the end rather than left to the next start."""


class StoreServices:
    """The services of one store, composed."""

    def __init__(
        self,
        config: MessageStoreConfig,
        *,
        files: StoreFiles,
        appender: MessageAppender,
        disk: Disk,
        clock: Clock,
        run_blocking: RunBlocking,
        run_sync: RunBlocking,
        flush_replies: Callable[[], None],
        report_full: Callable[[str | None], None],
    ) -> None:
        self._files = files
        self._run_blocking = run_blocking
        commit_log = files.commit_log
        # Each takes back only the ranges that it gave; the services' types do not say so.
        log_source = cast("FlushSource[LogFlushRange]", commit_log)
        queue_source = cast("QueueFlushSource", files.queues)
        self._flush_queues = FlushConsumeQueueService(
            queues=queue_source,
            checkpoint=files.checkpoint,
            run_blocking=run_blocking,
            commit_log=commit_log,
            end_burst=appender.end_burst,
            interval_ms=config.flush_interval_consume_queue,
            thorough_interval_ms=config.flush_consume_queue_thorough_interval,
            least_pages=config.flush_consume_queue_least_pages,
        )
        self.end_burst: Callable[[], None] = appender.end_burst  # for the store's users
        self._flush_log: FlushRealTimeService | None = None
        self._commit: CommitRealTimeService | None = None
        self.group_commit: GroupCommitService | None = None
        if config.is_sync_flush:
            self.group_commit = GroupCommitService(
                commit_log=log_source,
                checkpoint=files.checkpoint,
                run_blocking=run_sync,
                sync_flush_timeout_ms=config.sync_flush_timeout,
                end_burst=appender.end_burst,
                flush_replies=flush_replies,
            )
        else:
            self._flush_log = flush_log = FlushRealTimeService(
                commit_log=log_source,
                checkpoint=files.checkpoint,
                run_blocking=run_blocking,
                interval_ms=config.flush_interval_commit_log,
                thorough_interval_ms=config.flush_commit_log_thorough_interval,
                least_pages=config.flush_commit_log_least_pages,
                is_timed=config.flush_commit_log_timed,
            )
            if appender.pool is not None:
                self._commit = CommitRealTimeService(
                    appender=appender,
                    pool=appender.pool,
                    wake_flush=flush_log.wake,
                    interval_ms=config.commit_interval_commit_log,
                    thorough_interval_ms=config.commit_commit_log_thorough_interval,
                    least_pages=config.commit_commit_log_least_pages,
                )
                self.end_burst = self._commit.end_burst
            elif not config.flush_commit_log_timed:
                self.end_burst = partial(_end_burst_and_wake, appender, flush_log)
        self._catch_up: IndexCatchUp | None = None
        self._reput: ReputMessageService | None = None
        if files.index is not None:
            self._catch_up = IndexCatchUp(
                commit_log=commit_log,
                appender=appender,
                index=files.index,
                begin_offset=files.index_begin_offset,
                run_blocking=run_blocking,
            )
            self._reput = ReputMessageService(catch_up=self._catch_up)
        self.running_flags = RunningFlags()
        self._close_files = CloseFilesService(run_blocking=run_blocking)
        self.clean_queues = CleanConsumeQueueService(
            commit_log=commit_log,
            queues=files.queues,
            index=files.index,
            disk=disk,
            run_blocking=run_blocking,
            close_files=self._close_files,
            pause_ms=config.delete_consume_queue_files_interval,
        )
        self.clean_commit_log = CleanCommitLogService(
            commit_log=commit_log,
            disk=disk,
            clock=clock,
            run_blocking=run_blocking,
            policy=files.retention_policy,
            log_paths=[path for path in config.commit_log_paths if path not in config.read_only_commit_log_paths],
            queue_path=config.consume_queue_path,
            interval_ms=config.clean_resource_interval,
            pause_ms=config.delete_commit_log_files_interval,
            running_flags=self.running_flags,
            close_files=self._close_files,
            refuse_while=appender.refuse_while,
            report_full=report_full,
            log_shrunk=self.clean_queues.log_shrunk,
        )

    @property
    def index_behind(self) -> int:
        """Messages that the index has not built, and bytes that are still to be read for it."""
        index = self._files.index
        behind = 0 if index is None else index.behind
        return behind + (0 if self._catch_up is None else self._catch_up.behind_bytes)

    async def start(self, nursery: trio.Nursery) -> None:
        """Start everything."""
        await nursery.start(self._files.allocate_files.run)
        await nursery.start(self._flush_queues.run)
        if self.group_commit is not None:
            await nursery.start(self.group_commit.run)
        if self._flush_log is not None:
            await nursery.start(self._flush_log.run)
        if self._commit is not None:
            await nursery.start(self._commit.run)
        if self._files.index is not None:
            await nursery.start(self._files.index.run)
        if self._reput is not None:
            await nursery.start(self._reput.run)
        await nursery.start(self._close_files.run)
        await nursery.start(self.clean_queues.run)
        await nursery.start(self.clean_commit_log.run)

    async def flush_log(self, physical_end: int) -> None:
        """Return when what is written of the log up to a place is durable: with the service that syncs it anyway."""
        if self.group_commit is None:
            assert self._flush_log is not None, "one of the two services"
            await self._flush_log.flush()
            return
        while self._files.commit_log.flushed_offset < physical_end:
            flushed = trio.Event()
            self.group_commit.wait_durable(physical_end, partial(_flushed, flushed))
            await flushed.wait()

    async def finish(self) -> None:
        """Make everything durable and end in order; the services have ended, nothing is appended any more.

        An index that could not be completed (no space, or too much of the log to read again) leaves the abort file: the
        next start goes on with it.
        """
        files = self._files
        is_indexed = await self._finish_index()
        flush_range = await flush_once(files.commit_log, self._run_blocking)
        if flush_range is not None:
            files.checkpoint.physic_msg_timestamp_ms = max(
                files.checkpoint.physic_msg_timestamp_ms, flush_range.store_timestamp_ms
            )
        await self._flush_queues.flush_thoroughly()
        await self._run_blocking(files.allocate_files.discard)
        if is_indexed:
            await self._run_blocking(files.persist_orderly_end)
            await self._run_blocking(files.abort_file.remove)

    async def _finish_index(self) -> bool:
        """Complete the index and make it durable; False if that is not to be had now."""
        index, catch_up = self._files.index, self._catch_up
        if index is None or catch_up is None:
            return True
        for _ in range(_LAST_STEPS_MAX):
            if index.writable_or_why() is not None or not await catch_up.step():
                break
            await trio.lowlevel.checkpoint()
        await self._run_blocking(index.flush)
        return not self.index_behind


def _flushed(flushed: trio.Event, status: PutMessageStatus) -> None:
    flushed.set()


def _end_burst_and_wake(appender: MessageAppender, flush_log: FlushRealTimeService) -> None:
    appender.end_burst()
    flush_log.wake()
