"""The CommitLog as connections of slaves read it.

Only what is in files is sent: bytes that a burst has collected, or a write buffer holds, are not there yet. They need
not be flushed. A file is held only while a worker thread reads it, so cleaning may delete files in front of a slow
slave; the read then returns no bytes.
"""

from __future__ import annotations

from rocketpy.runner import RunBlocking
from rocketpy.store.files.mapped_file import MappedFile
from rocketpy.store.log.commit_log import CommitLog


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
        found = self._locate(offset, size)
        if found is None:
            return b""
        mapped_file, position, size = found
        return mapped_file.file().read_nowait(position, size)

    async def read(self, offset: int, size: int) -> bytes:
        """Return the same bytes; a worker thread waits for the disk."""
        found = self._locate(offset, size)
        if found is None:
            return b""
        mapped_file, position, size = found
        file = mapped_file.hold()
        try:
            return await self._run_blocking(file.read, position, size)
        finally:
            mapped_file.release()

    def _locate(self, offset: int, size: int) -> tuple[MappedFile, int, int] | None:
        """Return file, position and how many of the bytes lie in this file."""
        mapped_file = self._commit_log.files.find(offset)
        if mapped_file is None:
            return None
        size = min(size, mapped_file.end_offset - offset, self.end_offset - offset)
        return (mapped_file, offset - mapped_file.base_offset, size) if size > 0 else None
