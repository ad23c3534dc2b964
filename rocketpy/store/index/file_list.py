"""The files of the index, in order of creation: found at a start, added when one is full, synced, deleted.

Rule: after a crash only files are kept that the checkpoint covers. It covers a file by the time of its last
message, once the file is full and synced; so files are synced in their order. Nothing here knows keys or messages.

Compatibility: ``IndexService`` (4.9.8) deletes files of other sizes only by hand; here they are left alone, and a new
file begins.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from rocketpy.clock import Clock
from rocketpy.runner import RunBlocking
from rocketpy.store.disk.interface import Disk
from rocketpy.store.index.file import IndexFile, IndexLayout, create_index_file, read_index_header
from rocketpy.store.recovery.checkpoint import StoreCheckpoint

JAVA_LAYOUT = IndexLayout(5_000_000, 20_000_000)
_NAME_SIZE = 17


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

    def load(self, *, is_clean: bool, log_end_offset: int) -> None:
        """Find the files, and delete those that may be wrong, durably. Blocks, before the store is open.

        Wrong are those that name messages beyond the end of the log: others will lie there. After a crash also those
        that may be incomplete. Files become durable in order, and the checkpoint has the time of the last one. If the
        clock was set back the time of a later one may be before that although it was never synced: then it is not known
        which is meant. And after a file that is not kept none is, because the log is read again from the last one's end
        only.
        """
        self._disk.make_directories(self._path)
        covered_ms, earlier_ms = self._checkpoint.index_msg_timestamp_ms, -1
        found = list(self._files_found())
        for index_file in found:
            header = index_file.header
            is_covered = earlier_ms < header.end_timestamp_ms <= covered_ms and header.index_count > 1
            # By its times alone a file could pass that was begun in the same millisecond, or after the clock was set
            # back. So the one that still grew does not, and the checkpoint never means it.
            still_grew = index_file.room > 0 and (index_file.layout == self._layout or index_file is found[-1])
            is_whole = is_clean or (is_covered and not still_grew)
            if is_whole and header.end_physical_offset < log_end_offset:
                self._files.append(index_file)
                earlier_ms = header.end_timestamp_ms
            else:
                self._disk.unlink(index_file.path)
                covered_ms = -1
        if not is_clean or len(self._files) < len(found):
            # Also where none was deleted: an earlier recovery may have done it, and died before this.
            self._disk.sync_directory(self._path)
        self._cover_no_more_than_is_kept()

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
