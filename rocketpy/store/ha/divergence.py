"""Where a slave's log and its master's part: found by comparing records, before anything is requested.

Nothing on the wire of replication ties two logs together. A slave whose log ends within the master's may still hold
other records: after a promotion, or when the master was restored from a copy. Equal logs have a common beginning, so
comparing the last record is enough when they are equal, and otherwise the first different record is found by bisection:
over the first records of the files, then over the records of one file. Records contain times, hosts and checksums, so
that two different ones at the same offset are practically never equal.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import attrs


@attrs.frozen
class RecordRange:
    """The place of a record in the log, in bytes."""

    offset: int
    size: int

    @property
    def end_offset(self) -> int:
        """The end of the record."""
        return self.offset + self.size


class RecordedLog(Protocol):
    """The slave's own log. Reading may block: the calls run where that is allowed."""

    async def last_record(self) -> RecordRange | None:
        """Return the last record; None when there is none."""
        ...

    async def first_records(self) -> Sequence[RecordRange]:
        """Return the first record of each file that has one, in order."""
        ...

    async def records_from(self, offset: int) -> Sequence[RecordRange]:
        """Return the records of the file in which a record begins at an offset, from that one on."""
        ...


IsCommon = Callable[[RecordRange], Awaitable[bool]]
"""Whether the master has the same bytes there."""


async def common_end(log: RecordedLog, is_common: IsCommon) -> int:
    """Return the end of the last record that both logs have; 0 when they have none in common.

    It is the end of the last record when the slave's whole log is common. Asks for about log2 of files and records.
    """
    last = await log.last_record()
    if last is None:
        return 0
    if await is_common(last):
        return last.end_offset
    firsts = await log.first_records()
    count = await _common_count(firsts, is_common)
    if count == 0:
        return 0
    records = await log.records_from(firsts[count - 1].offset)
    return records[await _common_count(records, is_common) - 1].end_offset


async def _common_count(records: Sequence[RecordRange], is_common: IsCommon) -> int:
    """Return how many records at the beginning are common."""
    low, high = 0, len(records)
    while low < high:
        middle = (low + high) // 2
        if await is_common(records[middle]):
            low = middle + 1
        else:
            high = middle
    return low
