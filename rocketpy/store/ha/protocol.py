"""The bytes between a master and its slave.

::

    slave to master: a report               master to slave: a frame
    ======  ====  ====================      ======  ====  =============================================
    offset  size  field (big-endian)        offset  size  field (big-endian)
    ======  ====  ====================      ======  ====  =============================================
    0       8     end of its log, int64     0       8     log offset of the first body byte, int64
    ======  ====  ====================      8       4     size of the body, int32; 0 is a heartbeat
                                            12      n     bytes of the log, never across two of its files
                                            ======  ====  =============================================

The first report of a connection asks for the log from that offset on; each later one acknowledges everything before it,
or repeats it as a heartbeat. Frames are cut anywhere, also within a record.

Nothing here reads a socket or knows the log. What a report means is for :mod:`.slave_progress`, whether the bytes of
frames are records is for :mod:`.verified_stream`.

Compatibility: ``HAConnection`` and ``DefaultHAService.HAClient`` (4.9.8). RocketMQ takes the last of several reports
that arrive together and skips the others; here each is returned.
"""

from __future__ import annotations

from struct import Struct

import attrs

from rocketpy.errors import RemoteProtocolError

REPORT_SIZE = 8
FRAME_HEADER_SIZE = 12
FRAME_BODY_MAX = (4 << 20) - FRAME_HEADER_SIZE
"""The longest body: a Java slave collects whole frames in a buffer of 4 MiB, and hangs when one does not fit."""

_REPORT = Struct(">q")
_FRAME_HEADER = Struct(">qi")
assert _REPORT.size == REPORT_SIZE
assert _FRAME_HEADER.size == FRAME_HEADER_SIZE


def encode_report(end_offset: int) -> bytes:
    """Return the report of a log that ends at an offset."""
    return _REPORT.pack(end_offset)


def encode_frame_header(offset: int, size: int) -> bytes:
    """Return the header of a frame with ``size`` bytes of the log; 0 makes it a heartbeat."""
    assert 0 <= size <= FRAME_BODY_MAX, size
    return _FRAME_HEADER.pack(offset, size)


class ReportReader:
    """Splits what a slave has sent into reports."""

    def __init__(self) -> None:
        self._rest = b""

    def receive(self, data: bytes) -> list[int]:
        """Return the offsets of the reports that are complete now, in order."""
        data = self._rest + data
        end = len(data) - len(data) % REPORT_SIZE
        self._rest = data[end:]
        return [offset for (offset,) in _REPORT.iter_unpack(data[:end])]


@attrs.frozen
class FramePart:
    """Received bytes of the log, of one frame or a part of one; no bytes for a heartbeat. They are not copied."""

    offset: int
    data: memoryview


class FrameReader:
    """Splits what a master has sent into parts of the log that follow each other without a gap.

    Headers are checked before their bodies arrive. ``next_offset`` is where the log continues: the offset that was
    asked for, or None for an empty log, which takes the log from the beginning of any file on. ``file_size`` is that of
    a CommitLog file, in bytes.
    """

    def __init__(self, next_offset: int | None, *, file_size: int) -> None:
        self.next_offset = next_offset
        self._file_size = file_size
        self._header = b""
        self._left = 0  # bytes of the current body that have not arrived

    @property
    def is_within_frame(self) -> bool:
        """Whether the last frame is not complete; the end of the stream is a broken connection then."""
        return bool(self._left or self._header)

    def receive(self, data: bytes) -> list[FramePart]:
        """Return the parts in ``data``; RemoteProtocolError, naming offsets, for a header that cannot be right."""
        parts: list[FramePart] = []
        view = memoryview(data)
        position, end = 0, len(data)
        while position < end:
            if self._left:
                part = view[position : position + self._left]
                assert self.next_offset is not None
                parts.append(FramePart(self.next_offset, part))
                self.next_offset += len(part)
                self._left -= len(part)
                position += len(part)
                continue
            missing = FRAME_HEADER_SIZE - len(self._header)
            self._header += data[position : position + missing]
            position += missing
            if len(self._header) == FRAME_HEADER_SIZE:
                offset, size = _FRAME_HEADER.unpack(self._header)
                self._header = b""
                self._check(offset, size)
                self.next_offset, self._left = offset, size
                if size == 0:
                    parts.append(FramePart(offset, view[:0]))
        return parts

    def _check(self, offset: int, size: int) -> None:
        if not 0 <= size <= FRAME_BODY_MAX:
            raise RemoteProtocolError(f"replication frame: expected a size of 0 to {FRAME_BODY_MAX}, found {size}")
        if self.next_offset is None:
            if offset < 0 or offset % self._file_size:
                raise RemoteProtocolError(
                    "replication frame: expected the beginning of a file, because this log is empty: a multiple of "
                    f"mappedFileSizeCommitLog, which is {self._file_size}; found offset {offset}"
                )
        elif offset != self.next_offset:
            raise RemoteProtocolError(
                f"replication frame: expected offset {self.next_offset}, the end of this log, found {offset}"
            )
        left_in_file = self._file_size - offset % self._file_size
        if size > left_in_file:
            raise RemoteProtocolError(
                f"replication frame: expected at most the {left_in_file} bytes that are left of a file at offset "
                f"{offset}, found {size}; mappedFileSizeCommitLog must be the same on both sides, here it is "
                f"{self._file_size}"
            )
