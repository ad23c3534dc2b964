"""Finds and checks records in a buffer, all of a piece at once: sizes, magic, lengths, offset, NULs, CRC.

Rule: nothing here raises for what the bytes say. A walk reports where it stopped and why, and the caller decides
whether that is the end of a log, a torn tail, damage, or only the end of what it has read so far.

The checks are those of :func:`~rocketpy.protocol.stored_message.check_message` and of recovery's ``objection``, made
column by column with NumPy; only the CRC costs a Python call per record.
"""

from __future__ import annotations

import struct
from enum import Enum
from typing import Any
from zlib import crc32

import attrs
import numpy as np

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
from rocketpy.spark.columns.arrow_parts import binary_parts, bytes_of
from rocketpy.spark.columns.layout import (
    BODY_CRC,
    MAGIC,
    PHYSICAL_OFFSET,
    Bools,
    Int64s,
    Layout,
    checked_layout,
    layout_of,
    read_int32,
    read_int64,
    read_uint8,
)
from rocketpy.spark.columns.walk import walk

BUFFER_SIZE_MAX = 2**31 - 1
"""Arrow's offsets are 32 bits wide."""

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
    known_layout: Layout | None = None
    """Where the parts of the records are, if that was computed to check them."""

    def __attrs_post_init__(self) -> None:
        assert len(self.starts) == len(self.sizes), (len(self.starts), len(self.sizes))
        if len(self.buffer) > BUFFER_SIZE_MAX:
            raise ValueError(f"records: expected a buffer of at most {BUFFER_SIZE_MAX} bytes, found {len(self.buffer)}")

    def __len__(self) -> int:
        return len(self.starts)

    def select(self, rows: Any) -> RecordBlock:
        """Return the block with some of the records: a slice, or a mask with one boolean per record."""
        layout = None if self.known_layout is None else self.known_layout.select(rows)
        return attrs.evolve(self, starts=self.starts[rows], sizes=self.sizes[rows], known_layout=layout)

    @property
    def layout(self) -> Layout:
        """Where the parts of the records are."""
        return layout_of(self.buffer, self.starts, self.sizes) if self.known_layout is None else self.known_layout


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
    starts, position = walk(buffer, start, limit)
    sizes = np.diff(starts, append=position)
    offsets = None if base_offset is None else starts + base_offset
    valid, layout = _valid_rows(buffer, starts, sizes, offsets, check_crc=check_crc)
    block = RecordBlock(buffer, starts, sizes, path, file_base_offset, layout)
    if not valid.all():
        row = int(np.argmin(valid))
        position = int(starts[row])
        block, invalid = block.select(slice(row)), block
        if read_int32(buffer, starts[row : row + 1] + MAGIC)[0] == MESSAGE_MAGIC_CODE:
            why = _why(invalid, row, None if base_offset is None else position + base_offset)
            return FoundRecords(block, position, Stop.DAMAGED, why=why)
    elif position >= limit:
        return FoundRecords(block, position, Stop.END)
    stop, size, why = _classify(buffer, position)
    return FoundRecords(block, position, stop, size, why)


def check_records(
    block: RecordBlock, physical_offsets: Int64s | None = None, *, check_crc: bool = True
) -> tuple[RecordBlock, list[tuple[int, str]]]:
    """Check records whose starts and sizes come from elsewhere, such as the units of a ConsumeQueue.

    Return the block without the invalid ones, and these: their number in the given block, and what was expected. A
    record that begins inside a valid one before it is invalid too.
    """
    valid, layout = _valid_rows(block.buffer, block.starts, block.sizes, physical_offsets, check_crc=check_crc)
    block = attrs.evolve(block, known_layout=layout)
    invalid = [
        (row, _why(block, row, None if physical_offsets is None else int(physical_offsets[row])))
        for row in np.flatnonzero(~valid).tolist()
    ]
    return (block.select(valid) if invalid else block), invalid


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


def _valid_rows(
    buffer: Buffer, starts: Int64s, sizes: Int64s, physical_offsets: Int64s | None, *, check_crc: bool
) -> tuple[Bools, Layout | None]:
    """Return which records are valid, and the layout, which is that of the valid ones.

    Nothing is known of the records, not even that they lie within the buffer.
    """
    if len(buffer) < RECORD_SIZE_MIN:
        return np.zeros(len(starts), np.bool_), None
    valid = (starts >= 0) & (sizes >= RECORD_SIZE_MIN) & (sizes <= RECORD_SIZE_MAX) & (starts + sizes <= len(buffer))
    if not valid.all():
        starts, sizes = np.where(valid, starts, 0), np.where(valid, sizes, RECORD_SIZE_MIN)
    valid &= read_int32(buffer, starts) == sizes
    valid &= read_int32(buffer, starts + MAGIC) == MESSAGE_MAGIC_CODE
    if physical_offsets is not None:
        valid &= read_int64(buffer, starts + PHYSICAL_OFFSET) == physical_offsets
    layout, consistent = checked_layout(buffer, starts, sizes)
    valid &= consistent
    previous_ends = np.maximum.accumulate(np.where(valid, layout.ends, 0))[:-1]
    valid[1:] &= starts[1:] >= previous_ends
    rows = np.flatnonzero(valid)
    some = layout if len(rows) == len(valid) else layout.select(rows)
    bad = _has_nul(buffer, some)
    if check_crc:
        bad |= _body_crcs(buffer, some) != read_int32(buffer, some.starts + BODY_CRC)
    valid[rows[bad]] = False
    return valid, layout


def _body_crcs(buffer: Buffer, layout: Layout) -> Int64s:
    spans = zip(layout.body_starts.tolist(), layout.body_ends.tolist(), strict=True)
    return np.array([crc32(buffer[start:end]) for start, end in spans], np.int64) & 0x7FFF_FFFF


def _has_nul(buffer: Buffer, layout: Layout) -> Bools:
    """Return which records have a NUL in topic or properties.

    The CRC does not cover them, and a torn write leaves zeros. All bytes from topics to ends are copied together and
    their zeros counted; zeros that are not in the two bytes of a properties size are NULs, which is rare.
    """
    tails = bytes_of(binary_parts(buffer, layout.topic_starts, layout.ends))
    first, second = read_uint8(buffer, layout.topic_ends), read_uint8(buffer, layout.topic_ends + 1)
    zeros = np.count_nonzero(first == 0) + np.count_nonzero(second == 0)
    if len(tails) - np.count_nonzero(tails) == zeros:
        return np.zeros(len(first), np.bool_)
    view = memoryview(buffer)
    spans = zip(layout.topic_starts.tolist(), layout.topic_ends.tolist(), layout.ends.tolist(), strict=True)
    found = [0 in view[start:middle] or 0 in view[middle + 2 : end] for start, middle, end in spans]
    return np.array(found, np.bool_)


def _why(block: RecordBlock, row: int, physical_offset: int | None) -> str:
    """Explain why a record is invalid, in the words of the decoder."""
    start, size = int(block.starts[row]), int(block.sizes[row])
    if start < 0 or size < RECORD_SIZE_MIN or start + size > len(block.buffer):
        return f"expected a record of at least {RECORD_SIZE_MIN} bytes within what was read, found {size} bytes"
    found, magic = _SIZE_AND_MAGIC.unpack_from(block.buffer, start)
    if magic != MESSAGE_MAGIC_CODE or found != size:
        return f"expected a record of {size} bytes, found size {found} and magic {magic}"
    record = check_message(block.buffer, start, size)
    if record.status is not RecordStatus.MESSAGE:
        return record.why.partition(": ")[2]
    if physical_offset is not None and record.physical_offset != physical_offset:
        return f"expected physical offset {physical_offset}, found {record.physical_offset}"
    if "\0" in record.topic or b"\0" in record.properties_text:
        return "expected no NUL in topic and properties, found one"
    return "expected a record after the one before it, found one inside it"
