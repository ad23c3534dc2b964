"""One connection from a slave to this master: reads its reports and sends it the log.

The log is sent from the slave's first report on, as soon as bytes are there, in frames of at most
``haTransferBatchSize`` that never cross a file. Bytes in the page cache are read on the event loop, others in a worker
thread. A connection without a valid request is sent nothing, and counts as no slave.

The connection ends when either side closes it, when the slave has been silent for ``haHousekeepingInterval``, when a
report cannot be true (:mod:`.slave_progress`), and when the files that come next were deleted meanwhile.

Compatibility: ``HAConnection`` (4.9.8), same bytes. RocketMQ's sender looks every 100 ms for new bytes, or when a
synchronous producer waits; here appending wakes it. Timers use a monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import attrs
import trio

from rocketpy.errors import RemoteProtocolError
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.ha.protocol import FRAME_BODY_MAX, ReportReader, encode_frame_header
from rocketpy.store.ha.slave_progress import SlaveBehindError, SlaveProgress

_READ_SIZE = 4096


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
        stream: trio.abc.Stream,
        *,
        peer: str,
        log: LogSource,
        settings: Callable[[], HATimes],
        acknowledged: Callable[[], None],
    ) -> None:
        """Take a stream, which :meth:`run` closes.

        ``settings`` are asked before each wait, because they may change. ``acknowledged`` is called after each report.
        """
        self.peer = peer
        self.progress = SlaveProgress()
        self._stream = stream
        self._log = log
        self._settings = settings
        self._acknowledged = acknowledged
        self._is_requested = trio.Event()
        self._has_more = trio.Event()

    def wake(self) -> None:
        """Send what was appended; cheap."""
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
            await trio.aclose_forcefully(self._stream)

    async def _read_reports(self) -> None:
        reports, log = ReportReader(), self._log
        while True:
            with trio.move_on_after(self._settings().housekeeping_s) as silence:
                data = bytes(await self._stream.receive_some(_READ_SIZE))
            if silence.cancelled_caught:
                raise RemoteProtocolError(
                    f"a slave: expected a report within {self._settings().housekeeping_s:g} s, found silence"
                )
            if not data:
                return
            for offset in reports.receive(data):
                self.progress.report(offset, log_min=log.min_offset, log_max=log.end_offset, file_size=log.file_size)
            if self.progress.is_slave:
                self._is_requested.set()
                self._acknowledged()

    async def _send_log(self) -> None:
        await self._is_requested.wait()
        progress, log, stream = self.progress, self._log, self._stream
        # A heartbeat first, as from RocketMQ, which sends it because its slave asks 5 s after it has connected: an idle
        # slave knows at once that its request was accepted.
        await stream.send_all(encode_frame_header(progress.sent_offset, 0))
        while True:
            offset = progress.sent_offset
            size = min(log.end_offset - offset, self._settings().batch_size, FRAME_BODY_MAX)
            if size <= 0:
                await self._wait_for_more(offset)
                continue
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
            await stream.send_all(encode_frame_header(offset, len(data)) + data)

    async def _wait_for_more(self, offset: int) -> None:
        """Return when there may be more to send; sends heartbeats meanwhile."""
        with trio.move_on_after(self._settings().heartbeat_s) as silence:
            await self._has_more.wait()
        if silence.cancelled_caught:
            await self._stream.send_all(encode_frame_header(offset, 0))
        else:
            self._has_more = trio.Event()
