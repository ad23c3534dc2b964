"""The background services of an open store, and what a clean shutdown makes durable after them.

Every service is started before the store is handed to its caller, so a message is accepted only when the services that
make it durable are running. A service that fails ends the nursery, and with it the store.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import cast

import trio

from rocketpy.errors import ShortageError
from rocketpy.runner import BeginBlocking, RunBlocking
from rocketpy.store.append.appender import MessageAppender
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.environment import StoreEnvironment
from rocketpy.store.ha.connection import HATimes
from rocketpy.store.ha.group_transfer import GroupTransferService
from rocketpy.store.ha.log_source import CommitLogSource
from rocketpy.store.ha.service import HAService
from rocketpy.store.index.catch_up import IndexCatchUp, ReputMessageService
from rocketpy.store.recovery.store_files import StoreFiles
from rocketpy.store.services.clean_commit_log import CleanCommitLogService
from rocketpy.store.services.clean_consume_queue import CleanConsumeQueueService
from rocketpy.store.services.close_files import CloseFilesService
from rocketpy.store.services.flush_consume_queue import FlushConsumeQueueService, QueueFlushSource
from rocketpy.store.services.flush_once import flush_once
from rocketpy.store.services.log_flush import LogFlush
from rocketpy.store.services.stored_waits import stored_waits
from rocketpy.store.services.warm_mapped_file import WarmMappedFileService
from rocketpy.store.status import RunningFlags

_LAST_STEPS_MAX = 2000
"""Limit of the index's catch-up during shutdown, about 2 s of work. The next start does the rest."""

_SHUTTING_DOWN = "the message store is shutting down"


class StoreServices:
    """The services of one store, composed."""

    def __init__(
        self,
        config: MessageStoreConfig,
        *,
        files: StoreFiles,
        appender: MessageAppender,
        environment: StoreEnvironment,
        begin_sync: BeginBlocking | None,
        flush_replies: Callable[[], None],
        report_full: Callable[[str | None], None],
    ) -> None:
        self._files = files
        self._appender = appender
        self._run_blocking = run_blocking = environment.run_blocking
        self._log_flush = LogFlush(
            config,
            files=files,
            appender=appender,
            run_blocking=run_blocking,
            begin_sync=begin_sync,
            flush_replies=flush_replies,
        )
        self.end_burst = self._log_flush.end_burst
        self.group_commit = self._log_flush.group_commit
        self.log_source = CommitLogSource(files.commit_log, run_blocking=run_blocking)
        self.ha_service = HAService(
            log=self.log_source, settings=partial(HATimes.of, config), acknowledged=self._acknowledged
        )
        appender.watch_log(self.ha_service.wake)
        self.group_transfer: GroupTransferService | None = None
        if config.is_sync_master:
            self.group_transfer = _group_transfer(config, self.ha_service, self.end_burst, flush_replies)
            self.end_burst = partial(_end_burst_and_decide, self.end_burst, self.group_transfer)
        self.wait_stored = stored_waits(self.group_commit, self.group_transfer)
        self._flush_queues = _flush_queues(config, files, appender, run_blocking, self._log_flush.flush)
        self._warm_files = (
            WarmMappedFileService(commit_log=files.commit_log, run_blocking=run_blocking)
            if config.warms_ahead
            else None
        )
        self._catch_up = _index_catch_up(files, appender, run_blocking)
        self._reput = None if self._catch_up is None else ReputMessageService(catch_up=self._catch_up)
        self._open_cleaning(config, environment, report_full)

    @property
    def index_behind(self) -> int:
        """The lag of the index: messages not indexed yet, plus bytes of the log still to be read for it."""
        index = self._files.index
        behind = 0 if index is None else index.behind
        return behind + (0 if self._catch_up is None else self._catch_up.behind_bytes)

    async def wait_indexed(self) -> None:
        """Return when the index has what was appended before, or while it has no space."""
        if self._catch_up is not None:
            await self._catch_up.wait_read(self._appender.wrote_offset)

    def why_not_indexed(self, physical_offset: int) -> str:
        """Return why the index may lack messages before an offset; empty if it has them all, or builds them at once."""
        index = self._files.index
        missing_bytes = 0 if self._catch_up is None else self._catch_up.missing_bytes(physical_offset)
        shortage = None if index is None else index.writable_or_why()
        behind = f"the index is {missing_bytes} bytes of the log behind" if missing_bytes else ""
        return "; ".join(filter(None, (behind, shortage)))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[trio.Nursery]:
        """Run all services for the block; yield their nursery. Appends are refused once the block has ended.

        When the block ends without error, everything is durable afterwards, and the abort file is gone.
        """
        async with trio.open_nursery() as nursery:
            await self._start(nursery)
            yield nursery
            self._appender.end_burst()
            self._appender.refuse_all(_SHUTTING_DOWN)
            nursery.cancel_scope.cancel()
        # The block has ended without error. A clean shutdown that is interrupted would need a recovery: shield it.
        with trio.CancelScope(shield=True):
            await self._finish()

    async def flush_log(self, physical_end: int) -> None:
        """Return when the log is durable up to an offset; the sync is done by the service that owns it."""
        await self._log_flush.flush(physical_end)

    # ---- private --------------------------------------------------------------------------------------------------

    def _open_cleaning(
        self, config: MessageStoreConfig, environment: StoreEnvironment, report_full: Callable[[str | None], None]
    ) -> None:
        """Compose the services that delete and close files, and refuse puts while the disk is too full."""
        self.running_flags = RunningFlags()
        self._close_files = CloseFilesService(run_blocking=environment.run_blocking)
        self.clean_queues = _clean_queues(config, self._files, environment, self._close_files)
        self.clean_commit_log = CleanCommitLogService(
            commit_log=self._files.commit_log,
            disk=environment.disk,
            clock=environment.clock,
            run_blocking=environment.run_blocking,
            policy=self._files.retention_policy,
            log_paths=[path for path in config.commit_log_paths if path not in config.read_only_commit_log_paths],
            queue_path=config.consume_queue_path,
            interval_ms=config.clean_resource_interval,
            pause_ms=config.delete_commit_log_files_interval,
            running_flags=self.running_flags,
            close_files=self._close_files,
            refuse_while=self._appender.refuse_while,
            report_full=report_full,
            log_shrunk=self.clean_queues.log_shrunk,
        )

    async def _start(self, nursery: trio.Nursery) -> None:
        """Start everything."""
        await nursery.start(self._files.allocate_files.run)
        if self._warm_files is not None:
            await nursery.start(self._warm_files.run)
        await nursery.start(self._flush_queues.run)
        await self._log_flush.start(nursery)
        if self.group_transfer is not None:
            await nursery.start(self.group_transfer.run)
        if self._files.index is not None:
            await nursery.start(self._files.index.run)
        if self._reput is not None:
            await nursery.start(self._reput.run)
        await nursery.start(self._close_files.run)
        await nursery.start(self.clean_queues.run)
        await nursery.start(self.clean_commit_log.run)

    async def _finish(self) -> None:
        """Shut down cleanly: make everything durable. The services have ended, and nothing is appended any more.

        The abort file stays if the index could not be completed (no space, or too much of the log to read again) or if
        queues could not be synced for lack of descriptors. The next start then recovers and completes them.
        """
        files = self._files
        is_indexed = await self._finish_index()
        flush_range = await flush_once(files.commit_log, self._run_blocking)
        if flush_range is not None:
            files.checkpoint.physic_msg_timestamp_ms = max(
                files.checkpoint.physic_msg_timestamp_ms, flush_range.store_timestamp_ms
            )
        is_flushed = True
        try:
            await self._flush_queues.flush_thoroughly()
        except ShortageError:
            is_flushed = False
        await self._run_blocking(files.allocate_files.discard)
        if is_indexed and is_flushed:
            await self._run_blocking(files.persist_orderly_end)
            await self._run_blocking(files.abort_file.remove)

    def _acknowledged(self) -> None:
        if self.group_transfer is not None:
            self.group_transfer.acknowledged()

    async def _finish_index(self) -> bool:
        """Complete the index and make it durable; False if it is still incomplete."""
        index, catch_up = self._files.index, self._catch_up
        if index is None or catch_up is None:
            return True
        for _ in range(_LAST_STEPS_MAX):
            if index.writable_or_why() is not None or not await catch_up.step():
                break
            await trio.lowlevel.checkpoint()
        await self._run_blocking(index.flush)
        return not self.index_behind and index.writable_or_why() is None


def _group_transfer(
    config: MessageStoreConfig, ha_service: HAService, end_burst: Callable[[], None], flush_replies: Callable[[], None]
) -> GroupTransferService:
    return GroupTransferService(
        slaves=ha_service.slaves,
        timeout_s=lambda: config.slave_timeout / 1000,
        fallbehind_max=lambda: config.ha_slave_fallbehind_max,
        end_burst=end_burst,
        flush_replies=flush_replies,
    )


def _end_burst_and_decide(end_burst: Callable[[], None], group_transfer: GroupTransferService) -> None:
    end_burst()
    group_transfer.burst_ended()


def _flush_queues(
    config: MessageStoreConfig,
    files: StoreFiles,
    appender: MessageAppender,
    run_blocking: RunBlocking,
    flush_log: Callable[[int], Awaitable[None]],
) -> FlushConsumeQueueService:
    return FlushConsumeQueueService(
        queues=cast("QueueFlushSource", files.queues),  # end_flush gets only ranges that its own begin_flush returned
        checkpoint=files.checkpoint,
        run_blocking=run_blocking,
        commit_log=files.commit_log,
        end_burst=appender.end_burst,
        flush_log=flush_log,
        interval_ms=config.flush_interval_consume_queue,
        thorough_interval_ms=config.flush_consume_queue_thorough_interval,
        least_pages=config.flush_consume_queue_least_pages,
    )


def _clean_queues(
    config: MessageStoreConfig, files: StoreFiles, environment: StoreEnvironment, close_files: CloseFilesService
) -> CleanConsumeQueueService:
    return CleanConsumeQueueService(
        commit_log=files.commit_log,
        queues=files.queues,
        index=files.index,
        disk=environment.disk,
        run_blocking=environment.run_blocking,
        close_files=close_files,
        pause_ms=config.delete_consume_queue_files_interval,
    )


def _index_catch_up(files: StoreFiles, appender: MessageAppender, run_blocking: RunBlocking) -> IndexCatchUp | None:
    """Return the reader that indexes the rest of the log after a crash, None for a store without an index."""
    if files.index is None:
        return None
    return IndexCatchUp(
        commit_log=files.commit_log,
        appender=appender,
        index=files.index,
        begin_offset=files.index_begin_offset,
        run_blocking=run_blocking,
    )
