"""Records one by one, and the heads of many."""

from __future__ import annotations

import pytest

from rocketpy.runner import RunBlocking, run_inline
from rocketpy.store.log.record_reader import RecordReader
from tests.store.parts import BORN_HOST, BORN_HOST_V6, LOG_FILE_SIZE, Parts, Place


def reader_of(parts: Parts, run_blocking: RunBlocking = run_inline) -> RecordReader:
    return RecordReader(commit_log=parts.commit_log, run_blocking=run_blocking, end_burst=parts.appender.end_burst)


def put(parts: Parts, size: int = 10, *, prepared_offset: int = 0, born_host: bytes = BORN_HOST) -> tuple[int, int]:
    """Put a message; return its physical offset and size."""
    _, physical_offset, _ = parts.appender.put("T", 0, b"x" * size, b"", 0, (), 0, 0, 0, born_host, 0, prepared_offset)
    return physical_offset, parts.appender.wrote_offset - physical_offset


async def heads(reader: RecordReader, begin: int = 0) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    while (window := await reader.prepared_offsets(begin)) is not None:
        assert window.next_offset > begin
        found += window.prepared_offsets
        begin = window.next_offset
    return found


async def test_records_that_are_there_and_others(place: Place) -> None:
    parts = Parts(place)
    first, second = put(parts), put(parts, 300)
    end = parts.appender.wrote_offset
    wrong = [(first[0], first[1] + 1), (first[0] + 1, first[1]), (end, 100), (end + 10**9, 100), (0, 5)]
    records = await reader_of(parts).records([second, *wrong, first])
    assert [record is not None for record in records] == [True, *[False] * len(wrong), True]
    assert records[0] is not None
    assert len(records[0]) == second[1]
    assert await reader_of(parts).records([]) == []


async def test_heads_over_files_with_either_address(place: Place) -> None:
    parts = Parts(place)
    expected = []
    for number in range(200):
        born_host = BORN_HOST_V6 if number % 3 == 0 else BORN_HOST
        physical_offset, _ = put(parts, number, prepared_offset=~number, born_host=born_host)
        expected.append((physical_offset, ~number))
    assert parts.appender.wrote_offset > 3 * LOG_FILE_SIZE
    reader = reader_of(parts)
    assert await heads(reader) == expected
    assert await heads(reader, expected[77][0]) == expected[77:]
    assert await heads(reader, parts.appender.wrote_offset) == []


async def test_damage_is_skipped_up_to_the_next_file(place: Place) -> None:
    parts = Parts(place)
    places = [put(parts, 1000)[0] for _ in range(20)]
    parts.appender.end_burst()
    file = place.disk.open(place.log_file())
    file.write(places[2] + 4, b"????")
    file.close()
    in_second_file = [at for at in places if at >= LOG_FILE_SIZE]
    assert [at for at, _ in await heads(reader_of(parts))] == places[:2] + in_second_file


@pytest.mark.parametrize("size", [0, 1500])
async def test_one_record_is_a_window(place: Place, size: int) -> None:
    parts = Parts(place)
    at, length = put(parts, size)
    window = await reader_of(parts).prepared_offsets(0)
    assert window is not None
    assert (window.prepared_offsets, window.next_offset) == ([(at, 0)], at + length)
