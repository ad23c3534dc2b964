"""Interface and fault model of the disk.

Every disk access of the store goes through :class:`Disk`, which is always passed in:
:class:`~rocketpy.store.disk.os_disk.OsDisk` in production, ``rocketpy.testing.sim.disk.SimDisk`` under simulation. Both
pass the same tests.

Fault model, and what a caller may rely on:

- When ``write`` (or ``exchange_words``) returns, every reader on this machine sees the bytes, and they survive a crash
  of the process. They do not survive a loss of power.
- When ``sync`` returns, everything written to this file before the call survives a loss of power, and so does the
  file's length. Of later writes, any subset of 4096-byte pages may survive, and one may be torn between sectors.
- When ``sync`` fails, the state of all bytes since the last successful sync is unknown: the kernel may have marked the
  pages as clean. The failure is final: every later ``sync`` of that file fails too, without another system call.
- A creation, rename or removal survives a loss of power once ``sync_directory`` of its directory has returned; for a
  rename between two directories, that of the target. Until then any subset of them survives. Each is atomic: a name
  never leads to a mixture of two files.
- A full disk is a :class:`DiskFullError`. Writes into reserved space never raise it. ``exchange_words`` is for reserved
  space only, because a mapping cannot report a full disk.
- Running out of descriptors is a :class:`DescriptorShortageError`, and changes nothing. ``open`` and ``lock`` need one
  descriptor until they are closed, the first ``exchange_words`` of a file one more; ``list_directory`` and
  ``sync_directory`` need one during the call. Reads, writes and syncs of an open file need none.
- Every other failure is a :class:`StoreError` that names path and position. What a failed ``write`` or ``reserve`` left
  in its range is unknown.

Calls block only on the disk. ``sync``, ``reserve``, ``sync_directory`` and cold reads are slow enough to belong in a
worker thread. Several threads may use a file at once, except while it is closed or truncated.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from rocketpy.errors import DescriptorShortageError, StoreError

PAGE_SIZE = 4096
"""Bytes of a page: what survives a loss of power does so by pages, and RocketMQ counts unflushed bytes in them."""


class DiskFile(Protocol):
    """One open file. Positions are bytes from the beginning of the file."""

    path: str

    def size(self) -> int:
        """Return the length of the file."""
        ...

    def read(self, position: int, size: int) -> bytes:
        """Return up to ``size`` bytes; fewer only at the end of the file. Blocks if they are not cached."""
        ...

    def read_nowait(self, position: int, size: int, head: bytes = b"") -> bytes | None:
        """Return the same bytes if all of them are in the page cache, otherwise None. Never reads from the disk.

        They come after those of ``head``, which costs less than to join both afterwards.
        """
        ...

    def reads_zero_from(self, position: int) -> bool:
        """Whether the file is known to hold only zeros from a position on: a hole, or reserved space.

        False where only reading all of it would show that.
        """
        ...

    def warm(self, position: int, size: int) -> float:
        """Bring a range of reserved space into the page cache, so that a write finds its pages there.

        A hint, which never fails and changes nothing. Returns the seconds of processor time that it took, 0 if nothing
        was done. Blocks for about 1 us per page, or 10 us where the memory comes from the host of a virtual machine.
        """
        ...

    def write(self, position: int, content: bytes | bytearray | memoryview) -> None:
        """Write all bytes. Visible on return, not durable."""
        ...

    def exchange_words(self, positions: Sequence[int], values: Sequence[int]) -> list[int]:
        """Replace unsigned big-endian 32-bit words one after the other; return the previous value of each.

        Positions are multiples of 4 in reserved space. A position that occurs twice is replaced twice, and the second
        previous value is the first new one. Visible to ``read`` on return, not durable.
        """
        ...

    def exchange_packed(self, positions: bytes, first_value: int) -> bytes:
        """Exchange words as ``exchange_words`` does, for values that count up from ``first_value``.

        Positions, and the previous values that are returned, are 32-bit big-endian numbers one after the other.
        """
        ...

    def sync(self) -> None:
        """Make everything written so far durable. A failure is final, see the module."""
        ...

    def reserve(self, position: int, size: int) -> None:
        """Reserve space, so that writes to the range never find the disk full; extends the file to its end."""
        ...

    def truncate(self, size: int) -> None:
        """Truncate the file, or extend it by a hole of zeros."""
        ...

    def close(self) -> None:
        """Close the descriptor; makes nothing durable. Closing twice is harmless."""
        ...


class DiskLock(Protocol):
    """A lock on a file. The operating system releases it when the process ends."""

    def release(self) -> None:
        """Release the lock. Releasing twice is harmless."""
        ...


class Disk(Protocol):
    """Files and directories by path."""

    @property
    def has_failed_sync(self) -> bool:
        """Whether a sync of any file has failed so far: then pages marked as clean may not be on disk."""
        ...

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> DiskFile:
        """Open a file; ``create`` creates it if it is missing. StoreError if that fails."""
        ...

    def create_private(self, path: str) -> DiskFile:
        """Create and open a file that only its owner may read and write. StoreError if the name exists."""
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
        """Return when the contents were last modified."""
        ...

    def identity(self, path: str) -> str:
        """Return a word that is the same only while the page cache has what was written to this very file.

        It is another one after a loss of power, and for a copy, a file that replaced this one, or a disk that was
        detached; empty if the system does not tell that. A process that is killed does not change it.
        """
        ...

    def list_directory(self, path: str) -> list[str]:
        """Return the names in a directory, sorted; an empty list if there is no such directory."""
        ...

    def make_directories(self, path: str) -> None:
        """Create a directory and its parents where missing. StartError if it is not permitted."""
        ...

    def rename(self, path: str, new_path: str) -> None:
        """Rename a file atomically, replacing a file that has the new name."""
        ...

    def copy_mode(self, path: str, new_path: str) -> None:
        """Give ``new_path`` the permission bits of ``path``."""
        ...

    def unlink(self, path: str) -> None:
        """Remove a file; open descriptors of it stay usable. StoreError if it is missing."""
        ...

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        ...

    def sync_directory(self, path: str) -> None:
        """Make creations, renames and removals in a directory durable, and its own creation too."""
        ...

    def free_bytes(self, path: str) -> int:
        """Return the free space available to this process on the file system of a path, which need not exist."""
        ...

    def total_bytes(self, path: str) -> int:
        """Return the size of the file system of a path, which need not exist."""
        ...

    def used_bytes(self, path: str) -> int:
        """Return the used space of that file system. Used and free may add up to less than the total."""
        ...

    def lock(self, path: str) -> DiskLock:
        """Lock byte 0 of a file and write its text, as RocketMQ does. StartError if another process holds it."""
        ...

    def wait_lock(self, path: str) -> DiskLock:
        """Lock a file, which is made and kept for that, around a change that other processes may make too.

        Waits while one of them has the lock; StoreError after ten seconds, or if the file cannot be made.
        """
        ...


def sync_directory_if_there(disk: Disk, path: str) -> None:
    """Sync a directory from a worker thread; not an error if the event loop has removed it in the meantime."""
    try:
        disk.sync_directory(path)
    except StoreError:
        if disk.is_directory(path):
            raise


def remove_directory_if_empty(disk: Disk, path: str) -> None:
    """Remove a directory if it exists and is empty; without a descriptor for listing it, keep it."""
    with suppress(DescriptorShortageError):
        if disk.is_directory(path) and not disk.list_directory(path):
            disk.remove_directory(path)
