"""The log as bytes: files, ends, and what a flush makes durable."""

from __future__ import annotations

import pytest

from rocketpy.errors import DiskFullError
from rocketpy.store.commit_log import CommitLog
from rocketpy.store.mapped_file import OpenFiles
from rocketpy.testing.sim_disk import SimDisk
from tests.store.parts import Place, PlainAllocator


def log_at(place: Place, end_offset: int = 0) -> CommitLog:
    open_files = OpenFiles(disk=place.disk, open_max=8)
    log = CommitLog(path=place.commit_log, disk=place.disk, open_files=open_files, file_size=100)
    log.load()
    log.open_at(end_offset, timestamp_ms=5, allocator=PlainAllocator(place.disk))
    return log


def read(log: CommitLog, physical_offset: int, size: int) -> bytes | None:
    place = log.locate(physical_offset, size)
    return None if place is None else place[0].file().read(place[1], size)


def test_bytes_are_found_where_they_were_written(place: Place) -> None:
    log = log_at(place)
    assert (log.end_of_file, log.min_offset) == (0, 0)
    log.add_file()
    log.write(b"a" * 60, 10)
    log.write(b"b" * 20, 9)
    assert (log.wrote_offset, log.wrote_timestamp_ms) == (80, 10), "the latest time, not the last"
    assert read(log, 55, 10) == b"aaaaabbbbb"
    assert log.locate(75, 6) is None, "not written yet"
    log.add_file()
    assert (log.wrote_offset, log.last_file_offset, log.end_of_file) == (100, 100, 200)
    assert read(log, 80, 8) == b"\0\0\0\x14\xcb\xd4\x31\x94"
    log.write(b"c" * 10, 11)
    assert read(log, 100, 10) == b"c" * 10
    assert log.locate(95, 10) is None, "no record lies in two files"
    assert log.next_file_offset(5) == 100
    assert log.next_file_offset(105) == 110


def test_a_log_goes_on_where_recovery_says(place: Place) -> None:
    log = log_at(place)
    log.add_file()
    log.write(b"a" * 60, 1)
    again = log_at(place, 60)
    assert (again.wrote_offset, again.flushed_offset, again.end_of_file) == (60, 60, 100)
    again.write(b"b" * 30, 2)
    assert read(again, 55, 10) == b"aaaaabbbbb"


def test_without_space_for_a_file_nothing_changes() -> None:
    disk = SimDisk(capacity_bytes=4096)
    log = log_at(Place(disk, "/store"))
    log.add_file()
    log.write(b"a" * 60, 1)
    with pytest.raises(DiskFullError):
        log.add_file()
    assert (log.wrote_offset, log.end_of_file) == (60, 100)
    assert read(log, 0, 60) == b"a" * 60
    disk.capacity_bytes *= 2
    log.add_file()
    assert log.wrote_offset == 100


def test_a_flush_is_of_what_was_written_when_it_began(place: Place) -> None:
    log = log_at(place)
    assert log.begin_flush() is None
    log.add_file()
    log.write(b"a" * 60, 7)
    flush_range = log.begin_flush()
    assert flush_range is not None
    log.write(b"b" * 10, 8)
    flush_range.sync()
    log.end_flush(flush_range, is_synced=True)
    assert (flush_range.end_offset, flush_range.store_timestamp_ms, log.flushed_offset) == (60, 7, 60)
    log.add_file()
    log.write(b"c", 9)
    both = log.begin_flush()
    assert both is not None
    assert len(both.files) == 2
    both.sync()
    log.end_flush(both, is_synced=True)
    assert log.flushed_offset == 101


def test_a_flush_that_failed_makes_nothing_durable(place: Place) -> None:
    log = log_at(place)
    log.add_file()
    log.write(b"a" * 60, 7)
    flush_range = log.begin_flush()
    assert flush_range is not None
    log.end_flush(flush_range, is_synced=False)
    assert log.flushed_offset == 0
    assert all(not mapped_file.is_held for mapped_file in list(log.files)[:-1])


def test_a_flush_may_wait_for_some_pages(place: Place) -> None:
    open_files = OpenFiles(disk=place.disk, open_max=8)
    log = CommitLog(path=place.commit_log, disk=place.disk, open_files=open_files, file_size=1 << 16)
    log.load()
    log.open_at(0, timestamp_ms=0, allocator=PlainAllocator(place.disk))
    log.add_file()
    log.write(bytes(4 * 4096 - 1), 1)
    assert log.begin_flush(least_pages=4) is None
    log.write(b"x", 1)
    assert log.begin_flush(least_pages=4) is not None
