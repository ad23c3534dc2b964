"""The log as bytes: files, ends, and what a flush makes durable."""

from __future__ import annotations

import pytest

from rocketpy.errors import DiskFullError
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import encode_message
from rocketpy.store.disk.interface import DiskFile
from rocketpy.store.files.mapped_file import OpenFiles
from rocketpy.store.log.commit_log import (
    TIMED_HEAD_SIZE,
    CommitLog,
    FileAllocator,
    FlushRange,
    first_store_timestamp,
    store_timestamp_in,
)
from rocketpy.store.log.directories import LogDirectories
from rocketpy.testing.sim.disk import SimDisk
from tests.store.parts import Place, PlainAllocator


def log_at(
    place: Place,
    end_offset: int = 0,
    *,
    directories: LogDirectories | None = None,
    allocator: FileAllocator | None = None,
    file_size: int = 100,
) -> CommitLog:
    open_files = OpenFiles(disk=place.disk, open_max=8)
    directories = directories or LogDirectories([place.commit_log])
    log = CommitLog(directories=directories, disk=place.disk, open_files=open_files, file_size=file_size)
    log.load()
    log.open_at(end_offset, timestamp_ms=5, allocator=allocator or PlainAllocator(place.disk))
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


# ---- reserved space -------------------------------------------------------------------------------------------------

MIB, PAGE = 1 << 20, 4096


class HasMadeIt:
    """Has made every file in advance."""

    def prepare(self, path: str, size: int) -> None:
        pass

    def take(self, path: str, size: int) -> None:
        pass


def sparse_log(
    size: int, *, end_offset: int, free_bytes: int, allocator: FileAllocator | None = None
) -> tuple[CommitLog, SimDisk]:
    """A log that goes on in a sparse file, on a disk with so much space."""
    disk = SimDisk()
    place = Place(disk, "/store")
    place.write(place.log_file(), b"")
    file = disk.open(place.log_file())
    file.truncate(size)
    file.close()
    disk.capacity_bytes = disk.used_bytes("/") + free_bytes
    log = log_at(place, end_offset, file_size=size, allocator=allocator)
    log.reserve_tail(end_offset)
    return log, disk


def test_recovery_reserves_the_rest_of_the_last_file() -> None:
    log, disk = sparse_log(3 * MIB, end_offset=PAGE, free_bytes=3 * MIB)
    assert log.reserved_offset == 3 * MIB
    assert disk.free_bytes("/") == PAGE
    disk.capacity_bytes = 0
    log.make_room(3 * MIB)
    log.write(bytes(3 * MIB - PAGE), 1)


def test_where_the_disk_has_too_little_recovery_leaves_it_for_others() -> None:
    log, disk = sparse_log(3 * MIB, end_offset=0, free_bytes=2 * MIB)
    assert log.reserved_offset == 0
    assert disk.free_bytes("/") == 2 * MIB


def test_space_is_reserved_in_steps_and_at_last_page_by_page() -> None:
    log, disk = sparse_log(3 * MIB, end_offset=100, free_bytes=MIB + 3 * PAGE)
    assert log.reserved_offset == 100
    log.make_room(200)
    assert log.reserved_offset == MIB + 100
    log.make_room(MIB + 100)
    assert disk.calls["reserve"] == 1, "nothing was asked of the disk again"
    log.make_room(MIB + PAGE + 1)
    assert log.reserved_offset == MIB + 2 * PAGE
    with pytest.raises(DiskFullError):
        log.make_room(MIB + 8 * PAGE)
    assert log.reserved_offset == MIB + 2 * PAGE
    log.write(bytes(MIB), 1)  # what is reserved can be written
    disk.capacity_bytes += 3 * MIB
    log.make_room(MIB + 8 * PAGE)
    assert log.reserved_offset == 2 * MIB + 2 * PAGE
    log.make_room(3 * MIB)
    assert log.reserved_offset == 3 * MIB, "no step leads out of the file"


def test_the_end_of_a_sparse_file_needs_space_too() -> None:
    """A BLANK is written there when the log goes on to the next file, which may have its space already."""
    log, disk = sparse_log(8 * PAGE, end_offset=2 * PAGE, free_bytes=0, allocator=HasMadeIt())
    disk.open("/store/commitlog/00000000000000032768", create=True).close()
    with pytest.raises(DiskFullError):
        log.add_file()
    assert (len(log.files), log.wrote_offset) == (1, 2 * PAGE)
    disk.capacity_bytes += PAGE
    log.add_file()
    assert (len(log.files), log.wrote_offset, log.reserved_offset) == (2, 8 * PAGE, 16 * PAGE)


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
    log = CommitLog(
        directories=LogDirectories([place.commit_log]), disk=place.disk, open_files=open_files, file_size=1 << 16
    )
    log.load()
    log.open_at(0, timestamp_ms=0, allocator=PlainAllocator(place.disk))
    log.add_file()
    log.write(bytes(4 * 4096 - 1), 1)
    assert log.begin_flush(least_pages=4) is None
    log.write(b"x", 1)
    assert log.begin_flush(least_pages=4) is not None


def test_the_first_file_goes_when_it_is_durable_and_not_the_last(place: Place) -> None:
    log = log_at(place)
    assert log.first_to_go() is None, "a log without files"
    for _ in range(3):
        log.add_file()
        log.write(b"x" * 50, 1)
    assert log.first_to_go() is None, "nothing is synced"
    log.end_flush(FlushRange(199, 1, ()), is_synced=True)
    first = log.first_to_go()
    assert first is not None
    file = first.hold()
    to_close: list[DiskFile] = []
    assert log.take_first(to_close.append) is first
    assert (log.min_offset, log.locate(0, 10), to_close) == (100, None, [])
    assert log.locate(110, 10) is not None
    assert log.first_to_go() is None, "the next is synced but for its last byte"
    log.end_flush(FlushRange(250, 1, ()), is_synced=True)
    assert log.first_to_go() is log.files[0]
    log.take_first(to_close.append)
    assert log.first_to_go() is None, "the last file stays"
    first.release()
    assert to_close[1:] == [file]


def test_a_flush_of_a_file_that_goes_meanwhile_holds_it(place: Place) -> None:
    log = log_at(place)
    log.add_file()
    log.write(b"x" * 50, 1)
    log.add_file()
    flush_range = log.begin_flush()
    assert flush_range is not None
    log.flushed_offset = 100
    to_close: list[DiskFile] = []
    place.disk.unlink(log.take_first(to_close.append).path)
    flush_range.sync()
    assert not to_close
    log.end_flush(flush_range, is_synced=True)
    assert len(to_close) == 1


# ---- several directories ------------------------------------------------------------------------------------------


def test_files_go_round_the_directories_and_are_found_again(place: Place) -> None:
    paths = [f"{place.root}/{name}/commitlog" for name in "bac"]
    log = log_at(place, directories=LogDirectories(paths))
    for number in range(7):
        log.add_file()
        log.write(b"%d" % number * 50, number)
    assert [each.directory[-11] for each in log.files] == list("abcabca")
    again = log_at(place, 650, directories=LogDirectories(paths[1:], read_only=paths[:1]))
    assert [read(again, number * 100, 2) for number in range(7)] == [b"%d%d" % (each, each) for each in range(7)]
    again.add_file()
    again.add_file()
    assert [each.directory[-11] for each in again.files] == list("abcabcaca"), "none in the read-only one"


def test_a_file_is_made_where_it_was_prepared_although_the_disk_is_full_now(place: Place) -> None:
    """Else the file in advance would be there too, and one name twice."""
    paths = [f"{place.root}/{name}" for name in "ab"]
    full: set[str] = set()
    allocator = PlainAllocator(place.disk)
    log = log_at(
        place, directories=LogDirectories(paths, takes_new_files=lambda path: path not in full), allocator=allocator
    )
    log.add_file()
    full.add(paths[1])
    log.add_file()
    log.add_file()
    log.add_file()
    assert [each.directory[-1] for each in log.files] == list("abaa")
    assert allocator.prepared == [each.path for each in log.files][1:] + [f"{paths[0]}/{400:020d}"]


def test_where_a_disk_has_no_space_another_one_takes_the_file(place: Place) -> None:
    class FullDisks(PlainAllocator):
        full: tuple[str, ...] = ()

        def take(self, path: str, size: int) -> None:
            if path.startswith(self.full):
                raise DiskFullError(path=path, wanted_bytes=size, free_bytes=0)
            super().take(path, size)

    paths = [f"{place.root}/{name}" for name in "ab"]
    allocator = FullDisks(place.disk)
    log = log_at(place, directories=LogDirectories(paths), allocator=allocator)
    log.add_file()
    log.write(b"x" * 60, 1)
    allocator.full = (paths[1],)
    log.add_file()
    assert [each.directory[-1] for each in log.files] == list("aa")
    allocator.full = tuple(paths)
    with pytest.raises(DiskFullError):
        log.add_file()
    assert log.wrote_offset == 100


# ---- times --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["10.0.0.1:1", "[::1]:1"])
def test_the_first_record_says_when_a_file_begins(place: Place, host: str) -> None:
    log = log_at(place)
    log.file_size = 500
    log.add_file()
    file = log.files[0].file()
    assert first_store_timestamp(file) == 0, "no record yet"
    message = MessageExt(topic="T", body=b"x", store_timestamp=1_700_000_000_123, born_host=host, store_host=host)
    log.write(encode_message(message), 1)
    assert first_store_timestamp(file) == 1_700_000_000_123
    file.truncate(50)
    assert first_store_timestamp(file) == 0


@pytest.mark.parametrize("host", ["10.0.0.1:1", "[::1]:1"])
def test_the_head_of_a_record_says_when_it_was_stored(host: str) -> None:
    message = MessageExt(topic="T", body=b"x", store_timestamp=1_700_000_000_123, born_host=host, store_host=host)
    record = encode_message(message)
    assert store_timestamp_in(record[:TIMED_HEAD_SIZE]) == store_timestamp_in(record) == 1_700_000_000_123
    assert {store_timestamp_in(record[:size]) for size in range(TIMED_HEAD_SIZE)} == {0}
    assert store_timestamp_in(bytes(4) + b"what" + record[8:]) == 0, "another magic"


# ---- space ahead ----------------------------------------------------------------------------------------------------


def test_a_write_notifies_once_of_the_offset_that_was_asked_for(place: Place) -> None:
    log = log_at(place)
    log.add_file()
    notified: list[int] = []
    log.notify_at(20, lambda: notified.append(-1))
    log.notify_at(10, lambda: notified.append(log.wrote_offset))
    log.write(b"a" * 9, 1)
    assert notified == []
    log.write(b"b" * 6, 1)
    assert notified == [15], "with the bytes written"
    log.write(b"c" * 5, 1)
    assert notified == [15]
