"""Checks the bytes of a master's log before they are stored: only whole, valid records pass.

A record is valid if recovery would accept it: its size fits into the file, its physical offset is its position in the
log, its lengths add up, its body matches its CRC, and neither topic nor properties contain a NUL. The rest of a file is
a BLANK that ends exactly with the file. An incomplete record is kept in memory until the rest arrives, so a slave's log
always ends with a record.

That the records are those of *this* log's master, not of another with the same offsets, cannot be seen here: the logs
are compared before anything is requested.

Compatibility: RocketMQ 4.9.8 appends what comes. A damaged record then stops the slave's dispatch for good while it
goes on acknowledging.
"""

from __future__ import annotations

from struct import Struct

import attrs

from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.stored_message import (
    BLANK_MAGIC_CODE,
    BLANK_SIZE_MIN,
    MESSAGE_MAGIC_CODE,
    RECORD_SIZE_MAX,
    RECORD_SIZE_MIN,
    RecordStatus,
    check_message,
)
from rocketpy.store.log.scanner import objection

_TOTAL_AND_MAGIC = Struct(">ii")
_PHYSICAL_OFFSET = Struct(">28xq")


@attrs.frozen
class VerifiedPiece:
    """Whole records that follow each other within one file, or the BLANK at its end."""

    offset: int
    data: bytes
    record_count: int

    @property
    def end_offset(self) -> int:
        """The offset behind the last byte."""
        return self.offset + len(self.data)


class VerifiedStream:
    """The log of a master, from ``next_offset`` on, in pieces that may be stored."""

    def __init__(self, next_offset: int, *, file_size: int) -> None:
        self.next_offset = next_offset
        """Where the next record begins, in bytes; everything before it has been returned."""
        self._file_size = file_size
        self._pending = bytearray()  # begins at next_offset: the incomplete record

    @property
    def pending_bytes(self) -> int:
        """The received bytes of an incomplete record."""
        return len(self._pending)

    def receive(self, data: bytes) -> list[VerifiedPiece]:
        """Return what is complete now, in order.

        RemoteProtocolError, naming the offset, for bytes that are no valid record; what was complete before them has
        been lost with the call, and the master sends it again from ``next_offset``.
        """
        pending = self._pending
        pending += data
        pieces: list[VerifiedPiece] = []
        base, position, begin, count = self.next_offset, 0, 0, 0
        while True:
            size = self._size_at(base, position)
            if size == 0:
                break
            position += size
            count += 1
            if (base + position) % self._file_size == 0:
                pieces.append(VerifiedPiece(base + begin, bytes(pending[begin:position]), count))
                begin, count = position, 0
        if position > begin:
            pieces.append(VerifiedPiece(base + begin, bytes(pending[begin:position]), count))
        del pending[:position]
        self.next_offset = base + position
        return pieces

    def _size_at(self, base: int, position: int) -> int:
        """Return the size of the valid record or BLANK at a position, 0 while it is incomplete."""
        pending = self._pending
        available = len(pending) - position
        if available < BLANK_SIZE_MIN:
            return 0
        offset = base + position
        left_in_file = self._file_size - offset % self._file_size
        size: int
        size, magic = _TOTAL_AND_MAGIC.unpack_from(pending, position)
        if magic == BLANK_MAGIC_CODE:
            if size != left_in_file or size > RECORD_SIZE_MAX:
                raise _refused(offset, f"a BLANK of the {left_in_file} bytes that are left of its file", size)
            return size if available >= size else 0
        if magic != MESSAGE_MAGIC_CODE:
            raise _refused(offset, "the magic number of a record or of a BLANK", magic)
        if not RECORD_SIZE_MIN <= size <= min(RECORD_SIZE_MAX, left_in_file - BLANK_SIZE_MIN):
            most = min(RECORD_SIZE_MAX, left_in_file - BLANK_SIZE_MIN)
            raise _refused(offset, f"a record of {RECORD_SIZE_MIN} to {most} bytes", size)
        if available >= _PHYSICAL_OFFSET.size:
            (physical_offset,) = _PHYSICAL_OFFSET.unpack_from(pending, position)
            if physical_offset != offset:
                raise _refused(offset, "a record with this physical offset", physical_offset)
        if available < size:
            return 0
        checked = check_message(pending, position, size)
        why = checked.why if checked.status is not RecordStatus.MESSAGE else objection(checked, offset)
        if why:
            raise RemoteProtocolError(f"replicated log at {offset}: {why}")
        return size


def _refused(offset: int, expected: str, found: int) -> RemoteProtocolError:
    return RemoteProtocolError(f"replicated log at {offset}: expected {expected}, found {found}")
