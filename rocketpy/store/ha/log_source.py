"""The CommitLog as connections of slaves read it.

Only what is in files is sent: bytes that a burst has collected, or a write buffer holds, are not there yet. They need
not be flushed. A file is held only while a worker thread reads it, so cleaning may delete files in front of a slow
slave; the read then returns no bytes.
"""

from __future__ import annotations

from rocketpy.runner import RunBlocking
from rocketpy.store.log.commit_log import CommitLog
from rocketpy.store.log.record_reader import log_bytes
from rocketpy.store.read.steps import read_blocking, read_nowait


class CommitLogSource:
    """Reads of one log; see :class:`rocketpy.store.ha.connection.LogSource`. Offsets and sizes in bytes."""

    def __init__(self, commit_log: CommitLog, *, run_blocking: RunBlocking) -> None:
        self._commit_log = commit_log
        self._run_blocking = run_blocking

    @property
    def min_offset(self) -> int:
        """The offset of the first byte."""
        return self._commit_log.min_offset

    @property
    def end_offset(self) -> int:
        """The end of the bytes in files."""
        return self._commit_log.wrote_offset

    @property
    def file_size(self) -> int:
        """The size of new files."""
        return self._commit_log.file_size

    def read_nowait(self, offset: int, size: int) -> bytes | None:
        """Return at most ``size`` bytes of one file, none when the log no longer has them, None when they are cold."""
        return read_nowait(log_bytes(self._commit_log, offset, size))

    async def read(self, offset: int, size: int) -> bytes:
        """Return the same bytes; a worker thread waits for the disk."""
        return await read_blocking(log_bytes(self._commit_log, offset, size), self._run_blocking)
