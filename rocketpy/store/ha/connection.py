"""One connection from a slave to this master: reads its reports and sends it the log.

The log is sent from the slave's first report on, as soon as bytes are there, in frames of at most
``haTransferBatchSize`` that never cross a file. Bytes in the page cache are read on the event loop, others in a worker
thread. A connection without a valid request is sent nothing, and counts as no slave.

The connection ends when either side closes it, when the slave has been silent for ``haHousekeepingInterval``, when a
report cannot be true (:mod:`.slave_progress`), and when the files that come next were deleted meanwhile.

Compatibility: ``HAConnection`` (4.9.8), same bytes. RocketMQ's sender looks every 100 ms for new bytes, or when a
synchronous producer waits; here the end of a burst sends what the burst has written, without a task of its own, as far
as the socket takes it. Timers use a monotonic clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import attrs
import trio

from rocketpy.errors import RemoteProtocolError, ShortageError
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.ha.protocol import FRAME_BODY_MAX, ReportReader, encode_frame_header
from rocketpy.store.ha.slave_progress import SlaveBehindError, SlaveProgress

_READ_SIZE = 4096
_NOWAIT_FRAMES_MAX = 4
"""Frames that the end of one burst sends by itself; a task sends what is left, so that requests are served between."""
_TURN_FRAMES_MAX = 16
"""Frames that the task sends between two looks at other tasks, 0.5 ms of work with frames of 32 KiB. A slave that
catches up would wait with each frame for other tasks' turns, such as a step of the index's own catch-up."""


class HAStream(Protocol):
    """The stream between a master and a slave: what both use of ``trio.abc.Stream``, and sending without waiting."""

    def send_nowait(self, data: bytes, /) -> int:
        """Send without waiting; return how many bytes were taken, none when the connection has ended.

        Never called while a task is within ``send_all``.
        """
        ...

    async def send_all(self, data: bytes, /) -> None:
        """Send bytes, however long that takes; trio.BrokenResourceError when the connection has ended."""
        ...

    async def receive_some(self, max_bytes: int, /) -> bytes | bytearray:
        """Return what has arrived, no bytes at the end of the stream; trio.BrokenResourceError after a reset."""
        ...

    async def aclose(self) -> None:
        """Close the connection."""
        ...


class LogSource(Protocol):
    """The log of the master, as a connection reads it. Offsets in bytes."""

    @property
    def min_offset(self) -> int:
        """The offset of the first byte."""
        ...

    @property
    def end_offset(self) -> int:
        """The end of what may be sent: of the bytes in files, flushed or not."""
        ...

    @property
    def file_size(self) -> int:
        """The size of a file."""
        ...

    def read_nowait(self, offset: int, size: int) -> bytes | None:
        """Return at most ``size`` bytes of one file from an offset on; None if they are not in the page cache.

        No bytes when the log no longer has the offset.
        """
        ...

    async def read(self, offset: int, size: int) -> bytes:
        """Return the same bytes; a worker thread waits for the disk."""
        ...


@attrs.frozen
class HATimes:
    """``haSendHeartbeatInterval`` and ``haHousekeepingInterval``, in seconds, and ``haTransferBatchSize``, in bytes."""

    heartbeat_s: float = 5.0
    housekeeping_s: float = 20.0
    batch_size: int = 32_768

    @classmethod
    def of(cls, config: MessageStoreConfig) -> HATimes:
        """Return the values in force, which change while the broker runs."""
        return cls(
            heartbeat_s=config.ha_send_heartbeat_interval / 1000,
            housekeeping_s=config.ha_housekeeping_interval / 1000,
            batch_size=config.ha_transfer_batch_size,
        )


class HAConnection:
    """Serves one slave over a stream until the connection ends."""

    def __init__(
        self,
        stream: HAStream,
        *,
        peer: str,
        log: LogSource,
        settings: Callable[[], HATimes],
        acknowledged: Callable[[], None],
    ) -> None:
        """Take a stream, which :meth:`run` closes.

        ``settings`` are asked again and again, because they may change. ``acknowledged`` is called after each report.
        """
        self.peer = peer
        self.progress = SlaveProgress()
        self._stream = stream
        self._log = log
        self._settings = settings
        self._acknowledged = acknowledged
        self._is_requested = trio.Event()
        self._is_idle = False  # the task that sends has nothing to do, so wake may send
        self._has_more = trio.Event()  # for that task, while it is idle
        self._rest = b""  # of a frame of which the stream has taken a part
        # Trio time of the last frame or heartbeat, and of the last report.
        self._sent_at = self._heard_at = -math.inf

    def wake(self) -> None:
        """Send what was appended: now, as far as the stream takes it; the rest is left to a task."""
        if not self._is_idle:
            return  # the task looks again before it is idle
        if not self._send_frames_nowait(_NOWAIT_FRAMES_MAX):
            self._is_idle = False
            self._has_more.set()

    async def run(self) -> None:
        """Serve until the connection ends; RemoteProtocolError when the slave's reports cannot be true."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send_log)
                await self._read_reports()
                nursery.cancel_scope.cancel()
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the slave has gone: it connects again
        finally:
            self._is_idle = False
            await close_forcefully(self._stream)

    # ---- reports --------------------------------------------------------------------------------------------------

    async def _read_reports(self) -> None:
        """Read until the slave closes; RemoteProtocolError when it is silent for too long."""
        reports = ReportReader()
        self._heard_at = trio.current_time()
        while True:
            # One scope for many reports: to enter one costs as much as to read a report. What ends it is only the time
            # to look whether there was silence since the last one.
            with trio.move_on_at(self._heard_at + self._settings().housekeeping_s):
                await self._take_reports(reports)
                return
            silence_s = self._settings().housekeeping_s
            if trio.current_time() >= self._heard_at + silence_s:
                raise RemoteProtocolError(f"a slave: expected a report within {silence_s:g} s, found silence")

    async def _take_reports(self, reports: ReportReader) -> None:
        log, progress, receive_some = self._log, self.progress, self._stream.receive_some
        while data := await receive_some(_READ_SIZE):
            self._heard_at = trio.current_time()
            for offset in reports.receive(bytes(data)):
                progress.report(offset, log_min=log.min_offset, log_max=log.end_offset, file_size=log.file_size)
            if progress.is_slave:
                self._is_requested.set()
                self._acknowledged()

    # ---- the log --------------------------------------------------------------------------------------------------

    async def _send_log(self) -> None:
        """Send heartbeats, and what :meth:`wake` has not sent."""
        await self._is_requested.wait()
        # A heartbeat first, as from RocketMQ, which sends it because its slave asks 5 s after it has connected: an idle
        # slave knows at once that its request was accepted.
        await self._send(encode_frame_header(self.progress.sent_offset, 0))
        while True:
            if self._rest:
                rest, self._rest = self._rest, b""
                await self._send(rest)
            size = self._next_size()
            if size > 0:
                await self._send_frame(size)
                self._send_frames_nowait(_TURN_FRAMES_MAX - 1)
            else:
                await self._wait_for_more()

    def _next_size(self) -> int:
        """Return the size of the next frame, at most; 0 when everything is sent."""
        left = self._log.end_offset - self.progress.sent_offset
        return min(left, self._settings().batch_size, FRAME_BODY_MAX) if left > 0 else 0

    async def _send_frame(self, size: int) -> None:
        progress, log = self.progress, self._log
        offset = progress.sent_offset
        data = log.read_nowait(offset, size)
        if data is None:
            data = await log.read(offset, size)
        if not data:
            raise SlaveBehindError(
                f"a slave: expected the log from {offset} on, which it needs next, to be there; it begins at "
                f"{log.min_offset} by now"
            )
        # Recorded first: the acknowledgement may be read before this task runs again.
        progress.note_sent(offset + len(data))
        await self._send(encode_frame_header(offset, len(data)) + data)

    def _send_frames_nowait(self, count_max: int) -> bool:
        """Send frames without waiting; return whether everything is sent, else the task has to go on."""
        for _ in range(count_max):
            size = self._next_size()
            if size <= 0:
                return True
            if not self._send_nowait(size):
                return False
        return self._next_size() <= 0

    def _send_nowait(self, size: int) -> bool:
        """Send a frame, if its bytes are in the page cache; False if the task has to go on."""
        progress = self.progress
        offset = progress.sent_offset
        try:
            data = self._log.read_nowait(offset, size)
        except ShortageError:
            data = None
        if not data:  # cold or deleted
            return False
        progress.note_sent(offset + len(data))
        frame = encode_frame_header(offset, len(data)) + data
        taken = self._stream.send_nowait(frame)
        self._sent_at = trio.current_time()
        self._rest = frame[taken:]
        return taken == len(frame)

    async def _send(self, frame: bytes) -> None:
        await self._stream.send_all(frame)
        self._sent_at = trio.current_time()

    async def _wait_for_more(self) -> None:
        """Be idle until :meth:`wake` leaves something to send, or a heartbeat was due and is sent."""
        self._has_more = trio.Event()
        self._is_idle = True
        while self._is_idle:
            with trio.move_on_at(self._sent_at + self._settings().heartbeat_s):
                await self._has_more.wait()
            if self._is_idle and trio.current_time() >= self._sent_at + self._settings().heartbeat_s:
                self._is_idle = False
                await self._send(encode_frame_header(self.progress.sent_offset, 0))


async def close_forcefully(stream: HAStream) -> None:
    """Close without waiting for anything; see ``trio.aclose_forcefully``."""
    with trio.CancelScope() as scope:
        scope.cancel()
        await stream.aclose()
