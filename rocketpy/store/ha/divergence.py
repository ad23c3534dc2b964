"""Where a slave's log and its master's part: found by comparing records, before anything is requested.

Nothing on the wire of replication ties two logs together. A slave whose log ends within the master's may still hold
other records: after a promotion, or when the master was restored from a copy. Equal logs have a common beginning, so
comparing the last record is enough when they are equal, and otherwise the first different record is found by bisection:
over the first records of the files, then over the records of one file. Records contain times, hosts and checksums, so
that two different ones at the same offset are practically never equal.

A BLANK counts as a record: two logs may have the same last record, and only one of them may have ended its file there.
Of a BLANK only the first 8 bytes have a meaning, and only they are compared. They are equal in any two logs whose files
end at the same offset, so a BLANK is common only if the record before it is.

What the master has deleted cannot be compared. A search begins with the master's first file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import attrs

from rocketpy.protocol.stored_message import BLANK_SIZE_MIN


@attrs.frozen
class RecordRange:
    """The place of a record, or of a BLANK, in the log, in bytes."""

    offset: int
    size: int
    is_blank: bool = False

    @property
    def end_offset(self) -> int:
        """The end of the record."""
        return self.offset + self.size

    @property
    def compared_size(self) -> int:
        """How many of its bytes are compared: all of a record, the head of a BLANK."""
        return BLANK_SIZE_MIN if self.is_blank else self.size


class RecordedLog(Protocol):
    """The slave's own log, its BLANKs among the records. Reading may block: the calls run where that is allowed."""

    @property
    def file_offsets(self) -> Sequence[int]:
        """Where each file begins, in order."""
        ...

    async def last_record(self) -> RecordRange | None:
        """Return the last record; None when there is none."""
        ...

    async def first_record(self, file_offset: int) -> RecordRange | None:
        """Return the record with which a file begins; None when it has none."""
        ...

    async def records_from(self, offset: int) -> Sequence[RecordRange]:
        """Return the records of the file in which a record begins at an offset, from that one on."""
        ...


IsCommon = Callable[[RecordRange], Awaitable[bool]]
"""Whether the master has the same bytes there."""


@attrs.frozen
class Parting:
    """Two records of the slave that follow each other: the last common one, and the first one that is not."""

    common: RecordRange | None
    """None when the first record that could be compared is different."""
    different: RecordRange | None
    """None when every record that could be compared is common."""

    @property
    def common_end(self) -> int:
        """The end of what is known to be common; 0 when nothing is."""
        return 0 if self.common is None else self.common.end_offset


async def find_parting(log: RecordedLog, is_common: IsCommon, *, master_begin: int = 0) -> Parting:
    """Return where the slave's log leaves the master's, whose first file begins at ``master_begin``.

    Asks for about log2 of files and records, and reads the head of each record that it asks for, and one whole file.
    """
    offsets = [offset for offset in log.file_offsets if offset >= master_begin]
    low, high, different = 0, len(offsets), None
    while low < high:
        middle = (low + high) // 2
        first = await log.first_record(offsets[middle])
        if first is not None and await is_common(first):
            low = middle + 1
        else:
            high, different = middle, first
    if low == 0:
        return Parting(None, different)
    records = await log.records_from(offsets[low - 1])
    count = await _common_count(records, is_common)
    return Parting(records[count - 1] if count else None, records[count] if count < len(records) else different)


async def _common_count(records: Sequence[RecordRange], is_common: IsCommon) -> int:
    """Return how many records at the beginning are common, of the records of one file."""
    has_blank = len(records) > 0 and records[-1].is_blank
    count = len(records) - has_blank
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if await is_common(records[middle]):
            low = middle + 1
        else:
            high = middle
    if has_blank and low == count and await is_common(records[-1]):
        return low + 1
    return low
