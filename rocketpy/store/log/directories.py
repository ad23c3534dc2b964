"""The directories of one CommitLog, and the choice of the directory for each new file.

Files are distributed round-robin, in the order of the directories' names, so a store opened with the same settings, by
RocketMQ or here, continues the same sequence. Nothing depends on that: every file is found in any directory. Read-only
directories, and those on a nearly full disk, are skipped as long as there is another.

Compatibility: ``MultiPathMappedFileQueue`` (4.9.8). A directory whose disk turns out to be full is skipped too, where
RocketMQ refuses the message. A missing read-only directory fails the start; RocketMQ starts without its messages.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from rocketpy.errors import StartError
from rocketpy.store.disk.interface import Disk


def _always(path: str) -> bool:
    return True


class LogDirectories:
    """The directories of a log. ``takes_new_files`` says whether a directory is preferred for new files."""

    def __init__(
        self,
        paths: Sequence[str],
        *,
        read_only: Collection[str] = (),
        takes_new_files: Callable[[str], bool] = _always,
    ) -> None:
        self.paths = tuple(dict.fromkeys((*paths, *read_only)))
        """All of them, read-only ones included."""
        self._writable = sorted(path for path in paths if path not in read_only)
        self._takes_new_files = takes_new_files
        if not self._writable:
            raise StartError(f"no directory for new files of the CommitLog: {', '.join(self.paths)} are read-only")

    def make(self, disk: Disk) -> None:
        """Create missing directories. StartError if a read-only one is missing: its disk may not be mounted."""
        for path in self.paths:
            if disk.is_directory(path):
                continue
            if path not in self._writable:
                raise StartError(f"readOnlyCommitLogStorePaths: no directory {path}")
            disk.make_directories(path)

    def for_file(self, number: int) -> list[str]:
        """Return the directories for the n-th file: the preferred one first, then alternatives for lack of space."""
        writable = self._writable
        if len(writable) == 1:
            return writable
        roomy = [path for path in writable if self._takes_new_files(path)] or writable
        chosen = roomy[number % len(roomy)]
        return list(dict.fromkeys((chosen, *roomy, *writable)))
