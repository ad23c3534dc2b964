"""What a failed sync left in the page cache is written again, so that it survives the next loss of power."""

from __future__ import annotations

import pytest

from rocketpy.errors import StoreError
from rocketpy.store.recovery.failed_sync import FailedSyncMark
from rocketpy.testing.sim_disk import SimDisk

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


def test_an_orderly_end_leaves_none(disk: SimDisk) -> None:
    mark = FailedSyncMark(disk, PATH)
    with mark:
        pass
    assert not mark.exists()


def test_the_first_failure_is_told_also_when_the_mark_cannot_be_made(disk: SimDisk) -> None:
    mark = FailedSyncMark(disk, "/nowhere/failed-sync")
    with pytest.raises(StoreError, match="simulated failure") as caught, mark:
        fail_a_sync(disk)
    assert "the mark of that could not be made" in "".join(caught.value.__notes__)
