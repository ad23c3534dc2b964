"""The files of the index: which a start keeps, which the checkpoint covers, which go."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress

import pytest

from rocketpy.clock import ManualClock
from rocketpy.errors import StoreError
from rocketpy.store.index.file import IndexLayout
from rocketpy.store.index.file_list import JAVA_LAYOUT, IndexFileList, index_file_name
from rocketpy.store.recovery.checkpoint import load_checkpoint
from rocketpy.testing.sim.disk import ProcessDied, SimDisk
from tests.turns import run_in_turn

NOW = 1_700_000_000_000
LAYOUT = IndexLayout(slot_count=50, entry_count=11)  # 10 keys: entry 0 is not used


class Index:
    """The files of one run of a store, loaded. Message n has one key, physical offset 100 n, and is of second n."""

    def __init__(
        self,
        disk: SimDisk,
        *,
        layout: IndexLayout = LAYOUT,
        clock: ManualClock | None = None,
        is_clean: bool = True,
        log_end_offset: int = 1 << 62,
    ) -> None:
        self.checkpoint = load_checkpoint(disk, "/checkpoint")
        self.files = IndexFileList(
            path="/index", disk=disk, clock=clock or ManualClock(), checkpoint=self.checkpoint, layout=layout
        )
        self.files.load(is_clean=is_clean, log_end_offset=log_end_offset)

    def put(self, numbers: Iterable[int], timestamp_ms: int | None = None) -> None:
        for number in numbers:
            stored_ms = NOW + 1_000 * number if timestamp_ms is None else timestamp_ms
            self.files.writable_file().put([number], [100 * number], [stored_ms])

    def cover(self, timestamp_ms: int) -> None:
        """Write the checkpoint as if files up to a time were synced."""
        self.checkpoint.index_msg_timestamp_ms = timestamp_ms
        self.checkpoint.flush()

    @property
    def found(self) -> tuple[int, int]:
        """How many files there are, and where the last message is."""
        return len(self.files), self.files.end_physical_offset


# ---- new files ------------------------------------------------------------------------------------------------------


def test_files_follow_each_other_when_they_are_full() -> None:
    disk = SimDisk()
    index = Index(disk)
    assert index.found == (0, 0)
    index.put(range(1, 26))
    assert index.found == (3, 2500)
    assert [each.room for each in index.files] == [0, 0, 5]
    assert index.files.unsynced == list(index.files)[:2]
    assert list(reversed(index.files)) == list(index.files)[::-1]
    assert index.files.writable_file() is list(index.files)[-1]


def test_names_go_up_when_the_clock_steps_back() -> None:
    disk, clock = SimDisk(), ManualClock(NOW)
    index = Index(disk, clock=clock)
    for _ in range(3):
        index.put(range(10))
        clock.advance_ms(-3_600_000)
    names = disk.list_directory("/index")
    assert [int(name) - int(names[0]) for name in names] == [0, 1, 2]
    assert all(len(name) == 17 for name in names)


def test_names_are_local_times() -> None:
    local = time.strftime("%Y%m%d%H%M%S", time.localtime(NOW // 1000))
    assert index_file_name(NOW + 7) == local + "007"


# ---- durability -----------------------------------------------------------------------------------------------------


async def test_full_files_are_synced_in_order_and_then_in_the_checkpoint() -> None:
    disk = SimDisk()
    index = Index(disk)
    index.put(range(1, 26))
    await index.files.sync_full_files(run_in_turn)
    assert index.files.unsynced == []
    assert load_checkpoint(disk, "/checkpoint").index_msg_timestamp_ms == NOW + 20_000
    disk.sync_directory("/")
    disk.lose_power(lambda count: 0)
    assert Index(disk, is_clean=False).found == (2, 2000)


async def test_a_failed_sync_leaves_the_file_to_be_synced() -> None:
    disk = SimDisk()
    index = Index(disk)
    index.put(range(1, 12))
    disk.fail_call("sync")
    with pytest.raises(StoreError):
        await index.files.sync_full_files(run_in_turn)
    assert len(index.files.unsynced) == 1
    assert not disk.exists("/checkpoint")


def test_at_a_clean_shutdown_the_last_file_is_synced_too_but_not_covered() -> None:
    disk = SimDisk()
    index = Index(disk)
    index.put(range(1, 16))
    index.files.sync_all()
    index.files.close()
    assert index.files.unsynced == []
    assert index.checkpoint.index_msg_timestamp_ms == NOW + 10_000
    disk.sync_directory("/")
    disk.lose_power(lambda count: 0)
    assert Index(disk).found == (2, 1500)


# ---- what a start keeps ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [LAYOUT, JAVA_LAYOUT])
@pytest.mark.parametrize("is_clean", [True, False])
def test_what_names_messages_beyond_the_end_of_the_log_goes_for_good(layout: IndexLayout, is_clean: bool) -> None:
    """Other messages will lie there. Whatever the settings were when the file was made."""
    disk = SimDisk()
    older = Index(disk, layout=layout)
    older.put(range(1, 9))
    older.files.sync_all()
    newer = Index(disk)
    newer.put(range(9, 22))
    newer.files.sync_all()
    newer.cover(NOW + 21_000)
    assert len(disk.list_directory("/index")) == 3
    assert Index(disk, is_clean=is_clean, log_end_offset=500).found == (0, 0)
    disk.lose_power(lambda count: 0)
    assert disk.list_directory("/index") == []


def test_what_a_recovery_deleted_that_died_is_gone_for_good_after_the_next() -> None:
    for call in (1, 2, 3, 4, 5):
        disk = SimDisk()
        index = Index(disk)
        index.put(range(1, 25))
        index.files.sync_all()
        disk.die_at_call(call)
        with suppress(ProcessDied):
            Index(disk, is_clean=False)
        disk.kill_process()
        Index(disk, is_clean=False)
        disk.lose_power(lambda count: 0)
        assert disk.list_directory("/index") == [], call


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_time_of_deleted_files_covers_no_rebuilt_one(is_clean: bool) -> None:
    """The index is removed and rebuilt from the same messages, and a crash loses pages of it."""
    disk = SimDisk()
    index = Index(disk)
    index.put(range(1, 11))
    index.files.sync_all()
    index.checkpoint.flush()
    for name in disk.list_directory("/index"):
        disk.unlink(f"/index/{name}")
    Index(disk, is_clean=is_clean).put(range(1, 11))
    disk.kill_process()
    assert Index(disk, is_clean=False).found == (0, 0)


@pytest.mark.parametrize("layout", [LAYOUT, JAVA_LAYOUT])
def test_no_time_covers_a_file_that_still_grew(layout: IndexLayout) -> None:
    disk = SimDisk()
    index = Index(disk, layout=layout)
    index.put(range(1, 6))
    index.cover(NOW + 500_000)
    disk.kill_process()
    assert Index(disk, is_clean=False).found == (0, 0)


def test_a_file_of_an_earlier_size_outlives_a_crash_when_it_was_synced() -> None:
    """It is not full and grows no more; the one that still grew is rebuilt."""
    disk = SimDisk()
    older = Index(disk, layout=JAVA_LAYOUT)
    older.put(range(1, 6))
    older.files.sync_all()
    newer = Index(disk)
    newer.put(range(6, 9))
    newer.files.sync_all()
    newer.checkpoint.flush()
    assert Index(disk, is_clean=False).found == (1, 500)


def test_a_file_left_empty_by_a_crash_is_deleted() -> None:
    disk = SimDisk()
    index = Index(disk)
    index.put(range(1, 11))
    index.files.sync_all()
    index.cover(NOW + 10_000)
    index.files.writable_file()
    disk.kill_process()
    assert len(disk.list_directory("/index")) == 2
    assert Index(disk, is_clean=False).found == (1, 1000)


def test_a_time_that_was_set_back_covers_nothing() -> None:
    """The checkpoint's time is the first file's; the second one was never synced, and ends before that."""
    disk = SimDisk()
    index = Index(disk)
    index.put(range(101, 111))
    index.put(range(111, 121), NOW + 111)
    index.put(range(121, 126), NOW + 500_000)
    index.cover(NOW + 110_000)
    disk.kill_process()
    assert Index(disk, is_clean=False).found == (1, 11_000)


def test_after_a_lost_file_none_is_kept() -> None:
    disk = SimDisk()
    index = Index(disk)
    for begin, times_ms in ((0, 1_000), (10, 9_000), (20, 2_000)):
        index.put(range(begin, begin + 10), NOW + times_ms)
    index.cover(NOW + 3_000)
    disk.kill_process()
    assert Index(disk, is_clean=False).found == (1, 900)
    assert len(disk.list_directory("/index")) == 1


def test_foreign_files_are_left_alone() -> None:
    disk = SimDisk()
    disk.make_directories("/index")
    for name, size in ((".DS_Store", LAYOUT.file_size), ("20240101000000000", 100)):
        disk.open(f"/index/{name}", create=True).truncate(size)
    index = Index(disk, is_clean=False)
    assert index.found == (0, 0)
    index.put([1])
    assert len(disk.list_directory("/index")) == 3


# ---- what goes ------------------------------------------------------------------------------------------------------


def test_the_first_file_expires_with_its_last_message_once_it_is_synced() -> None:
    index = Index(SimDisk())
    index.put(range(1, 16))
    first, last = index.files
    assert index.files.take_expired(1 << 40) is None, "it is still to be synced"
    index.files.sync_all()
    assert index.files.take_expired(1000) is None, "its last message is still there"
    assert index.files.take_expired(1001) is first
    assert list(index.files) == [last]
    assert index.files.take_expired(1 << 40) is None, "the last one stays"
