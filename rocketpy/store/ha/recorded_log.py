"""The places of the records in a slave's own log, for comparing it with the master's.

The files are walked by the sizes of their records, read in a worker thread; nothing is decoded. Recovery has accepted
the log, so a walk ends at a BLANK or at the end of the log.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from struct import Struct
from typing import overload

from rocketpy.protocol.stored_message import BLANK_SIZE_MIN, MESSAGE_MAGIC_CODE, RECORD_SIZE_MIN
from rocketpy.runner import RunBlocking
from rocketpy.store.ha.divergence import RecordRange
from rocketpy.store.log.commit_log import CommitLog
from rocketpy.store.log.record_reader import log_bytes
from rocketpy.store.read.steps import Steps, read_blocking

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
            records = await read_blocking(self._walk(mapped_file.base_offset), self._run_blocking)
            if records:
                return records[-1]
        return None

    async def first_records(self) -> Sequence[RecordRange]:
        """Return the first record of each file that has one, in order."""
        return await read_blocking(self._firsts(), self._run_blocking)

    async def records_from(self, offset: int) -> Sequence[RecordRange]:
        """Return the records of the file in which a record begins at an offset, from that one on."""
        return await read_blocking(self._walk(offset), self._run_blocking)

    # ---- as steps -------------------------------------------------------------------------------------------------

    def _firsts(self) -> Steps[list[RecordRange]]:
        found: list[RecordRange] = []
        for mapped_file in list(self._commit_log.files):
            head = yield from log_bytes(self._commit_log, mapped_file.base_offset, _TOTAL_AND_MAGIC.size)
            size = _record_size(head, 0, self._left_in_file(mapped_file.base_offset))
            if size:
                found.append(RecordRange(mapped_file.base_offset, size))
        return found

    def _walk(self, offset: int) -> Steps[RecordRanges]:
        """Return the records from an offset on, up to the end of its file."""
        begins, window, window_begin, end = array("q"), b"", offset, offset + self._left_in_file(offset)
        while True:
            if offset - window_begin + _TOTAL_AND_MAGIC.size > len(window):
                window, window_begin = (yield from log_bytes(self._commit_log, offset, _WINDOW_SIZE)), offset
            size = _record_size(window, offset - window_begin, end - offset)
            if not size:
                return RecordRanges(begins, offset)
            begins.append(offset)
            offset += size

    def _left_in_file(self, offset: int) -> int:
        """Return how many bytes the log has from an offset to the end of its file."""
        located = self._commit_log.locate_some(offset, self._commit_log.wrote_offset)
        return 0 if located is None else located[2]


def _record_size(window: bytes, position: int, available: int) -> int:
    """Return the size of the record that begins at a position of a window, 0 when none does."""
    if available < BLANK_SIZE_MIN or len(window) - position < _TOTAL_AND_MAGIC.size:
        return 0
    size, magic = _TOTAL_AND_MAGIC.unpack_from(window, position)
    return int(size) if magic == MESSAGE_MAGIC_CODE and RECORD_SIZE_MIN <= size <= available else 0
