"""Where queues end, and how little it takes to find out: a store may have tens of thousands of them."""

from __future__ import annotations

import pytest

from rocketpy.store.files.mapped_file import MappedFile, OpenFiles
from rocketpy.store.layout import UNIT, UNIT_SIZE
from rocketpy.store.queue.end import FoundUnits, bisect_end, walk_end
from rocketpy.testing.sim_disk import SimDisk
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
    assert found.unit_at(15) is None, "what lies between was made anew"
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
