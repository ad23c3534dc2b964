"""The CommitLog: the records of all topics in one sequence of files.

This module writes bytes; the appender knows what they mean. Rules: bytes before ``wrote_offset`` never change while the
store is open; bytes are written into reserved space only, so that a write never finds the disk full; a new file gets
its name only with its full length reserved; after a failed sync nothing is synced again. A record is durable once a
service has called :meth:`CommitLog.begin_flush`, the range's ``sync`` in a worker thread, and ``end_flush``.

Only the file that exists at the start may lack reserved space: files of a Java broker or from a backup are sparse.
Recovery reserves the rest of that file; if the disk has less free space, append reserves it in steps.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from rocketpy.errors import DiskFullError, ShortageError
from rocketpy.protocol.stored_message import MESSAGE_MAGIC_CODE, Buffer, encode_blank, store_timestamp_position
from rocketpy.store import layout
from rocketpy.store.disk.interface import PAGE_SIZE, Disk, DiskFile
from rocketpy.store.files.mapped_file import MappedFile, OpenFiles
from rocketpy.store.files.mapped_file_queue import MappedFileQueue
from rocketpy.store.log.directories import LogDirectories
from rocketpy.store.log.held_ranges import AheadRange, FlushRange

_MAGIC_AND_SYS_FLAG = struct.Struct(">4xi28xi")
TIMED_HEAD_SIZE = 76
"""Bytes of a record up to its storeTimestamp, with either address family."""

_RESERVE_STEP = 1 << 20
"""Append reserves this much at once, on the event loop. Measured on ext4: 2 us for space that is reserved already, 5 us
for other, 1.5 ms at worst. So no background service is needed, during whose work messages would have to be refused."""

_NEVER = 1 << 60
"""An offset that no log reaches."""


class FileAllocator(Protocol):
    """Creates CommitLog files atomically: reserved to full length, synced, and only then renamed to their name."""

    def prepare(self, path: str, size: int) -> None:
        """Start creating the next file; returns at once."""
        ...

    def take(self, path: str, size: int) -> None:
        """Return when the file exists: prepared, or created now. ShortageError if there is no space for it."""
        ...

    def discard(self) -> None:
        """Remove the file that was prepared, if there is one."""
        ...


class CommitLog:
    """The log of one store. For reads, :meth:`locate` returns file and position, and the caller reads the file."""

    def __init__(self, *, directories: LogDirectories, disk: Disk, open_files: OpenFiles, file_size: int) -> None:
        self._disk = disk
        self._directories = directories
        self._open_files = open_files
        self.file_size = file_size  # of new files
        self._allocator: FileAllocator | None = None
        self._last: MappedFile | None = None  # the file being written, held
        # Earlier files with unsynced bytes: held too, so that a flush never has to open a file.
        self._held: deque[MappedFile] = deque()
        self._next_directories: list[str] = []  # of the file being prepared, then the alternatives
        path, *more_paths = directories.paths
        self.files = MappedFileQueue(path=path, more_paths=more_paths, disk=disk, open_files=open_files)
        self.wrote_offset = 0
        self.last_write_offset = 0  # where the last write began, with a record; 0 before the first one
        self.reserved_offset = 0  # the end of the reserved space in the last file, if after wrote_offset
        self.wrote_timestamp_ms = 0  # the latest storeTimestamp written, ever
        self.flushed_offset = 0
        self._notify_offset = _NEVER
        self._notify: Callable[[], None] | None = None

    @property
    def min_offset(self) -> int:
        """The offset of the first byte."""
        return self.files.min_offset

    @property
    def last_file_offset(self) -> int:
        """The offset of the file being written; 0 before the first file."""
        return self._last.base_offset if self._last is not None else 0

    @property
    def end_of_file(self) -> int:
        """The end of the file being written; 0 before the first file."""
        return self._last.end_offset if self._last is not None else 0

    def load(self) -> None:
        """Find the files; missing directories are created."""
        self._directories.make(self._disk)
        self.files.load()

    def open_at(self, end_offset: int, *, timestamp_ms: int, allocator: FileAllocator) -> None:
        """Start appending at the end that recovery found, with everything before it durable.

        ``timestamp_ms`` is not before any storeTimestamp in the log or in the checkpoint.
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

    def add_file(self, blank: Buffer | None = None) -> None:
        """Roll to the next file: the rest of this one becomes a BLANK. ShortageError changes nothing.

        ``blank`` is the whole rest if its bytes are given, as in the log of a slave. The new file was prepared in
        advance; if it is not ready it is created now, which blocks.
        """
        base_offset = self.end_of_file or self.wrote_offset
        if blank is None:
            blank = encode_blank(base_offset - self.wrote_offset)
        if self._last is not None:
            self.make_room(min(self.wrote_offset + len(blank), base_offset))
        directory = self._take_file(base_offset)
        mapped_file = self.files.append(base_offset, self.file_size, directory=directory, is_held=True)
        if self._last is not None and self.wrote_offset < base_offset:
            self._last.file().write(self.wrote_offset - self._last.base_offset, blank)
        self.wrote_offset = base_offset
        self._become_last(mapped_file)
        self.reserved_offset = self.end_of_file

    def begin_at(self, physical_offset: int) -> None:
        """Let a log without a record begin at an offset, with a new file. ShortageError leaves it without a file.

        It may have a file already, of an earlier attempt, and one that was prepared. They are deleted durably, which
        blocks: beside the new one they would be taken for a log with a gap.
        """
        assert self.wrote_offset == self.min_offset, "there is no record"
        assert self._allocator is not None, "the log is open"
        if self._last is not None:
            self._last.release()
            self._last = None
        self._allocator.discard()
        self.files.remove_all()
        self._next_directories = []
        self.wrote_offset = self.flushed_offset = self.reserved_offset = physical_offset
        try:
            self.files.sync_directories()
            self.add_file()
        except ShortageError:
            self.wrote_offset = self.flushed_offset = self.reserved_offset = 0
            raise

    def reserve_tail(self, end_offset: int) -> None:
        """Reserve the rest of the last file after the end that recovery has found. Blocks; before the log is open.

        Nothing is reserved if the disk has less space than that: a failed reservation keeps the space it got, which
        would leave nothing for queues and index. The file may be reserved already, which no system call reports;
        then :meth:`make_room` succeeds without free space.
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
        page_end = min(-(-end_offset // PAGE_SIZE) * PAGE_SIZE, last.end_offset)
        step_end = min(max(begin + _RESERVE_STEP, page_end), last.end_offset)
        try:
            last.file().reserve(begin - last.base_offset, step_end - begin)
        except DiskFullError:
            if step_end == page_end:
                raise
            # Use the last free pages of the disk too. And pages that an earlier run has reserved need no free space.
            step_end = page_end
            last.file().reserve(begin - last.base_offset, step_end - begin)
        self.reserved_offset = step_end

    def write(self, content: Buffer, timestamp_ms: int) -> None:
        """Write records at the end; the caller has made sure that they fit into the last file. StoreError is final."""
        last = self._last
        assert last is not None, "a file was made for these bytes"
        wrote_offset = self.wrote_offset
        end_offset = wrote_offset + len(content)
        assert end_offset <= last.end_offset, (wrote_offset, len(content), last)
        last.file().write(wrote_offset - last.base_offset, content)
        self.last_write_offset, self.wrote_offset = wrote_offset, end_offset
        self.wrote_timestamp_ms = max(self.wrote_timestamp_ms, timestamp_ms)
        if end_offset >= self._notify_offset:
            self._notify_written()

    def notify_at(self, physical_offset: int, notify: Callable[[], None]) -> None:
        """Call back once, in the write of bytes that reaches an offset. Replaces an earlier request."""
        self._notify_offset, self._notify = physical_offset, notify

    def hold_ahead(self, physical_offset: int, size: int) -> AheadRange | None:
        """Hold reserved space of the last file from an offset on, at most ``size`` bytes, until its ``release``.

        None if the file has none there: the offset is past its end, or its space is reserved in steps.
        """
        last = self._last
        end_offset = min(physical_offset + size, self.reserved_offset)
        if last is None or end_offset <= physical_offset:
            return None
        return AheadRange(physical_offset - last.base_offset, end_offset - physical_offset, last, last.hold())

    def locate(self, physical_offset: int, size: int) -> tuple[MappedFile, int] | None:
        """Return file and position of written bytes; None if no single file of the log has them (any more)."""
        if physical_offset + size > self.wrote_offset:
            return None
        mapped_file = self.files.find(physical_offset)
        if mapped_file is None or physical_offset + size > mapped_file.end_offset:
            return None
        return mapped_file, physical_offset - mapped_file.base_offset

    def locate_some(self, physical_offset: int, size: int) -> tuple[MappedFile, int, int] | None:
        """Return file, position and how many of ``size`` written bytes it has; None if the log has none of them."""
        mapped_file = self.files.find(physical_offset)
        if mapped_file is None:
            return None
        size = min(size, mapped_file.end_offset - physical_offset, self.wrote_offset - physical_offset)
        return (mapped_file, physical_offset - mapped_file.base_offset, size) if size > 0 else None

    def next_file_offset(self, physical_offset: int) -> int:
        """Return the offset of the file after the one that holds an offset: where a reader continues after damage."""
        bases = [mapped_file.base_offset for mapped_file in self.files]
        index = bisect_right(bases, physical_offset)
        return bases[index] if index < len(bases) else self.wrote_offset

    # ---- deletion -------------------------------------------------------------------------------------------------

    def first_to_go(self) -> MappedFile | None:
        """Return the first file, if it may be deleted: never the last file, nor one with unsynced bytes."""
        files = self.files
        if len(files) < 2 or files[0].end_offset > self.flushed_offset:
            return None
        return files[0]

    def take_first(self, close: Callable[[DiskFile], None]) -> MappedFile:
        """Remove the first file from the log and return it; the caller unlinks it.

        The caller syncs its directory before the next removal, or a loss of power could leave a gap in the log.
        ``close`` gets its descriptor, see :meth:`MappedFile.retire`.
        """
        mapped_file = self.files.take_first()
        mapped_file.retire(close)
        return mapped_file

    # ---- flush ----------------------------------------------------------------------------------------------------

    def begin_flush(self, *, least_pages: int = 0) -> FlushRange | None:
        """Return the range to sync now, None if there is nothing to sync (or less than ``least_pages``).

        End and timestamp are captured now: bytes appended during the sync are not part of the range.
        """
        flushed_offset, wrote_offset = self.flushed_offset, self.wrote_offset
        if wrote_offset <= flushed_offset:
            return None
        if wrote_offset // PAGE_SIZE - flushed_offset // PAGE_SIZE < least_pages:
            return None
        files = tuple((each, each.hold()) for each in self._files_of(flushed_offset, wrote_offset))
        return FlushRange(wrote_offset, self.wrote_timestamp_ms, files)

    def end_flush(self, flush_range: FlushRange, *, is_synced: bool) -> None:
        """Release the files of a range whose sync has returned or failed, and advance ``flushed_offset`` if synced."""
        for mapped_file, _ in flush_range.files:
            mapped_file.release()
        if is_synced:
            self.flushed_offset = max(self.flushed_offset, flush_range.end_offset)
        self._release_flushed()

    # ---- private --------------------------------------------------------------------------------------------------

    def _notify_written(self) -> None:
        notify, self._notify_offset, self._notify = self._notify, _NEVER, None
        if notify is not None:
            notify()

    def _files_of(self, begin_offset: int, end_offset: int) -> Iterable[MappedFile]:
        return (each for each in self.files if each.end_offset > begin_offset and each.base_offset < end_offset)

    def _take_file(self, base_offset: int) -> str:
        """Get the next file, in the directory of preparation or in another one with space; return the directory."""
        assert self._allocator is not None, "the log is open"
        directories = self._next_directories or self._directories.for_file(base_offset // self.file_size)
        for directory in directories:
            try:
                self._allocator.take(f"{directory}/{layout.file_name(base_offset)}", self.file_size)
            except DiskFullError:  # not a shortage of descriptors, which another directory would not solve
                if directory == directories[-1]:
                    raise
            else:
                return directory
        raise AssertionError("there is a directory")

    def _become_last(self, mapped_file: MappedFile) -> None:
        """Make a held file the one being written, and prepare its successor."""
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
    """Return the storeTimestamp of the first record of a CommitLog file, 0 if it has none. Blocks if it is cold."""
    return store_timestamp_in(file.read(0, TIMED_HEAD_SIZE))


def store_timestamp_in(head: bytes) -> int:
    """Return the storeTimestamp of the record that begins with these bytes, 0 if none does or they are too few."""
    if len(head) < TIMED_HEAD_SIZE:
        return 0
    magic, sys_flag = _MAGIC_AND_SYS_FLAG.unpack_from(head)
    position = store_timestamp_position(sys_flag)
    return int.from_bytes(head[position : position + 8], "big") if magic == MESSAGE_MAGIC_CODE else 0
