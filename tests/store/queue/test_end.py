"""Where queues end, and how little it takes to find out: a store may have tens of thousands of them."""

from __future__ import annotations

import pytest

from rocketpy.store.files.mapped_file import MappedFile, OpenFiles
from rocketpy.store.layout import PRE_BLANK_SIZE, UNIT, UNIT_SIZE
from rocketpy.store.queue.end import (
    FoundUnits,
    bisect_end,
    first_at_or_after,
    first_torn,
    is_at_or_after,
    is_unit,
    may_be_torn,
    physical_end,
    walk_end,
)
from rocketpy.testing.sim.disk import SimDisk
from tests.store.parts import Parts, Place

KEPT = 204
"""Units in the first read."""


def units(count: int, first: int = 0) -> bytes:
    return b"".join(UNIT.pack(number * 100, 100, number) for number in range(first, first + count))


def file_with(place: Place, content: bytes, size: int) -> MappedFile:
    place.write(place.queue_file("T", 0), content + bytes(size - len(content)))
    directory = f"{place.consume_queue}/T/0"
    open_files = OpenFiles(disk=place.disk, open_max=4)
    return MappedFile(directory=directory, base_offset=0, size=size, open_files=open_files)


@pytest.mark.parametrize("count", [0, 1, 7, 203, 204, 205, 700, 1020, 1021, 4000, 20_000, 30_000])
def test_both_ways_find_the_end_and_the_last_units(place: Place, count: int) -> None:
    mapped_file = file_with(place, units(count), 30_000 * UNIT_SIZE)
    for find in (walk_end, bisect_end):
        end = find(mapped_file)
        assert end.count == count
        assert end.is_clear
        kept = len(end.last_units) // UNIT_SIZE
        assert min(count, 1) <= kept <= KEPT
        assert end.last_units == units(kept, count - kept)


@pytest.mark.parametrize("count", [0, 3, 204, 1000])
@pytest.mark.parametrize("gap", [1, 300, 5000])
def test_a_walk_ends_at_a_gap_and_knows_that_something_follows(place: Place, count: int, gap: int) -> None:
    content = units(count) + bytes(gap * UNIT_SIZE) + units(2, count + gap)
    mapped_file = file_with(place, content, 30_000 * UNIT_SIZE)
    end = walk_end(mapped_file)
    assert (end.count, end.is_clear) == (count, False)


def test_a_file_that_ends_early_or_within_a_unit_has_the_whole_units_before(place: Place) -> None:
    mapped_file = file_with(place, units(5) + b"half", 5 * UNIT_SIZE + 4)
    mapped_file.size = 400
    assert walk_end(mapped_file).count == bisect_end(mapped_file).count == 5
    assert not walk_end(mapped_file).is_clear


@pytest.mark.parametrize(
    ("read", "is_one"),
    [((0, 1, 0), True), ((0, 0, 0), False), ((-1, 5, 0), False), ((5, -5, 0), False), ((5, 5, -1), True)],
)
def test_free_space_and_garbage_are_no_units(read: tuple[int, int, int], is_one: bool) -> None:
    assert is_unit(read) is is_one


def test_the_record_of_the_last_unit_says_where_the_queue_ends_in_the_log() -> None:
    content = [(0, PRE_BLANK_SIZE, 0), (100, 50, 1), (150, 70, 2)]
    assert physical_end(0, 3, content.__getitem__) == 220
    assert physical_end(0, 2, content.__getitem__) == 150
    assert physical_end(0, 1, content.__getitem__) == 0, "a pre-blank unit has no record"
    assert physical_end(2 * UNIT_SIZE, 2, content.__getitem__) == 0, "no unit, and none is read"


def test_units_are_found_by_the_offset_of_their_record() -> None:
    content = [(0, PRE_BLANK_SIZE, 0), (0, PRE_BLANK_SIZE, 0), (0, 50, 1), (50, 70, 2), (200, 10, 3)]
    assert [is_at_or_after(unit, 50) for unit in content] == [False, False, False, True, True]
    assert not is_at_or_after(content[0], 0)
    for physical_offset, found in ((0, 2), (1, 3), (50, 3), (51, 4), (200, 4), (201, 5)):
        assert first_at_or_after(physical_offset, 0, 5, content.__getitem__) == found
    assert first_at_or_after(50, 4, 5, content.__getitem__) == 4, "not before the range"


def test_found_units_are_what_was_read_as_long_as_nothing_was_written() -> None:
    found = FoundUnits(10, units(6, 10), 16, 16)
    assert found.unit_at(10) == (1000, 100, 10)
    assert (found.unit_at(9), found.unit_at(16)) == (None, None)
    found.end = 12
    assert found.unit_at(12) is None
    assert found.stale(12, 2) == units(2, 12)
    assert found.stale(15, 9) == units(1, 15)
    assert (found.stale(9, 1), found.stale(16, 1)) == (None, b"")
    found.adopt(12, 14)
    assert found.unit_at(13) == (1300, 100, 13)
    found.adopt(15, 16)
    assert found.unit_at(15) is None, "what lies between was rebuilt"
    found.cut(11)
    assert (found.unit_at(10), found.unit_at(11)) == ((1000, 100, 10), None)
    assert found.stale(11, 1) == b""
    found.clear_from = None
    assert found.stale(11, 1) is None


QUEUES = 60


def store_of_many_queues(disk: SimDisk) -> Parts:
    parts = Parts(Place(disk, "/store"), log_file_size=1 << 18, queue_file_size=6000, open_max=8)
    for number in range(QUEUES * 3):
        parts.put(b"%d" % number, f"Topic{number % QUEUES // 4}", number % 4)
    parts.appender.end_burst()
    return parts


@pytest.mark.parametrize("end", ["stop", "kill", "kill at work"])
def test_to_open_a_store_takes_a_few_disk_calls_for_each_queue(end: str) -> None:
    """With descriptors for 8 of 60 queues: each further look at a queue would be an opening and a reading more."""
    disk = SimDisk()
    parts = store_of_many_queues(disk)
    if end == "stop":
        parts.close()
    elif end == "kill":
        parts.kill()
    else:
        parts.close()
        parts = Parts(parts.place, log_file_size=1 << 18, queue_file_size=6000, open_max=8)
        for number in range(QUEUES):
            parts.put(b"%d" % number, f"Topic{number // 4}", number % 4)
        parts.appender.end_burst()
        parts.kill()
    before = disk.calls.copy()
    again = Parts(parts.place, is_clean=end == "stop", log_file_size=1 << 18, queue_file_size=6000, open_max=8)
    calls = disk.calls - before
    log_calls = 20
    assert calls["open"] <= QUEUES + log_calls
    assert calls["read"] <= QUEUES + log_calls
    assert calls["list_directory"] <= QUEUES + QUEUES // 4 + log_calls
    assert calls["file_size"] <= QUEUES + log_calls
    assert calls["is_directory"] + calls["exists"] <= log_calls
    assert calls["reserve"] + calls["write"] + calls["truncate"] <= log_calls, "what is right is left as it is"
    assert calls["size"] <= log_calls
    assert sum(calls.values()) <= 6 * QUEUES + 6 * log_calls
    assert again.report.unit_count == 0
    assert len(again.bodies("Topic0", 0)) == (4 if end == "kill at work" else 3)


SECTOR = 512
HASH = -0x1234_5678  # a plain tags code: negative, so all ones in the high half
WHOLE = UNIT.pack(1 << 40, 100, 0)


def torn_tags_codes(position: int, tags_code: int) -> set[int]:
    """Every tagsCode field that a unit at a position can have when a sector of it is lost, offset and size whole."""
    unit = UNIT.pack(1 << 40, 100, tags_code)
    found = set()
    for border in range(position // SECTOR * SECTOR, position + UNIT_SIZE, SECTOR):
        cut = min(max(0, border - position), UNIT_SIZE)
        torn = unit[:cut] + bytes(UNIT_SIZE - cut)
        physical_offset, size, left = UNIT.unpack(torn)
        if (physical_offset, size) == (1 << 40, 100):
            found.add(left)
    return found


@pytest.mark.parametrize("tags_code", [HASH, 0x0000_0001_0000_0001, 0x7FFF_FFFF, 1_700_000_000_123])
def test_whatever_a_lost_sector_leaves_is_doubted(tags_code: int) -> None:
    """Every position of a unit in five sectors: the model cuts the bytes, the module only computes."""
    doubted = 0
    for position in range(0, 5 * SECTOR, 4):
        for left in torn_tags_codes(position, tags_code) - {tags_code}:
            assert may_be_torn(position, left), (position, left)
            doubted += 1
    assert doubted


def test_a_unit_within_a_sector_is_trusted_whatever_its_content() -> None:
    assert [position for position in range(0, SECTOR, UNIT_SIZE) if may_be_torn(position, 0)] == [500]
    assert not may_be_torn(500, HASH), "the low half has arrived, so the sector has"


def test_a_border_just_before_the_field_counts_and_one_just_after_it_does_not() -> None:
    assert may_be_torn(SECTOR - 12, 0)
    assert not may_be_torn(SECTOR - 11, HASH)
    assert not may_be_torn(SECTOR - UNIT_SIZE, 0)
    assert not may_be_torn(SECTOR - 8, 0), "place and size would be torn: the unit is not valid at all"


@pytest.mark.parametrize("position", range(0, 5 * SECTOR, UNIT_SIZE))
def test_many_units_are_judged_as_each_alone(position: int) -> None:
    for torn in range(30):
        tags_codes = [HASH] * torn + [0] * (30 - torn)
        alone = [number for number in range(30) if may_be_torn(position + number * UNIT_SIZE, tags_codes[number])]
        assert first_torn(position, tags_codes) == (alone[0] if alone else 30)


def test_no_units_are_not_torn() -> None:
    assert first_torn(500, []) == 0
