"""One numbered file of a log or queue, and the descriptors that such files share.

RocketMQ's name stays, although nothing is mapped: bytes are written with ``pwrite`` and read with ``preadv`` (design:
a page fault inside a mapping holds the whole interpreter). Rule: descriptors are a budget. A file has one only while it
is used or held; :class:`OpenFiles` closes the one that has not been used for longest. Nothing here awaits or syncs
behind the caller's back.
"""

from __future__ import annotations

from rocketpy.store.disk import Disk, DiskFile
from rocketpy.store.layout import file_name


class MappedFile:
    """A file whose name is the offset of its first byte. Positions count from its beginning."""

    __slots__ = ("_directory", "_file", "_holds", "_is_removed", "_open_files", "_used", "base_offset", "size")

    def __init__(self, *, directory: str, base_offset: int, size: int, open_files: OpenFiles) -> None:
        self._directory = directory
        self._open_files = open_files
        self._file: DiskFile | None = None
        self._holds = 0  # readers and syncs in worker threads, and writers that must not lose the descriptor
        self._used = False  # since the sweep of OpenFiles came by last
        self._is_removed = False
        self.base_offset = base_offset
        self.size = size  # the length that the file is meant to have; what is not written yet reads as zeros

    def __repr__(self) -> str:
        return f"MappedFile({self.path!r}, size={self.size})"

    @property
    def path(self) -> str:
        """Where the file is."""
        return f"{self._directory}/{file_name(self.base_offset)}"

    @property
    def end_offset(self) -> int:
        """The offset behind the last byte: where the next file begins."""
        return self.base_offset + self.size

    @property
    def is_open(self) -> bool:
        """Whether it has a descriptor now."""
        return self._file is not None

    @property
    def is_held(self) -> bool:
        """Whether someone relies on its descriptor."""
        return self._holds > 0

    def file(self) -> DiskFile:
        """Return the open file, for a call that is made at once: the next one of anybody may close it."""
        self._used = True
        file = self._file
        return file if file is not None else self._open()

    def hold(self) -> DiskFile:
        """Return the open file and keep it open until :meth:`release`: for a worker thread, or for the writer."""
        file = self.file()
        self._holds += 1
        return file

    def release(self) -> None:
        """Give back what :meth:`hold` gave; the last one closes a file that was removed meanwhile."""
        assert self._holds > 0, self
        self._holds -= 1
        if self._is_removed and not self._holds:
            self.close()

    def remove(self, disk: Disk) -> None:
        """Delete the file at once; who holds it can still read. The directory is the caller's to sync."""
        assert not self._is_removed, self
        self._is_removed = True
        disk.unlink(self.path)
        if not self._holds:
            self.close()

    def was_used(self) -> bool:
        """Whether the file was used since the last time this was asked."""
        used, self._used = self._used, False
        return used

    def close(self) -> None:
        """Close the descriptor, if there is one."""
        if self._file is not None:
            self._open_files.forget(self)
            file, self._file = self._file, None
            file.close()

    def _open(self) -> DiskFile:
        assert not self._is_removed, self
        self._file = self._open_files.open(self)
        return self._file


class OpenFiles:
    """The files that have a descriptor, and the bound on how many may keep one while nobody holds them.

    Which file goes is decided by second chance: in order of opening, one that was used since the last look stays.
    """

    def __init__(self, *, disk: Disk, open_max: int) -> None:
        self._disk = disk
        self._open_max = open_max
        self._open: dict[MappedFile, None] = {}  # in the order in which they are looked at next

    def __len__(self) -> int:
        return len(self._open)

    def open(self, mapped_file: MappedFile) -> DiskFile:
        """Open a file, closing others that are idle when there are too many."""
        file = self._disk.open(mapped_file.path)
        if len(self._open) >= self._open_max:
            self._close_idle()
        self._open[mapped_file] = None
        return file

    def forget(self, mapped_file: MappedFile) -> None:
        """A file has been closed."""
        del self._open[mapped_file]

    def close_all(self) -> None:
        """Close every file, held or not: for the end of the store."""
        for mapped_file in list(self._open):
            mapped_file.close()

    def _close_idle(self) -> None:
        # Two rounds: the first may only take away everybody's second chance. Held files pass; then the bound gives way.
        for _ in range(2 * len(self._open)):
            mapped_file = next(iter(self._open))
            if mapped_file.is_held or mapped_file.was_used():
                del self._open[mapped_file]
                self._open[mapped_file] = None
            else:
                mapped_file.close()
                return
