"""The log: every record of every topic, one after another, over files that appear whole.

Written here are bytes; what they mean is the appender's. Rules: bytes below ``wrote_offset`` never change while the
store is open; bytes are written in reserved space only, so that a full disk never fails a write; a new file has its
name only at full, reserved length; after a failed sync nothing is synced again. A record is durable when a service has
called :meth:`CommitLog.begin_flush`, the range's ``sync`` in a worker thread, and ``end_flush``.

The file that was there at the start is the one whose space may be missing: a Java broker's files are sparse, and so are
those of a backup. Recovery reserves the rest of it; where the disk has not that much left, append reserves it in steps.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

import attrs

from rocketpy.errors import DiskFullError
from rocketpy.protocol.stored_message import MESSAGE_MAGIC_CODE, encode_blank
from rocketpy.store import layout
from rocketpy.store.disk.interface import Disk, DiskFile
from rocketpy.store.files.mapped_file import MappedFile, OpenFiles
from rocketpy.store.files.mapped_file_queue import MappedFileQueue
from rocketpy.store.log.directories import LogDirectories

_PAGE_SIZE = 4096
_MAGIC_AND_SYS_FLAG = struct.Struct(">4xi28xi")
_FIRST_RECORD_SIZE = 76  # up to storeTimestamp with either address family
_RESERVE_STEP = 1 << 20
"""Append reserves this much at once, on the event loop: measured on ext4, 2 us where the space is reserved already and
5 us where it is not, 1.5 ms at the worst. So no service has to, and no message is refused while one is at it."""


class FileAllocator(Protocol):
    """Makes CommitLog files that appear whole: reserved to full length, synced, under their name last."""

    def prepare(self, path: str, size: int) -> None:
        """Begin to make a file that will be wanted next; returns at once."""
        ...

    def take(self, path: str, size: int) -> None:
        """Return when the file is there: prepared, or made now. ShortageError when there is no space for it."""
        ...


@attrs.define(eq=False)
class FlushRange:
    """What one flush makes durable: everything up to ``end_offset``, stored no later than the timestamp."""

    end_offset: int
    store_timestamp_ms: int
    files: tuple[tuple[MappedFile, DiskFile], ...]  # held until end_flush

    def sync(self) -> None:
        """Sync the files. Blocks: for a worker thread. StoreError is final, the store must stop."""
        for _, file in self.files:
            file.sync()


class CommitLog:
    """The log of one store. Reading is by :meth:`locate`, whoever asked then reads the file."""

    def __init__(self, *, directories: LogDirectories, disk: Disk, open_files: OpenFiles, file_size: int) -> None:
        self._disk = disk
        self._directories = directories
        self._open_files = open_files
        self.file_size = file_size  # of new files
        self._allocator: FileAllocator | None = None
        self._last: MappedFile | None = None  # the file that is written, held
        # Files before it with bytes that are not synced: held too, so that a flush never has to open one.
        self._held: deque[MappedFile] = deque()
        self._next_directories: list[str] = []  # where the next file is being prepared, and where else it may be
        path, *more_paths = directories.paths
        self.files = MappedFileQueue(path=path, more_paths=more_paths, disk=disk, open_files=open_files)
        self.wrote_offset = 0
        self.reserved_offset = 0  # the last file has its space up to here, or at least up to wrote_offset
        self.wrote_timestamp_ms = 0  # the latest storeTimestamp written, ever
        self.flushed_offset = 0

    @property
    def min_offset(self) -> int:
        """Where the log begins."""
        return self.files.min_offset

    @property
    def last_file_offset(self) -> int:
        """Where the file that is written begins; 0 before the first file."""
        return self._last.base_offset if self._last is not None else 0

    @property
    def end_of_file(self) -> int:
        """Where the file that is written ends; 0 before the first file."""
        return self._last.end_offset if self._last is not None else 0

    def load(self) -> None:
        """Find the files; missing directories are made."""
        self._directories.make(self._disk)
        self.files.load()

    def open_at(self, end_offset: int, *, timestamp_ms: int, allocator: FileAllocator) -> None:
        """Begin to append at the end that recovery found, all of it durable.

        ``timestamp_ms`` is not before any storeTimestamp in the log, nor any in the checkpoint.
        """
        self._allocator = allocator
        self._open_files.is_appending = True
        self.wrote_offset = self.flushed_offset = end_offset
        self.reserved_offset = max(self.reserved_offset, end_offset)
        self.wrote_timestamp_ms = timestamp_ms
        if len(self.files):
            last = self.files[len(self.files) - 1]
            last.hold()
            self._become_last(last)

    def add_file(self) -> None:
        """Go on to the next file: what is left of this one becomes a BLANK. ShortageError changes nothing.

        The new file was prepared in advance; if it is not ready it is made here and now.
        """
        base_offset = self.end_of_file or self.wrote_offset
        if self._last is not None:
            self.make_room(min(self.wrote_offset + layout.BLANK_SIZE_MIN, base_offset))
        directory = self._take_file(base_offset)
        mapped_file = self.files.append(base_offset, self.file_size, directory=directory, is_held=True)
        if self._last is not None and self.wrote_offset < base_offset:
            self._last.file().write(
                self.wrote_offset - self._last.base_offset, encode_blank(base_offset - self.wrote_offset)
            )
        self.wrote_offset = base_offset
        self._become_last(mapped_file)
        self.reserved_offset = self.end_of_file

    def reserve_tail(self, end_offset: int) -> None:
        """Reserve what is left of the last file after the end that recovery has found. Blocks, before the log is open.

        Nothing is reserved if the disk has less space than that: a reservation that fails keeps what it got, which
        would leave nothing for queues and index. The file may be reserved already, which no call of the system tells;
        :meth:`make_room` finds out.
        """
        last = self.files[len(self.files) - 1]
        size = last.end_offset - end_offset
        if size > 0 and self._disk.free_bytes(last.path) < size:
            return
        try:
            if size > 0:
                last.file().reserve(end_offset - last.base_offset, size)
        except DiskFullError:
            return
        self.reserved_offset = last.end_offset

    def make_room(self, end_offset: int) -> None:
        """Reserve the space of the last file up to an offset in it. DiskFullError changes nothing."""
        if end_offset <= self.reserved_offset:
            return
        last = self._last
        assert last is not None, "there is a file for these bytes"
        assert end_offset <= last.end_offset, (end_offset, last)
        begin = self.reserved_offset
        page_end = min(-(-end_offset // _PAGE_SIZE) * _PAGE_SIZE, last.end_offset)
        step_end = min(max(begin + _RESERVE_STEP, page_end), last.end_offset)
        try:
            last.file().reserve(begin - last.base_offset, step_end - begin)
        except DiskFullError:
            if step_end == page_end:
                raise
            # The last pages of a disk are for messages too; and what was reserved in an earlier run needs no space.
            step_end = page_end
            last.file().reserve(begin - last.base_offset, step_end - begin)
        self.reserved_offset = step_end

    def write(self, content: bytes, timestamp_ms: int) -> None:
        """Write records at the end; they fit into the last file. StoreError is final."""
        last = self._last
        assert last is not None, "a file was made for these bytes"
        wrote_offset = self.wrote_offset
        assert wrote_offset + len(content) <= last.end_offset, (wrote_offset, len(content), last)
        last.file().write(wrote_offset - last.base_offset, content)
        self.wrote_offset = wrote_offset + len(content)
        self.wrote_timestamp_ms = max(self.wrote_timestamp_ms, timestamp_ms)

    def locate(self, physical_offset: int, size: int) -> tuple[MappedFile, int] | None:
        """Return file and position of written bytes; None if they are not (or no longer) in one file of the log."""
        if physical_offset + size > self.wrote_offset:
            return None
        mapped_file = self.files.find(physical_offset)
        if mapped_file is None or physical_offset + size > mapped_file.end_offset:
            return None
        return mapped_file, physical_offset - mapped_file.base_offset

    def next_file_offset(self, physical_offset: int) -> int:
        """Return where the file behind the one that holds an offset begins: where to go on when bytes are missing."""
        bases = [mapped_file.base_offset for mapped_file in self.files]
        index = bisect_right(bases, physical_offset)
        return bases[index] if index < len(bases) else self.wrote_offset

    # ---- deletion -------------------------------------------------------------------------------------------------

    def first_to_go(self) -> MappedFile | None:
        """Return the first file, if it may be deleted: never the last one, nor bytes that are still to be synced."""
        files = self.files
        if len(files) < 2 or files[0].end_offset > self.flushed_offset:
            return None
        return files[0]

    def take_first(self, close: Callable[[DiskFile], None]) -> MappedFile:
        """Begin the log behind its first file, and return that: it is for the caller to unlink.

        Its directory must be synced before the next one goes, or a loss of power leaves a gap in the log. ``close``
        gets its descriptor, see :meth:`MappedFile.retire`.
        """
        mapped_file = self.files.take_first()
        mapped_file.retire(close)
        return mapped_file

    # ---- flush ----------------------------------------------------------------------------------------------------

    def begin_flush(self, *, least_pages: int = 0) -> FlushRange | None:
        """Return what is to be synced now, None when nothing is (or fewer pages than asked for).

        End and timestamp are those of this moment: what is appended during the sync is not part of it.
        """
        flushed_offset, wrote_offset = self.flushed_offset, self.wrote_offset
        if wrote_offset <= flushed_offset:
            return None
        if wrote_offset // _PAGE_SIZE - flushed_offset // _PAGE_SIZE < least_pages:
            return None
        files = tuple((each, each.hold()) for each in self._files_of(flushed_offset, wrote_offset))
        return FlushRange(wrote_offset, self.wrote_timestamp_ms, files)

    def end_flush(self, flush_range: FlushRange, *, is_synced: bool) -> None:
        """The sync has returned, or failed: give the files back, and count what is durable now."""
        for mapped_file, _ in flush_range.files:
            mapped_file.release()
        if is_synced:
            self.flushed_offset = max(self.flushed_offset, flush_range.end_offset)
        self._release_flushed()

    # ---- private --------------------------------------------------------------------------------------------------

    def _files_of(self, begin_offset: int, end_offset: int) -> Iterable[MappedFile]:
        return (each for each in self.files if each.end_offset > begin_offset and each.base_offset < end_offset)

    def _take_file(self, base_offset: int) -> str:
        """Have a file made, where it was prepared or where else there is space; return in which directory."""
        assert self._allocator is not None, "the log is open"
        directories = self._next_directories or self._directories.for_file(base_offset // self.file_size)
        for directory in directories:
            try:
                self._allocator.take(f"{directory}/{layout.file_name(base_offset)}", self.file_size)
            except DiskFullError:  # of descriptors there are no more in another directory either
                if directory == directories[-1]:
                    raise
            else:
                return directory
        raise AssertionError("there is a directory")

    def _become_last(self, mapped_file: MappedFile) -> None:
        """Write to a file from now on, which is held."""
        if self._last is not None:
            self._held.append(self._last)
            self._release_flushed()
        self._last = mapped_file
        assert self._allocator is not None
        self._next_directories = self._directories.for_file(mapped_file.end_offset // self.file_size)
        path = f"{self._next_directories[0]}/{layout.file_name(mapped_file.end_offset)}"
        self._allocator.prepare(path, self.file_size)

    def _release_flushed(self) -> None:
        while self._held and self._held[0].end_offset <= self.flushed_offset:
            self._held.popleft().release()


def first_store_timestamp(file: DiskFile) -> int:
    """Return the storeTimestamp of a CommitLog file's first record, 0 if it has none. Blocks if it is cold."""
    head = file.read(0, _FIRST_RECORD_SIZE)
    if len(head) < _FIRST_RECORD_SIZE:
        return 0
    magic, sys_flag = _MAGIC_AND_SYS_FLAG.unpack_from(head)
    position = layout.store_timestamp_position(sys_flag)
    return int.from_bytes(head[position : position + 8], "big") if magic == MESSAGE_MAGIC_CODE else 0
