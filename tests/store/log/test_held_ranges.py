"""Ranges of the log for a worker thread: their files stay open until they are released."""

from __future__ import annotations

import pytest

from rocketpy.errors import StoreError
from rocketpy.testing.sim.disk import SimDisk
from tests.store.log.test_commit_log import log_at
from tests.store.parts import Place


def test_a_flush_syncs_each_file_that_it_covers() -> None:
    disk = SimDisk()
    log = log_at(Place(disk, "/store"))
    for _ in range(2):
        log.add_file()
        log.write(b"a" * 100, 1)
    before = disk.calls["sync"]
    flush_range = log.begin_flush()
    assert flush_range is not None
    assert (flush_range.end_offset, len(flush_range.files)) == (200, 2)
    flush_range.sync()
    assert disk.calls["sync"] == before + 2
    log.end_flush(flush_range, is_synced=True)
    assert log.flushed_offset == 200


def test_a_sync_that_fails_ends_a_flush() -> None:
    disk = SimDisk()
    log = log_at(Place(disk, "/store"))
    for _ in range(2):
        log.add_file()
        log.write(b"a" * 100, 1)
    flush_range = log.begin_flush()
    assert flush_range is not None
    disk.fail_call("sync")
    before = disk.calls["sync"]
    with pytest.raises(StoreError):
        flush_range.sync()
    assert disk.calls["sync"] == before + 1, "the second file is not synced"


def test_space_ahead_ends_with_the_file(place: Place) -> None:
    log = log_at(place)
    assert log.hold_ahead(0, 10) is None, "there is no file"
    log.add_file()
    log.add_file()
    for offset, size, wanted in [(110, 20, (10, 20)), (190, 20, (90, 10)), (200, 20, None)]:
        ahead = log.hold_ahead(offset, size)
        assert (None if ahead is None else (ahead.position, ahead.size)) == wanted
        if ahead is not None:
            assert ahead.warm() >= 0
            ahead.release()


def test_space_that_is_not_reserved_is_not_ahead() -> None:
    place = Place(SimDisk(), "/store")
    log = log_at(place)
    log.add_file()
    log.write(b"a" * 60, 1)
    again = log_at(place, 60)
    assert again.hold_ahead(60, 10) is None
    again.reserve_tail(60)
    assert again.hold_ahead(60, 10) is not None


def test_space_ahead_keeps_its_descriptor_though_the_file_is_deleted() -> None:
    """A slave's log may begin again at another offset while a worker thread still uses its first file."""
    disk = SimDisk()
    log = log_at(Place(disk, "/store"))
    log.begin_at(100)
    ahead = log.hold_ahead(150, 10)
    assert ahead is not None
    log.begin_at(1000)
    assert ahead.warm() >= 0, "a simulated file that is closed would say so"
    before = disk.descriptor_count
    ahead.release()
    assert disk.descriptor_count == before - 1
