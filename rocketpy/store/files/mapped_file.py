"""One numbered file of a log or queue, and the cache of open descriptors that such files share.

The name is RocketMQ's, although nothing is mapped: bytes are written with ``pwrite`` and read with ``preadv``, because
a page fault inside a mapping blocks the whole interpreter. Rule: descriptors are a budget. A file has one only while it
is used or held, or while its writer has bytes pending for it; :class:`OpenFiles` closes files by second chance. Nothing
here awaits, and nothing syncs without being asked to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rocketpy.errors import DescriptorShortageError
from rocketpy.store.disk.interface import PAGE_SIZE, Disk, DiskFile
from rocketpy.store.layout import file_name


class Writer(Protocol):
    """An owner of files that buffers bytes before it writes them.

    Accepted bytes must not be lost for lack of a descriptor. So the writer opens a file before it accepts bytes for it,
    and none of its files is closed while bytes are pending.
    """

    @property
    def has_pending(self) -> bool:
        """Whether bytes are accepted, or about to be accepted, that are not written yet."""
        ...

    def file_closed(self, mapped_file: MappedFile) -> None:
        """Notification that a file was closed: it must be opened again before bytes are accepted for it."""
        ...


class MappedFile:
    """A file whose name is the offset of its first byte. Positions count from the beginning of the file."""

    __slots__ = (
        "_ahead",
        "_ahead_at",
        "_file",
        "_holds",
        "_let_go",
        "_open_files",
        "_used",
        "_writer",
        "base_offset",
        "directory",
        "size",
    )

    def __init__(
        self, *, directory: str, base_offset: int, size: int, open_files: OpenFiles, writer: Writer | None = None
    ) -> None:
        self.directory = directory
        self._writer = writer
        self._open_files = open_files
        self._file: DiskFile | None = None
        self._holds = 0  # readers and syncs in worker threads, and writers that must not lose the descriptor
        self._used = False  # since the last sweep of OpenFiles: its second chance
        self._let_go: Callable[[DiskFile], None] | None = None  # set by retire: closes the descriptor
        self._ahead = b""  # read beyond what was asked for, at most to the end of a page; empty while closed
        self._ahead_at = 0  # the position of its first byte
        self.base_offset = base_offset
        self.size = size  # the nominal length; bytes that are not written yet read as zeros

    def __repr__(self) -> str:
        return f"MappedFile({self.path!r}, size={self.size})"

    @property
    def path(self) -> str:
        """The path of the file."""
        return f"{self.directory}/{file_name(self.base_offset)}"

    @property
    def end_offset(self) -> int:
        """The offset after the last byte, where the next file begins."""
        return self.base_offset + self.size

    @property
    def is_open(self) -> bool:
        """Whether it has a descriptor now."""
        return self._file is not None

    @property
    def is_held(self) -> bool:
        """Whether its descriptor is in use by a reader, a sync, or a writer that must not fail."""
        return self._holds > 0

    def file(self) -> DiskFile:
        """Return the open file for one immediate call: opening any other file may close it."""
        self._used = True
        file = self._file
        return file if file is not None else self._open()

    def read_ahead_nowait(self, position: int, size: int, end: int) -> bytes | None:
        """Return bytes if they are in the page cache, otherwise None, as :meth:`DiskFile.read_nowait`.

        Bytes before ``end`` never change any more. So those of them that are in the last page are read too, at no other
        risk to be cold, and kept for the next read, which mostly begins where this one ends: until then or until the
        descriptor is closed, so that there are no more such pages than descriptors.
        """
        self._used = True
        begin = position - self._ahead_at
        if begin >= 0 and begin + size <= len(self._ahead):
            return self._ahead[begin : begin + size]
        read_end = min(end, -(-(position + size) // PAGE_SIZE) * PAGE_SIZE)
        content = self.file().read_nowait(position, max(read_end - position, size))
        if content is None or len(content) <= size:
            return content
        self._ahead, self._ahead_at = content[size:], position + size
        return content[:size]

    def forget_ahead(self) -> None:
        """Read again what is read next: bytes that were not to change did."""
        self._ahead = b""

    def hold(self) -> DiskFile:
        """Return the open file and pin it until :meth:`release`: for a worker thread, or for the writer."""
        file = self.file()
        self._holds += 1
        return file

    def release(self) -> None:
        """Undo one :meth:`hold`; the last release closes a file that was retired in the meantime."""
        assert self._holds > 0, self
        self._holds -= 1
        if self._let_go is not None and not self._holds:
            self._give_up(self._let_go)

    def retire(self, close: Callable[[DiskFile], None]) -> None:
        """Take the file out of use before it is deleted: it is not opened again, but current holders can still read.

        ``close`` gets the descriptor, if there is one, as soon as it is not held: now, or in the last :meth:`release`.
        It should close it in a worker thread: the last close is what frees the space of an unlinked file, which takes
        190 ms for a CommitLog file of 1 GiB in the page cache (the unlink itself takes 0.04 ms).
        """
        assert self._let_go is None, self
        self._let_go = close
        if not self._holds:
            self._give_up(close)

    def remove(self, disk: Disk) -> None:
        """Delete the file immediately; current holders can still read. The caller syncs the directory."""
        self.retire(_close)
        disk.unlink(self.path)

    @property
    def has_pending(self) -> bool:
        """Whether its writer has accepted bytes, possibly for this file, that are not written."""
        return self._writer is not None and self._writer.has_pending

    def was_used(self) -> bool:
        """Return whether the file was used since the last call, and reset that."""
        used, self._used = self._used, False
        return used

    def close(self) -> None:
        """Close the descriptor, if there is one."""
        self._give_up(_close)

    def _give_up(self, close: Callable[[DiskFile], None]) -> None:
        file, self._file = self._file, None
        self._ahead = b""
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
    """The cache of open descriptors, bounded as far as files are not held.

    Eviction is by second chance: in order of opening, a file that was used since the last sweep is kept.
    """

    def __init__(self, *, disk: Disk, open_max: int) -> None:
        self._disk = disk
        self.open_max = open_max
        self._open: dict[MappedFile, None] = {}  # in the order of the next sweep
        self.is_appending = False
        """Whether files with pending bytes are kept open. Not during recovery, which has more queues than open files.
        """

    def __len__(self) -> int:
        return len(self._open)

    def open(self, mapped_file: MappedFile) -> DiskFile:
        """Open a file, evicting idle ones above the limit.

        DescriptorShortageError if there is no descriptor even after one of the idle files was closed.
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
        """Remove a file that was closed."""
        del self._open[mapped_file]

    def close_all(self) -> None:
        """Close every file, held or not: for the shutdown of the store."""
        for mapped_file in list(self._open):
            mapped_file.close()

    def _close_idle(self) -> bool:
        """Close an idle file; False if there is none."""
        # Two rounds, because the first may do no more than clear the second chance of every file. Held files are never
        # closed: if all of them are held, the limit is exceeded.
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
