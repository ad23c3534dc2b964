"""What a failed sync left in the page cache is written again, so that it survives the next loss of power."""

from __future__ import annotations

import pytest

from rocketpy.errors import DamagedStoreError, StoreError
from rocketpy.store.failed_sync import FailedSyncMark
from rocketpy.testing.sim_disk import SimDisk

PATH = "/store/failed-sync"


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk(choose=lambda count: 0)
    disk.make_directories("/store")
    return disk


@pytest.mark.parametrize(
    "failure",
    [StoreError("no", path="/x"), ExceptionGroup("a scope", [ExceptionGroup("two", [StoreError("no", path="/x")])])],
)
def test_a_life_that_the_disk_ends_leaves_the_mark(disk: SimDisk, failure: Exception) -> None:
    mark = FailedSyncMark(disk, PATH)
    with pytest.raises(type(failure)), mark:
        raise failure
    assert mark.exists()
    mark.remove()
    assert not mark.exists()
    mark.remove()


@pytest.mark.parametrize("failure", [DamagedStoreError("torn", path="/x"), ValueError("ours"), KeyboardInterrupt()])
def test_whatever_else_ends_it_does_not(disk: SimDisk, failure: BaseException) -> None:
    mark = FailedSyncMark(disk, PATH)
    with pytest.raises(type(failure)), mark:
        raise failure
    assert not mark.exists()


def test_an_orderly_end_leaves_none(disk: SimDisk) -> None:
    mark = FailedSyncMark(disk, PATH)
    with mark:
        pass
    assert not mark.exists()


def test_the_first_failure_is_told_also_when_the_mark_cannot_be_made(disk: SimDisk) -> None:
    mark = FailedSyncMark(disk, "/nowhere/failed-sync")
    with pytest.raises(StoreError, match="the first") as caught, mark:
        raise StoreError("the first", path="/x")
    assert "the mark of that could not be made" in "".join(caught.value.__notes__)
