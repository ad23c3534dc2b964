"""Preallocates the next CommitLog file, off the event loop.

A file appears atomically: it is staged beside the log's directory, on the same file system; its space is reserved; it
is synced, renamed to its number, and the directory is synced. So every reader of the directory, including a Java
broker, finds only files of full length, and a message is accepted only where its space is reserved. The preallocated
file looks as RocketMQ leaves it after a crash: full length, all zeros.

For SYNC_FLUSH files are filled with zeros, not only reserved. Measured on the reference machine (ext4): an fdatasync of
7 KB takes 170 us in a filled file and 320 us in a reserved one, whose extents it has to mark as written each time;
filling 64 MiB takes 40 to 80 ms of a worker thread. With ``warmMapedFileEnable`` files are filled for ASYNC_FLUSH too;
for SYNC_FLUSH they are then synced at intervals, so that zeros never occupy the disk for long.

Compatibility: ``AllocateMappedFileService`` (4.9.8) preallocates two files at the first request and one later; its
warm-up also locks them in memory.

Compose: this is the CommitLog's FileAllocator; a clean shutdown calls :meth:`discard`.
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
    """One requested file."""

    path: str
    size: int
    is_made: bool = False
    # The thread that acquires the claim creates the file; a worker thread that comes second does nothing.
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
        self._sync_each_bytes = sync_each_bytes  # of zeros; None: once, after all of them
        self._job: _Job | None = None
        self._idle = trio.lowlevel.ParkingLot()

    def prepare(self, path: str, size: int) -> None:
        """Start creating the next file; returns at once. A failure is raised by ``take``."""
        if self._job is None or self._job.path != path:
            self._job = _Job(path, size)
            self._idle.unpark()

    def take(self, path: str, size: int) -> None:
        """Return when the file exists: preallocated, or created now. ShortageError if there is no space for it.

        Blocks only if the file is not ready: then it waits for the worker thread, or creates the file itself.
        """
        job, self._job = self._job, None
        if job is not None and job.path == path and not job.claim.acquire(blocking=False):
            job.done.wait()
            if job.is_made:
                return
        self._make(path, size)

    def discard(self) -> None:
        """Remove the unused preallocated file: a clean shutdown leaves none. Blocks."""
        job, self._job = self._job, None
        if job is not None and not job.claim.acquire(blocking=False):
            job.done.wait()
            if job.is_made:
                self._disk.unlink(job.path)
                with suppress(ShortageError):  # an empty file that comes back does no harm
                    self._disk.sync_directory(os.path.dirname(job.path))

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Create files on request until cancelled; StoreError ends the service, a shortage does not."""
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
            pass  # the file is not needed yet; ``take`` tries again and raises
        finally:
            job.done.set()

    def _make(self, path: str, size: int) -> None:
        disk = self._disk
        directory = os.path.dirname(path)
        if disk.exists(path):
            # Left by a crash, or by an attempt that had no descriptor for the directory. It has full length, as every
            # file under its final name.
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
