"""One flush, as used by all flush services: begin and end on the event loop, the sync in a worker thread between them.

The range is fixed when the flush begins; bytes appended during the sync belong to the next flush.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from rocketpy.runner import RunBlocking


class Syncable(Protocol):
    """The range that one flush makes durable."""

    def sync(self) -> None:
        """Make the range durable. Blocks. StoreError is final, except a ShortageError."""
        ...


R = TypeVar("R", bound=Syncable)


class FlushSource(Protocol[R]):
    """An owner of bytes that are written but not durable: the log, or the queues."""

    def begin_flush(self, *, least_pages: int = 0) -> R | None:
        """Return the range to sync now, None if there is nothing to sync (or less than ``least_pages``).

        ShortageError if there is no descriptor for any of its files.
        """
        ...

    def end_flush(self, flush_range: R, /, *, is_synced: bool) -> None:
        """Return the range of ``begin_flush``, synced or not."""
        ...


async def flush_once(source: FlushSource[R], run_blocking: RunBlocking, *, least_pages: int = 0) -> R | None:
    """Flush what is written now; return the range, None if there was nothing to flush.

    StoreError is final, except a ShortageError: then nothing counts as flushed, and the next flush covers it.
    """
    flush_range = source.begin_flush(least_pages=least_pages)
    if flush_range is None:
        return None
    is_synced = False
    try:
        await run_blocking(flush_range.sync)
        is_synced = True
    finally:
        source.end_flush(flush_range, is_synced=is_synced)
    return flush_range
