"""Recoveries that die between clearing something and making that durable, and what the next one must do then."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from rocketpy.errors import DamagedStoreError
from rocketpy.protocol.java_hash import tags_code
from rocketpy.store.recovery.checkpoint import DurableEnds
from rocketpy.store.recovery.marker_files import RecoveryMark
from rocketpy.testing.sim.disk import ProcessDied, SimDisk
from tests.store.parts import Parts, Place

CALLS_MAX = 60


def nothing(count: int) -> int:
    """Of what was not synced the disk has nothing."""
    return 0


def put(parts: Parts, tag: str, count: int = 3) -> None:
    for number in range(count):
        parts.put(b"%d" % number, properties=f"TAGS\x01{tag}".encode(), tags=tag)
    parts.appender.end_burst()


def sync_log(parts: Parts) -> None:
    flush_range = parts.commit_log.begin_flush()
    assert flush_range is not None
    flush_range.sync()
    parts.commit_log.end_flush(flush_range, is_synced=True)


def sync_queues(parts: Parts) -> None:
    while (queue_range := parts.queues.begin_flush()) is not None:
        queue_range.sync()
        parts.queues.end_flush(queue_range, is_synced=True)


def units_ran_ahead(place: Place) -> None:
    """Units are durable, and the power takes their records."""
    disk = place.disk
    assert isinstance(disk, SimDisk)
    parts = Parts(place)
    put(parts, "TagA")
    sync_queues(parts)
    parts.kill()
    disk.lose_power(nothing)


def a_second_file_ran_ahead(place: Place) -> None:
    """The same, with units in a second file, which recovery removes."""
    disk = place.disk
    assert isinstance(disk, SimDisk)
    parts = Parts(place)
    put(parts, "TagA", 25)
    sync_queues(parts)
    parts.kill()
    disk.lose_power(nothing)


@pytest.mark.parametrize("begin", [units_ran_ahead, a_second_file_ran_ahead])
@pytest.mark.parametrize("deaths", [1, 2])
def test_old_units_never_come_back_below_new_records(begin: Callable[[Place], None], deaths: int) -> None:
    """A recovery cleared them, and died before that was durable. Others of the same sizes got their offsets."""
    for call in range(1, CALLS_MAX):
        disk = SimDisk()
        place = Place(disk, "/store")
        begin(place)
        for _ in range(deaths):
            disk.die_at_call(call)
            with suppress(ProcessDied):
                Parts(place, is_clean=False).kill()
            disk.kill_process()
        parts = Parts(place, is_clean=False)
        assert parts.bodies() == []
        put(parts, "TagB", 25)
        sync_log(parts)
        parts.kill()
        disk.lose_power(nothing)
        again = Parts(place, is_clean=False)
        queue = again.queues.find("TopicTest", 0)
        assert queue.max_offset == 25
        assert {queue.unit_at(number)[2] for number in range(25)} == {tags_code("TagB")}, call
        again.kill()


def test_what_a_recovery_removed_that_died_is_gone_for_good_after_the_next() -> None:
    """A queue whose first file was lost is rebuilt. The other files are removed, and that must be durable."""
    for call in range(1, CALLS_MAX):
        disk = SimDisk()
        place = Place(disk, "/store")
        a_second_file_ran_ahead(place)
        disk.unlink(place.queue_file("TopicTest", 0))
        disk.sync_directory(f"{place.consume_queue}/TopicTest/0")
        disk.die_at_call(call)
        with suppress(ProcessDied):
            Parts(place, is_clean=False).kill()
        disk.kill_process()
        Parts(place, is_clean=False).kill()
        disk.lose_power(nothing)
        assert not disk.exists(place.queue_file("TopicTest", 0, 400)), call


def test_a_recovery_that_ends_leaves_no_mark_and_the_next_syncs_nothing_that_is_clear() -> None:
    disk = SimDisk()
    place = Place(disk, "/store")
    parts = Parts(place)
    for number in range(50):
        parts.put_all([b"body"], f"Topic{number}")
    parts.kill()
    Parts(place, is_clean=False).kill()
    before = disk.calls["sync"]
    Parts(place, is_clean=False).kill()
    assert disk.calls["sync"] - before == 1, "the log; a store may have tens of thousands of queues"
    assert "recovering" not in disk.list_directory("/store")


def test_a_store_that_is_refused_has_no_mark() -> None:
    disk = SimDisk()
    place = Place(disk, "/store")
    parts = Parts(place)
    put(parts, "TagA")
    parts.close()
    place.write(place.queue_file("TopicTest", 0), b"\xff" * 20, 60)  # is cleared, durably
    before = place.files(f"{place.root}/commitlog")
    with pytest.raises(DamagedStoreError):
        Parts(place, durable_ends=DurableEnds(1 << 20, 1 << 20, 3))
    assert place.files(f"{place.root}/commitlog") == before
    assert "recovering" not in disk.list_directory("/store")
    RecoveryMark(disk, "/store/recovering").create()
    with pytest.raises(DamagedStoreError):
        Parts(place, durable_ends=DurableEnds(1 << 20, 1 << 20, 3))
    assert "recovering" in disk.list_directory("/store"), "an earlier one has died, and this one has not done its work"
