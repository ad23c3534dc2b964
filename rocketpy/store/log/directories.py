"""The directories of one CommitLog, and which of them gets the next file.

Files go round the directories in the order of their names, so a store that is opened with the same settings, by
RocketMQ or here, goes on the same way; but nothing depends on it, since every file is found wherever it is. Directories
that are read-only, or on a disk that is nearly full, are passed over as long as there is another.

Compatibility: ``MultiPathMappedFileQueue`` (4.9.8). A directory whose disk turns out to be full is passed over as well,
where RocketMQ refuses the message. A read-only directory that is missing ends the start: RocketMQ goes on without its
messages.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from rocketpy.errors import StartError
from rocketpy.store.disk.interface import Disk


def _always(path: str) -> bool:
    return True


class LogDirectories:
    """Where the files of a log are. ``takes_new_files`` says whether a disk has room enough to prefer it."""

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
        """Make those that are missing. StartError if one is read-only: its disk is perhaps not mounted."""
        for path in self.paths:
            if disk.is_directory(path):
                continue
            if path not in self._writable:
                raise StartError(f"readOnlyCommitLogStorePaths: no directory {path}")
            disk.make_directories(path)

    def for_file(self, number: int) -> list[str]:
        """Return where the file of a number is to be made, and where else if there is no space, in order."""
        writable = self._writable
        if len(writable) == 1:
            return writable
        roomy = [path for path in writable if self._takes_new_files(path)] or writable
        chosen = roomy[number % len(roomy)]
        return list(dict.fromkeys((chosen, *roomy, *writable)))
