"""Closes the descriptors of deleted files, in a worker thread, when their last readers have gone.

A file is unlinked at once, whoever reads it; the system frees its space with its last descriptor, and whoever closes
that waits: 190 ms for a CommitLog file of 1 GiB in the page cache. That must be no reader on the event loop.

Compatibility: ``ReferenceResource`` and ``CleanCommitLogService.redeleteHangedFile`` (4.9.8), which leave a file that
is being read where it is, stop deleting, and take it away from its readers after ``destroyMapedFileIntervalForcibly``,
trying again every ``redeleteHangedFileInterval``. Here nobody loses a file that it reads, so there is nothing to force.

Compose: ``close`` is what :meth:`MappedFile.retire` is given.
"""

from __future__ import annotations

import trio

from rocketpy.runner import RunBlocking
from rocketpy.store.disk.interface import DiskFile


class CloseFilesService:
    """What is to be closed, and the loop that does it."""

    def __init__(self, *, run_blocking: RunBlocking) -> None:
        self._run_blocking = run_blocking
        self._files: list[DiskFile] = []  # as many as readers have held back, at most
        self._idle = trio.lowlevel.ParkingLot()

    def close(self, file: DiskFile) -> None:
        """Have a file closed soon: nobody uses it any more."""
        self._files.append(file)
        self._idle.unpark()

    async def wait_closed(self) -> None:
        """Close what there is now, and return when its space is free."""
        files, self._files = self._files, []
        if files:
            await self._run_blocking(_close_all, files)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Close files as they come, until cancelled."""
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
