"""The files of one log or queue, in order of their offsets.

Files are found by bisection over their actual offsets and sizes, so a store opens with whatever file size it was
written with; a configured size applies to new files only. (RocketMQ computes a file's number, which takes one fixed
size.) Nothing here reads or writes contents.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Iterator, Sequence
from itertools import pairwise

from rocketpy.errors import DamagedStoreError
from rocketpy.store.disk.interface import Disk, DiskFile
from rocketpy.store.files.mapped_file import MappedFile, OpenFiles, Writer
from rocketpy.store.layout import base_offset_of


class MappedFileQueue:
    """Numbered files. Each begins at the end of the previous one; the first need not begin at 0.

    They are in one directory; those of a CommitLog may be in several, of which ``path`` is the first.
    """

    __slots__ = ("_base_offsets", "_disk", "_files", "_open_files", "_writer", "path", "paths")

    def __init__(
        self,
        *,
        path: str,
        disk: Disk,
        open_files: OpenFiles,
        more_paths: Sequence[str] = (),
        writer: Writer | None = None,
    ) -> None:
        self.path = path
        self._writer = writer
        self.paths = (path, *more_paths)
        self._disk = disk
        self._open_files = open_files
        self._files: list[MappedFile] = []
        self._base_offsets: list[int] = []  # of _files, for bisection

    def __len__(self) -> int:
        return len(self._files)

    def __iter__(self) -> Iterator[MappedFile]:
        return iter(self._files)

    def __getitem__(self, index: int) -> MappedFile:
        return self._files[index]

    @property
    def min_offset(self) -> int:
        """The offset of the first file; 0 without files."""
        return self._base_offsets[0] if self._files else 0

    @property
    def end_offset(self) -> int:
        """The end of the last file, written or not; 0 without files."""
        return self._files[-1].end_offset if self._files else 0

    def load(self, *, drop_after_gap: bool = False) -> None:
        """Find the files of the directories; foreign names are skipped.

        Empty files at the end are what a crash leaves of a creation, and are deleted. Files after a gap are
        inconsistent: with ``drop_after_gap``, for files that can be rebuilt from the log, they are deleted, otherwise
        a :class:`DamagedStoreError` names the gap. The same error reports two files of one name in two directories, and
        a file that begins inside another one.
        """
        found = self._files_found()
        sizes = {mapped_file.size for mapped_file in found}
        for mapped_file, following in pairwise(found):
            if mapped_file.base_offset == following.base_offset:
                raise DamagedStoreError(
                    f"expected one file of this name, found another in {following.directory}", path=mapped_file.path
                )
            if mapped_file.end_offset < following.base_offset and not drop_after_gap:
                raise DamagedStoreError(
                    f"expected {following.base_offset - mapped_file.base_offset} bytes up to the next file, "
                    f"found {mapped_file.size}",
                    path=mapped_file.path,
                )
            allowed = following.base_offset - mapped_file.base_offset
            if not drop_after_gap and begins_inside(mapped_file.size, allowed, sizes):
                raise DamagedStoreError(
                    f"expected no file before offset {mapped_file.end_offset}, where {mapped_file.path} ends",
                    path=following.path,
                )
            mapped_file.size = min(mapped_file.size, allowed)
        removed_from: dict[str, None] = {}
        for mapped_file in found:
            if (self._files and mapped_file.base_offset != self.end_offset) or not mapped_file.size:
                mapped_file.remove(self._disk)
                removed_from[mapped_file.directory] = None
            else:
                self._files.append(mapped_file)
                self._base_offsets.append(mapped_file.base_offset)
        for directory in removed_from:
            # Otherwise a loss of power could bring a removed file back under the name of one created later.
            self._disk.sync_directory(directory)

    def append(self, base_offset: int, size: int, *, directory: str | None = None, is_held: bool = False) -> MappedFile:
        """Add a file that exists, or is about to, after the last one; by default in the first directory.

        With ``is_held`` the file is opened before it is added, so that DescriptorShortageError adds nothing.
        """
        assert not self._files or base_offset == self.end_offset, (self.path, base_offset)
        mapped_file = self._file(self.path if directory is None else directory, base_offset, size)
        if is_held:
            mapped_file.hold()
        self._files.append(mapped_file)
        self._base_offsets.append(base_offset)
        return mapped_file

    def find(self, offset: int) -> MappedFile | None:
        """Return the file that holds the byte at an offset, None if there is none."""
        if not self._files:
            return None
        mapped_file = self._files[-1]  # mostly
        if offset < mapped_file.base_offset:
            index = bisect_right(self._base_offsets, offset) - 1
            if index < 0:
                return None
            mapped_file = self._files[index]
        return mapped_file if offset < mapped_file.end_offset else None

    def index_of(self, mapped_file: MappedFile) -> int:
        """Return the index of a file."""
        return bisect_right(self._base_offsets, mapped_file.base_offset) - 1

    def take_first(self) -> MappedFile:
        """Remove the first file from the list and return it: the caller retires and unlinks it."""
        self._base_offsets.pop(0)
        return self._files.pop(0)

    def remove_first(self, close: Callable[[DiskFile], None]) -> MappedFile:
        """Delete the first file and return it; current holders can still read. Syncs no directory.

        ``close`` gets its descriptor, see :meth:`MappedFile.retire`. The file is always open at that moment, so that
        its space is freed by that close and not by the unlink on the event loop.
        """
        self._files[0].file()  # before any change, because opening it may fail
        mapped_file = self.take_first()
        mapped_file.retire(close)
        self._disk.unlink(mapped_file.path)
        return mapped_file

    def remove_last_after(self, offset: int) -> bool:
        """Delete the last file if it begins after an offset; False if it does not. Syncs no directory."""
        if not self._files or self._base_offsets[-1] <= offset:
            return False
        self._files[-1].remove(self._disk)
        self._files.pop()
        self._base_offsets.pop()
        return True

    def remove_after(self, offset: int) -> None:
        """Delete the files that begin after an offset, last one first. Syncs no directory."""
        while self.remove_last_after(offset):
            pass

    def remove_all(self) -> None:
        """Delete every file."""
        self.remove_after(-1)

    def sync_directories(self) -> None:
        """Make creations and removals of files durable. Blocks."""
        for path in self.paths:
            self._disk.sync_directory(path)

    def close(self) -> None:
        """Close every descriptor."""
        for mapped_file in self._files:
            mapped_file.close()

    def _files_found(self) -> list[MappedFile]:
        """Return the numbered files of all directories, in order of their offsets."""
        found = []
        for directory in self.paths:
            for name in self._disk.list_directory(directory):
                base_offset = base_offset_of(name)
                if base_offset is not None:
                    found.append(self._file(directory, base_offset, self._disk.file_size(f"{directory}/{name}")))
        found.sort(key=lambda mapped_file: mapped_file.base_offset)
        return found

    def _file(self, directory: str, base_offset: int, size: int) -> MappedFile:
        return MappedFile(
            directory=directory, base_offset=base_offset, size=size, open_files=self._open_files, writer=self._writer
        )


def begins_inside(size: int, allowed: int, sizes: Container[int]) -> bool:
    """Whether the file that follows another one of a size, ``allowed`` bytes after its begin, begins inside it.

    If other files have that shorter size, the following file is right and the one before it too long: it is read up to
    there.
    """
    return size > allowed and allowed not in sizes
