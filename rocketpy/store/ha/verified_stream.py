"""Checks the bytes of a master's log before they are stored: only whole, valid records pass.

A record is valid if recovery would accept it: its size fits into the file, its physical offset is its position in the
log, its lengths add up, its body matches its CRC, and neither topic nor properties contain a NUL. The rest of a file is
a BLANK that ends exactly with the file. An incomplete record is kept in memory until the rest arrives, so a slave's log
always ends with a record. As in the scanner of recovery there is a fast path for plain records
(:mod:`rocketpy.store.log.plain_records`), and a general path that decides about all others.

That the records are those of *this* log's master, not of another with the same offsets, cannot be seen here: the logs
are compared before anything is requested. Nor is it checked here that queue offsets follow those in the queues; records
of one queue that follow each other have the same ``QueueRun``.

Compatibility: RocketMQ 4.9.8 appends what comes. A damaged record then stops the slave's dispatch for good while it
goes on acknowledging.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import TypeAlias

import attrs

from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.stored_message import (
    BLANK_MAGIC_CODE,
    BLANK_SIZE_MIN,
    MESSAGE_MAGIC_CODE,
    RECORD_SIZE_MAX,
    RECORD_SIZE_MIN,
    Buffer,
    CheckedMessage,
    RecordStatus,
    check_message,
)
from rocketpy.protocol.sysflag import NO_QUEUE_FLAG
from rocketpy.store.log.plain_records import PlainRecords, QueueRun, continued_run
from rocketpy.store.log.scanner import objection

_TOTAL_AND_MAGIC = Struct(">ii")
_PHYSICAL_OFFSET = Struct(">28xq")
_QUEUES_MAX = 100_000
"""Queues that are known at a time. With more of them records take the general path more often."""


VerifiedRecord: TypeAlias = tuple[QueueRun | None, int, int, int, int, bytes]
"""The run, None for a record without a queue; queue offset, physical offset, size, storeTimestamp and properties."""


@attrs.frozen
class VerifiedPiece:
    """Whole records that follow each other within one file, or the BLANK at its end."""

    offset: int
    data: Buffer
    records: Sequence[VerifiedRecord]
    """The records; none for a BLANK."""

    @property
    def end_offset(self) -> int:
        """The offset after the last byte."""
        return self.offset + len(self.data)

    @property
    def record_count(self) -> int:
        """Number of records."""
        return len(self.records)


class VerifiedStream:
    """The log of a master, from ``next_offset`` on, in pieces that may be stored."""

    def __init__(self, next_offset: int, *, file_size: int) -> None:
        self.next_offset = next_offset
        """Where the next record begins, in bytes; everything before it has been returned."""
        self._file_size = file_size
        self._pending = bytearray()  # begins at next_offset: the incomplete record
        self._wanted = 0  # fewer pending bytes than this are not looked at again
        self._plain: PlainRecords[QueueRun] = PlainRecords(_QUEUES_MAX)

    @property
    def pending_bytes(self) -> int:
        """The received bytes of an incomplete record."""
        return len(self._pending)

    def receive(self, *parts: Buffer) -> list[VerifiedPiece]:
        """Return what is complete now, in order. ``parts`` follow each other, and are copied.

        RemoteProtocolError, naming the offset, for bytes that are no valid record; what was complete before them has
        been lost with the call, and the master sends it again from ``next_offset``.
        """
        if self._pending and len(self._pending) + sum(map(len, parts)) < self._wanted:
            for part in parts:
                self._pending += part
            return []
        data = b"".join((self._pending, *parts))
        pieces, end = self._pieces_in(data)
        if self._pending or end < len(data):
            self._pending = bytearray(data[end:])
        self.next_offset += end
        return pieces

    def _pieces_in(self, data: bytes) -> tuple[list[VerifiedPiece], int]:
        """Return the pieces that are complete, and where the first incomplete record begins."""
        base, position, begin = self.next_offset, 0, 0
        view = memoryview(data)
        pieces: list[VerifiedPiece] = []
        records: list[VerifiedRecord] = []
        while True:
            position = self._take_plain(data, base, position, records)
            found = self._take_one(data, base, position) if position < len(data) else None
            if found is None:
                break
            if found.status is RecordStatus.MESSAGE:
                records.append(self._run_of(found))
                position += found.size
                continue
            if records:
                pieces.append(VerifiedPiece(base + begin, view[begin:position], records))
                records = []
            begin, position = position, position + found.size
            pieces.append(VerifiedPiece(base + begin, view[begin:position], ()))
            begin = position
        if records:
            pieces.append(VerifiedPiece(base + begin, view[begin:position], records))
        return pieces, position

    def _take_plain(self, data: bytes, base: int, begin: int, records: list[VerifiedRecord]) -> int:
        """Fast path: add the plain records from a position on, up to any other; return the end of the last."""
        offset = base + begin
        end_max = min(len(data), begin + self._left_in_file(offset) - BLANK_SIZE_MIN)
        found = self._plain.take(data, begin, end_max, offset, count_max=len(data) // RECORD_SIZE_MIN)
        if not found:
            return begin
        records += found
        _, _, physical_offset, size, _, _ = found[-1]
        return physical_offset + size - base

    def _run_of(self, record: CheckedMessage) -> VerifiedRecord:
        """Return a record of the general path with its run."""
        run = None if record.sys_flag & NO_QUEUE_FLAG else continued_run(self._plain, record)
        return (
            run,
            record.queue_offset,
            record.physical_offset,
            record.size,
            record.store_timestamp,
            record.properties_text,
        )

    def _take_one(self, data: bytes, base: int, position: int) -> CheckedMessage | None:
        """General path: return the valid record or BLANK at a position, None while it is incomplete."""
        available = len(data) - position
        if available < BLANK_SIZE_MIN:
            self._wanted = BLANK_SIZE_MIN
            return None
        offset = base + position
        size: int
        size, magic = _TOTAL_AND_MAGIC.unpack_from(data, position)
        self._check_head(size, magic, offset)
        if magic == MESSAGE_MAGIC_CODE:
            if available < _PHYSICAL_OFFSET.size:
                self._wanted = _PHYSICAL_OFFSET.size
                return None
            (physical_offset,) = _PHYSICAL_OFFSET.unpack_from(data, position)
            if physical_offset != offset:
                raise _refused(offset, "a record with this physical offset", physical_offset)
        if available < size:
            self._wanted = size
            return None
        checked = check_message(data, position, size)
        if checked.status is RecordStatus.BLANK:
            return checked
        why = checked.why if checked.status is not RecordStatus.MESSAGE else objection(checked, offset)
        if why:
            raise RemoteProtocolError(f"replicated log at {offset}: {why}")
        return checked

    def _check_head(self, size: int, magic: int, offset: int) -> None:
        """Refuse what neither record nor BLANK can begin with at an offset, before its bytes arrive."""
        left_in_file = self._left_in_file(offset)
        if magic == BLANK_MAGIC_CODE:
            if size != left_in_file or size > RECORD_SIZE_MAX:
                raise _refused(
                    offset,
                    f"a BLANK of the {left_in_file} bytes that are left of its file",
                    f"{size}; mappedFileSizeCommitLog must be the same on both sides, here it is {self._file_size}, "
                    f"and there a file ends at {offset + size}",
                )
            return
        if magic != MESSAGE_MAGIC_CODE:
            raise _refused(offset, "the magic number of a record or of a BLANK", magic)
        size_max = min(RECORD_SIZE_MAX, left_in_file - BLANK_SIZE_MIN)
        if not RECORD_SIZE_MIN <= size <= size_max:
            raise _refused(
                offset,
                f"a record of {RECORD_SIZE_MIN} to {size_max} bytes",
                f"{size}; here mappedFileSizeCommitLog is {self._file_size}",
            )

    def _left_in_file(self, offset: int) -> int:
        return self._file_size - offset % self._file_size


def _refused(offset: int, expected: str, found: int | str) -> RemoteProtocolError:
    return RemoteProtocolError(f"replicated log at {offset}: expected {expected}, found {found}")
