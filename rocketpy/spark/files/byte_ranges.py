"""Reads the records of a byte range of one CommitLog file, a piece at a time.

A range begins at a record and ends where one begins, at BLANK or at the end of the log: the plan has seen to that
(:mod:`plan`), so ranges side by side yield each record once. Memory is bounded by a piece, and by a record that is
larger than one.

After a damaged place the next record is looked for where something other than the bytes themselves says that there is
one: where the damaged record ends if only its body is damaged, or a checked record if its size is still right; else the
next record that a ConsumeQueue knows; else the end of the range. Bytes are never searched for something that looks like
a record, because a body may hold just that.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TypeAlias

import attrs

from rocketpy.errors import StoreError
from rocketpy.protocol.stored_message import RECORD_SIZE_MAX
from rocketpy.spark.columns.records import FoundRecords, RecordBlock, Stop, find_records
from rocketpy.spark.files.log_files import CommitLogFile, open_to_read, read_exactly
from rocketpy.spark.files.problems import Problem, ReadMode, Report

PIECE_SIZE = 4 * 2**20
_PIECE_SIZE_AFTER_DAMAGE = 64 * 2**10
"""Doubled from piece to piece: where damaged records follow one another, each must not cost a whole piece."""

NextRecord: TypeAlias = Callable[[CommitLogFile, int], int | None]
"""Returns the position of a record that is known to begin in a file, at a position or after it; None without one."""


@attrs.frozen
class ByteRange:
    """Part of one file: the records that begin at ``start`` or later, and before ``end`` (positions in the file)."""

    file: CommitLogFile
    start: int
    end: int

    @property
    def size(self) -> int:
        """Bytes of the range."""
        return self.end - self.start


@attrs.frozen(kw_only=True)
class RangeReader:
    """How ranges are read: the same for all of them."""

    report: Report
    next_record: NextRecord
    check_crc: bool = True
    mode: ReadMode = ReadMode.FAIL_FAST
    piece_size: int = PIECE_SIZE

    def read(self, part: ByteRange) -> Iterator[RecordBlock]:
        """Yield the records of a range in order, in blocks of about a piece.

        ``StoreError`` where the file is damaged and the mode is failFast, or where a record reaches over the end of the
        range, so that the plan was wrong; ``FileGoneError`` if the file is gone or became shorter.
        """
        descriptor = open_to_read(part.file.path)
        try:
            yield from self._read(descriptor, part)
        finally:
            os.close(descriptor)

    def _read(self, descriptor: int, part: ByteRange) -> Iterator[RecordBlock]:
        position, wanted = part.start, self.piece_size
        while position < part.end:
            piece = read_exactly(descriptor, part.file, position, min(wanted, part.end - position))
            found = _find(piece, position, part, check_crc=self.check_crc)
            if len(found.block):
                yield found.block
            position, wanted = position + found.end, min(2 * wanted, self.piece_size)
            if found.stop is Stop.INCOMPLETE and position + found.size <= part.end:
                wanted = max(wanted, found.size)
            elif found.stop is Stop.BLANK and found.size <= part.file.size - position:
                _check_blank(part, position)
                return
            elif found.stop is not Stop.END:
                block, position = self._pass(descriptor, part, position, found)
                wanted = min(_PIECE_SIZE_AFTER_DAMAGE, self.piece_size)
                if block is not None:
                    yield block

    def _pass(
        self, descriptor: int, part: ByteRange, position: int, found: FoundRecords
    ) -> tuple[RecordBlock | None, int]:
        """Report a damaged place; return the record there if it is wanted all the same, and where to read on."""
        piece = read_exactly(descriptor, part.file, position, min(_size_at(descriptor, position), part.end - position))
        sound = _find(piece, position, part, check_crc=False)
        if len(sound.block) == 1:  # only its body is damaged
            self.report(Problem(part.file.path, position, len(piece), found.why))
            return (sound.block if self.mode is ReadMode.PERMISSIVE else None), position + len(piece)
        why = found.why
        if found.stop is Stop.INCOMPLETE:
            _check_overlap(descriptor, part, position, found.size)
            why = f"expected a record that ends in the file or before the next record, found size {found.size}"
        elif found.stop is Stop.BLANK:
            why = f"expected a BLANK of the rest of the file, found size {found.size}"
        following = self._following(descriptor, part, position, len(piece))
        self.report(Problem(part.file.path, position, following - position, why))
        return None, following

    def _following(self, descriptor: int, part: ByteRange, position: int, size: int) -> int:
        """Return where the next record begins after a damaged place, or the end of the range."""
        if size and position + size < part.end and _is_record(descriptor, part, position + size):
            return position + size
        found = self.next_record(part.file, position + 1)
        return part.end if found is None else min(found, part.end)


def _find(piece: bytes, position: int, part: ByteRange, *, check_crc: bool) -> FoundRecords:
    file = part.file
    return find_records(
        piece,
        base_offset=file.base_offset + position,
        check_crc=check_crc,
        path=file.path,
        file_base_offset=file.base_offset,
    )


def _size_at(descriptor: int, position: int) -> int:
    """Return the size that a damaged record claims, 0 for one that is impossible."""
    size = int.from_bytes(os.pread(descriptor, 4, position), "big", signed=True)
    return size if 0 < size <= RECORD_SIZE_MAX else 0


def _is_record(descriptor: int, part: ByteRange, position: int) -> bool:
    size = _size_at(descriptor, position)
    if position + size > part.end:
        return False
    piece = read_exactly(descriptor, part.file, position, size)
    return len(_find(piece, position, part, check_crc=True).block) == 1


def _check_overlap(descriptor: int, part: ByteRange, position: int, size: int) -> None:
    """Refuse a range whose end lies in a sound record: a unit of a ConsumeQueue led the plan into a body."""
    if part.end == part.file.size or position + size > part.file.size:
        return
    piece = read_exactly(descriptor, part.file, position, size)
    if len(_find(piece, position, part, check_crc=True).block) == 1:
        raise StoreError(
            f"the record of {size} bytes reaches over {part.end}, where a ConsumeQueue has another one; "
            "the option readUnits=never does not use the ConsumeQueues",
            path=part.file.path,
            position=position,
        )


def _check_blank(part: ByteRange, position: int) -> None:
    if part.end < part.file.size:
        raise StoreError(
            f"the file is closed here, and a ConsumeQueue has a record at {part.end}; "
            "the option readUnits=never does not use the ConsumeQueues",
            path=part.file.path,
            position=position,
        )
