"""Deletes the queue files and index files of messages that were deleted from the CommitLog.

The service does nothing until the log's ``min_offset`` moves. Then a queue's own ``min_offset`` moves first, so that no
reader looks into a file that is about to be deleted. After that its leading files are deleted one by one, each durably
before the next, because a loss of power in between must not leave a gap. Cold units are read, and directories synced,
in a worker thread.

Compatibility: ``DefaultMessageStore.CleanConsumeQueueService`` (4.9.8). A queue whose messages are all deleted has
``min_offset`` equal to ``max_offset`` here; RocketMQ keeps offering offsets of deleted messages.

Compose: ``index`` is the IndexService, None without one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import trio

from rocketpy.errors import ShortageError
from rocketpy.runner import RunBlocking
from rocketpy.store.disk.interface import Disk, sync_directory_if_there
from rocketpy.store.log.commit_log import CommitLog
from rocketpy.store.queue.consume_queue import ConsumeQueue
from rocketpy.store.queue.table import ConsumeQueueTable
from rocketpy.store.read.steps import read_blocking, read_nowait
from rocketpy.store.services.clean_commit_log import FIRST_RUN_SECONDS
from rocketpy.store.services.close_files import CloseFilesService
from rocketpy.store.services.waiting import SHORTAGE_PAUSE_SECONDS, call_until_done


class ExpiringIndex(Protocol):
    """The index, as far as deletion is concerned."""

    async def delete_expired_files(self, log_min_offset: int) -> int:
        """Delete leading files whose messages are all before an offset of the log; return how many."""
        ...


class CleanConsumeQueueService:
    """Cleans the queues and the index of one store."""

    def __init__(
        self,
        *,
        commit_log: CommitLog,
        queues: ConsumeQueueTable,
        index: ExpiringIndex | None,
        disk: Disk,
        run_blocking: RunBlocking,
        close_files: CloseFilesService,
        pause_ms: int,
    ) -> None:
        self._commit_log = commit_log
        self._queues = queues
        self._index = index
        self._disk = disk
        self._run_blocking = run_blocking
        self._close_files = close_files
        self._pause_s = pause_ms / 1000
        self._cleaned_to = 0  # queues and index have been cleaned up to this physical offset
        self._idle = trio.lowlevel.ParkingLot()

    def log_shrunk(self) -> None:
        """Notification that the log's ``min_offset`` has moved."""
        self._idle.unpark()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Clean once after a start, and then whenever files of the log were deleted, until cancelled.

        StoreError ends the service, except a shortage of descriptors: then the whole run is repeated.
        """
        task_status.started()
        await trio.sleep(FIRST_RUN_SECONDS)
        while True:
            while self._commit_log.min_offset <= self._cleaned_to:
                await self._idle.park()
            try:
                await self.clean()
            except ShortageError:
                await trio.sleep(SHORTAGE_PAUSE_SECONDS)

    async def clean(self) -> int:
        """Delete the files of deleted messages; return how many."""
        min_offset = self._commit_log.min_offset
        deleted = 0
        for queue in self._queues:
            count = await self._clean_queue(queue, min_offset)
            deleted += count
            await trio.sleep(self._pause_s if count else 0)
        self._queues.forget_deletions(min_offset)
        if self._index is not None:
            deleted += await self._index.delete_expired_files(min_offset)
        self._cleaned_to = min_offset
        return deleted

    async def delete_expired_queues(self, kept_topics: Collection[str]) -> int:
        """Delete queues without any message in the log, except those of ``kept_topics``; return how many."""
        log_min_offset = self._commit_log.min_offset
        count = 0
        for queue in self._queues:
            if queue.topic in kept_topics or not queue.files:
                continue
            min_offset, _ = await self._min_offset_of(queue, log_min_offset)
            if self._is_there(queue) and min_offset == queue.next_offset:
                directory = self._queues.remove_queue(queue)
                await call_until_done(self._run_blocking, sync_directory_if_there, self._disk, directory)
                count += 1
            await trio.lowlevel.checkpoint()
        return count

    # ---- private --------------------------------------------------------------------------------------------------

    async def _clean_queue(self, queue: ConsumeQueue, log_min_offset: int) -> int:
        min_offset, tags_code = await self._min_offset_of(queue, log_min_offset)
        if not self._is_there(queue):
            return 0
        queue.begin_at(min_offset)
        count = 0
        while (directory := queue.delete_expired_file(tags_code, self._close_files.close)) is not None:
            await call_until_done(self._run_blocking, sync_directory_if_there, self._disk, directory)
            count += 1
        return count

    async def _min_offset_of(self, queue: ConsumeQueue, log_min_offset: int) -> tuple[int, int]:
        found = read_nowait(queue.find_min_offset(log_min_offset))
        if found is None:
            found = await read_blocking(queue.find_min_offset(log_min_offset), self._run_blocking)
        return found

    def _is_there(self, queue: ConsumeQueue) -> bool:
        """Whether a queue still exists after an await."""
        return self._queues.get(queue.topic, queue.queue_id) is queue
