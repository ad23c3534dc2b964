"""One numbered file of a log or queue, and the descriptors that such files share.

RocketMQ's name stays, although nothing is mapped: bytes are written with ``pwrite`` and read with ``preadv`` (design:
a page fault inside a mapping holds the whole interpreter). Rule: descriptors are a budget. A file has one only while it
is used or held, or while its writer has something pending for it; :class:`OpenFiles` closes the one that has not been
used for longest. Nothing here awaits or syncs behind the caller's back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rocketpy.errors import DescriptorShortageError
from rocketpy.store.disk.interface import Disk, DiskFile
from rocketpy.store.layout import file_name


class Writer(Protocol):
    """The owner of files that collects bytes before it writes them.

    What it has accepted must not fail for want of a descriptor. So it opens a file before it accepts bytes for it, and
    no file of it is closed while something is pending.
    """

    @property
    def has_pending(self) -> bool:
        """Whether bytes are accepted, or about to be, that are not written yet."""
        ...

    def file_closed(self, mapped_file: MappedFile) -> None:
        """Take notice that a file must be opened again before anything is accepted for it."""
        ...


class MappedFile:
    """A file whose name is the offset of its first byte. Positions count from its beginning."""

    __slots__ = ("_file", "_holds", "_let_go", "_open_files", "_used", "_writer", "base_offset", "directory", "size")

    def __init__(
        self, *, directory: str, base_offset: int, size: int, open_files: OpenFiles, writer: Writer | None = None
    ) -> None:
        self.directory = directory
        self._writer = writer
        self._open_files = open_files
        self._file: DiskFile | None = None
        self._holds = 0  # readers and syncs in worker threads, and writers that must not lose the descriptor
        self._used = False  # since the sweep of OpenFiles came by last
        self._let_go: Callable[[DiskFile], None] | None = None  # closes the descriptor of a file that is out of use
        self.base_offset = base_offset
        self.size = size  # the length that the file is meant to have; what is not written yet reads as zeros

    def __repr__(self) -> str:
        return f"MappedFile({self.path!r}, size={self.size})"

    @property
    def path(self) -> str:
        """Where the file is."""
        return f"{self.directory}/{file_name(self.base_offset)}"

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
        """Whether someone relies on its descriptor: a reader, a sync, or a writer that must not fail."""
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
        """Give back what :meth:`hold` gave; the last one lets a file go that was retired meanwhile."""
        assert self._holds > 0, self
        self._holds -= 1
        if self._let_go is not None and not self._holds:
            self._give_up(self._let_go)

    def retire(self, close: Callable[[DiskFile], None]) -> None:
        """Take the file out of use, to be deleted: nobody opens it any more, who holds it can still read.

        ``close`` gets the descriptor, if there is one, when nobody holds it: now, or from the last :meth:`release`. It
        should leave the closing to a worker thread: only then does the system free what was unlinked, which takes 190
        ms for a CommitLog file of 1 GiB in the page cache (the unlinking 0.04 ms).
        """
        assert self._let_go is None, self
        self._let_go = close
        if not self._holds:
            self._give_up(close)

    def remove(self, disk: Disk) -> None:
        """Delete the file here and now; who holds it can still read. The directory is the caller's to sync."""
        self.retire(_close)
        disk.unlink(self.path)

    @property
    def has_pending(self) -> bool:
        """Whether its writer has accepted bytes, perhaps for this file, that are not written."""
        return self._writer is not None and self._writer.has_pending

    def was_used(self) -> bool:
        """Whether the file was used since the last time this was asked."""
        used, self._used = self._used, False
        return used

    def close(self) -> None:
        """Close the descriptor, if there is one."""
        self._give_up(_close)

    def _give_up(self, close: Callable[[DiskFile], None]) -> None:
        file, self._file = self._file, None
        if file is not None:
            self._open_files.forget(self)
            if self._writer is not None:
                self._writer.file_closed(self)
            close(file)

    def _open(self) -> DiskFile:
        assert self._let_go is None, self
        self._file = self._open_files.open(self)
        return self._file


class OpenFiles:
    """The files that have a descriptor, and the bound on how many may keep one while nobody holds them.

    Which file goes is decided by second chance: in order of opening, one that was used since the last look stays.
    """

    def __init__(self, *, disk: Disk, open_max: int) -> None:
        self._disk = disk
        self.open_max = open_max
        self._open: dict[MappedFile, None] = {}  # in the order in which they are looked at next
        self.is_appending = False
        """Whether writers accept what must not be refused later. Recovery does not, and has more queues than files."""

    def __len__(self) -> int:
        return len(self._open)

    def open(self, mapped_file: MappedFile) -> DiskFile:
        """Open a file, closing others that are idle when there are too many.

        DescriptorShortageError when there is no descriptor left, also after one of our own idle files was closed.
        """
        try:
            file = self._disk.open(mapped_file.path)
        except DescriptorShortageError:
            if not self._close_idle():
                raise
            file = self._disk.open(mapped_file.path)
        if len(self._open) >= self.open_max:
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

    def _close_idle(self) -> bool:
        """Close an idle file; False if there is none."""
        # Two rounds: the first may only take away everybody's second chance. Held files pass; then the bound gives way.
        for _ in range(2 * len(self._open)):
            mapped_file = next(iter(self._open))
            is_needed = mapped_file.is_held or (self.is_appending and mapped_file.has_pending)
            if is_needed or mapped_file.was_used():
                del self._open[mapped_file]
                self._open[mapped_file] = None
            else:
                mapped_file.close()
                return True
        return False


def _close(file: DiskFile) -> None:
    file.close()
