"""One flush, as all flushing services do it: begun and ended on the event loop, synced in a worker thread between.

What is flushed is decided when the flush begins; what is appended while the disk works belongs to the next one.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from rocketpy.runner import RunBlocking


class Syncable(Protocol):
    """What one flush makes durable."""

    def sync(self) -> None:
        """Make it durable. Blocks. StoreError is final, but for a ShortageError."""
        ...


R = TypeVar("R", bound=Syncable)


class FlushSource(Protocol[R]):
    """Something with bytes that are written and not durable: the log, or the queues."""

    def begin_flush(self, *, least_pages: int = 0) -> R | None:
        """Return what to sync now, None when there is nothing (or fewer pages than asked for).

        ShortageError when there are no descriptors for any of it.
        """
        ...

    def end_flush(self, flush_range: R, /, *, is_synced: bool) -> None:
        """Give back what ``begin_flush`` took, durable or not."""
        ...


async def flush_once(source: FlushSource[R], run_blocking: RunBlocking, *, least_pages: int = 0) -> R | None:
    """Flush what there is now; return it, None when there was nothing to do.

    StoreError is final, but for a ShortageError: then nothing counts as flushed, and the next flush does it.
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
