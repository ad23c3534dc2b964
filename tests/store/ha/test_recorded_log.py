"""The records of a real log by their places, and the point where two real logs part."""

from __future__ import annotations

import pytest

from rocketpy.protocol.stored_message import check_message
from rocketpy.store.ha.divergence import RecordRange, find_parting
from rocketpy.store.ha.recorded_log import CommitLogRecords
from rocketpy.store.log.commit_log import CommitLog
from rocketpy.testing.sim.disk import SimDisk
from tests.store.ha.records import FILE, a_log, a_record
from tests.store.ha.test_log_source import run_now
from tests.store.log.test_commit_log import log_at
from tests.store.parts import Place


def stored(place: Place, content: bytes) -> CommitLog:
    """Return a log with these records and BLANKs."""
    log = log_at(place, file_size=FILE)
    for begin in range(0, len(content), FILE):
        log.add_file()
        piece = content[begin : begin + FILE]
        log.write(piece, 1)
    return log


def ranges(content: bytes) -> list[RecordRange]:
    """Return the records and BLANKs of a log."""
    found, position = [], 0
    while position < len(content):
        checked = check_message(content, position, len(content) - position)
        found.append(RecordRange(position, checked.size, is_blank=not checked.topic))
        position += checked.size
    return found


async def test_every_record_is_found_by_walking_its_file(place: Place) -> None:
    content = a_log(20)
    expected = ranges(content)
    assert len(content) > 3 * FILE
    assert sum(each.is_blank for each in expected) == len(content) // FILE
    records = CommitLogRecords(stored(place, content), run_blocking=run_now)
    assert await records.last_record() == expected[-1]
    assert records.file_offsets == list(range(0, len(content), FILE))
    assert (records.end_offset, records.file_size) == (len(content), FILE)
    firsts = [await records.first_record(offset) for offset in records.file_offsets]
    assert firsts == [each for each in expected if each.offset % FILE == 0]
    walked = [list(await records.records_from(offset)) for offset in records.file_offsets]
    assert [each for file in walked for each in file] == expected
    rest = await records.records_from(expected[1].offset)
    assert rest[0] == expected[1]
    assert rest[-1] == walked[0][-1]
    assert list(rest[1:3]) == walked[0][2:4]
    with pytest.raises(IndexError):
        rest[len(rest)]


async def test_the_bytes_and_times_that_are_compared(place: Place) -> None:
    content = a_log(20)
    records = CommitLogRecords(stored(place, content), run_blocking=run_now)
    for each in ranges(content):
        size = 8 if each.is_blank else each.size
        assert await records.compared_bytes(each) == content[each.offset : each.offset + size]
        assert await records.store_timestamp_ms(each) == (0 if each.is_blank else 1_700_000_000_001)


async def test_a_log_without_records_has_none(place: Place) -> None:
    log = log_at(place, file_size=FILE)
    empty = CommitLogRecords(log, run_blocking=run_now)
    assert await empty.last_record() is None
    assert list(empty.file_offsets) == []
    log.add_file()
    assert await empty.last_record() is None
    assert await empty.first_record(0) is None


async def test_after_rolling_the_last_record_is_the_blank_of_the_file_before(place: Place) -> None:
    """Its record may be the master's last too, while the master has gone on in that file."""
    log = stored(place, a_log(2))
    records = CommitLogRecords(log, run_blocking=run_now)
    assert await records.last_record() == ranges(a_log(2))[-1]
    log.add_file()
    assert await records.last_record() == RecordRange(len(a_log(2)), FILE - len(a_log(2)), is_blank=True)
    assert await records.first_record(FILE) is None


async def test_the_next_search_for_the_last_record_begins_where_the_last_one_ended() -> None:
    """A slave compares with each attempt to follow: walking a gigabyte each time would keep it busy."""
    disk = SimDisk()
    disk.make_directories("/store")
    place = Place(disk, "/store")
    log, content = log_at(place, file_size=8 << 20), b""
    log.add_file()
    reads = 0

    async def run(function, /, *arguments):  # type: ignore[no-untyped-def]
        nonlocal reads
        reads += 1
        return await run_now(function, *arguments)

    while len(content) < 4 << 20:
        record = a_record(len(content), body=b"x" * 10_000)
        log.write(record, 1)
        content += record
    records = CommitLogRecords(log, run_blocking=run)
    last = await records.last_record()
    assert reads >= 4
    reads = 0
    assert await records.last_record() == last
    assert reads == 1
    record = a_record(len(content))
    log.write(record, 1)
    assert await records.last_record() == RecordRange(len(content), len(record))


@pytest.mark.parametrize("common", range(24))
async def test_two_logs_part_at_the_first_different_record(common: int, place: Place) -> None:
    ours = a_log(20)
    places = ranges(ours)
    cut = places[common].offset
    masters = ours[:cut] + bytes(each ^ 1 for each in ours[cut:])
    records = CommitLogRecords(stored(place, ours), run_blocking=run_now)

    async def is_common(record: RecordRange) -> bool:
        end = record.offset + record.compared_size
        return masters[record.offset : end] == ours[record.offset : end]

    found = await find_parting(records, is_common)
    assert found.common == (places[common - 1] if common else None)
    assert found.different == places[common]
