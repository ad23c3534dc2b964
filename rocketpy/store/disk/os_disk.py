"""The disk of the operating system: an implementation of :class:`~rocketpy.store.disk.interface.Disk`.

Directories and names are handled here, open files and locks in :mod:`rocketpy.store.disk.os_file`. Every failure of a
system call becomes a StoreError with its path, or a StartError where only a start can meet it.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import ClassVar

from rocketpy.errors import StartError
from rocketpy.file_lock import wait_file_lock
from rocketpy.store.disk.interface import DiskFile, DiskLock
from rocketpy.store.disk.os_file import OsFile, OsLock, existing_ancestor, store_error

_REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR})


class OsDisk:
    """The file systems of this machine."""

    _open_flags: ClassVar[int] = 0
    """Flags that a subclass adds to every open."""

    def __init__(self) -> None:
        # Paths whose sync has failed. They stay failed when the file is closed and opened again: the kernel reports a
        # write-back error once, and a second fsync may succeed although the pages never reached the disk.
        self._failed_syncs: set[str] = set()
        # Directories created by this object whose entry in the parent directory is not durable yet.
        self._unsynced_directories: set[str] = set()

    @property
    def has_failed_sync(self) -> bool:
        """Whether a sync of some file has failed in this process."""
        return bool(self._failed_syncs)

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> DiskFile:
        """Open a file; the descriptor is not inherited."""
        flags = (
            os.O_CLOEXEC | self._open_flags | (os.O_RDONLY if read_only else os.O_RDWR) | (os.O_CREAT if create else 0)
        )
        return self._opened("cannot open", path, flags, 0o644)

    def create_private(self, path: str) -> DiskFile:
        """Create a file with mode 0600 and open it."""
        flags = os.O_CLOEXEC | self._open_flags | os.O_RDWR | os.O_CREAT | os.O_EXCL
        return self._opened("cannot create", path, flags, 0o600)

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory of that name."""
        return os.path.exists(path)

    def is_directory(self, path: str) -> bool:
        """Whether there is a directory of that name."""
        return os.path.isdir(path)

    def file_size(self, path: str) -> int:
        """Return the length of a file."""
        return self._status(path).st_size

    def modified_timestamp_ms(self, path: str) -> int:
        """Return the modification time."""
        return self._status(path).st_mtime_ns // 1_000_000

    def identity(self, path: str) -> str:
        """Return boot id, device, how often that was attached, and inode."""
        status = self._status(path)
        boot_id = _first_line("/proc/sys/kernel/random/boot_id")
        if not boot_id:
            return ""
        device = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"
        block_device = f"/sys/dev/block/{device}"
        # A partition has no number of its own; a file system without a block device has none at all.
        attached = _first_line(f"{block_device}/diskseq") or _first_line(f"{block_device}/../diskseq") or "0"
        return f"{boot_id}/{device}/{attached}/{status.st_ino}"

    def list_directory(self, path: str) -> list[str]:
        """Return the names, sorted."""
        try:
            return sorted(os.listdir(path))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as failure:
            raise store_error(failure, "cannot list directory", path) from failure

    def make_directories(self, path: str) -> None:
        """Create a directory and its missing parents."""
        missing = []
        while path and not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for directory in reversed(missing):
            try:
                os.mkdir(directory)
            except FileExistsError as failure:
                if not os.path.isdir(directory):
                    raise StartError(f"cannot make directory {directory}: a file has that name") from failure
            except OSError as failure:
                if failure.errno in _REFUSED:
                    raise StartError(f"cannot make directory {directory}: {failure.strerror}") from failure
                raise store_error(failure, "cannot make directory", directory) from failure
            else:
                self._unsynced_directories.add(directory)

    def rename(self, path: str, new_path: str) -> None:
        """Rename a file, replacing one that has the new name."""
        try:
            os.rename(path, new_path)
        except OSError as failure:
            raise store_error(failure, f"cannot rename to {new_path}", path) from failure

    def copy_mode(self, path: str, new_path: str) -> None:
        """Give a file the permission bits of another."""
        mode = stat.S_IMODE(self._status(path).st_mode)
        if mode != stat.S_IMODE(self._status(new_path).st_mode):
            try:
                os.chmod(new_path, mode)
            except OSError as failure:
                raise store_error(failure, f"cannot copy the mode of {path}", new_path) from failure

    def unlink(self, path: str) -> None:
        """Remove a file's name."""
        try:
            os.unlink(path)
        except OSError as failure:
            raise store_error(failure, "cannot remove", path) from failure

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        try:
            os.rmdir(path)
        except OSError as failure:
            raise store_error(failure, "cannot remove directory", path) from failure
        self._unsynced_directories.discard(path)

    def sync_directory(self, path: str) -> None:
        """Sync a directory, and its parents as far as they contain a new entry on its path."""
        path = path or "."
        self._sync_directory(path)
        while path in self._unsynced_directories:
            parent = os.path.dirname(path) or "."
            self._sync_directory(parent)
            self._unsynced_directories.discard(path)
            path = parent

    def free_bytes(self, path: str) -> int:
        """Return the free space available to an unprivileged process."""
        status = os.statvfs(existing_ancestor(path))
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: str) -> int:
        """Return the size of the file system."""
        status = os.statvfs(existing_ancestor(path))
        return status.f_blocks * status.f_frsize

    def used_bytes(self, path: str) -> int:
        """Return the size of the file system less all free space, the superuser's reserve included."""
        status = os.statvfs(existing_ancestor(path))
        return (status.f_blocks - status.f_bfree) * status.f_frsize

    def lock(self, path: str) -> DiskLock:
        """Take the same POSIX record lock as RocketMQ, so that the two never open a store at the same time."""
        return OsLock(path)

    def wait_lock(self, path: str) -> DiskLock:
        """Take a lock of ``flock`` on a file that only its owner may open. It also keeps out other threads."""
        try:
            return wait_file_lock(path)
        except OSError as failure:
            raise store_error(failure, "cannot lock", path) from failure

    def _opened(self, action: str, path: str, flags: int, mode: int) -> OsFile:
        try:
            return OsFile(path, os.open(path, flags, mode), self._failed_syncs)
        except OSError as failure:
            raise store_error(failure, action, path) from failure

    def _status(self, path: str) -> os.stat_result:
        try:
            return os.stat(path)
        except OSError as failure:
            raise store_error(failure, "cannot look at", path) from failure

    def _sync_directory(self, path: str) -> None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as failure:
            raise store_error(failure, "cannot sync directory", path) from failure


def _first_line(path: str) -> str:
    """Return the first word of a file of the kernel's; empty if there is no such file."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.readline().strip()
    except OSError:
        return ""
