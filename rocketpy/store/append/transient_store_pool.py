"""Buffer of records that are put but not committed: kept in memory, and written to the files together a little later.

Rules: no reader sees what is in the pool, and it is lost with the process; it has its physical offsets, and all space
it needs is reserved. The pool is as large as its buffers together, counted in bytes of the log that are not committed.
What happens when it is full is its owner's choice: commit at once, or refuse (``fastFailIfNoBufferInStorePool``).

Compatibility: ``TransientStorePool`` (4.9.8). Its buffers belong to files, and a file that finds none is written
directly; ours are a bound in bytes. A file is written when the next one begins, committed or not.
"""

from __future__ import annotations

from collections.abc import Sequence

from rocketpy.protocol.stored_message import Buffer
from rocketpy.store.disk.interface import PAGE_SIZE


class TransientStorePool:
    """The uncommitted bytes of one log."""

    def __init__(self, *, size_bytes: int, is_fail_fast: bool) -> None:
        self.size_bytes = size_bytes
        self.is_fail_fast = is_fail_fast
        self.committed_offset = 0  # the log before it is in the files, and so are its units
        self._parts: list[Buffer] = []
        self._timestamp_ms = 0

    @property
    def end_offset(self) -> int:
        """The physical offset up to which the pool has room."""
        return self.committed_offset + self.size_bytes

    def keep(self, parts: Sequence[Buffer], timestamp_ms: int) -> None:
        """Add bytes at the end, stored no later than a time."""
        self._parts += parts
        self._timestamp_ms = max(self._timestamp_ms, timestamp_ms)

    def take(self) -> tuple[list[Buffer], int]:
        """Return everything that was kept, and how late it was stored at most: to be written now."""
        parts, self._parts = self._parts, []
        return parts, self._timestamp_ms

    def pages_behind(self, wrote_offset: int) -> int:
        """Return how many pages end between what is committed and the end of the log."""
        return wrote_offset // PAGE_SIZE - self.committed_offset // PAGE_SIZE
