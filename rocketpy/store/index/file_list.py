"""The files of the index, in order of creation: found at a start, added when one is full, synced, deleted.

Rule: after a loss of power only files are kept that the checkpoint covers. It covers a file by the time of its last
message, once the file is full and synced; so files are synced in their order. After a kill the recovery note names the
file that was being written: then all are kept, and the slots of the last one are repaired. Nothing here knows keys or
messages.

Compatibility: ``IndexService`` (4.9.8) deletes files of other sizes only by hand; here they are left alone, and a new
file begins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeAlias

import attrs

from rocketpy.clock import Clock
from rocketpy.runner import RunBlocking
from rocketpy.store.disk.interface import Disk
from rocketpy.store.index.file import ENTRY, ENTRY_SIZE, IndexFile, IndexLayout, create_index_file, read_index_header
from rocketpy.store.index.torn_slots import repair_slots
from rocketpy.store.recovery.checkpoint import StoreCheckpoint


def leads_anywhere(physical_offset: int, key_hash: int) -> bool:
    """Check nothing: for an index without a log."""
    return True


JAVA_LAYOUT = IndexLayout(5_000_000, 20_000_000)
_NAME_SIZE = 17

LeadsTo: TypeAlias = Callable[[int, int], bool]
"""Whether the log has, at a physical offset, a message with a key of that hash."""


@attrs.frozen
class NotedIndexFile:
    """The last file of a running broker's index, as the recovery note names it."""

    name: str
    identity: str
    """Of the file: see :meth:`Disk.identity`."""
    index_count: int
    end_physical_offset: int


class IndexFileList:
    """The index files of one store. All but the last are full, or were left by an older run."""

    def __init__(
        self, *, path: str, disk: Disk, clock: Clock, checkpoint: StoreCheckpoint, layout: IndexLayout
    ) -> None:
        self._path = path
        self._disk = disk
        self._clock = clock
        self._checkpoint = checkpoint
        self._layout = layout
        self._files: list[IndexFile] = []
        self._is_noted = False  # files were kept because of a note
        self.unsynced: list[IndexFile] = []
        """Full, and not yet covered by the checkpoint."""

    def __len__(self) -> int:
        return len(self._files)

    def __iter__(self) -> Iterator[IndexFile]:
        return iter(self._files)

    def __reversed__(self) -> Iterator[IndexFile]:
        return reversed(self._files)

    @property
    def end_physical_offset(self) -> int:
        """Physical offset of the last message in the files, 0 without files."""
        return self._files[-1].header.end_physical_offset if self._files else 0

    @property
    def noted_file(self) -> NotedIndexFile | None:
        """The last file, for the recovery note; None without files. May be asked in a worker thread."""
        if not self._files:
            return None
        last = self._files[-1]
        header = last.header
        return NotedIndexFile(
            last.path.rpartition("/")[2],
            self._disk.identity(last.path),
            header.index_count,
            header.end_physical_offset,
        )

    def load(
        self,
        *,
        is_clean: bool,
        log_end_offset: int,
        noted: NotedIndexFile | None = None,
        leads_to: LeadsTo = leads_anywhere,
    ) -> str:
        """Find the files, and delete those that may be wrong, durably. Blocks, before the store is open.

        Return why a note was not believed, empty if it was, or there is none. With a believed one
        :meth:`repair` must follow.

        Wrong are those that name messages beyond the end of the log: others will lie there. After a crash also those
        that may be incomplete. Files become durable in order, and the checkpoint has the time of the last one. If the
        clock was set back the time of a later one may be before that although it was never synced: then it is not known
        which is meant. And after a file that is not kept none is, because the log is read again from the last one's end
        only.
        """
        self._disk.make_directories(self._path)
        covered_ms, earlier_ms = self._checkpoint.index_msg_timestamp_ms, -1
        found = list(self._files_found())
        why = "" if noted is None or is_clean else self._objection(noted, found, log_end_offset, leads_to)
        self._is_noted = noted is not None and not is_clean and not why
        for index_file in found:
            header = index_file.header
            is_covered = earlier_ms < header.end_timestamp_ms <= covered_ms and header.index_count > 1
            # By its times alone a file could pass that was begun in the same millisecond, or after the clock was set
            # back. So the one that still grew does not, and the checkpoint never means it.
            still_grew = index_file.room > 0 and (index_file.layout == self._layout or index_file is found[-1])
            is_whole = is_clean or (is_covered and not still_grew)
            if (is_whole or self._is_noted) and header.end_physical_offset < log_end_offset:
                self._files.append(index_file)
                if is_whole:
                    earlier_ms = header.end_timestamp_ms
                else:
                    covered_ms = -1  # files become durable in order
                    self.unsynced.append(index_file)
            else:
                self._disk.unlink(index_file.path)
                covered_ms = -1
        if not is_clean or len(self._files) < len(found):
            # Also where none was deleted: an earlier recovery may have done it, and died before this.
            self._disk.sync_directory(self._path)
        # The last one is not full, or counts as such when the next one is made.
        self.unsynced = [each for each in self.unsynced if each is not self._files[-1]]
        self._cover_no_more_than_is_kept()
        return why

    def repair(self) -> Iterator[None]:
        """Repair the slots of the last file, if it was kept because of a note; yields about every 10 ms. Blocks."""
        if self._is_noted and self._files:
            yield from repair_slots(self._files[-1], self._disk)

    def _objection(self, noted: NotedIndexFile, found: list[IndexFile], log_end_offset: int, leads_to: LeadsTo) -> str:
        """Return why the files are not those that a note speaks of; empty if they are.

        Files after the noted one were made since, and those before it were full then. What a file says last must be
        true of the log.
        """
        named = [each for each in found if each.path.rpartition("/")[2] == noted.name]
        if not named:
            return f"expected the index file {noted.name}, found none"
        header = named[0].header
        if not noted.identity or self._disk.identity(named[0].path) != noted.identity:
            return f"the index file {noted.name} is another one now"
        if header.index_count < noted.index_count or header.end_physical_offset < noted.end_physical_offset:
            return (
                f"expected {noted.index_count} entries in the index file {noted.name}, up to offset "
                f"{noted.end_physical_offset}, found {header.index_count} up to {header.end_physical_offset}"
            )
        for index_file in found:
            header, name = index_file.header, index_file.path.rpartition("/")[2]
            if header.end_physical_offset >= log_end_offset:
                return f"the index file {name} names offset {header.end_physical_offset}, after the log's end"
            if name < noted.name and index_file.layout == self._layout and index_file.room > 0:
                return f"the index file {name} is not full, expected that of each before {noted.name}"
            if name >= noted.name and not self._last_entry_leads(index_file, leads_to):
                return f"the last entry of the index file {name} does not lead to a message with its key"
        return ""

    def _last_entry_leads(self, index_file: IndexFile, leads_to: LeadsTo) -> bool:
        header, layout = index_file.header, index_file.layout
        if not 1 < header.index_count <= layout.entry_count:
            return header.index_count == 1  # an empty one
        file = self._disk.open(index_file.path, read_only=True)
        try:
            entry = file.read(layout.entries_position + (header.index_count - 1) * ENTRY_SIZE, ENTRY_SIZE)
        finally:
            file.close()
        if len(entry) < ENTRY_SIZE:
            return False
        key_hash, physical_offset, _, _ = ENTRY.unpack(entry)
        return physical_offset == header.end_physical_offset and leads_to(physical_offset, key_hash)

    def writable_file(self) -> IndexFile:
        """Return the last file, or a new one when it is full."""
        last = self._files[-1] if self._files else None
        if last is not None and last.room > 0 and last.layout == self._layout:
            return last
        # Files are in order of their names, whatever the wall clock does.
        number = int(index_file_name(self._clock.timestamp_ms()))
        if last is not None:
            number = max(number, int(last.path.rpartition("/")[2]) + 1)
        index_file = create_index_file(
            self._disk,
            f"{self._path}/{number:0{_NAME_SIZE}d}",
            f"{self._path}.staged",
            self._layout,
            None if last is None else last.header,
        )
        if last is not None:
            self.unsynced.append(last)
        self._files.append(index_file)
        return index_file

    async def sync_full_files(self, run_blocking: RunBlocking) -> None:
        """Sync the files that are full, and then say so in the checkpoint, one after the other, in worker threads."""
        while self.unsynced:
            index_file = self.unsynced[0]
            await run_blocking(self._sync, index_file)
            self._cover(index_file)
            index_file.close()
            await run_blocking(self._checkpoint.flush)
            del self.unsynced[0]

    def sync_all(self) -> None:
        """Make every file durable, the last one too; the checkpoint is for the caller to flush. Blocks."""
        for index_file in dict.fromkeys([*self.unsynced, *self._files[-1:]]):
            index_file.sync()
            self._cover(index_file)
        self._disk.sync_directory(self._path)
        self.unsynced.clear()

    def take_expired(self, log_min_offset: int) -> IndexFile | None:
        """Remove the first file from the list and return it, if all its messages are before a physical offset.

        Never the last one, nor one that is still to be synced. The caller closes and unlinks it.
        """
        files = self._files
        if len(files) < 2 or files[0] in self.unsynced or files[0].header.end_physical_offset >= log_min_offset:
            return None
        return files.pop(0)

    def close(self) -> None:
        """Give all descriptors back."""
        for index_file in self._files:
            index_file.close()

    # ---- private --------------------------------------------------------------------------------------------------

    def _sync(self, index_file: IndexFile) -> None:
        index_file.sync()
        self._disk.sync_directory(self._path)

    def _cover(self, index_file: IndexFile) -> None:
        if index_file is not self._files[-1] or not index_file.room:
            checkpoint = self._checkpoint
            checkpoint.index_msg_timestamp_ms = max(
                checkpoint.index_msg_timestamp_ms, index_file.header.end_timestamp_ms
            )

    def _cover_no_more_than_is_kept(self) -> None:
        """Take back the time of files that are gone: those that are made again have it too, and are not synced yet."""
        checkpoint = self._checkpoint
        kept_ms = max((index_file.header.end_timestamp_ms for index_file in self._files), default=0)
        if kept_ms < checkpoint.index_msg_timestamp_ms:
            checkpoint.index_msg_timestamp_ms = kept_ms
            checkpoint.flush()

    def _files_found(self) -> Iterator[IndexFile]:
        """Yield the files of the directory in order, of either layout; foreign ones are skipped."""
        for name in self._disk.list_directory(self._path):
            path = f"{self._path}/{name}"
            layout = self._layout_of(path)
            if layout is None or not (name.isascii() and name.isdigit()):
                continue
            file = self._disk.open(path, read_only=True)
            try:
                header = read_index_header(file)
            finally:
                file.close()
            yield IndexFile(path=path, disk=self._disk, layout=layout, header=header)

    def _layout_of(self, path: str) -> IndexLayout | None:
        """Return how a file is laid out, as far as its size says: as configured, or as Java does by default."""
        size = self._disk.file_size(path)
        return next((each for each in (self._layout, JAVA_LAYOUT) if each.file_size == size), None)


def index_file_name(timestamp_ms: int) -> str:
    """Return the name of a file made at a time: yyyyMMddHHmmssSSS in local time."""
    seconds, milliseconds = divmod(timestamp_ms, 1000)
    return f"{time.strftime('%Y%m%d%H%M%S', time.localtime(seconds))}{milliseconds:03d}"
