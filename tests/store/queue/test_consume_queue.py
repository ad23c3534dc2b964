"""One queue: units, reserved space, ends and beginnings."""

from __future__ import annotations

import pytest

from rocketpy.errors import DiskFullError
from rocketpy.store.layout import PRE_BLANK_UNIT, UNIT, UNIT_SIZE
from rocketpy.testing.sim.disk import SimDisk
from tests.store.one_queue import FILE_SIZE, append, path, queue_at, recovered
from tests.store.parts import Place
from tests.store.queue_deletion import delete_expired_files


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


def test_units_are_read_up_to_the_end_of_a_file_and_not_as_they_were_before_a_cut(place: Place) -> None:
    queue = queue_at(place)
    append(queue, FILE_SIZE // UNIT_SIZE + 3)
    expected = b"".join(UNIT.pack(*queue.unit_at(number)) for number in range(queue.max_offset))
    in_file = FILE_SIZE // UNIT_SIZE
    for begin, count in ((0, 1), (1, 2), (3, 1000), (1, 1), (in_file - 1, 5), (in_file, 1), (in_file + 1, 5)):
        end = min(begin + count, in_file if begin < in_file else queue.max_offset)
        assert queue.units_nowait(begin, count) == expected[begin * UNIT_SIZE : end * UNIT_SIZE]
    queue.cut(in_file + 2)
    queue.make_room(1)
    queue.units.append(UNIT.pack(7, 70, 700))
    queue.next_offset += 1
    queue.write_units()
    assert queue.units_nowait(in_file + 2, 5) == UNIT.pack(7, 70, 700)


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


def test_a_queue_may_begin_after_zero(place: Place) -> None:
    queue = queue_at(place)
    queue.start_at(23)
    append(queue, 2)
    assert (queue.min_offset, queue.max_offset) == (23, 25)
    assert place.read(path(place, 20))[: 3 * UNIT_SIZE] == PRE_BLANK_UNIT * 3
    again = recovered(place)
    assert again.queue.max_offset == 25
    again.correct_min_offset(0)
    assert again.queue.min_offset == 23


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
    again = recovered(place).queue
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
