"""The places of the records in a slave's own log, for comparing it with the master's.

The files are walked by the sizes of their records, in a worker thread; nothing is decoded. The log is one that recovery
has accepted, so a walk ends at a BLANK or at the end of the log.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from struct import Struct
from typing import overload

from rocketpy.protocol.stored_message import BLANK_SIZE_MIN, MESSAGE_MAGIC_CODE, RECORD_SIZE_MIN
from rocketpy.runner import RunBlocking
from rocketpy.store.disk.interface import DiskFile
from rocketpy.store.files.mapped_file import MappedFile
from rocketpy.store.ha.divergence import RecordRange
from rocketpy.store.log.commit_log import CommitLog

_WINDOW_SIZE = 1 << 20
_TOTAL_AND_MAGIC = Struct(">ii")


class RecordRanges(Sequence[RecordRange]):
    """Adjacent records, by the offsets of their beginnings and the end of the last one: 8 bytes for each."""

    def __init__(self, begins: array[int], end_offset: int) -> None:
        self._begins = begins
        self._end_offset = end_offset

    def __len__(self) -> int:
        return len(self._begins)

    @overload
    def __getitem__(self, index: int) -> RecordRange: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[RecordRange]: ...

    def __getitem__(self, index: int | slice) -> RecordRange | Sequence[RecordRange]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        index = range(len(self))[index]
        begin = self._begins[index]
        end = self._begins[index + 1] if index + 1 < len(self) else self._end_offset
        return RecordRange(begin, end - begin)


class CommitLogRecords:
    """The records of one log; see :class:`rocketpy.store.ha.divergence.RecordedLog`.

    The log must not grow or lose files meanwhile: a slave compares before it requests anything.
    """

    def __init__(self, commit_log: CommitLog, *, run_blocking: RunBlocking) -> None:
        self._commit_log = commit_log
        self._run_blocking = run_blocking

    async def last_record(self) -> RecordRange | None:
        """Return the last record; None when there is none. Walks the last file with a record."""
        for mapped_file in reversed(list(self._commit_log.files)):
            records = await self._records(mapped_file, mapped_file.base_offset)
            if records:
                return records[-1]
        return None

    async def first_records(self) -> Sequence[RecordRange]:
        """Return the first record of each file that has one, in order."""
        found: list[RecordRange] = []
        for mapped_file in list(self._commit_log.files):
            head = await self._read(mapped_file, 0, _TOTAL_AND_MAGIC.size)
            size = _record_size(head, 0, self._end_in(mapped_file))
            if size:
                found.append(RecordRange(mapped_file.base_offset, size))
        return found

    async def records_from(self, offset: int) -> Sequence[RecordRange]:
        """Return the records of the file in which a record begins at an offset, from that one on."""
        mapped_file = self._commit_log.files.find(offset)
        assert mapped_file is not None, offset
        return await self._records(mapped_file, offset)

    async def _records(self, mapped_file: MappedFile, offset: int) -> RecordRanges:
        file = mapped_file.hold()
        try:
            return await self._run_blocking(
                _walk, file, mapped_file.base_offset, offset - mapped_file.base_offset, self._end_in(mapped_file)
            )
        finally:
            mapped_file.release()

    async def _read(self, mapped_file: MappedFile, position: int, size: int) -> bytes:
        file = mapped_file.hold()
        try:
            return await self._run_blocking(file.read, position, size)
        finally:
            mapped_file.release()

    def _end_in(self, mapped_file: MappedFile) -> int:
        """Return the position of the log's end in a file, or the file's size."""
        return min(mapped_file.size, max(0, self._commit_log.wrote_offset - mapped_file.base_offset))


def _walk(file: DiskFile, base_offset: int, position: int, end: int) -> RecordRanges:
    """Return the records of a file from a position on. Blocks."""
    begins, window, window_begin = array("q"), b"", 0
    while True:
        if position - window_begin + _TOTAL_AND_MAGIC.size > len(window):
            window, window_begin = file.read(position, min(_WINDOW_SIZE, end - position)), position
        size = _record_size(window, position - window_begin, end - position)
        if not size:
            return RecordRanges(begins, base_offset + position)
        begins.append(base_offset + position)
        position += size


def _record_size(window: bytes, position: int, available: int) -> int:
    """Return the size of the record that begins at a position of a window, 0 when none does."""
    if available < BLANK_SIZE_MIN or len(window) - position < _TOTAL_AND_MAGIC.size:
        return 0
    size, magic = _TOTAL_AND_MAGIC.unpack_from(window, position)
    return int(size) if magic == MESSAGE_MAGIC_CODE and RECORD_SIZE_MIN <= size <= available else 0
