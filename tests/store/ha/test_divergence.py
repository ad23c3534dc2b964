"""The end of what two logs have in common, against a count that looks at every record."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import trio
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.store.ha.divergence import RecordRange, common_end


@attrs.define
class OwnLog:
    """The records of each file."""

    files: list[list[RecordRange]]

    async def last_record(self) -> RecordRange | None:
        await trio.lowlevel.checkpoint()
        records = [record for file in self.files for record in file]
        return records[-1] if records else None

    async def first_records(self) -> Sequence[RecordRange]:
        await trio.lowlevel.checkpoint()
        return [file[0] for file in self.files if file]

    async def records_from(self, offset: int) -> Sequence[RecordRange]:
        (file,) = (file for file in self.files if file and file[0].offset == offset)
        return file


@given(counts=st.lists(st.integers(1, 20), max_size=6), data=st.data())
def test_the_common_end_is_that_of_the_last_equal_record(counts: list[int], data: st.DataObject) -> None:
    files = [[RecordRange(1000 * file + 10 * n, 10) for n in range(count)] for file, count in enumerate(counts)]
    records = [record for file in files for record in file]
    common = data.draw(st.integers(0, len(records)), label="common records")
    asked: list[RecordRange] = []

    async def is_common(record: RecordRange) -> bool:
        asked.append(record)
        return records.index(record) < common

    found = trio.run(common_end, OwnLog(files), is_common)
    assert found == (records[common - 1].end_offset if common else 0)
    assert len(asked) <= 1 + len(counts).bit_length() + max(counts, default=0).bit_length()
    if common == len(records):
        assert len(asked) <= 1, "the usual case costs one question"
