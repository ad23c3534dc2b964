"""Files in order: found by where they really begin and end."""

from __future__ import annotations

import pytest

from rocketpy.errors import DamagedStoreError
from rocketpy.store.disk.interface import DiskFile
from rocketpy.store.files.mapped_file import OpenFiles
from rocketpy.store.files.mapped_file_queue import MappedFileQueue, begins_inside
from rocketpy.testing.sim.disk import SimDisk
from tests.store.parts import Place


def queue_with(place: Place, files: dict[int, int], *, drop_after_gap: bool = False) -> MappedFileQueue:
    for base_offset, size in files.items():
        place.write(f"{place.root}/{base_offset:020d}", bytes(size))
    queue = MappedFileQueue(path=place.root, disk=place.disk, open_files=OpenFiles(disk=place.disk, open_max=8))
    queue.load(drop_after_gap=drop_after_gap)
    return queue


def test_without_files_there_is_nothing_to_find(place: Place) -> None:
    queue = queue_with(place, {})
    assert (len(queue), queue.min_offset, queue.end_offset, queue.find(0)) == (0, 0, 0, None)


def test_every_offset_is_found_in_its_file_whatever_the_sizes(place: Place) -> None:
    sizes = {30: 10, 40: 25, 65: 5, 70: 100}
    queue = queue_with(place, sizes)
    for offset in range(200):
        expected = next((base for base, size in sizes.items() if base <= offset < base + size), None)
        found = queue.find(offset)
        assert (None if found is None else found.base_offset) == expected
    assert [queue.index_of(each) for each in queue] == [0, 1, 2, 3]
    assert (queue.min_offset, queue.end_offset) == (30, 170)


def test_foreign_names_are_skipped_and_stay(place: Place) -> None:
    place.write(f"{place.root}/.DS_Store", b"x")
    place.write(f"{place.root}/{0:020d}~", b"x")
    assert len(queue_with(place, {0: 10})) == 1
    assert len(place.disk.list_directory(place.root)) == 3


def test_a_gap_is_damage_that_names_the_file(place: Place) -> None:
    with pytest.raises(DamagedStoreError, match=f"expected 10 bytes up to the next file, found 8;.*{10:020d}"):
        queue_with(place, {0: 10, 10: 8, 20: 10})


def test_rebuildable_files_are_dropped_after_a_gap(place: Place) -> None:
    queue = queue_with(place, {0: 10, 10: 8, 20: 10, 30: 10}, drop_after_gap=True)
    assert [each.base_offset for each in queue] == [0, 10]
    assert len(place.disk.list_directory(place.root)) == 2


def test_what_is_dropped_does_not_come_back() -> None:
    """It would replace a file created in the meantime."""
    disk = SimDisk()
    place = Place(disk, "/q")
    for base_offset in (0, 20):
        place.write(f"/q/{base_offset:020d}", bytes(10))
        disk.open(f"/q/{base_offset:020d}").sync()
    disk.sync_directory("/q")
    assert len(queue_with(place, {}, drop_after_gap=True)) == 1
    disk.lose_power(lambda count: 0)
    assert disk.list_directory("/q") == [f"{0:020d}"]


def test_a_file_that_is_too_long_ends_where_the_next_begins(place: Place) -> None:
    queue = queue_with(place, {0: 15, 10: 10})
    assert [each.size for each in queue] == [10, 10]


def test_empty_files_at_the_end_are_deleted(place: Place) -> None:
    queue = queue_with(place, {0: 10, 10: 0})
    assert [each.base_offset for each in queue] == [0]
    assert not place.disk.exists(f"{place.root}/{10:020d}")


def test_files_are_added_and_removed_at_the_end(place: Place) -> None:
    queue = queue_with(place, {0: 10, 10: 10, 20: 10})
    queue.remove_after(10)
    assert [each.base_offset for each in queue] == [0, 10], "the one that begins just there stays"
    assert not queue.remove_last_after(10)
    place.write(f"{place.root}/{20:020d}", bytes(30))
    assert queue.append(20, 30).end_offset == queue.end_offset == 50
    queue.remove_all()
    assert place.disk.list_directory(place.root) == []


def test_the_first_file_goes_and_the_order_begins_with_the_next(place: Place) -> None:
    queue = queue_with(place, {30: 10, 40: 25, 65: 5, 70: 5})
    first = queue[0].hold()
    to_close: list[DiskFile] = []
    removed = queue.remove_first(to_close.append)
    assert (removed.base_offset, queue.min_offset, len(queue)) == (30, 40, 3)
    assert queue.find(35) is None
    assert queue.index_of(queue[0]) == 0
    assert not place.disk.exists(removed.path)
    assert first.read(0, 10) == bytes(10)
    assert not to_close
    removed.release()
    assert to_close == [first]
    queue.remove_first(to_close.append)
    assert len(to_close) == 2, "one that was not open is closed by others too, which takes long"
    for file in to_close:
        file.close()
    taken = queue.take_first()
    assert place.disk.exists(taken.path), "the caller deletes it"
    assert [each.base_offset for each in queue] == [70]


def test_files_of_several_directories_are_in_one_order(place: Place) -> None:
    for directory, base_offset in (("a", 10), ("b", 0), ("b", 20), ("c", 30)):
        place.write(f"{place.root}/{directory}/{base_offset:020d}", bytes(10))
    queue = several(place)
    queue.load()
    assert [(each.base_offset, each.directory[-1]) for each in queue] == [(0, "b"), (10, "a"), (20, "b"), (30, "c")]
    assert queue[1].path == f"{place.root}/a/{10:020d}"
    assert queue.append(40, 10, directory=f"{place.root}/b").path == f"{place.root}/b/{40:020d}"
    assert queue.append(50, 10).directory == queue.path == f"{place.root}/a"
    queue.sync_directories()


def test_one_name_in_two_directories_is_damage_and_nothing_is_deleted(place: Place) -> None:
    for directory in ("a", "c"):
        place.write(f"{place.root}/{directory}/{0:020d}", bytes(10))
    with pytest.raises(DamagedStoreError, match=f"found another in {place.root}/c;.*a/{0:020d}"):
        several(place).load()
    assert place.disk.exists(f"{place.root}/a/{0:020d}")


def several(place: Place) -> MappedFileQueue:
    paths = [f"{place.root}/{name}" for name in "abc"]
    for path in paths:
        place.disk.make_directories(path)
    open_files = OpenFiles(disk=place.disk, open_max=8)
    return MappedFileQueue(path=paths[0], more_paths=paths[1:], disk=place.disk, open_files=open_files)


def test_a_file_begins_inside_another_unless_that_one_is_too_long() -> None:
    assert not begins_inside(10, 10, {10})
    assert not begins_inside(8, 10, {8}), "a gap"
    assert begins_inside(15, 10, {15, 20})
    assert not begins_inside(15, 10, {15, 10}), "others end where it should"
