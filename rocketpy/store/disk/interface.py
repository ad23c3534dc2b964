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

from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from rocketpy.errors import DescriptorShortageError, StoreError


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
