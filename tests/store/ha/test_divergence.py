"""The point where two logs part, against a count that looks at every record."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import trio
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.store.ha.divergence import Parting, RecordRange, find_parting


@attrs.define
class OwnLog:
    """The records of each file; files begin every 1000 bytes."""

    files: list[list[RecordRange]]
    first_file: int = 0
    heads_read: int = 0

    @property
    def file_offsets(self) -> Sequence[int]:
        return [1000 * (self.first_file + index) for index in range(len(self.files))]

    async def last_record(self) -> RecordRange | None:
        raise AssertionError("the caller has asked for it")

    async def first_record(self, file_offset: int) -> RecordRange | None:
        await trio.lowlevel.checkpoint()
        self.heads_read += 1
        return next(iter(self.files[file_offset // 1000 - self.first_file]), None)

    async def records_from(self, offset: int) -> Sequence[RecordRange]:
        (file,) = (file for file in self.files if file and file[0].offset == offset)
        return file


@given(counts=st.lists(st.integers(1, 20), max_size=6), first_file=st.integers(0, 3), data=st.data())
def test_logs_part_after_the_last_equal_record(counts: list[int], first_file: int, data: st.DataObject) -> None:
    files = [
        [RecordRange(1000 * (first_file + file) + 10 * n, 10) for n in range(count)]
        for file, count in enumerate(counts)
    ]
    files += [[]] * data.draw(st.integers(0, 1), label="empty file at the end")
    records = [record for file in files for record in file]
    common = data.draw(st.integers(0, len(records)), label="common records")
    deleted = data.draw(st.integers(0, len(files)), label="files that the master has deleted")
    asked: list[RecordRange] = []

    async def is_common(record: RecordRange) -> bool:
        await trio.lowlevel.checkpoint()
        asked.append(record)
        return records.index(record) < common

    log = OwnLog(files, first_file)
    found = trio.run(lambda: find_parting(log, is_common, master_begin=1000 * (first_file + deleted)))
    gone = sum(len(file) for file in files[:deleted])
    left = records[gone:]
    kept = max(0, common - gone)
    assert found == Parting(left[kept - 1] if kept else None, left[kept] if kept < len(left) else None)
    assert found.common_end == (left[kept - 1].end_offset if kept else 0)
    assert len(asked) <= len(files).bit_length() + max(counts, default=0).bit_length()
    assert not any(each.offset < 1000 * (first_file + deleted) for each in asked), "the master no longer has it"


def test_ten_thousand_files_cost_a_few_questions_and_heads() -> None:
    """Opening each of 10,000 files of a gigabyte for its head would take minutes on a cold disk."""
    files = [[RecordRange(1000 * file, 10)] for file in range(10_000)]
    files[6543] = [RecordRange(6_543_000 + 10 * n, 10) for n in range(100)]
    asked: list[RecordRange] = []

    async def is_common(record: RecordRange) -> bool:
        await trio.lowlevel.checkpoint()
        asked.append(record)
        return record.offset < 6_543_210

    log = OwnLog(files)
    found = trio.run(find_parting, log, is_common)
    assert found == Parting(RecordRange(6_543_200, 10), RecordRange(6_543_210, 10))
    assert log.heads_read <= 14
    assert len(asked) <= 14 + 7


def test_of_a_blank_only_the_head_is_compared() -> None:
    assert RecordRange(500, 500, is_blank=True).compared_size == 8
    assert RecordRange(400, 100).compared_size == 100


def test_a_blank_is_common_only_after_a_common_record() -> None:
    """The search would come to it before it comes to the record that is different."""
    records = [*(RecordRange(10 * n, 10) for n in range(4)), RecordRange(40, 960, is_blank=True)]

    async def is_common(record: RecordRange) -> bool:
        return record is not records[3]

    async def search() -> Parting:
        return await find_parting(OwnLog([records]), is_common)

    assert trio.run(search) == Parting(records[2], records[3])
