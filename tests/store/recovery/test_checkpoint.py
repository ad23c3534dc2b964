"""The checkpoint file: RocketMQ's bytes, and nothing assumed where there are none."""

from __future__ import annotations

import struct

import pytest

from rocketpy.errors import ShortageError
from rocketpy.store.recovery.checkpoint import (
    CHECKPOINT_SIZE,
    TIME_MAX_MS,
    DurableEnds,
    StoreCheckpoint,
    load_checkpoint,
)
from rocketpy.testing.sim.choices import Choose, all_outcomes
from rocketpy.testing.sim.disk import SimDisk


def test_times_are_where_java_looks_for_them() -> None:
    disk = SimDisk()
    StoreCheckpoint(disk, "/checkpoint", 1, 2, 3).flush()
    content = disk.open("/checkpoint").read(0, CHECKPOINT_SIZE)
    assert content == struct.pack(">qqq", 1, 2, 3).ljust(4096, b"\0")
    loaded = load_checkpoint(disk, "/checkpoint")
    assert (loaded.physic_msg_timestamp_ms, loaded.logics_msg_timestamp_ms, loaded.index_msg_timestamp_ms) == (1, 2, 3)


def test_our_ends_follow_the_times_and_count_only_with_them() -> None:
    """A Java broker writes the first 24 bytes and leaves the others as they are."""
    disk = SimDisk()
    ends = DurableEnds(log_flushed_offset=70, durable_offset=60, unit_count=5)
    StoreCheckpoint(disk, "/checkpoint", 1, 2, 3, ends).flush()
    assert load_checkpoint(disk, "/checkpoint").ends == ends
    file = disk.open("/checkpoint")
    assert struct.unpack(">qqq", file.read(24, 24)) == (70, 60, 5)
    file.write(0, struct.pack(">qqq", 1, 4, 3))
    loaded = load_checkpoint(disk, "/checkpoint")
    assert (loaded.logics_msg_timestamp_ms, loaded.ends) == (4, None)
    file.write(0, bytes(56))
    assert load_checkpoint(disk, "/checkpoint").ends is None


@pytest.mark.parametrize("content", [None, b"", b"\0\0\0\0\0\0\0"])
def test_nothing_is_durable_without_a_checkpoint(content: bytes | None) -> None:
    disk = SimDisk()
    if content is not None:
        disk.open("/checkpoint", create=True).write(0, content)
    loaded = load_checkpoint(disk, "/checkpoint")
    assert (loaded.min_timestamp_ms, loaded.min_timestamp_index_ms) == (0, 0)


@pytest.mark.parametrize(("time_ms", "believed_ms"), [(TIME_MAX_MS - 1, TIME_MAX_MS - 1), (TIME_MAX_MS, 0), (-1, 0)])
@pytest.mark.parametrize("number", range(3))
def test_a_time_that_cannot_be_one_counts_for_nothing_and_is_named(number: int, time_ms: int, believed_ms: int) -> None:
    """Java believes it, and reads too little of the log after a crash."""
    disk, times = SimDisk(), [5, 6, 7]
    times[number] = time_ms
    disk.open("/checkpoint", create=True).write(0, struct.pack(">qqq", *times))
    loaded = load_checkpoint(disk, "/checkpoint")
    found = [loaded.physic_msg_timestamp_ms, loaded.logics_msg_timestamp_ms, loaded.index_msg_timestamp_ms]
    assert found[number] == believed_ms
    assert loaded.times_in_file == tuple(times)
    name = ("physicMsgTimestamp", "logicsMsgTimestamp", "indexMsgTimestamp")[number]
    fault = f"/checkpoint: expected times from 0 to {TIME_MAX_MS}, found {name} {time_ms}"
    assert loaded.fault == ("" if believed_ms else fault)


def test_the_smallest_time_counts_less_three_seconds() -> None:
    checkpoint = StoreCheckpoint(SimDisk(), "/checkpoint", 10_000, 9_000, 4_000)
    assert (checkpoint.min_timestamp_ms, checkpoint.min_timestamp_index_ms) == (6_000, 4_000)
    checkpoint.logics_msg_timestamp_ms = 2_000
    assert (checkpoint.min_timestamp_ms, checkpoint.min_timestamp_index_ms) == (0, 0)


def test_without_power_the_times_are_old_or_new_together() -> None:
    def run(choose: Choose) -> tuple[int, int, int]:
        disk = SimDisk()
        StoreCheckpoint(disk, "/checkpoint", 1, 2, 3).flush()
        disk.sync_directory("/")
        file = disk.open("/checkpoint")
        file.write(0, struct.pack(">qqq", 4, 5, 6))
        disk.lose_power(choose)
        loaded = load_checkpoint(disk, "/checkpoint")
        return loaded.physic_msg_timestamp_ms, loaded.logics_msg_timestamp_ms, loaded.index_msg_timestamp_ms

    assert all_outcomes(run) == {(1, 2, 3), (4, 5, 6)}


def test_units_that_are_deleted_with_their_queues_no_longer_count() -> None:
    disk = SimDisk()
    checkpoint = StoreCheckpoint(disk, "/checkpoint", 1, 2, 3)
    checkpoint.units_removed(7)
    assert not disk.exists("/checkpoint"), "there is nothing that covers them"
    checkpoint.ends = DurableEnds(log_flushed_offset=70, durable_offset=60, unit_count=50)
    checkpoint.flush()
    checkpoint.units_removed(20)
    disk.kill_process()
    assert load_checkpoint(disk, "/checkpoint").ends == DurableEnds(70, 60, 30)
    checkpoint.units_removed(40)
    loaded = load_checkpoint(disk, "/checkpoint")
    assert (loaded.ends, checkpoint.removed_unit_count) == (DurableEnds(70, 60, 0), 67)


@pytest.mark.parametrize("is_left_by_a_kill", [True, False])
def test_a_new_checkpoint_has_its_name_for_good(is_left_by_a_kill: bool) -> None:
    """Otherwise its ends are lost with the power, and what is missing before them is no damage."""
    disk = SimDisk()
    if is_left_by_a_kill:
        disk.open("/checkpoint", create=True).close()
    StoreCheckpoint(disk, "/checkpoint", 1, 2, 3).flush()
    disk.lose_power(lambda count: 0)
    assert load_checkpoint(disk, "/checkpoint").logics_msg_timestamp_ms == 2


def test_the_name_is_synced_once() -> None:
    disk = SimDisk()
    checkpoint = StoreCheckpoint(disk, "/checkpoint", 1, 2, 3)
    for _ in range(3):
        checkpoint.flush()
    assert (disk.calls["sync"], disk.calls["sync_directory"]) == (3, 1)


def test_a_full_disk_keeps_the_old_checkpoint() -> None:
    disk = SimDisk(capacity_bytes=0)
    checkpoint = StoreCheckpoint(disk, "/checkpoint", 4, 5, 6)
    checkpoint.flush()
    assert load_checkpoint(disk, "/checkpoint").physic_msg_timestamp_ms == 0
    disk.capacity_bytes = CHECKPOINT_SIZE
    checkpoint.flush()
    assert load_checkpoint(disk, "/checkpoint").physic_msg_timestamp_ms == 4


def test_a_checkpoint_that_is_set_back_stays_so_without_power() -> None:
    disk = SimDisk()
    checkpoint = StoreCheckpoint(disk, "/checkpoint", 4, 5, 6, DurableEnds(70, 60, 9))
    checkpoint.flush()
    checkpoint.set_back(DurableEnds(70, 0, 0))
    disk.lose_power(lambda count: 0)
    loaded = load_checkpoint(disk, "/checkpoint")
    assert (loaded.ends, loaded.times_in_file) == (DurableEnds(70, 0, 0), (4, 0, 6))


def test_a_checkpoint_that_cannot_be_set_back_is_an_error() -> None:
    """The start is refused then: units that it made would pass for durable after a kill."""
    disk = SimDisk(capacity_bytes=0)
    with pytest.raises(ShortageError):
        StoreCheckpoint(disk, "/checkpoint", 4, 5, 6).set_back(DurableEnds(70, 0, 0))
