"""The marker files survive the crashes that they tell of, and the note of a clean shutdown reads as it was written."""

from __future__ import annotations

import pytest

from rocketpy.errors import StoreError
from rocketpy.store.recovery.marker_files import (
    AbortFile,
    FailedSyncMark,
    OrderlyEnd,
    RecoveryMark,
    load_orderly_end,
    persist_orderly_end,
)
from rocketpy.testing.sim.disk import SimDisk
from tests.store.parts import Place

PATH = "/store/failed-sync"


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk(choose=lambda count: 0)
    disk.make_directories("/store")
    return disk


def fail_a_sync(disk: SimDisk) -> None:
    disk.fail_call("sync")
    disk.open("/store/log", create=True).sync()


def test_a_life_with_a_failed_sync_leaves_the_mark(disk: SimDisk) -> None:
    mark = FailedSyncMark(disk, PATH)
    with pytest.raises(StoreError, match="simulated failure"), mark:
        fail_a_sync(disk)
    assert mark.exists()
    mark.remove()
    assert not mark.exists()
    mark.remove()


@pytest.mark.parametrize("failure", [StoreError("not opened", path="/x"), ValueError("ours"), KeyboardInterrupt()])
def test_whatever_else_ends_it_does_not(disk: SimDisk, failure: BaseException) -> None:
    mark = FailedSyncMark(disk, PATH)
    with pytest.raises(type(failure)), mark:
        raise failure
    assert not mark.exists()


def test_a_clean_shutdown_leaves_none(disk: SimDisk) -> None:
    mark = FailedSyncMark(disk, PATH)
    with mark:
        pass
    assert not mark.exists()


def test_the_first_failure_is_raised_also_when_the_mark_cannot_be_created(disk: SimDisk) -> None:
    mark = FailedSyncMark(disk, "/nowhere/failed-sync")
    with pytest.raises(StoreError, match="simulated failure") as caught, mark:
        fail_a_sync(disk)
    assert "the mark of that could not be made" in "".join(caught.value.__notes__)


def test_it_is_there_after_a_crash_and_gone_after_a_clean_shutdown() -> None:
    disk = SimDisk()
    disk.make_directories("/store")
    abort_file = AbortFile(disk, "/store/abort")
    assert not abort_file.exists()
    abort_file.create()
    disk.lose_power(lambda count: 0)
    assert abort_file.exists()
    assert disk.file_size("/store/abort") == 0
    abort_file.create()
    abort_file.remove()
    disk.lose_power(lambda count: 0)
    assert not abort_file.exists()


def test_a_directory_of_that_name_is_an_error(place: Place) -> None:
    place.disk.make_directories(f"{place.root}/abort")
    with pytest.raises(StoreError, match="found a directory"):
        AbortFile(place.disk, f"{place.root}/abort").exists()


def test_the_mark() -> None:
    disk = SimDisk()
    disk.make_directories("/store")
    mark = RecoveryMark(disk, "/store/recovering")
    assert not mark.exists()
    mark.create()
    mark.create()
    assert mark.exists()
    mark.remove()
    assert not mark.exists()
    mark.remove()


def test_the_note_of_a_clean_shutdown_reads_as_it_was_written(place: Place) -> None:
    place.disk.make_directories(place.root)
    path = f"{place.root}/orderly-end"
    end = OrderlyEnd(1 << 40, 7, "digest", -1)
    persist_orderly_end(place.disk, path, end)
    assert load_orderly_end(place.disk, path) == end


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2",
        "2 2 3",
        "1 10 10 digest 0",
        "2 ten 10 d 0",
        "2 10 10 d ten",
        f"2 {'9' * 40} 1 d 0",
        "2 10 10 d",
        "\0\xff",
    ],
)
def test_a_note_that_makes_no_sense_is_no_note(place: Place, text: str) -> None:
    path = f"{place.root}/orderly-end"
    for each in (path, f"{path}.bak"):
        place.write(each, text.encode("latin-1"))
    assert load_orderly_end(place.disk, path) is None
