"""The places of the records in a slave's own log, for comparing it with the master's.

The files are walked by the sizes of their records, read in a worker thread; nothing is decoded. Recovery has accepted
the log, so a walk ends with the BLANK of its file or at the end of the log.

An open log never changes what it has, so the search for the last record begins where the one before has ended.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from struct import Struct
from typing import overload

from rocketpy.protocol.stored_message import BLANK_MAGIC_CODE, BLANK_SIZE_MIN, MESSAGE_MAGIC_CODE, RECORD_SIZE_MIN
from rocketpy.runner import RunBlocking
from rocketpy.store.ha.divergence import RecordRange
from rocketpy.store.log.commit_log import TIMED_HEAD_SIZE, CommitLog, store_timestamp_in
from rocketpy.store.log.record_reader import log_bytes
from rocketpy.store.read.steps import Steps, read_blocking

_LAST_RECORDS_MAX = 16
"""Records that :meth:`CommitLogRecords.records_up_to` returns at most."""
_WINDOW_SIZE = 1 << 20
_TOTAL_AND_MAGIC = Struct(">ii")


class RecordRanges(Sequence[RecordRange]):
    """Adjacent records, by the offsets of their beginnings and the end of the last one: 8 bytes for each."""

    def __init__(self, begins: array[int], end_offset: int, *, ends_with_blank: bool = False) -> None:
        self._begins = begins
        self._end_offset = end_offset
        self._ends_with_blank = ends_with_blank

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
        begin, is_last = self._begins[index], index + 1 == len(self)
        end = self._end_offset if is_last else self._begins[index + 1]
        return RecordRange(begin, end - begin, is_blank=is_last and self._ends_with_blank)


class CommitLogRecords:
    """The records of one log; see :class:`rocketpy.store.ha.divergence.RecordedLog`.

    The log must not grow or lose files during a search: a slave compares before it requests anything.
    """

    def __init__(self, commit_log: CommitLog, *, run_blocking: RunBlocking) -> None:
        self._commit_log = commit_log
        self._run_blocking = run_blocking
        self._last_begin = 0  # where the last record that was found begins

    @property
    def file_offsets(self) -> Sequence[int]:
        """Where each file begins, in order."""
        return [mapped_file.base_offset for mapped_file in self._commit_log.files]

    @property
    def end_offset(self) -> int:
        """The end of the log."""
        return self._commit_log.wrote_offset

    @property
    def file_size(self) -> int:
        """The size of new files."""
        return self._commit_log.file_size

    async def last_record(self) -> RecordRange | None:
        """Return the last record; None when there is none. Walks the last file with a record."""
        for mapped_file in reversed(list(self._commit_log.files)):
            begin = mapped_file.base_offset
            if begin < self._last_begin < mapped_file.end_offset:
                begin = self._last_begin
            records = await self.records_from(begin)
            if records:
                self._last_begin = records[-1].offset
                return records[-1]
        return None

    async def first_record(self, file_offset: int) -> RecordRange | None:
        """Return the record with which a file begins; None when it has none."""
        steps = log_bytes(self._commit_log, file_offset, _TOTAL_AND_MAGIC.size)
        head = await read_blocking(steps, self._run_blocking)
        size, is_blank = _item_size(head, 0, self._left_in_file(file_offset))
        return RecordRange(file_offset, size, is_blank) if size else None

    async def records_from(self, offset: int) -> Sequence[RecordRange]:
        """Return the records of the file in which a record begins at an offset, from that one on."""
        return await read_blocking(self._walk(offset), self._run_blocking)

    async def records_up_to(self, end_offset: int) -> list[RecordRange]:
        """Return the last records up to an offset, of one file, in order; none if no record ends there.

        The log may grow meanwhile.
        """
        begins = [each for each in self.file_offsets if each < end_offset]
        records = await self.records_from(begins[-1]) if begins else []
        count = bisect_right(records, end_offset, key=_end_of)
        last = list(records[max(0, count - _LAST_RECORDS_MAX) : count])
        return last if last and last[-1].end_offset == end_offset else []

    async def compared_bytes(self, record: RecordRange) -> bytes:
        """Return the bytes of a record that are compared."""
        return await read_blocking(log_bytes(self._commit_log, record.offset, record.compared_size), self._run_blocking)

    async def store_timestamp_ms(self, record: RecordRange) -> int:
        """Return the storeTimestamp of a record, 0 for a BLANK."""
        steps = log_bytes(self._commit_log, record.offset, TIMED_HEAD_SIZE)
        return store_timestamp_in(await read_blocking(steps, self._run_blocking))

    # ---- as steps -------------------------------------------------------------------------------------------------

    def _walk(self, offset: int) -> Steps[RecordRanges]:
        """Return the records from an offset on, up to the end of its file."""
        begins, window, window_begin, end = array("q"), b"", offset, offset + self._left_in_file(offset)
        while True:
            if offset - window_begin + _TOTAL_AND_MAGIC.size > len(window):
                window, window_begin = (yield from log_bytes(self._commit_log, offset, _WINDOW_SIZE)), offset
            size, is_blank = _item_size(window, offset - window_begin, end - offset)
            if size:
                begins.append(offset)
                offset += size
            if is_blank or not size:
                return RecordRanges(begins, offset, ends_with_blank=is_blank)

    def _left_in_file(self, offset: int) -> int:
        """Return how many bytes the log has from an offset to the end of its file."""
        located = self._commit_log.locate_some(offset, self._commit_log.wrote_offset)
        return 0 if located is None else located[2]


def _end_of(record: RecordRange) -> int:
    return record.end_offset


def _item_size(window: bytes, position: int, available: int) -> tuple[int, bool]:
    """Return the size of the record or BLANK that begins at a position of a window, and whether it is a BLANK.

    The size is 0 when none begins there. ``available`` is how many bytes the log has from there to the file's end.
    """
    if available < BLANK_SIZE_MIN or len(window) - position < _TOTAL_AND_MAGIC.size:
        return 0, False
    size, magic = _TOTAL_AND_MAGIC.unpack_from(window, position)
    if magic == BLANK_MAGIC_CODE:
        return (available, True) if size == available else (0, False)
    return (int(size), False) if magic == MESSAGE_MAGIC_CODE and RECORD_SIZE_MIN <= size <= available else (0, False)
