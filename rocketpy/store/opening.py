"""Composition root of a store: opens it as nested scopes, and shuts it down cleanly.

::

    open_message_store()
      lock            excludes a second process
        cut           of a slave's log, if one was ordered
        recovery      makes log, queues and index consistent; bytes after the end are cleared, durably
          abort file  from here on, any exit other than a clean shutdown leaves this file
            services  flush, group commit, allocation, index: one nursery
              the store, until the block ends
            final flush, checkpoint, abort file removed

A failure anywhere inside leaves the abort file, so the next start recovers as after a crash.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager, nullcontext
from typing import TypeAlias

import trio

from rocketpy.clock import Clock
from rocketpy.protocol.java_hash import tags_code as hash_of_tags
from rocketpy.protocol.properties import PROPERTY_TAGS
from rocketpy.runner import BeginBlocking, RunBlocking
from rocketpy.store import layout
from rocketpy.store.append.appender import MessageAppender
from rocketpy.store.append.options import AppendOptions
from rocketpy.store.append.transient_store_pool import TransientStorePool
from rocketpy.store.append.unit_extensions import UnitExtensions
from rocketpy.store.background import StoreServices
from rocketpy.store.config import BrokerRole, MessageStoreConfig
from rocketpy.store.disk.descriptor_budget import descriptor_budget
from rocketpy.store.disk.interface import Disk
from rocketpy.store.environment import StoreEnvironment
from rocketpy.store.ha.following_log import FollowingCommitLog
from rocketpy.store.ha.tail_cut import TailCut
from rocketpy.store.message_store import MessageStore
from rocketpy.store.queue.extension import BitMapOf
from rocketpy.store.queue.multi_dispatch import LmqLimit, MultiDispatch
from rocketpy.store.queue.record_units import RecordUnits, TagsCodeOf
from rocketpy.store.recovery.store_files import StoreFiles
from rocketpy.store.status import NO_REPORTS, StoreReports

OpenRunner: TypeAlias = Callable[[str], AbstractAsyncContextManager[BeginBlocking]]
"""Opens a runner of blocking calls with a dedicated thread of the given name."""

_SLAVE = "the broker is a slave: only its master appends"
PROGRESS_SECONDS = 2.0
_YIELD_SECONDS = 0.005


@asynccontextmanager
async def open_message_store(
    config: MessageStoreConfig,
    *,
    disk: Disk,
    clock: Clock,
    run_blocking: RunBlocking,
    store_host: bytes,
    tags_code: TagsCodeOf | None = None,
    bit_map_of: BitMapOf | None = None,
    may_be_named: Callable[[str], bool] | None = None,
    message_arriving: Callable[[str, int, int], None] | None = None,
    flush_replies: Callable[[], None] | None = None,
    reports: StoreReports = NO_REPORTS,
    open_runner: OpenRunner | None = None,
    memory_bytes: int | None = None,
    process_descriptors_max: int | None = None,
) -> AsyncIterator[MessageStore]:
    """Open a store: recovered and durable when the block begins, shut down cleanly when it ends without error.

    ``tags_code`` gives a unit's tags code (for delay topics the time of delivery), the hash of the tags if left out;
    ``bit_map_of`` the filters that a message passes, for stores with ConsumeQueueExt files; ``may_be_named`` says which
    topics a message may name with INNER_MULTI_DISPATCH; ``open_runner`` opens the worker thread of SYNC_FLUSH, which
    otherwise uses ``run_blocking``. Of the descriptors that the process may have the store takes what
    :func:`~rocketpy.store.disk.descriptor_budget.descriptor_budget` says. StartError when another process has the
    store.
    """
    environment = StoreEnvironment(disk=disk, clock=clock, run_blocking=run_blocking)
    tags_code = tags_code or _hash_of_tags
    units = RecordUnits(tags_code=tags_code, bit_map_of=bit_map_of)
    async with _opened_files(config, environment, process_descriptors_max, reports) as files:
        await _recover(files, files.recover(tags_code, bit_map_of), reports)
        appender = make_appender(
            config,
            files=files,
            clock=clock,
            store_host=store_host,
            message_arriving=message_arriving,
            bit_map_of=bit_map_of,
            may_be_named=may_be_named,
        )
        async with _sync_runner(config, open_runner) as begin_sync:
            services = StoreServices(
                config,
                files=files,
                appender=appender,
                environment=environment,
                begin_sync=begin_sync,
                flush_replies=flush_replies or _nothing,
                report_full=reports.full,
            )
            store = MessageStore(
                config=config,
                files=files,
                services=services,
                appender=appender,
                environment=environment,
                memory_bytes=_physical_memory_bytes() if memory_bytes is None else memory_bytes,
                following_log=_following_log(config, files=files, services=services, appender=appender, units=units),
            )
            async with services.running() as nursery:
                await nursery.start(store.figures.run)
                yield store


def make_appender(
    config: MessageStoreConfig,
    *,
    files: StoreFiles,
    clock: Clock,
    store_host: bytes,
    message_arriving: Callable[[str, int, int], None] | None,
    bit_map_of: BitMapOf | None,
    may_be_named: Callable[[str], bool] | None = None,
) -> MessageAppender:
    """Return the appender of a recovered store, with what its settings ask for: pool, multi-dispatch, extensions."""
    pool = None
    if config.has_transient_store_pool:
        pool = TransientStorePool(
            size_bytes=config.transient_store_pool_bytes, is_fail_fast=config.fast_fail_if_no_buffer_in_store_pool
        )
    limit, multi_dispatch = None, None
    if config.enable_lmq or config.enable_multi_dispatch:
        limit = LmqLimit(topics=files.queues.topics, count_max=config.max_lmq_consume_queue_num)
    if config.enable_multi_dispatch:
        multi_dispatch = MultiDispatch(queues=files.queues, limit=limit, may_be_named=may_be_named)
    options = AppendOptions(
        store_host=store_host,
        message_size_max=config.max_message_size,
        multi_dispatch=multi_dispatch,
        lmq_limit=limit,
        unit_extensions=UnitExtensions(bit_map_of=bit_map_of) if config.enable_consume_queue_ext else None,
        pool=pool,
    )
    return MessageAppender(
        commit_log=files.commit_log,
        queues=files.queues,
        clock=clock,
        options=options,
        index=files.index,
        message_arriving=message_arriving,
        refuse_all=_SLAVE if config.broker_role is BrokerRole.SLAVE else None,
    )


def _following_log(
    config: MessageStoreConfig,
    *,
    files: StoreFiles,
    services: StoreServices,
    appender: MessageAppender,
    units: RecordUnits,
) -> FollowingCommitLog | None:
    """Return what a slave's store is appended to with, None for a master's."""
    if config.broker_role is not BrokerRole.SLAVE:
        return None
    return FollowingCommitLog(
        commit_log=files.commit_log,
        queues=files.queues,
        appender=appender,
        units=units,
        is_multi_dispatch=config.enable_multi_dispatch,
        end_burst=services.end_burst,
        # Under SYNC_FLUSH the log is flushed on request only.
        flush_soon=_nothing if services.group_commit is None else services.group_commit.wake,
    )


@asynccontextmanager
async def _opened_files(
    config: MessageStoreConfig,
    environment: StoreEnvironment,
    process_descriptors_max: int | None,
    reports: StoreReports,
) -> AsyncIterator[StoreFiles]:
    """Hold lock and files of a store for the block, not recovered yet; afterwards note on the disk if a sync failed.

    A cut that was ordered is executed before.
    """
    with _locked(config, environment.disk):
        cut = TailCut(config, disk=environment.disk)
        await _in_slices(cut.run(), _nothing)
        if cut.report is not None:
            reports.cut(cut.report)
        descriptors = descriptor_budget(config, process_descriptors_max)
        files = StoreFiles(config, environment=environment, descriptors=descriptors, cut_report=cut.report)
        with closing(files), files.failed_sync_mark:
            yield files


@contextmanager
def _locked(config: MessageStoreConfig, disk: Disk) -> Iterator[None]:
    """Hold the store's lock for the block, so that no second process opens it."""
    disk.make_directories(config.root)
    lock = disk.lock(os.path.join(config.root, layout.LOCK_FILE))
    try:
        yield
    finally:
        lock.release()


def _sync_runner(
    config: MessageStoreConfig, open_runner: OpenRunner | None
) -> AbstractAsyncContextManager[BeginBlocking | None]:
    """Return the runner of group commit's syncs: a dedicated thread under SYNC_FLUSH, if one can be opened."""
    if open_runner is None or not config.is_sync_flush:
        return nullcontext()
    return open_runner("GroupCommitService")


async def _recover(files: StoreFiles, recovery: Iterator[None], reports: StoreReports) -> None:
    """Recover in slices, then begin to append."""
    began = trio.current_time()
    await _in_slices(recovery, lambda: reports.recovering(*files.recovery_progress))
    files.begin(seconds=trio.current_time() - began)
    reports.recovered(files.report)


async def _in_slices(work: Iterator[None], report_progress: Callable[[], None]) -> None:
    """Do blocking work that yields often; progress is reported every PROGRESS_SECONDS.

    The event loop runs between slices, so that signals are handled. A checkpoint costs as much as a short slice, so
    there is one per 5 ms rather than one per slice.
    """
    yield_at = 0.0
    progress_at = trio.current_time() + PROGRESS_SECONDS
    for _ in work:
        now = trio.current_time()
        if now >= yield_at:
            await trio.lowlevel.checkpoint()
            yield_at = now + _YIELD_SECONDS
        if now >= progress_at:
            progress_at = now + PROGRESS_SECONDS
            report_progress()


def _nothing(*_: object) -> None:
    pass


def _hash_of_tags(topic: str, properties: Mapping[str, str], store_timestamp_ms: int) -> int:
    return hash_of_tags(properties.get(PROPERTY_TAGS))


def _physical_memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
