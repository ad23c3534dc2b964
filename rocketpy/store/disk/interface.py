"""The disk as the store sees it: what a file and a directory offer, and what each of them promises.

Everything the store does to a disk goes through :class:`Disk`, which is always passed in: :class:`OsDisk` in
production, ``rocketpy.testing.sim_disk.SimDisk`` under simulation; both pass the same tests. No buffer leaves it.

What survives what, and what a caller may rely on:

- When ``write`` (or ``exchange_words``) returns, every reader of this machine sees the bytes, and they survive the
  death of the process. They do not survive the loss of power.
- When ``sync`` returns, what was written to this file before the call survives the loss of power, and so does its
  length. Of what was written later, any subset of 4096-byte pages may survive, and one may be torn between sectors.
- When ``sync`` fails, nothing is known about the bytes since the last one that worked: the system may have marked the
  pages as clean. It is final: every later ``sync`` of that file fails too, without asking the disk again.
- Creating, renaming and removing survive the loss of power once ``sync_directory`` of the directory has returned; of a
  rename between two directories, that of the target. Until then any subset of them does. Each of them is whole or not
  at all: a name never leads to half of two files.
- A full disk is a :class:`DiskFullError`. Writing into reserved space never meets one. ``exchange_words`` is only for
  reserved space: a mapping has no way to say that the disk is full.
- No descriptor left is a :class:`DescriptorShortageError`, and nothing has changed. ``open`` and ``lock`` need one
  until they are closed, the first ``exchange_words`` of a file one more; ``list_directory`` and ``sync_directory`` need
  one for the call. Reading, writing and syncing an open file need none.
- Any other refusal is a :class:`StoreError` that names path and position. What a failed ``write`` or ``reserve`` left
  in its range is unknown.

Nothing here waits for anything but the disk; ``sync``, ``reserve``, ``sync_directory`` and cold reads take long enough
to belong into a worker thread. Several threads may use a file at once, but none while it is closed or truncated.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar, Protocol

from rocketpy.errors import DescriptorShortageError, StartError, StoreError
from rocketpy.store.disk.os_file import OsFile, OsLock, existing_ancestor, store_error

_REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR})


class DiskFile(Protocol):
    """One open file. Positions and sizes are bytes from its beginning."""

    path: str

    def size(self) -> int:
        """Return its length."""
        ...

    def read(self, position: int, size: int) -> bytes:
        """Return up to ``size`` bytes; fewer only at the end of the file. Blocks if they are not in memory."""
        ...

    def read_nowait(self, position: int, size: int) -> bytes | None:
        """Return the same bytes if all of them are in memory, None if the disk would have to be asked."""
        ...

    def reads_zero_from(self, position: int) -> bool:
        """Whether the file is known to hold nothing but zeros from a position on: a hole, or space that was reserved.

        False where that could only be told by reading all of it.
        """
        ...

    def write(self, position: int, content: bytes | bytearray | memoryview) -> None:
        """Write all of it. Visible on return, not durable."""
        ...

    def exchange_words(self, positions: Sequence[int], values: Sequence[int]) -> list[int]:
        """Replace unsigned big-endian 32-bit words one after the other; return what each held just before its turn.

        Positions are multiples of 4 and lie in reserved space; one that occurs twice is replaced twice. Visible to
        ``read`` on return, not durable.
        """
        ...

    def sync(self) -> None:
        """Make durable what is written. A failure is final, see the module."""
        ...

    def reserve(self, position: int, size: int) -> None:
        """Make sure that writing there cannot fail for want of space; extends the file to ``position + size``."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file, or extend it by zeros that take no space."""
        ...

    def close(self) -> None:
        """Give the descriptor back; makes nothing durable. Closing twice is fine."""
        ...


class DiskLock(Protocol):
    """A lock on a file that ends with the process at the latest."""

    def release(self) -> None:
        """Let others have it. Releasing twice is fine."""
        ...


class Disk(Protocol):
    """Files and directories by path."""

    @property
    def has_failed_sync(self) -> bool:
        """Whether a sync of some file has failed since this object was made: pages may be called clean and are not."""
        ...

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> DiskFile:
        """Open a file; ``create`` makes it if it is missing. StoreError if it cannot be."""
        ...

    def create_private(self, path: str) -> DiskFile:
        """Make a file that only its owner may read and write, and open it. StoreError if there is one."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory of that name."""
        ...

    def is_directory(self, path: str) -> bool:
        """Whether there is a directory of that name."""
        ...

    def file_size(self, path: str) -> int:
        """Return the length of a file without opening it."""
        ...

    def modified_timestamp_ms(self, path: str) -> int:
        """Return when the contents were changed last."""
        ...

    def list_directory(self, path: str) -> list[str]:
        """Return the names in a directory in order; none if there is no such directory."""
        ...

    def make_directories(self, path: str) -> None:
        """Make a directory and those above it; one that is there is fine. StartError if it is not permitted."""
        ...

    def rename(self, path: str, new_path: str) -> None:
        """Give a file another name, in place of a file that has it."""
        ...

    def copy_mode(self, path: str, new_path: str) -> None:
        """Let the same people read and write a file who may read and write another."""
        ...

    def unlink(self, path: str) -> None:
        """Remove a file; who has it open can go on. StoreError if it is missing."""
        ...

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        ...

    def sync_directory(self, path: str) -> None:
        """Make durable what was created, renamed and removed in a directory, its own creation included."""
        ...

    def free_bytes(self, path: str) -> int:
        """Return the space left for us where the path is, or would be."""
        ...

    def total_bytes(self, path: str) -> int:
        """Return how large the file system is where the path is, or would be."""
        ...

    def used_bytes(self, path: str) -> int:
        """Return what everybody's files take there. With what is free for us it may be less than the whole."""
        ...

    def lock(self, path: str) -> DiskLock:
        """Lock byte 0 of a file, as RocketMQ does, and write its text. StartError when another process has it."""
        ...


def read_text(disk: Disk, path: str) -> str | None:
    """Return what :func:`persist_text` wrote, or its predecessor from ``.bak`` when there is none; None without both.

    As in RocketMQ an empty file counts as missing. Who finds the text unusable looks into ``.bak`` itself.
    """
    for candidate in (path, path + ".bak"):
        content = _read_all(disk, candidate)
        if content:
            return content.decode("utf-8", "replace")
    return None


def persist_text(disk: Disk, path: str, text: str, *, keeps_backup: bool = False, is_private: bool = False) -> None:
    """Replace a small file, durable on return. At every instant, after a crash too, the old or the new text is there.

    The predecessor stays as ``.bak``, unless ``keeps_backup`` says that it is worth less than the one that is there.
    Both may be read by those who may read the file now: some hold secrets. A private file that is not there yet is made
    for its owner alone; others as the process's umask says, mode 0644 at most.
    Compatibility: RocketMQ deletes the file before it renames the new one over it.
    """
    like = path if disk.exists(path) else None
    _write_all(disk, path + ".tmp", text.encode(), like, is_private=is_private)
    predecessor = b"" if keeps_backup else _read_all(disk, path)
    if predecessor:
        _write_all(disk, path + ".bak.tmp", predecessor, like)
        disk.rename(path + ".bak.tmp", path + ".bak")
    disk.rename(path + ".tmp", path)
    disk.sync_directory(os.path.dirname(path))


def sync_directory_if_there(disk: Disk, path: str) -> None:
    """Sync a directory from a worker thread, unless the event loop has removed it meanwhile."""
    try:
        disk.sync_directory(path)
    except StoreError:
        if disk.is_directory(path):
            raise


def remove_directory_if_empty(disk: Disk, path: str) -> None:
    """Remove a directory that is there and has nothing in it; without a descriptor to look, leave it."""
    with suppress(DescriptorShortageError):
        if disk.is_directory(path) and not disk.list_directory(path):
            disk.remove_directory(path)


def _read_all(disk: Disk, path: str) -> bytes:
    if not disk.exists(path):
        return b""
    file = disk.open(path, read_only=True)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def _write_all(disk: Disk, path: str, content: bytes, like: str | None, *, is_private: bool = False) -> None:
    """Write a whole file that is read by those who may read ``like``, from its first byte on."""
    if like is None and not is_private:
        file = disk.open(path, create=True)
    else:
        if disk.exists(path):
            disk.unlink(path)  # left by a crash; whoever has it open must not see what comes
        file = disk.create_private(path)
    try:
        file.truncate(0)
        if like is not None:
            disk.copy_mode(like, path)
        file.write(0, content)
        file.sync()
    finally:
        file.close()


# ---- the operating system's disk ------------------------------------------------------------------------------------


class OsDisk:
    """The file systems of this machine."""

    _open_flags: ClassVar[int] = 0
    """What a subclass adds to the flags of each open."""

    def __init__(self) -> None:
        # A file whose sync has failed stays failed, also when it is closed and opened again.
        self._failed_syncs: set[str] = set()
        # Directories that we made and whose entry in the directory above is not durable yet.
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
        """Make a file with mode 0600 and open it."""
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

    def list_directory(self, path: str) -> list[str]:
        """Return the names in order."""
        try:
            return sorted(os.listdir(path))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as failure:
            raise store_error(failure, "cannot list directory", path) from failure

    def make_directories(self, path: str) -> None:
        """Make a directory and those above it."""
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
        """Rename a file, also over another."""
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
        """Sync a directory, and those above it whose entry for it is new."""
        path = path or "."
        self._sync_directory(path)
        while path in self._unsynced_directories:
            parent = os.path.dirname(path) or "."
            self._sync_directory(parent)
            self._unsynced_directories.discard(path)
            path = parent

    def free_bytes(self, path: str) -> int:
        """Return what an unprivileged process may still write."""
        status = os.statvfs(existing_ancestor(path))
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: str) -> int:
        """Return the size of the file system."""
        status = os.statvfs(existing_ancestor(path))
        return status.f_blocks * status.f_frsize

    def used_bytes(self, path: str) -> int:
        """Return the size of the file system without what is free, the reserve of the superuser included."""
        status = os.statvfs(existing_ancestor(path))
        return (status.f_blocks - status.f_bfree) * status.f_frsize

    def lock(self, path: str) -> DiskLock:
        """Take the POSIX record lock that RocketMQ takes, so that neither opens the other's store."""
        return OsLock(path)

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
