"""Makes the CommitLog file that will be wanted next, in advance and off the event loop.

A file appears whole: staged beside the log's directory, on the same file system, its space reserved, synced, then
renamed to its number and the directory synced. So whoever lists the directory, the Java broker too, finds only files of
full length, and a message is accepted only where its space is. The file in advance is as RocketMQ leaves it after a
crash: full length, all zeros.

For SYNC_FLUSH files are filled with zeros, not only reserved. Measured on the reference machine (ext4): an fdatasync of
7 KB takes 170 us in a filled file and 320 us in a reserved one, whose extents it has to mark as written each time;
filling 64 MiB takes 40 to 80 ms of a worker thread. With ``warmMapedFileEnable`` that is done for ASYNC_FLUSH too, and
for SYNC_FLUSH with a sync now and then, so that the disk is never busy with zeros for long.

Compatibility: ``AllocateMappedFileService`` (4.9.8); it makes two files ahead at the first request, one later, and its
warm-up also locks them in memory.

Compose: it is the CommitLog's FileAllocator; call :meth:`discard` when the store ends in order.
"""

from __future__ import annotations

import os.path
import threading
from contextlib import suppress

import attrs
import trio

from rocketpy.errors import DiskFullError, ShortageError
from rocketpy.runner import RunBlocking
from rocketpy.store.disk.interface import Disk, DiskFile

_ZEROS_SIZE = 1 << 20


@attrs.define(eq=False)
class _Job:
    """One file that was asked for in advance."""

    path: str
    size: int
    is_made: bool = False
    # Whoever takes the claim makes the file; a worker thread that comes too late leaves it alone.
    claim: threading.Lock = attrs.Factory(threading.Lock)
    done: threading.Event = attrs.Factory(threading.Event)


class AllocateMappedFileService:
    """One file ahead. ``prepare`` and ``take`` are called on the event loop."""

    def __init__(
        self, *, disk: Disk, run_blocking: RunBlocking, is_zero_filled: bool, sync_each_bytes: int | None = None
    ) -> None:
        self._disk = disk
        self._run_blocking = run_blocking
        self._is_zero_filled = is_zero_filled
        self._sync_each_bytes = sync_each_bytes  # of zeros; None: when all are written
        self._job: _Job | None = None
        self._idle = trio.lowlevel.ParkingLot()

    def prepare(self, path: str, size: int) -> None:
        """Begin to make a file that will be wanted next; returns at once. If it cannot be made, ``take`` says so."""
        if self._job is None or self._job.path != path:
            self._job = _Job(path, size)
            self._idle.unpark()

    def take(self, path: str, size: int) -> None:
        """Return when the file is there: prepared, or made now. ShortageError when there is no space for it.

        It blocks only if the file was not asked for in time; then it waits for the thread that is at it, or does it.
        """
        job, self._job = self._job, None
        if job is not None and job.path == path and not job.claim.acquire(blocking=False):
            job.done.wait()
            if job.is_made:
                return
        self._make(path, size)

    def discard(self) -> None:
        """Remove the file in advance, which nobody will want: an orderly end leaves none. Blocks."""
        job, self._job = self._job, None
        if job is not None and not job.claim.acquire(blocking=False):
            job.done.wait()
            if job.is_made:
                self._disk.unlink(job.path)
                with suppress(ShortageError):  # an empty file that comes back does no harm
                    self._disk.sync_directory(os.path.dirname(job.path))

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Make files as they are asked for, until cancelled; StoreError ends it, a shortage does not."""
        task_status.started()
        while True:
            if self._job is None or self._job.claim.locked():
                await self._idle.park()
            else:
                await self._run_blocking(self._serve, self._job)

    def _serve(self, job: _Job) -> None:
        if not job.claim.acquire(blocking=False):
            return
        try:
            self._make(job.path, job.size)
            job.is_made = True
        except ShortageError:
            pass  # nobody needs it yet; ``take`` tries again and says so
        finally:
            job.done.set()

    def _make(self, path: str, size: int) -> None:
        disk = self._disk
        directory = os.path.dirname(path)
        if disk.exists(path):
            # Left over from before a crash, or from a try that had no descriptor for the directory: of full length, as
            # all of them are.
            disk.sync_directory(directory)
            return
        staging_path = f"{directory}.staged"
        file = disk.open(staging_path, create=True)
        try:
            file.truncate(0)
            try:
                file.reserve(0, size)
            except DiskFullError:
                file.truncate(0)
                raise
            if self._is_zero_filled:
                self._fill(file, size)
            file.sync()
        finally:
            file.close()
        disk.rename(staging_path, path)
        disk.sync_directory(directory)

    def _fill(self, file: DiskFile, size: int) -> None:
        sync_each = self._sync_each_bytes or size
        zeros = bytes(min(size, sync_each, _ZEROS_SIZE))
        unsynced = 0
        for position in range(0, size, len(zeros)):
            if unsynced >= sync_each:
                file.sync()
                unsynced = 0
            file.write(position, zeros[: size - position])
            unsynced += len(zeros)
