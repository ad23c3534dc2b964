"""The files of one log or queue in order of their offsets.

Files are found by bisection over the offsets and sizes that they really have, so a store opens with whatever file size
it was written with; a configured size shapes new files only. (RocketMQ computes a file's number and needs one size.)
Nothing here reads or writes contents.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise

from rocketpy.errors import StoreError
from rocketpy.store.disk import Disk
from rocketpy.store.layout import base_offset_of
from rocketpy.store.mapped_file import MappedFile, OpenFiles


class MappedFileQueue:
    """Numbered files of one directory. Each begins where the one before it ends; the first need not begin at 0."""

    __slots__ = ("_base_offsets", "_disk", "_files", "_open_files", "path")

    def __init__(self, *, path: str, disk: Disk, open_files: OpenFiles) -> None:
        self.path = path
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
        """Where the first file begins; 0 without files."""
        return self._base_offsets[0] if self._files else 0

    @property
    def end_offset(self) -> int:
        """Where the last file ends, written or not; 0 without files."""
        return self._files[-1].end_offset if self._files else 0

    def load(self, *, drop_behind_gap: bool = False) -> None:
        """Find the files of the directory; foreign names are passed over.

        Files of no length at the end are what a crash leaves of a creation, and are deleted. What lies behind a gap
        between two files cannot be right: it is deleted too if it can be made again, and otherwise a
        :class:`StoreError` names the place.
        """
        found = []
        for name in self._disk.list_directory(self.path):
            base_offset = base_offset_of(name)
            if base_offset is not None:
                found.append(self._file(base_offset, self._disk.file_size(f"{self.path}/{name}")))
        found.sort(key=lambda mapped_file: mapped_file.base_offset)
        for mapped_file, following in pairwise(found):
            if mapped_file.end_offset < following.base_offset and not drop_behind_gap:
                raise StoreError(
                    f"expected {following.base_offset - mapped_file.base_offset} bytes up to the next file, "
                    f"found {mapped_file.size}",
                    path=mapped_file.path,
                )
            # A file that is longer than the next one allows is read as far as that.
            mapped_file.size = min(mapped_file.size, following.base_offset - mapped_file.base_offset)
        for mapped_file in found:
            if (self._files and mapped_file.base_offset != self.end_offset) or not mapped_file.size:
                mapped_file.remove(self._disk)
            else:
                self._files.append(mapped_file)
                self._base_offsets.append(mapped_file.base_offset)

    def append(self, base_offset: int, size: int) -> MappedFile:
        """Add a file that exists, or is about to, behind the last one."""
        assert not self._files or base_offset == self.end_offset, (self.path, base_offset)
        mapped_file = self._file(base_offset, size)
        self._files.append(mapped_file)
        self._base_offsets.append(base_offset)
        return mapped_file

    def find(self, offset: int) -> MappedFile | None:
        """Return the file that holds the byte at an offset, None if there is none."""
        index = bisect_right(self._base_offsets, offset) - 1
        if index < 0:
            return None
        mapped_file = self._files[index]
        return mapped_file if offset < mapped_file.end_offset else None

    def index_of(self, mapped_file: MappedFile) -> int:
        """Return the place of a file in the order."""
        return bisect_right(self._base_offsets, mapped_file.base_offset) - 1

    def remove_first(self) -> MappedFile:
        """Delete the first file, and return it: who holds it can still read. Syncs no directory."""
        mapped_file = self._files.pop(0)
        self._base_offsets.pop(0)
        mapped_file.remove(self._disk)
        return mapped_file

    def remove_last_behind(self, offset: int) -> bool:
        """Delete the last file if it begins behind an offset; False if it does not. Syncs no directory."""
        if not self._files or self._base_offsets[-1] <= offset:
            return False
        self._files[-1].remove(self._disk)
        self._files.pop()
        self._base_offsets.pop()
        return True

    def remove_behind(self, offset: int) -> None:
        """Delete the files that begin behind an offset, last one first. Syncs no directory."""
        while self.remove_last_behind(offset):
            pass

    def remove_all(self) -> None:
        """Delete every file."""
        self.remove_behind(-1)

    def close(self) -> None:
        """Close every descriptor."""
        for mapped_file in self._files:
            mapped_file.close()

    def _file(self, base_offset: int, size: int) -> MappedFile:
        return MappedFile(directory=self.path, base_offset=base_offset, size=size, open_files=self._open_files)
