"""Brings the pages just after the end of the log into the page cache, where memory is slow at its first use.

The memory of a virtual machine may be backed by its host only when it is first touched, and a guest may give free
memory back (free page reporting, a balloon). Then the first touch of a page costs about 10 us instead of 1, and a write
into new pages of the page cache pays for it on the event loop: at full speed a quarter of all processor time. This
service has the pages made in a worker thread before the log reaches them; the write then finds them.

Where memory is warm, that would only cost: making a page apart from the write takes another microsecond. So the service
measures. Each time that the log has grown by ``PROBE_EVERY_BYTES``, a small piece is warmed and timed. If its pages
were slow, the log is kept ``AHEAD_BYTES`` ahead in pieces, each of them timed, until a piece is quick again. Nothing is
done by time: a store that nothing is appended to is never woken up. The pages are clean and hold zeros, and nothing
depends on them.

Not for files that are filled with zeros in advance (SYNC_FLUSH, ``warmMapedFileEnable``): they are in the page cache
already.

Compatibility: RocketMQ has ``MappedFile.warmMappedFile`` (4.9.8), which touches the whole of a file when it is
allocated, and nothing beside it.

Compose: ``commit_log`` is the CommitLog.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import trio

from rocketpy.runner import RunBlocking
from rocketpy.store.disk.interface import PAGE_SIZE

PROBE_EVERY_BYTES = 16 << 20
"""Growth of the log between two probes."""

PROBE_BYTES = 512 << 10
"""The size of a probe: a thirtieth of what is written between two of them. Less than that could be served from the free
pages that the kernel keeps for each processor, which are always warm."""

PIECE_BYTES = 4 << 20
"""The size of a piece: 10 ms of work at 10 us per page, and about 40 of them a second for a log at full speed."""

AHEAD_BYTES = 8 << 20
"""How far ahead of the log pages are made: 40 ms at 200 MiB/s. After a kill a start reads as much to see that it is
zeros, so it is less than the limit of that read in ``os_file.py``."""

LEAD_BYTES = 1 << 20
"""The distance from the end of the log at which the first piece begins: what is nearer is written meanwhile."""

SLOW_SECONDS = 4e-6
"""Processor time of a page from which on it counts as slow. Measured: 1.0 to 1.5 us warm, 8 to 13 us cold."""


class WarmRange(Protocol):
    """A range of the file being written, whose descriptor stays open until ``release``."""

    @property
    def size(self) -> int:
        """Bytes of the range, at most as many as were asked for."""
        ...

    def warm(self) -> float:
        """Bring the range into the page cache; return the seconds of processor time. Blocks."""
        ...

    def release(self) -> None:
        """End the use of the file."""
        ...


class GrowingLog(Protocol):
    """The log that is appended to."""

    wrote_offset: int

    @property
    def end_of_file(self) -> int:
        """The end of the file being written; 0 before the first file."""
        ...

    def notify_at(self, physical_offset: int, notify: Callable[[], None], /) -> None:
        """Call back once, when the log has been written up to an offset."""
        ...

    def hold_ahead(self, physical_offset: int, size: int, /) -> WarmRange | None:
        """Return reserved space of the file being written from an offset on; None if it has none there."""
        ...


class WarmMappedFileService:
    """Keeps the pages ahead of the log warm while memory is slow."""

    def __init__(self, *, commit_log: GrowingLog, run_blocking: RunBlocking) -> None:
        self._commit_log = commit_log
        self._run_blocking = run_blocking
        self._warm_offset = 0  # the end of what was warmed
        self._is_slow = False  # whether the last piece was

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Probe and warm until cancelled. It cannot fail, as warming never does."""
        task_status.started()
        next_offset = self._commit_log.wrote_offset + PROBE_EVERY_BYTES
        while True:
            await self._wait_written(next_offset)
            next_offset = await self._warm_next()

    async def _wait_written(self, physical_offset: int) -> None:
        if self._commit_log.wrote_offset < physical_offset:
            written = trio.Event()
            self._commit_log.notify_at(physical_offset, written.set)
            await written.wait()

    async def _warm_next(self) -> int:
        """Warm the next piece, or make a probe; return the offset of the log at which the next one is due."""
        commit_log = self._commit_log
        wrote_offset = commit_log.wrote_offset
        begin = max(self._warm_offset, wrote_offset + LEAD_BYTES)
        piece = commit_log.hold_ahead(begin, PIECE_BYTES if self._is_slow else PROBE_BYTES)
        if piece is None:
            return max(commit_log.end_of_file, wrote_offset) + 1  # go on in the next file, which is not open yet
        try:
            seconds = await self._run_blocking(piece.warm)
        finally:
            piece.release()
        self._warm_offset = begin + piece.size
        self._is_slow = seconds * PAGE_SIZE > SLOW_SECONDS * piece.size
        if self._is_slow:
            return self._warm_offset + PIECE_BYTES - AHEAD_BYTES
        return wrote_offset + PROBE_EVERY_BYTES
