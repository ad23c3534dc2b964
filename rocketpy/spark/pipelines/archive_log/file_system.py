"""File operations of an archive: on this machine by the operating system, elsewhere by Hadoop.

Paths are absolute texts. Rule: :meth:`FileSystem.create` makes a file appear whole or not at all, and never replaces
one: two runs that commit the same number cannot both succeed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from rocketpy.errors import StartError


class FileSystem(Protocol):
    """What an archive needs of a file system. ``OSError`` for everything that fails."""

    def walk(self, directory: str) -> list[str]:
        """Return the paths of all files under a directory, relative to it, sorted; none if it does not exist."""

    def list_names(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted; none if it does not exist."""

    def read(self, path: str) -> bytes:
        """Return the content of a file."""

    def create(self, path: str, content: bytes) -> None:
        """Create a file with this content, durably and at once. ``FileExistsError`` if it exists."""

    def move(self, source: str, target: str) -> None:
        """Rename a file, into a directory that may be new. No error if an earlier call has done it."""

    def remove(self, path: str) -> None:
        """Delete a file or a directory with all it has; no error if it does not exist."""

    def sync(self, paths: Iterable[str]) -> None:
        """Return when the files would survive a power loss."""

    def locked(self, path: str) -> AbstractContextManager[None]:
        """Return a context that one process at a time can enter; ``StartError`` if another one is in it."""

    def is_abandoned(self, directory: str) -> bool:
        """Return whether a staging directory is that of a run that has ended. Called in the lock."""


class LocalFileSystem:
    """Files of this machine, or of a mount that behaves like one."""

    def walk(self, directory: str) -> list[str]:
        """Return the paths of all files under a directory, relative to it, sorted; none if it does not exist."""
        return sorted(
            os.path.relpath(os.path.join(folder, name), directory)
            for folder, _, names in os.walk(directory)
            for name in names
        )

    def list_names(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted; none if it does not exist."""
        try:
            return sorted(os.listdir(directory))
        except FileNotFoundError:
            return []

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        with open(path, "rb") as file:
            return file.read()

    def create(self, path: str, content: bytes) -> None:
        """Create a file with this content, durably and at once. ``FileExistsError`` if it exists.

        A link, unlike a rename, fails if there is a file of that name.
        """
        os.makedirs(os.path.dirname(path), exist_ok=True)
        unfinished = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{os.getpid()}")
        try:
            with open(unfinished, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.link(unfinished, path)
        finally:
            self.remove(unfinished)
        _sync(os.path.dirname(path))

    def move(self, source: str, target: str) -> None:
        """Rename a file, into a directory that may be new. No error if an earlier call has done it."""
        os.makedirs(os.path.dirname(target), exist_ok=True)
        try:
            os.rename(source, target)
        except FileNotFoundError:
            if not os.path.exists(target):
                raise

    def remove(self, path: str) -> None:
        """Delete a file or a directory with all it has; no error if it does not exist."""
        try:
            if os.path.isdir(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
        except FileNotFoundError:
            pass

    def sync(self, paths: Iterable[str]) -> None:
        """Return when the files would survive a power loss, and the directories that name them."""
        directories = set()
        for path in paths:
            _sync(path)
            directories.add(os.path.dirname(path))
        for directory in sorted(directories):
            _sync(directory)

    @contextmanager
    def locked(self, path: str) -> Iterator[None]:
        """Lock a file for the block. The system unlocks it when the process ends, however it ends."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StartError(f"another run is writing this archive: it has locked {path}") from None
            yield

    def is_abandoned(self, directory: str) -> bool:
        """Return True: a run that has not ended would hold the lock."""
        return True


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
