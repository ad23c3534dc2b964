"""Read-only files of an inspection that tolerate read errors.

Pages that the disk fails to read are returned as zeros and recorded, because the inspection of a failing disk must
continue after them. A file that cannot be opened reads as empty, and is recorded too.
"""

from __future__ import annotations

import attrs

from rocketpy.errors import StoreError
from rocketpy.store.disk.interface import PAGE_SIZE, Disk, DiskFile

_UNREADABLE_MAX = 1000  # bound of the noted ranges


@attrs.frozen
class Unreadable:
    """A range that the disk failed to read; without a position it is the whole file."""

    path: str
    position: int | None
    why: str


class ReadOnlyFiles:
    """A cache of open files by path, evicting the least recently used. Its creator closes it."""

    def __init__(self, disk: Disk, *, open_max: int = 64) -> None:
        self.disk = disk
        self.unreadable: list[Unreadable] = []
        self._open_max = open_max
        self._open: dict[str, DiskFile | None] = {}

    def read(self, path: str, position: int, size: int) -> bytes:
        """Return bytes of a file; fewer at its end, zeros for pages that cannot be read."""
        file = self._opened(path)
        if file is None or size <= 0:
            return b""
        try:
            return file.read(position, size)
        except StoreError:
            return self._read_by_pages(file, position, size)

    def size(self, path: str) -> int:
        """Return the length of a file, 0 if it cannot be opened."""
        file = self._opened(path)
        return 0 if file is None else file.size()

    def close(self) -> None:
        """Close every file."""
        for file in self._open.values():
            if file is not None:
                file.close()
        self._open.clear()

    def _opened(self, path: str) -> DiskFile | None:
        if path in self._open:
            file = self._open[path] = self._open.pop(path)
            return file
        while len(self._open) >= self._open_max:
            oldest = self._open.pop(next(iter(self._open)))
            if oldest is not None:
                oldest.close()
        try:
            file = self.disk.open(path, read_only=True)
        except StoreError as failure:
            file = None
            self._note(Unreadable(path, None, str(failure)))
        self._open[path] = file
        return file

    def _read_by_pages(self, file: DiskFile, position: int, size: int) -> bytes:
        parts = []
        end = min(position + size, file.size())
        while position < end:
            part_size = min(end, (position // PAGE_SIZE + 1) * PAGE_SIZE) - position
            try:
                parts.append(file.read(position, part_size))
            except StoreError as failure:
                parts.append(bytes(part_size))
                self._note(Unreadable(file.path, position, str(failure)))
            position += part_size
        return b"".join(parts)

    def _note(self, unreadable: Unreadable) -> None:
        if len(self.unreadable) < _UNREADABLE_MAX and unreadable not in self.unreadable:
            self.unreadable.append(unreadable)
