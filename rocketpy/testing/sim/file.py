"""Open files and locks of a simulated disk, and the exception that ends its process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import attrs

from rocketpy.errors import StoreError
from rocketpy.store.disk.packed_words import WORD_SIZE, exchange_by_list
from rocketpy.testing.sim.inode import PAGE_SIZE, SimInode


class ProcessDied(BaseException):
    """The simulated process ended in this disk call; nothing may catch it but the test that arranged it."""

    def __init__(self, method: str, path: str, *, is_now: bool) -> None:
        super().__init__(f"{method} of {path}")
        self.is_now = is_now
        """Whether it is this call in which the process dies; it is dead already in every later one."""


class SimFileSystem(Protocol):
    """The disk, as its open files and locks use it."""

    @property
    def before_change(self) -> Callable[[str, str], None] | None:
        """The disk that records each change."""
        ...

    def count_call(self, method: str, path: str, *, is_change: bool = False) -> None:
        """Count a call; raises what was arranged for it."""
        ...

    def require_descriptor(self, action: str, path: str) -> None:
        """Raise DescriptorShortageError if there is no descriptor left."""
        ...

    def allocate(self, inode: SimInode, path: str, position: int, size: int) -> None:
        """Take space for a range of a file."""
        ...

    def write_inode(self, inode: SimInode, path: str, position: int, content: bytes) -> None:
        """Write into a file."""
        ...

    def sync_inode(self, inode: SimInode, path: str) -> None:
        """Sync a file."""
        ...

    def close_file(self, file: SimFile) -> None:
        """Forget an open file."""
        ...

    def release_lock(self, path: str, lock: SimLock) -> None:
        """Let a lock go."""
        ...


@attrs.define(eq=False)
class SimFile:
    """An open file: a :class:`~rocketpy.store.disk.interface.DiskFile`."""

    _disk: SimFileSystem
    path: str
    inode: SimInode
    _read_only: bool = attrs.field(kw_only=True)
    is_dead: bool = False
    is_mapped: bool = False
    """Whether a mapping holds one more descriptor."""
    _is_closed: bool = False

    def size(self) -> int:
        self._require_open("size")
        return self.inode.size

    def read(self, position: int, size: int) -> bytes:
        self._require_open("read")
        self._disk.count_call("read", self.path)
        self.inode.is_cold = False
        return self.inode.read(position, size)

    def read_nowait(self, position: int, size: int, head: bytes = b"") -> bytes | None:
        self._require_open("read_nowait")
        self._disk.count_call("read_nowait", self.path)
        return None if self.inode.is_cold else head + self.inode.read(position, size)

    def reads_zero_from(self, position: int) -> bool:
        self._require_open("reads_zero_from")
        self._disk.count_call("reads_zero_from", self.path)
        return self.inode.reads_zero_from(position)

    def warm(self, position: int, size: int) -> float:
        self._require_open("warm")
        self._disk.count_call("warm", self.path)
        return 0.0

    def write(self, position: int, content: bytes | bytearray | memoryview) -> None:
        self._require_open("write")
        if self._read_only:
            raise StoreError(f"cannot write {len(content)} bytes: opened for reading", path=self.path)
        self._disk.write_inode(self.inode, self.path, position, bytes(content))

    def exchange_words(self, positions: Sequence[int], values: Sequence[int]) -> list[int]:
        self._require_open("exchange_words")
        if not self.is_mapped:
            self._disk.require_descriptor("cannot map the file", self.path)
            self.is_mapped = True
        try:
            self._disk.count_call("exchange_words", self.path, is_change=True)
        except ProcessDied as death:
            if death.is_now:  # a kill comes between any two words; this one in the middle
                self._exchange(positions[: -(-len(positions) // 2)], values)
            raise
        return self._exchange(positions, values)

    def _exchange(self, positions: Sequence[int], values: Sequence[int]) -> list[int]:
        old = []
        for index, (position, value) in enumerate(zip(positions, values, strict=False)):
            if index and 2 * index == len(positions) and self._disk.before_change is not None:
                self._disk.before_change("exchange_words", self.path)
            assert position % WORD_SIZE == 0, (self.path, position)
            assert position // PAGE_SIZE in self.inode.allocated, f"{self.path} at {position} is not reserved"
            old.append(int.from_bytes(self.inode.read(position, WORD_SIZE), "big"))
            self.inode.write(position, value.to_bytes(WORD_SIZE, "big"))
        return old

    def exchange_packed(self, positions: bytes, first_value: int) -> bytes:
        self._require_open("exchange_packed")
        return exchange_by_list(self, positions, first_value)

    def sync(self) -> None:
        self._require_open("sync")
        self._disk.sync_inode(self.inode, self.path)

    def reserve(self, position: int, size: int) -> None:
        self._require_open("reserve")
        self._disk.count_call("reserve", self.path, is_change=True)
        self._disk.allocate(self.inode, self.path, position, size)
        if position + size > self.inode.size:
            self.inode.truncate(position + size)

    def truncate(self, size: int) -> None:
        self._require_open("truncate")
        self._disk.count_call("truncate", self.path, is_change=True)
        self.is_mapped = False
        self.inode.truncate(size)

    def close(self) -> None:
        self._is_closed = True
        self._disk.close_file(self)

    def _require_open(self, method: str) -> None:
        if self.is_dead:
            raise ProcessDied(method, self.path, is_now=False)
        assert not self._is_closed, f"{self.path} is closed"


@attrs.define(eq=False)
class SimLock:
    """A lock that is held: a :class:`~rocketpy.store.disk.interface.DiskLock`."""

    _disk: SimFileSystem
    _path: str

    def release(self) -> None:
        self._disk.release_lock(self._path, self)
