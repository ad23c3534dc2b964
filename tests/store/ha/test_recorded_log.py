"""The records of a real log by their places, and the end of what two real logs have in common."""

from __future__ import annotations

import pytest

from rocketpy.protocol.stored_message import check_message
from rocketpy.store.ha.divergence import RecordRange, common_end
from rocketpy.store.ha.recorded_log import CommitLogRecords
from rocketpy.store.log.commit_log import CommitLog
from tests.store.ha.records import FILE, a_log
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
    found, position = [], 0
    while position < len(content):
        checked = check_message(content, position, len(content) - position)
        if checked.topic:
            found.append(RecordRange(position, checked.size))
        position += checked.size
    return found


async def test_every_record_is_found_by_walking_its_file(place: Place) -> None:
    content = a_log(20)
    expected = ranges(content)
    assert len(content) > 3 * FILE
    records = CommitLogRecords(stored(place, content), run_blocking=run_now)
    assert await records.last_record() == expected[-1]
    firsts = list(await records.first_records())
    assert firsts == [each for each in expected if each.offset % FILE == 0]
    walked = [list(await records.records_from(first.offset)) for first in firsts]
    assert [each for file in walked for each in file] == expected
    rest = await records.records_from(expected[1].offset)
    assert rest[0] == expected[1]
    assert rest[-1] == walked[0][-1]
    assert list(rest[1:3]) == walked[0][2:4]
    with pytest.raises(IndexError):
        rest[len(rest)]


async def test_a_log_without_records_has_none(place: Place) -> None:
    empty = CommitLogRecords(log_at(place, file_size=FILE), run_blocking=run_now)
    assert await empty.last_record() is None
    assert list(await empty.first_records()) == []


async def test_after_rolling_the_last_record_is_in_the_file_before(place: Place) -> None:
    log = stored(place, a_log(2))
    log.add_file()
    records = CommitLogRecords(log, run_blocking=run_now)
    assert await records.last_record() == ranges(a_log(2))[-1]
    assert len(await records.first_records()) == 1


@pytest.mark.parametrize("common", range(20))
async def test_two_logs_part_at_the_first_different_record(common: int, place: Place) -> None:
    ours = a_log(20)
    places = ranges(ours)
    cut = places[common].offset
    masters = ours[:cut] + bytes(each ^ 1 for each in ours[cut:])
    records = CommitLogRecords(stored(place, ours), run_blocking=run_now)

    async def is_common(record: RecordRange) -> bool:
        return masters[record.offset : record.end_offset] == ours[record.offset : record.end_offset]

    expected = places[common - 1].end_offset if common else 0
    assert await common_end(records, is_common) == expected
