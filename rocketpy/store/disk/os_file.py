"""Open files and file locks of :class:`~rocketpy.store.disk.os_disk.OsDisk`, and the translation of system errors.

The contract of each call is in :mod:`rocketpy.store.disk.interface`; here are the system calls that implement it.
"""

from __future__ import annotations

import array
import errno
import fcntl
import mmap
import os
import stat
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar

from rocketpy import BUILD
from rocketpy.errors import DescriptorShortageError, DiskFullError, StartError, StoreError
from rocketpy.store.disk.packed_words import WORD_SIZE, exchange_by_list

if BUILD.has_kernels:
    from rocketpy.protocol.kernels import mapped_words

_LOOK_AT_MAX = 16 << 20
"""Limit of the bytes that are read to find out whether they are zeros."""

LOCK_TEXT = b"lock"

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})  # of the process, of the system
RWF_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)
_IS_LITTLE = sys.byteorder == "little"


class OsFile:
    """A file descriptor; after the first ``exchange_words`` also a mapping of the same file."""

    __slots__ = ("_descriptor", "_failed_syncs", "_mapping", "_words", "path")

    def __init__(self, path: str, descriptor: int, failed_syncs: set[str]) -> None:
        self.path = path
        self._descriptor = descriptor
        self._failed_syncs = failed_syncs
        self._mapping: mmap.mmap | None = None
        self._words: memoryview[int] | None = None  # the mapping as native words

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read(self, position: int, size: int) -> bytes:
        try:
            content = os.pread(self._descriptor, size, position)
            while 0 < len(content) < size:
                more = os.pread(self._descriptor, size - len(content), position + len(content))
                if not more:
                    break
                content += more
        except OSError as failure:
            raise store_error(failure, f"cannot read {size} bytes", self.path, position) from failure
        return content

    def read_nowait(self, position: int, size: int, head: bytes = b"") -> bytes | None:
        if not RWF_NOWAIT:
            return head + self.read(position, size)
        buffer = bytearray(size)
        try:
            count = os.preadv(self._descriptor, [buffer], position, RWF_NOWAIT)
            if count < size:
                # Either the end of the file or the first page that is not cached: a second call tells them apart.
                view = memoryview(buffer)
                while count < size:
                    more = os.preadv(self._descriptor, [view[count:]], position + count, RWF_NOWAIT)
                    if not more:
                        return head + view[:count]
                    count += more
        except BlockingIOError:
            return None
        except OSError as failure:
            if failure.errno in (errno.EOPNOTSUPP, errno.EINVAL):  # this file system does not support RWF_NOWAIT
                return head + self.read(position, size)
            raise store_error(failure, f"cannot read {size} bytes", self.path, position) from failure
        return head + buffer  # the only copy

    def reads_zero_from(self, position: int) -> bool:
        # SEEK_DATA reports reserved space as data once it is in the page cache, for example by read-ahead. So data is
        # read, up to a limit, and compared with zeros.
        looked_at = 0
        try:
            while looked_at < _LOOK_AT_MAX:
                # lseek moves the descriptor's own position. No other call depends on it: all of them pass a position.
                begin = os.lseek(self._descriptor, position, os.SEEK_DATA)
                size = min(os.lseek(self._descriptor, begin, os.SEEK_HOLE) - begin, _LOOK_AT_MAX)
                content = self.read(begin, size)
                if content.count(0) != len(content):
                    return False
                looked_at += size
                position = begin + size
        except OSError as failure:
            return failure.errno == errno.ENXIO
        return False

    def warm(self, position: int, size: int) -> float:
        # Read-ahead makes pages of zeros for reserved space without an access to the disk. The processor time of this
        # thread does not count how long it waits for a processor, or for the interpreter lock, which the call releases.
        began = time.thread_time()
        with suppress(OSError):
            os.posix_fadvise(self._descriptor, position, size, os.POSIX_FADV_WILLNEED)
        return time.thread_time() - began

    def write(self, position: int, content: bytes | bytearray | memoryview) -> None:
        size = len(content)
        try:
            count = os.pwrite(self._descriptor, content, position)
            if count < size:
                view = memoryview(content)
                while count < size:
                    count += os.pwrite(self._descriptor, view[count:], position + count)
        except OSError as failure:
            raise store_error(failure, f"cannot write {size} bytes", self.path, position, size) from failure

    def exchange_words(self, positions: Sequence[int], values: Sequence[int]) -> list[int]:
        if not positions:
            return []
        words = self._words
        if words is None or max(positions) >= words.nbytes:
            words = self._map()
        new = array.array("I", values)
        old = array.array("I")
        if _IS_LITTLE:
            new.byteswap()
        append = old.append
        for position, value in zip(positions, new, strict=True):
            index = position >> 2
            append(words[index])
            words[index] = value
        if _IS_LITTLE:
            old.byteswap()
        return old.tolist()

    def exchange_packed(self, positions: bytes, first_value: int) -> bytes:
        if not BUILD.has_kernels:
            return exchange_by_list(self, positions, first_value)
        words = self._words
        if words is None or mapped_words.highest_word(positions) >= words.nbytes:
            words = self._map()
        return mapped_words.exchange_packed(words, positions, first_value, _IS_LITTLE)

    def sync(self) -> None:
        if self.path in self._failed_syncs:
            raise StoreError("a sync of this file has failed before, which is final", path=self.path)
        try:
            os.fdatasync(self._descriptor)
        except OSError as failure:
            self._failed_syncs.add(self.path)
            raise store_error(failure, "cannot sync", self.path) from failure

    def reserve(self, position: int, size: int) -> None:
        try:
            os.posix_fallocate(self._descriptor, position, size)
        except OSError as failure:
            raise store_error(failure, f"cannot reserve {size} bytes", self.path, position, size) from failure

    def truncate(self, size: int) -> None:
        self._unmap()
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as failure:
            raise store_error(failure, f"cannot set the length to {size}", self.path) from failure

    def close(self) -> None:
        self._unmap()
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _map(self) -> memoryview[int]:
        self._unmap()
        try:
            # Whole words only. The mapping is never flushed, because msync would block with the interpreter lock held.
            # A mapping duplicates the descriptor, so this too can fail for lack of descriptors.
            self._mapping = mmap.mmap(self._descriptor, self.size() // WORD_SIZE * WORD_SIZE)
        except OSError as failure:
            raise store_error(failure, "cannot map the file", self.path) from failure
        except ValueError as failure:
            raise StoreError(f"cannot map the file: {failure}", path=self.path) from failure
        words: memoryview[int] = memoryview(self._mapping).cast("I")
        self._words = words
        return words

    def _unmap(self) -> None:
        if self._words is not None and self._mapping is not None:
            self._words.release()
            self._mapping.close()
            self._words = self._mapping = None


class OsLock:
    """The record lock that RocketMQ takes on its lock file."""

    # POSIX record locks belong to the process: it would get the same lock twice, and closing any descriptor of the file
    # releases all of them. So the locks that this process holds are tracked per process, by device and inode.
    _held: ClassVar[set[tuple[int, int]]] = set()

    def __init__(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self._refuse_if_ours(path, os.stat(path))
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as failure:
            raise StartError(f"cannot lock {path}: {failure.strerror}") from failure
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
            os.pwrite(self._descriptor, LOCK_TEXT, 0)
            os.fsync(self._descriptor)
        except OSError as failure:
            os.close(self._descriptor)
            if failure.errno in (errno.EACCES, errno.EAGAIN):
                raise StartError(f"another process has locked {path}") from failure
            raise StartError(f"cannot lock {path}: {failure.strerror}") from failure
        status = os.fstat(self._descriptor)
        self._identity = (status.st_dev, status.st_ino)
        self._held.add(self._identity)

    def release(self) -> None:
        """Close the file, which releases the lock. The file is not removed: another process may be about to lock it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._held.discard(self._identity)

    def _refuse_if_ours(self, path: str, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise StartError(f"cannot lock {path}: not a file")
        if (status.st_dev, status.st_ino) in self._held:
            raise StartError(f"this process has locked {path} already")


def existing_ancestor(path: str) -> str:
    """Return the path, or its nearest parent that exists."""
    while path and not os.path.exists(path):
        path = os.path.dirname(path)
    return path or "."


def store_error(
    failure: OSError, action: str, path: str, position: int | None = None, wanted_bytes: int = 0
) -> StoreError:
    """Return a failed system call as a StoreError; ``wanted_bytes`` is the space that a full disk did not have."""
    if failure.errno in _FULL:
        status = os.statvfs(existing_ancestor(path))
        return DiskFullError(path=path, wanted_bytes=wanted_bytes, free_bytes=status.f_bavail * status.f_frsize)
    if failure.errno in _NO_DESCRIPTOR:
        return DescriptorShortageError(action, path=path, reason=failure.strerror or "")
    return StoreError(f"{action}: {failure.strerror}", path=path, position=position)
