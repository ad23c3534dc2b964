"""One queue: units, reserved space, ends and beginnings."""

from __future__ import annotations

import pytest

from rocketpy.errors import DiskFullError
from rocketpy.store.files.mapped_file import OpenFiles
from rocketpy.store.layout import PRE_BLANK_UNIT, UNIT, UNIT_SIZE
from rocketpy.store.queue.consume_queue import ConsumeQueue
from rocketpy.testing.sim_disk import SimDisk
from tests.store.parts import Parts, Place
from tests.store.queue_deletion import delete_expired_files

FILE_SIZE = 10 * UNIT_SIZE


def queue_at(place: Place, file_size: int = FILE_SIZE, *, load: bool = False, is_clean: bool = True) -> ConsumeQueue:
    queue = ConsumeQueue(
        "T",
        3,
        tails={},
        path=f"{place.consume_queue}/T/3",
        disk=place.disk,
        open_files=OpenFiles(disk=place.disk, open_max=8),
        file_size=file_size,
    )
    if load:
        queue.files.load(drop_after_gap=True)
        queue.recover(is_clean=is_clean, file_size=file_size)
    return queue


def append(queue: ConsumeQueue, count: int) -> None:
    """Append units of 100-byte records that lie one behind the other."""
    queue.make_room(count)
    for _ in range(count):
        queue.units.append(UNIT.pack(queue.next_offset * 100, 100, 7))
        queue.next_offset += 1
    queue.write_units()


def path(place: Place, unit: int = 0) -> str:
    return place.queue_file("T", 3, unit * UNIT_SIZE)


def test_a_queue_without_messages_has_no_directory(place: Place) -> None:
    queue = queue_at(place)
    assert (queue.min_offset, queue.max_offset) == (0, 0)
    assert not place.disk.is_directory(f"{place.consume_queue}/T")


def test_units_are_visible_when_they_are_written(place: Place) -> None:
    queue = queue_at(place)
    queue.make_room(2)
    queue.units += [UNIT.pack(0, 100, 7), UNIT.pack(100, 50, -3)]
    queue.next_offset += 2
    assert queue.max_offset == 0
    queue.write_units()
    assert (queue.max_offset, queue.units) == (2, [])
    assert queue.unit_at(1) == (100, 50, -3)
    assert place.disk.file_size(path(place)) == FILE_SIZE


def test_files_are_sparse_and_reserved_in_steps() -> None:
    disk = SimDisk()
    queue = queue_at(Place(disk, "/store"), file_size=6_000_000)
    append(queue, 1)
    assert disk.file_size(path(Place(disk, "/store"))) == 6_000_000
    assert 1 < queue.reserved_offset <= 4096 // UNIT_SIZE
    calls = disk.calls["reserve"]
    append(queue, queue.reserved_offset - 1)
    assert disk.calls["reserve"] == calls
    append(queue, 30_000)
    assert disk.calls["reserve"] < calls + 25, "the steps grow"
    assert queue.reserved_offset * UNIT_SIZE - queue.next_offset * UNIT_SIZE <= 65_536 + 4096


def test_a_full_disk_refuses_room_and_loses_nothing() -> None:
    disk = SimDisk(capacity_bytes=4096)
    queue = queue_at(Place(disk, "/store"))
    append(queue, 10)
    with pytest.raises(DiskFullError):
        queue.make_room(1)
    assert (queue.max_offset, queue.unit_at(9)[0]) == (10, 900)
    disk.capacity_bytes *= 2
    append(queue, 1)
    assert queue.unit_at(10)[0] == 1000


def test_units_go_over_file_ends(place: Place) -> None:
    queue = queue_at(place)
    append(queue, 4)
    append(queue, 21)
    assert [queue.unit_at(each)[0] for each in range(25)] == [100 * each for each in range(25)]
    assert len(queue.files) == 3
    mapped_file, position, size = queue.locate(7, 100)
    assert (mapped_file.base_offset, position, size) == (0, 140, 60), "to the end of the file"
    mapped_file, position, size = queue.locate(22, 100)
    assert (mapped_file.base_offset, position, size) == (400, 40, 60), "to the last unit"


def test_a_queue_may_begin_behind_zero(place: Place) -> None:
    queue = queue_at(place)
    queue.start_at(23)
    append(queue, 2)
    assert (queue.min_offset, queue.max_offset) == (23, 25)
    assert place.read(path(place, 20))[: 3 * UNIT_SIZE] == PRE_BLANK_UNIT * 3
    again = queue_at(place, load=True)
    assert again.max_offset == 25
    again.correct_min_offset(0)
    assert again.min_offset == 23


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 20, 39, 45])
def test_the_end_is_behind_the_last_valid_unit(place: Place, count: int, is_clean: bool) -> None:
    queue = queue_at(place)
    append(queue, count)
    again = queue_at(place, load=True, is_clean=is_clean)
    assert (again.max_offset, again.next_offset, again.flushed_offset) == (count, count, count)
    append(again, 3)
    assert [again.unit_at(each)[0] for each in range(count, count + 3)] == [
        100 * each for each in range(count, count + 3)
    ]


def test_after_a_crash_the_end_is_before_the_first_hole(place: Place) -> None:
    append(queue_at(place), 35)
    place.write(path(place, 20), bytes(UNIT_SIZE), 4 * UNIT_SIZE)
    assert queue_at(place, load=True, is_clean=False).max_offset == 24


@pytest.mark.parametrize("is_clean", [True, False])
def test_files_that_were_reserved_and_never_written_are_not_taken_for_full_ones(place: Place, is_clean: bool) -> None:
    queue = queue_at(place)
    append(queue, 12)
    queue.make_room(60)
    again = queue_at(place, load=True, is_clean=is_clean)
    assert len(again.files) == 8
    assert again.max_offset == 12


def test_truncation_clears_what_it_cuts(place: Place) -> None:
    queue = queue_at(place)
    append(queue, 35)
    queue.truncate(13)
    assert (queue.max_offset, queue.next_offset) == (13, 13)
    assert len(queue.files) == 2
    assert place.read(path(place, 10))[3 * UNIT_SIZE :] == bytes(7 * UNIT_SIZE)
    append(queue, 1)
    assert queue.unit_at(13)[0] == 1300
    assert queue_at(place, load=True, is_clean=False).max_offset == 14


def test_what_was_cut_does_not_come_back_with_the_next_loss_of_power() -> None:
    """Another message of the same size may lie in its place by then, and have other tags."""
    disk = SimDisk()
    place = Place(disk, "/store")
    queue = queue_at(place)
    append(queue, 25)
    for mapped_file in queue.files:
        mapped_file.file().sync()
    disk.sync_directory(queue.files.path)
    queue.truncate(3)
    disk.lose_power(lambda count: 0)
    assert disk.list_directory(queue.files.path) == ["00000000000000000000"]
    content = place.read(path(place))
    assert len(content) == FILE_SIZE
    assert content[3 * UNIT_SIZE :].count(0) == FILE_SIZE - 3 * UNIT_SIZE


def test_a_file_that_was_staged_in_another_life_gives_nothing_to_a_new_one() -> None:
    disk = SimDisk()
    place = Place(disk, "/store")
    queue = queue_at(place)
    disk.make_directories(queue.files.path)
    staged = disk.open(f"{queue.files.path}.staged", create=True)
    staged.write(0, b"x" * FILE_SIZE)
    staged.sync()
    disk.sync_directory(f"{place.consume_queue}/T")
    append(queue, 1)
    disk.sync_directory(queue.files.path)
    disk.lose_power(lambda count: 0)
    assert b"x" not in place.read(path(place))


def test_units_are_found_by_their_place_in_the_log(place: Place) -> None:
    queue = queue_at(place)
    append(queue, 35)
    for physical_offset in range(0, 3600, 50):
        assert queue.first_at_or_behind(physical_offset) == min(35, -(-physical_offset // 100))
    queue.correct_min_offset(1250)
    assert queue.min_offset == 13


def test_a_rewound_queue_shows_what_stood_there(place: Place) -> None:
    queue = queue_at(place)
    append(queue, 15)
    queue.rewind(8)
    assert (queue.max_offset, queue.flushed_offset) == (8, 8)
    stale = queue.stale_units(8, 64)
    assert UNIT.unpack(stale[:UNIT_SIZE]) == (800, 100, 7)
    assert len(stale) == 2 * UNIT_SIZE, "to the end of the file"
    assert queue.stale_units(30, 64) == b""


def test_removed_files_leave_nothing_but_foreign_ones(place: Place) -> None:
    queue = queue_at(place)
    append(queue, 15)
    queue.remove_files()
    assert not place.disk.is_directory(f"{place.consume_queue}/T/3")
    append(queue, 2)
    assert queue.unit_at(0)[0] == 0
    place.write(f"{place.consume_queue}/T/3/notes", b"x")
    queue.remove_files()
    assert place.disk.list_directory(f"{place.consume_queue}/T/3") == ["notes"]


def test_what_is_not_flushed_is_held_for_the_flush(place: Place) -> None:
    queue = queue_at(place)
    append(queue, 25)
    held = list(queue.hold_unflushed())
    assert sorted(each.base_offset for each, _ in held) == [0, 200, 400]
    assert all(each.is_held for each, _ in held)
    for each, _ in held:
        each.release()
    queue.flushed_offset, queue.has_new_file = 21, False
    assert [each.base_offset for each, _ in queue.hold_unflushed()] == [400]


def test_files_go_when_all_their_messages_have_left_the_log(place: Place) -> None:
    queue = queue_at(place)
    append(queue, 35)
    assert delete_expired_files(queue, place.disk, 900) == 0
    assert (queue.min_offset, len(queue.files)) == (9, 4), "the last unit of the first file is still there"
    assert delete_expired_files(queue, place.disk, 2100) == 2
    assert (queue.min_offset, queue.files.min_offset) == (21, 20 * UNIT_SIZE)
    assert place.disk.list_directory(queue.files.path) == [f"{base * UNIT_SIZE:020d}" for base in (20, 30)]
    assert queue.unit_at(21)[0] == 2100
    again = queue_at(place, load=True)
    assert (again.min_offset, again.max_offset) == (20, 35)


def test_the_last_file_and_pending_units_stay_whatever_the_log_has_lost(place: Place) -> None:
    queue = queue_at(place)
    append(queue, 8)
    queue.make_room(5)
    for number in range(8, 13):
        queue.units.append(UNIT.pack(number * 100, 100, 7))
        queue.next_offset += 1
    assert delete_expired_files(queue, place.disk, 1 << 40) == 0, "units of the first file are not written yet"
    queue.write_units()
    assert delete_expired_files(queue, place.disk, 1 << 40) == 1
    assert (queue.min_offset, queue.max_offset, len(queue.files)) == (13, 13, 1)
    assert delete_expired_files(queue, place.disk, 1 << 40) == 0


def test_power_lost_while_files_go_leaves_no_gap() -> None:
    disk = SimDisk()
    queue = queue_at(Place(disk, "/store"))
    append(queue, 45)
    for mapped_file in queue.files:
        mapped_file.file().sync()
    disk.sync_directory(queue.files.path)
    delete_expired_files(queue, disk, 3100)
    disk.lose_power(lambda count: 0)
    again = queue_at(Place(disk, "/store"), load=True, is_clean=False)
    assert (again.min_offset, again.max_offset) == (30, 45)


def test_units_that_recovery_has_removed_do_not_come_back_with_the_power() -> None:
    disk = SimDisk()
    place = Place(disk, "/store")
    parts = Parts(place)
    parts.put_all([b"body"] * 50)
    parts.close()
    disk.sync_directory("/store/consumequeue/TopicTest/0")
    queue = parts.queues.find("TopicTest", 0)
    assert queue.files
    queue.remove_files_durably()
    disk.lose_power(lambda count: 0)
    assert not disk.exists(place.queue_file("TopicTest", 0))
    assert place.files(place.consume_queue) == {}
