"""Closes the descriptors of deleted files in a worker thread, after their last readers have released them.

A file is unlinked immediately, even while it is read. The operating system frees its space with the last descriptor,
and that close blocks: 190 ms for a CommitLog file of 1 GiB in the page cache. So it must not happen on the event loop.

Compatibility: ``ReferenceResource`` and ``CleanCommitLogService.redeleteHangedFile`` (4.9.8) keep a file that is being
read, stop deleting, retry every ``redeleteHangedFileInterval``, and take it away from its readers after
``destroyMapedFileIntervalForcibly``. Here readers keep the unlinked file, so nothing has to be forced.

Compose: pass ``close`` to :meth:`MappedFile.retire`.
"""

from __future__ import annotations

import trio

from rocketpy.runner import RunBlocking
from rocketpy.store.disk.interface import DiskFile


class CloseFilesService:
    """The queue of descriptors to close, and the loop that closes them."""

    def __init__(self, *, run_blocking: RunBlocking) -> None:
        self._run_blocking = run_blocking
        self._files: list[DiskFile] = []  # bounded by the deleted files that readers still held
        self._idle = trio.lowlevel.ParkingLot()

    def close(self, file: DiskFile) -> None:
        """Schedule the close of a file that is no longer used."""
        self._files.append(file)
        self._idle.unpark()

    async def wait_closed(self) -> None:
        """Close all scheduled files, and return when their space is free."""
        files, self._files = self._files, []
        if files:
            await self._run_blocking(_close_all, files)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Close files as they are scheduled, until cancelled."""
        try:
            task_status.started()
            while True:
                while not self._files:
                    await self._idle.park()
                await self.wait_closed()
        finally:
            _close_all(self._files)


def _close_all(files: list[DiskFile]) -> None:
    for file in files:
        file.close()
