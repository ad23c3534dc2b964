"""A queue's file is as long as it will ever be and takes space in steps; a crash leaves it whole or not at all."""

from __future__ import annotations

import pytest

from rocketpy.errors import DiskFullError
from rocketpy.store.files.mapped_file import OpenFiles
from rocketpy.store.files.mapped_file_queue import MappedFileQueue
from rocketpy.store.files.sparse_file import STEP_MAX, STEP_MIN, add_sparse_file, reserve_step
from rocketpy.testing.sim.disk import SimDisk
from tests.store.deaths import different_disks, noted_deaths
from tests.store.parts import Place

SIZE = 6_000_000


def files_of(place: Place) -> MappedFileQueue:
    place.disk.make_directories(f"{place.root}/q")
    return MappedFileQueue(path=f"{place.root}/q", disk=place.disk, open_files=OpenFiles(disk=place.disk, open_max=8))


def test_a_new_file_has_its_length_its_name_and_no_content(place: Place) -> None:
    files = files_of(place)
    file = add_sparse_file(files, place.disk, 40, 400)
    assert (file.base_offset, file.size, len(files)) == (40, 400, 1)
    assert place.read(f"{place.root}/q/{40:020d}") == bytes(400)
    assert place.disk.list_directory(place.root) == ["q"], "what it was made of is gone"


def test_it_may_begin_with_something(place: Place) -> None:
    """Units that only fill the space before a queue's first message."""
    add_sparse_file(files_of(place), place.disk, 0, 400, b"blank")
    assert place.read(f"{place.root}/q/{0:020d}") == b"blank" + bytes(395)


def test_what_a_crash_has_left_half_made_is_not_taken_for_it(place: Place) -> None:
    files = files_of(place)
    place.write(f"{place.root}/q.staged", b"old bytes" * 100)
    add_sparse_file(files, place.disk, 0, 400)
    assert place.read(f"{place.root}/q/{0:020d}") == bytes(400)


def test_what_a_crash_has_left_does_not_come_back_with_the_next_loss_of_power() -> None:
    disk = SimDisk()
    place = Place(disk, "/store")
    files = files_of(place)
    staged = disk.open("/store/q.staged", create=True)
    staged.write(0, b"x" * 400)
    staged.sync()
    staged.close()
    disk.sync_directory("/store")
    add_sparse_file(files, disk, 0, 400)
    disk.sync_directory("/store/q")
    disk.lose_power(lambda count: 0)
    assert b"x" not in place.read(f"/store/q/{0:020d}")


def test_a_death_in_any_call_leaves_no_short_file_under_the_name() -> None:
    """RocketMQ refuses a store with one."""
    disk = SimDisk()
    files = files_of(Place(disk, "/store"))
    with noted_deaths(disk) as deaths:
        add_sparse_file(files, disk, 0, 400, b"blank")
    for dead in different_disks(deaths, None):
        assert set(dead.peek("/store/q").values()) <= {b"blank" + bytes(395)}


@pytest.mark.parametrize(
    ("position", "end"),
    [
        (0, STEP_MIN),
        (20, 2 * STEP_MIN),  # on a page
        (STEP_MIN, 2 * STEP_MIN),
        (3 * STEP_MIN, 6 * STEP_MIN),  # as much as it holds already
        (STEP_MAX, 2 * STEP_MAX),
        (10 * STEP_MAX, 11 * STEP_MAX),  # and no more than so much
        (SIZE - 20, SIZE),
        (SIZE - STEP_MAX - 20, SIZE - STEP_MAX - 20 + STEP_MAX + -(SIZE - 20) % STEP_MIN),
    ],
)
def test_a_step_is_as_long_as_what_is_there_within_bounds(place: Place, position: int, end: int) -> None:
    file = add_sparse_file(files_of(place), place.disk, 0, SIZE)
    assert reserve_step(file, position) == min(end, SIZE)
    assert file.file().size() == SIZE, "it does not get longer"


def test_what_is_reserved_can_be_written_on_a_disk_that_is_full_since() -> None:
    disk = SimDisk()
    file = add_sparse_file(files_of(Place(disk, "/store")), disk, 0, SIZE)
    end = reserve_step(file, 0)
    disk.capacity_bytes = 0
    file.file().write(end - 20, bytes(range(20)))
    assert file.file().read(end - 20, 20) == bytes(range(20))


def test_a_full_disk_changes_nothing() -> None:
    disk = SimDisk()
    place = Place(disk, "/store")
    file = add_sparse_file(files_of(place), disk, 0, SIZE)
    used = disk.used_bytes("/store")
    disk.capacity_bytes = used
    with pytest.raises(DiskFullError) as caught:
        reserve_step(file, 0)
    assert caught.value.wanted_bytes == STEP_MIN
    assert disk.used_bytes("/store") == used
    assert file.file().size() == SIZE


@pytest.mark.parametrize(("position", "end"), [(0, 4096), (4080, 8192), (100_000, 102_400), (2 * STEP_MAX, 135_168)])
def test_on_a_disk_that_is_nearly_full_a_step_is_what_a_unit_needs(position: int, end: int) -> None:
    disk = SimDisk()
    file = add_sparse_file(files_of(Place(disk, "/store")), disk, 0, SIZE)
    disk.capacity_bytes = disk.used_bytes("/store") + 2 * STEP_MIN
    assert reserve_step(file, position) == (end if position else STEP_MIN)


def test_what_was_reserved_once_is_reserved_again_on_a_full_disk() -> None:
    """Recovery goes back to a unit whose space an earlier run had reserved by another step."""
    disk = SimDisk()
    file = add_sparse_file(files_of(Place(disk, "/store")), disk, 0, SIZE)
    first = reserve_step(file, 0)
    second = reserve_step(file, first)
    disk.capacity_bytes = 0
    for position in range(0, second - 20, 20):
        assert position < reserve_step(file, position) <= second
    with pytest.raises(DiskFullError):
        reserve_step(file, second)
