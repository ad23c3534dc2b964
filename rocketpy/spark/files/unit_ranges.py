"""Reads single records: through the units of a ConsumeQueue, of a few queues only their own; and by their positions.

A range is a part of one queue. Its units are read a file at a time; records that lie close together are read at once,
and each is checked as any other. Units of light queues point at records of other topics: the filter of
:attr:`UnitRange.wants` drops them.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np
import numpy.typing as npt

from rocketpy.protocol.stored_message import RECORD_SIZE_MAX
from rocketpy.spark.columns.layout import Int64s
from rocketpy.spark.columns.records import RecordBlock, check_records
from rocketpy.spark.files.byte_ranges import RangeReader
from rocketpy.spark.files.log_files import CommitLogFile, FileGoneError, OpenLogFiles, read_exactly
from rocketpy.spark.files.problems import Problem, ReadMode
from rocketpy.spark.files.queue_units import QueueFiles, read_units

GAP_MAX = 16 * 2**10
"""Bytes between two wanted records that are read too, because another call would cost more."""


@attrs.frozen
class UnitRange:
    """Units of one queue from ``start`` to before ``end``, and the files that their records are in."""

    queue: QueueFiles
    start: int
    end: int
    files: tuple[CommitLogFile, ...]
    limit: int
    """Physical offset from which on records are read by byte ranges."""


@attrs.frozen(eq=False)
class FoundRecords:
    """Records of one task by physical offset, ascending, and the files that they are in."""

    offsets: Int64s
    sizes: Int64s
    files: tuple[CommitLogFile, ...]


@attrs.frozen
class UnitReader:
    """Reads single records, by the rules of a reader of byte ranges.

    Unless ``fails_on_loss`` the records of a file that is gone are skipped, and those of later files are read.
    """

    rules: RangeReader
    fails_on_loss: bool = True

    def read(self, part: UnitRange) -> Iterator[RecordBlock]:
        """Yield the records of a range in order, in blocks of about a piece; errors as :meth:`RangeReader.read`."""
        last = part.files[0].base_offset - 1
        with OpenLogFiles() as opened:
            for units in read_units(part.queue, part.start, part.end):
                offsets, sizes = _usable(units, last, part.limit)
                if len(offsets):
                    last = int(offsets[-1])
                    yield from self._blocks(offsets, sizes, part.files, opened)

    def read_found(self, part: FoundRecords) -> Iterator[RecordBlock]:
        """Yield records in order, in blocks of about a piece; errors as :meth:`read`."""
        with OpenLogFiles() as opened:
            yield from self._blocks(part.offsets, part.sizes, part.files, opened)

    def _blocks(
        self, offsets: Int64s, sizes: Int64s, files: tuple[CommitLogFile, ...], opened: OpenLogFiles
    ) -> Iterator[RecordBlock]:
        bases = np.array([file.base_offset for file in files], np.int64)
        numbers = np.searchsorted(bases, offsets, "right") - 1
        for rows in _pieces(offsets, sizes, numbers, self.rules.piece_size):
            file = files[int(numbers[rows.start])]
            try:
                block = self._block(opened.descriptor(file), file, offsets[rows], sizes[rows])
            except FileGoneError:
                if self.fails_on_loss:
                    raise
            else:
                yield block

    def _block(self, descriptor: int, file: CommitLogFile, offsets: Int64s, sizes: Int64s) -> RecordBlock:
        fits = offsets + sizes <= file.end_offset
        for row in np.flatnonzero(~fits).tolist():
            self._report(file, int(offsets[row]), int(sizes[row]), "a ConsumeQueue has a record that leaves the file")
        offsets, sizes = offsets[fits], sizes[fits]
        buffer, starts = _read(descriptor, file, offsets, sizes)
        block = RecordBlock(buffer, starts, sizes, file.path, file.base_offset)
        kept, invalid = check_records(block, offsets, check_crc=self.rules.check_crc)
        for row, why in invalid:
            self._report(file, int(offsets[row]), int(sizes[row]), why)
        if invalid and self.rules.mode is ReadMode.PERMISSIVE:
            kept, _ = check_records(block, offsets, check_crc=False)
        return kept

    def _report(self, file: CommitLogFile, offset: int, size: int, why: str) -> None:
        self.rules.report(Problem(file.path, offset - file.base_offset, size, why))


def _usable(units: npt.NDArray[np.void], last: int, limit: int) -> tuple[Int64s, Int64s]:
    """Return offsets and sizes of the units that can be records: ascending, as a unit and its record are."""
    offsets, sizes = units["physical_offset"].astype(np.int64), units["size"].astype(np.int64)
    before = np.maximum.accumulate(np.concatenate(([last], offsets)))[:-1]
    usable = (offsets > before) & (offsets < limit) & (sizes <= RECORD_SIZE_MAX)
    return offsets[usable], sizes[usable]


def _pieces(offsets: Int64s, sizes: Int64s, numbers: Int64s, piece_size: int) -> Iterator[slice]:
    """Cut units into runs of one file each, of about a piece with the gaps that are read too."""
    costs = sizes.copy()
    gaps = offsets[1:] - offsets[:-1] - sizes[:-1]
    costs[1:] += np.where((gaps > 0) & (gaps <= GAP_MAX), gaps, 0)
    sums = np.cumsum(costs)
    file_ends = [*(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(offsets)]
    start = 0
    for end in file_ends:
        while start < end:
            before = int(sums[start - 1]) if start else 0
            stop = min(max(int(np.searchsorted(sums, before + piece_size, "right")), start + 1), end)
            yield slice(start, stop)
            start = stop


def _read(descriptor: int, file: CommitLogFile, offsets: Int64s, sizes: Int64s) -> tuple[bytes, Int64s]:
    """Return a buffer with the records, and where each begins in it; neighbours come with what is between them."""
    ends = np.maximum.accumulate(offsets + sizes) if len(offsets) else offsets
    is_first = np.ones(len(offsets), np.bool_)
    is_first[1:] = offsets[1:] - ends[:-1] > GAP_MAX
    firsts = np.flatnonzero(is_first)
    run_starts, run_ends = offsets[firsts], ends[np.append(firsts[1:], len(offsets)) - 1]
    parts = [
        read_exactly(descriptor, file, start - file.base_offset, end - start)
        for start, end in zip(run_starts.tolist(), run_ends.tolist(), strict=True)
    ]
    before = np.cumsum(np.append(0, run_ends - run_starts))[:-1]
    runs = np.cumsum(is_first) - 1
    return b"".join(parts), offsets - run_starts[runs] + before[runs] if len(offsets) else offsets
