"""Opens a whole store, composed of its parts, and closes it in order.

::

    open_message_store()
      lock            a second process stays out
        recovery      log, queues and index agree; what is behind the end is cleared and durable
          abort file  from here on an end that is not orderly leaves it behind
            services  flush, group commit, allocation, index: one nursery
              the store, until the block ends
            final flush, checkpoint, abort file removed

A failure anywhere inside leaves the abort file, so the next start recovers as after a crash.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, closing
from typing import TypeAlias

import trio

from rocketpy.clock import Clock
from rocketpy.protocol.java_hash import tags_code as hash_of_tags
from rocketpy.protocol.properties import PROPERTY_TAGS
from rocketpy.runner import RunBlocking
from rocketpy.store import layout
from rocketpy.store.appending import make_appender
from rocketpy.store.config import BrokerRole, MessageStoreConfig
from rocketpy.store.disk import Disk
from rocketpy.store.log_dispatcher import BitMapOf, TagsCodeOf
from rocketpy.store.message_reader import MessageReader
from rocketpy.store.message_store import MessageStore
from rocketpy.store.queue_scan import ReadLimits
from rocketpy.store.recovery import RecoveryReport
from rocketpy.store.store_files import StoreFiles
from rocketpy.store.store_services import StoreServices

OpenRunner: TypeAlias = Callable[[str], AbstractAsyncContextManager[RunBlocking]]
"""Opens a runner of blocking calls that has a thread of its own, of the name given."""

_PROGRESS_SECONDS = 2.0
_YIELD_SECONDS = 0.005
_SHUTTING_DOWN = "the message store is shutting down"


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
    message_arriving: Callable[[str, int, int], None] | None = None,
    flush_replies: Callable[[], None] | None = None,
    report: Callable[[RecoveryReport], None] | None = None,
    report_progress: Callable[[int, int], None] | None = None,
    report_full: Callable[[str | None], None] | None = None,
    open_runner: OpenRunner | None = None,
    memory_bytes: int | None = None,
) -> AsyncIterator[MessageStore]:
    """Open a store: recovered and durable when the block begins, closed in order when the block ends without error.

    ``tags_code`` gives a unit's tags code (for delay topics the time of delivery), the hash of the tags if left out;
    ``bit_map_of`` the filters that a message passes, for stores with ConsumeQueueExt files;
    ``report`` is told what recovery found, ``report_progress`` every two seconds how far in the log it has come and
    where its last file ends, ``report_full`` why no message is taken while a disk is too full, and None when that is
    over; ``open_runner`` opens the worker thread of SYNC_FLUSH, which otherwise uses ``run_blocking``. StartError when
    another process has the store.
    """
    disk.make_directories(config.root)
    lock = disk.lock(os.path.join(config.root, layout.LOCK_FILE))
    try:
        async with AsyncExitStack() as scopes:
            files = scopes.enter_context(closing(StoreFiles(config, disk=disk, clock=clock, run_blocking=run_blocking)))
            scopes.enter_context(files.failed_sync_mark)
            recovery = files.recover(tags_code or _hash_of_tags, bit_map_of)
            await _recover(files, recovery, report_progress or _nothing)
            if report is not None:
                report(files.report)
            files.begin()
            appender = make_appender(
                config,
                files=files,
                clock=clock,
                store_host=store_host,
                message_arriving=message_arriving,
                bit_map_of=bit_map_of,
            )
            memory = _physical_memory_bytes() if memory_bytes is None else memory_bytes
            limits = ReadLimits.of(config, memory_bytes=memory)
            reader = MessageReader(
                commit_log=files.commit_log,
                queues=files.queues,
                limits=limits,
                corrects_offsets=config.broker_role is not BrokerRole.SLAVE or config.offset_check_in_slave,
            )
            runner = run_blocking
            if open_runner is not None and config.is_sync_flush:
                runner = await scopes.enter_async_context(open_runner("GroupCommitService"))
            services = StoreServices(
                config,
                files=files,
                appender=appender,
                disk=disk,
                clock=clock,
                run_blocking=run_blocking,
                run_sync=runner,
                flush_replies=flush_replies or _nothing,
                report_full=report_full or _nothing,
            )
            async with trio.open_nursery() as nursery:
                await services.start(nursery)
                store = MessageStore(
                    config=config,
                    files=files,
                    services=services,
                    appender=appender,
                    reader=reader,
                    run_blocking=run_blocking,
                    memory_bytes=limits.memory_bytes,
                    disk=disk,
                    clock=clock,
                )
                await nursery.start(store.figures.run)
                yield store
                appender.end_burst()
                appender.refuse_all(_SHUTTING_DOWN)
                nursery.cancel_scope.cancel()
            # The block has ended without error: from here on nothing may be given up.
            with trio.CancelScope(shield=True):
                await services.finish()
    finally:
        lock.release()


async def _recover(files: StoreFiles, recovery: Iterator[None], report_progress: Callable[[int, int], None]) -> None:
    """Recover in slices, so that signals come through; where slices are short not after each."""
    yield_at = 0.0
    progress_at = trio.current_time() + _PROGRESS_SECONDS
    for _ in recovery:
        now = trio.current_time()
        if now >= yield_at:
            await trio.lowlevel.checkpoint()
            yield_at = now + _YIELD_SECONDS
        if now >= progress_at:
            progress_at = now + _PROGRESS_SECONDS
            report_progress(*files.recovery_progress)


def _nothing(*_: object) -> None:
    pass


def _hash_of_tags(topic: str, properties: Mapping[str, str], store_timestamp_ms: int) -> int:
    return hash_of_tags(properties.get(PROPERTY_TAGS))


def _physical_memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
