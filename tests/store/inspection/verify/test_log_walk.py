"""A walk finds every record that is whole, whatever stands between them."""

from __future__ import annotations

from random import Random

import pytest

from rocketpy.protocol.stored_message import check_message
from rocketpy.store.inspection.verify.inventory import StoreFile
from rocketpy.store.inspection.verify.log_walk import LogWalk, read_record
from rocketpy.store.inspection.verify.read_only_files import ReadOnlyFiles
from rocketpy.testing.sim.disk import SimDisk
from tests.store.parts import LOG_FILE_SIZE, Parts, Place

COUNT = 60


@pytest.fixture
def place() -> Place:
    """A log of a few files."""
    place = Place(SimDisk(), "/store")
    parts = Parts(place)
    random = Random(5)
    for number in range(COUNT):
        parts.clock.advance_ms(10)
        parts.put_all([random.randbytes(random.randrange(600))], queue_id=number % 3)
    parts.close()
    return place


def files_of(place: Place) -> list[StoreFile]:
    names = place.disk.list_directory(place.commit_log)
    return [
        StoreFile(
            f"{place.commit_log}/{name}", int(name), LOG_FILE_SIZE, place.disk.file_size(place.log_file(int(name)))
        )
        for name in names
    ]


def walk(place: Place, **options: object) -> tuple[LogWalk, list[tuple[int, int]]]:
    """Walk to the end; return the walk and offset and size of each record."""
    result = LogWalk(files_of(place), ReadOnlyFiles(place.disk), **options)  # type: ignore[arg-type]
    found = [(each.physical_offset, each.size) for part in result.slices() for each in part.records]
    return result, found


def test_a_whole_log(place: Place) -> None:
    result, found = walk(place)
    assert len(found) == COUNT
    assert (result.damages, result.record_count) == ([], COUNT)
    assert result.end_offset == sum(found[-1])
    assert all(each.is_zero for each in result.tail)


def test_a_walk_may_begin_at_a_record(place: Place) -> None:
    _, found = walk(place)
    assert walk(place, begin_offset=found[30][0])[1] == found[30:]


def test_every_other_record_is_found_when_one_is_damaged_anywhere(place: Place) -> None:
    """A flipped bit in each byte of a record that the checksum or the lengths cover."""
    _, found = walk(place)
    begin, size = found[10]
    content = place.read(place.log_file(0))
    for position in (*range(12), *range(28, 40), *range(84, 100), size - 40, size - 12):
        changed = bytearray(content)
        changed[begin + position] ^= 0x10
        place.write(place.log_file(0), bytes(changed))
        result, rest = walk(place)
        if check_message(changed, begin, size).size == size and position not in range(28, 36):
            assert len(rest) == COUNT, position  # nothing that is checked
            continue
        assert rest == found[:10] + found[11:], position
        assert [(each.begin_offset, each.end_offset) for each in result.damages] == [(begin, begin + size)], position
    place.write(place.log_file(0), content)


@pytest.mark.parametrize("seed", range(20))
def test_garbage_of_any_length_anywhere(place: Place, seed: int) -> None:
    _, found = walk(place)
    random = Random(seed)
    begin = random.randrange(LOG_FILE_SIZE, 2 * LOG_FILE_SIZE)
    size = random.randrange(1, 2 * LOG_FILE_SIZE - begin + 1)
    position = begin - LOG_FILE_SIZE
    before = place.read(place.log_file(LOG_FILE_SIZE))[position : position + size]
    garbage = random.choice((random.randbytes(size), bytes(size)))
    place.write(place.log_file(LOG_FILE_SIZE), garbage, position)
    changed = [number for number, (a, b) in enumerate(zip(before, garbage, strict=True)) if a != b]
    result, rest = walk(place)
    expected = {each for each in found if not any(each[0] <= begin + number < sum(each) for number in changed)}
    # A few bytes of a record are covered by nothing: flag, times, hosts.
    assert expected <= set(rest) <= set(found)
    assert rest == sorted(rest)
    for each in result.damages:
        assert not any(each.begin_offset < sum(record) and record[0] < each.end_offset for record in rest)


def test_heads_that_make_sense_are_suspects(place: Place) -> None:
    _, found = walk(place)
    for begin, _ in found[5:8]:
        byte = place.read(place.log_file(0))[begin + 88]
        place.write(place.log_file(0), bytes((byte ^ 1,)), begin + 88)
    result, _ = walk(place)
    (damage,) = result.damages
    assert [(each.physical_offset, each.size) for each in damage.suspects] == found[5:8]
    assert damage.timestamp_ms > 0


def test_what_nothing_follows_is_the_tail_and_no_damage(place: Place) -> None:
    _, found = walk(place)
    begin, size = found[-1]
    base = begin // LOG_FILE_SIZE * LOG_FILE_SIZE
    place.write(place.log_file(base), bytes(size // 2), begin - base + size - size // 2)
    result, rest = walk(place)
    assert rest == found[:-1]
    assert result.damages == []
    assert (result.end_offset, result.tail[0].begin_offset, result.tail[0].is_zero) == (begin, begin, False)


def test_older_records_after_the_end_are_stale_unless_they_were_durable(place: Place) -> None:
    """RocketMQ truncates by moving its positions: records of before stay there, and are older than the new last one."""
    _, found = walk(place)
    last, following = found[20], found[21]
    base = last[0] // LOG_FILE_SIZE * LOG_FILE_SIZE
    timestamp = (1 << 42).to_bytes(8, "big")
    place.write(place.log_file(base), timestamp, last[0] - base + 56)
    base = following[0] // LOG_FILE_SIZE * LOG_FILE_SIZE
    place.write(place.log_file(base), b"x" * 50, following[0] - base)
    result, rest = walk(place)
    assert rest == found[:21]
    assert result.end_offset == sum(last)
    assert result.tail[0].has_stale_records_after
    assert len(walk(place, durable_end=found[-1][0])[1]) == COUNT - 1


def test_records_may_be_distrusted(place: Place) -> None:
    _, found = walk(place)
    result, rest = walk(place, rejected_offsets=frozenset({found[4][0]}))
    assert rest == found[:4] + found[5:]
    assert [(each.begin_offset, each.size, each.suspects) for each in result.damages] == [(*found[4], ())]


def test_one_record_by_its_place(place: Place) -> None:
    _, found = walk(place)
    opened = ReadOnlyFiles(place.disk)
    for begin, size in found:
        record = read_record(files_of(place), opened, begin)
        assert record is not None
        assert record.size == size
        assert read_record(files_of(place), opened, begin + 1) is None
    assert read_record(files_of(place), opened, 1 << 40) is None
