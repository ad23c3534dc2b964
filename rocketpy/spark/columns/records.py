"""Finds and checks records in a buffer, all of a piece at once: sizes, magic, lengths, offset, NULs, CRC.

Rule: nothing here raises for what the bytes say. A walk reports where it stopped and why, and the caller decides
whether that is the end of a log, a torn tail, damage, or only the end of what it has read so far.

The checks are those of :func:`~rocketpy.protocol.stored_message.check_message` and of recovery's ``objection``, made
column by column with NumPy; only the step from one size to the next, and the CRC, cost a Python call per record.
"""

from __future__ import annotations

import struct
from enum import Enum
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from rocketpy.protocol.stored_message import (
    BLANK_MAGIC_CODE,
    BLANK_SIZE_MIN,
    MESSAGE_MAGIC_CODE,
    RECORD_SIZE_MAX,
    RECORD_SIZE_MIN,
    Buffer,
    RecordStatus,
    check_message,
)

BUFFER_SIZE_MAX = 2**31 - 1
"""Arrow's offsets are 32 bits wide."""

Int64s = npt.NDArray[np.int64]

_SIZE_AND_MAGIC = struct.Struct(">ii")


class Stop(Enum):
    """Why a walk over records ended."""

    END = "end"  # at the end that was asked for, or of the buffer: everything before it is records
    INCOMPLETE = "incomplete"  # the buffer ends inside this record; `size` says how long it claims to be
    BLANK = "blank"  # the record that closes a CommitLog file; `size` is what it claims to be left of the file
    NOTHING = "nothing"  # no magic number: space that is not written yet, or no log at all
    DAMAGED = "damaged"  # a magic number, and an inconsistent record; `why` says what was expected


@attrs.frozen(eq=False)
class RecordBlock:
    """Whole, consistent records in a buffer, maybe with gaps between them.

    ``path`` and ``base_offset`` tell where the records come from, for ``_file``, ``_offset`` and errors: the file, and
    the physical offset of its first byte. Both are None for records that were pulled.
    """

    buffer: Buffer
    starts: Int64s
    """Position of each record in the buffer, ascending."""
    sizes: Int64s
    """Bytes of each record; they do not overlap."""
    path: str | None = None
    base_offset: int | None = None

    def __attrs_post_init__(self) -> None:
        assert len(self.starts) == len(self.sizes), (len(self.starts), len(self.sizes))
        if len(self.buffer) > BUFFER_SIZE_MAX:
            raise ValueError(f"records: expected a buffer of at most {BUFFER_SIZE_MAX} bytes, found {len(self.buffer)}")

    def __len__(self) -> int:
        return len(self.starts)

    def select(self, rows: Any) -> RecordBlock:
        """Return the block with some of the records: a slice, or a mask with one boolean per record."""
        return attrs.evolve(self, starts=self.starts[rows], sizes=self.sizes[rows])


@attrs.frozen(eq=False)
class FoundRecords:
    """Result of :func:`find_records`."""

    block: RecordBlock
    end: int
    """Position in the buffer after the last record: where the walk stopped."""
    stop: Stop
    size: int = 0
    """What the bytes at ``end`` claim to be the size of the record there; for INCOMPLETE and BLANK."""
    why: str = ""
    """For NOTHING and DAMAGED: what was expected at ``end``, and what was found."""


def find_records(
    buffer: Buffer,
    *,
    start: int = 0,
    end: int | None = None,
    base_offset: int | None = None,
    check_crc: bool = True,
    path: str | None = None,
    file_base_offset: int | None = None,
) -> FoundRecords:
    """Return the records from position ``start`` on that begin before ``end`` (default: the end of the buffer).

    ``base_offset`` is the physical offset of the buffer's first byte; each record must name its own. None skips that
    check, as for the body of a pull answer. A record that begins before ``end`` may reach beyond it. ``path`` and
    ``file_base_offset`` are kept in the block.
    """
    limit = len(buffer) if end is None else min(end, len(buffer))
    starts, position = _walk(buffer, start, limit)
    sizes = np.diff(starts, append=position)
    count, why = _first_invalid(buffer, starts, sizes, base_offset, check_crc=check_crc)
    block = RecordBlock(buffer, starts[:count], sizes[:count], path, file_base_offset)
    if why:
        return FoundRecords(block, int(starts[count]), Stop.DAMAGED, why=why)
    if position >= limit:
        return FoundRecords(block, position, Stop.END)
    stop, size, why = _classify(buffer, position)
    return FoundRecords(block, position, stop, size, why)


def check_records(
    block: RecordBlock, physical_offsets: Int64s | None = None, *, check_crc: bool = True
) -> tuple[RecordBlock, list[tuple[int, str]]]:
    """Check records whose starts and sizes come from elsewhere, such as the units of a ConsumeQueue.

    Return the block without the invalid ones, and these: their number in the given block, and what was expected.
    """
    invalid: list[tuple[int, str]] = []
    keep = np.ones(len(block), bool)
    first = 0
    while first < len(block):
        rest = block.select(slice(first, None))
        offsets = None if physical_offsets is None else physical_offsets[first:]
        count, why = _first_invalid(block.buffer, rest.starts, rest.sizes, offsets, check_crc=check_crc)
        if not why:
            break
        invalid.append((first + count, why))
        keep[first + count] = False
        first += count + 1
    return block.select(keep), invalid


def _walk(buffer: Buffer, position: int, limit: int) -> tuple[Int64s, int]:
    """Step from size to size; return the starts of whole records with the right magic, and where that ended."""
    starts: list[int] = []
    add, unpack, whole_end = starts.append, _SIZE_AND_MAGIC.unpack_from, len(buffer)
    last = min(limit, whole_end - RECORD_SIZE_MIN + 1)
    while position < last:
        size, magic = unpack(buffer, position)
        if magic != MESSAGE_MAGIC_CODE or not RECORD_SIZE_MIN <= size <= RECORD_SIZE_MAX:
            break
        if position + size > whole_end:
            break
        add(position)
        position += size
    return np.array(starts, np.int64), position


def _classify(buffer: Buffer, position: int) -> tuple[Stop, int, str]:
    """Say what is at a position where no whole record is."""
    left = len(buffer) - position
    if left < BLANK_SIZE_MIN:
        return Stop.INCOMPLETE, BLANK_SIZE_MIN, ""
    size, magic = _SIZE_AND_MAGIC.unpack_from(buffer, position)
    if magic == BLANK_MAGIC_CODE:
        if size < BLANK_SIZE_MIN:
            return Stop.DAMAGED, 0, f"expected a BLANK of at least {BLANK_SIZE_MIN} bytes, found {size}"
        return Stop.BLANK, size, ""
    if magic != MESSAGE_MAGIC_CODE:
        return Stop.NOTHING, 0, f"expected a record, found size {size} and magic {magic}"
    if not RECORD_SIZE_MIN <= size <= RECORD_SIZE_MAX:
        return Stop.DAMAGED, 0, f"expected a record of {RECORD_SIZE_MIN} to {RECORD_SIZE_MAX} bytes, found {size}"
    return Stop.INCOMPLETE, size, ""


def _first_invalid(
    buffer: Buffer, starts: Int64s, sizes: Int64s, offsets: Int64s | int | None, *, check_crc: bool
) -> tuple[int, str]:
    """Return the number of the first invalid record, and why it is; their count and an empty text without one."""
    if isinstance(offsets, int):
        offsets = starts + offsets
    for number, (start, size) in enumerate(zip(starts.tolist(), sizes.tolist(), strict=True)):
        record = check_message(buffer, start, size, check_crc=check_crc)
        if record.status is not RecordStatus.MESSAGE:
            return number, record.why.partition(": ")[2] or "expected a record, found none"
        if offsets is not None and record.physical_offset != offsets[number]:
            return number, f"expected physical offset {offsets[number]}, found {record.physical_offset}"
        if "\0" in record.topic or b"\0" in record.properties_text:
            return number, "expected no NUL in topic and properties, found one"
    return len(starts), ""
