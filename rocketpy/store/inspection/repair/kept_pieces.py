"""Backup of everything that a repair truncates, overwrites or moves away: a directory with a list of its pieces.

Rule: a piece and its entry in the list are durable before the original is changed. After a crash the directory is
complete up to that moment; the next repair creates its own.
"""

from __future__ import annotations

import os.path

from rocketpy.errors import StoreError
from rocketpy.store.disk.interface import Disk, DiskFile
from rocketpy.store.index.file_list import index_file_name

KEPT_PREFIX = "kept-by-repair-"
NOTES_FILE = "what-was-where.txt"
_CHUNK_SIZE = 1 << 20
_ZEROS = bytes(_CHUNK_SIZE)


class KeptPieces:
    """The backup of one repair. Nothing is created before the first piece."""

    def __init__(self, disk: Disk, root: str, *, timestamp_ms: int) -> None:
        self._disk = disk
        self._root = root
        self._timestamp_ms = timestamp_ms
        self._count = 0
        self.path: str | None = None
        """The directory, None while nothing is kept."""

    def keep(self, path: str, begin: int, end: int, why: str) -> None:
        """Copy a range of a file; durable on return. Zeros take no space in the copy."""
        original = self._disk.open(path, read_only=True)
        try:
            end = min(end, original.size())
            if begin >= end:
                return
            name = self._next_name(path)
            copy = self._disk.open(f"{self.path}/{name}", create=True)
            try:
                copy.truncate(end - begin)
                for position in range(begin, end, _CHUNK_SIZE):
                    content = original.read(position, min(_CHUNK_SIZE, end - position))
                    if content != _ZEROS[: len(content)]:
                        copy.write(position - begin, content)
                copy.sync()
            finally:
                copy.close()
        finally:
            original.close()
        self._disk.sync_directory(self._made())
        self._note(f"{name}: bytes {begin} to {end} of {path}: {why}")

    def move(self, path: str, why: str) -> None:
        """Move a file or directory away; durable on return."""
        name = self._next_name(path)
        self._note(f"{name}: {path} as a whole: {why}")
        try:
            self._disk.rename(path, f"{self.path}/{name}")
        except StoreError:  # on another file system
            if self._disk.is_directory(path):
                raise
            self.keep(path, 0, self._disk.file_size(path), why)
            self._disk.unlink(path)
        self._disk.sync_directory(self._made())
        self._disk.sync_directory(os.path.dirname(path))

    def _made(self) -> str:
        if self.path is None:
            path = f"{self._root}/{KEPT_PREFIX}{index_file_name(self._timestamp_ms)}"
            while self._disk.exists(path):
                path += "-again"
            self._disk.make_directories(path)
            self._disk.sync_directory(self._root)
            self.path = path
        return self.path

    def _next_name(self, path: str) -> str:
        self._made()
        self._count += 1
        relative = path.removeprefix(f"{self._root}/").strip("/")
        return f"{self._count:04d}-{relative.replace('/', '-')}"

    def _note(self, line: str) -> None:
        path = self._made()
        notes: DiskFile = self._disk.open(f"{path}/{NOTES_FILE}", create=True)
        try:
            notes.write(notes.size(), f"{line}\n".encode())
            notes.sync()
        finally:
            notes.close()
        self._disk.sync_directory(path)
