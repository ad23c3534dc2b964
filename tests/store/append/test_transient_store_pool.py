"""Bursts that wait in memory: unseen, bounded, committed as a whole, and the only thing that a kill loses."""

from __future__ import annotations

import pytest

from rocketpy.errors import StoreError
from rocketpy.store.append.batch import MessageBatch
from rocketpy.store.append.transient_store_pool import TransientStorePool
from rocketpy.store.results import GetMessageStatus, PutMessageStatus
from rocketpy.testing.sim.disk import SimDisk
from tests.store.parts import BORN_HOST, LOG_FILE_SIZE, Parts, Place

OK = PutMessageStatus.PUT_OK


def parts_at(
    place: Place, *, is_clean: bool = True, size_bytes: int = 5 * LOG_FILE_SIZE, is_fail_fast: bool = False
) -> Parts:
    pool = TransientStorePool(size_bytes=size_bytes, is_fail_fast=is_fail_fast)
    return Parts(place, is_clean=is_clean, pool=pool)


def pool_of(parts: Parts) -> TransientStorePool:
    assert parts.appender.pool is not None
    return parts.appender.pool


# ---- the pool -------------------------------------------------------------------------------------------------------


def test_what_was_kept_is_taken_once_with_its_latest_time() -> None:
    pool = TransientStorePool(size_bytes=100, is_fail_fast=False)
    assert pool.take() == ([], 0)
    pool.keep([b"a", b"b"], 7)
    pool.keep([b"c"], 5)
    assert pool.take() == ([b"a", b"b", b"c"], 7), "a clock that was set back"
    assert pool.take() == ([], 7)


def test_pages_are_those_of_the_log() -> None:
    pool = TransientStorePool(size_bytes=100_000, is_fail_fast=False)
    pool.committed_offset = 4095
    assert [pool.pages_behind(offset) for offset in (4095, 4096, 8191, 8192)] == [0, 1, 1, 2]
    assert pool.end_offset == 104_095


# ---- bursts ---------------------------------------------------------------------------------------------------------


def test_a_burst_in_the_pool_is_seen_after_the_commit(place: Place) -> None:
    parts = parts_at(place)
    parts.put(b"one", keys=(b"k1",))
    parts.put(b"two", "Other", 1)
    parts.appender.keep_burst()
    assert not parts.appender.has_pending, "readers do not commit"
    parts.put(b"three", keys=(b"k3",))
    parts.appender.keep_burst()
    assert parts.get().status is GetMessageStatus.NO_MESSAGE_IN_QUEUE
    assert parts.commit_log.wrote_offset == pool_of(parts).committed_offset == 0
    assert (parts.arrivals, parts.index_work, parts.appender.counts.put_count) == ([], [], 0)
    parts.appender.end_burst()
    assert (parts.bodies(), parts.bodies("Other", 1)) == ([b"one", b"three"], [b"two"])
    assert parts.arrivals == [("TopicTest", 0, 2), ("Other", 1, 1)]
    assert [work[1] for work in parts.index_work] == [(b"k1",), (b"k3",)]
    assert pool_of(parts).committed_offset == parts.appender.wrote_offset == parts.commit_log.wrote_offset
    assert parts.appender.counts.put_count == 3
    parts.appender.end_burst()
    assert parts.appender.counts.burst_count == 1


def test_each_burst_has_its_own_time(place: Place) -> None:
    parts = parts_at(place)
    times = []
    for _ in range(3):
        times.append(parts.clock.timestamp_ms())
        parts.put(b"body")
        parts.appender.keep_burst()
        parts.clock.advance_ms(40)
    parts.clock.advance_ms(-1000)
    parts.put(b"body")
    parts.appender.end_burst()
    assert [message.store_timestamp for message in parts.messages()] == [*times, times[0] + 120 - 1000]
    assert parts.commit_log.wrote_timestamp_ms == times[-1]
    assert parts.appender.counts.slow_bursts.maxlen
    assert not parts.appender.counts.slow_bursts, "waiting in the pool is not slowness"


def test_a_prepared_record_alone_is_committed_too(place: Place) -> None:
    parts = parts_at(place)
    parts.put(b"half", sys_flag=0x4)
    parts.appender.keep_burst()
    parts.appender.end_burst()
    assert parts.commit_log.wrote_offset == parts.appender.wrote_offset > 0


def test_the_next_file_begins_with_what_was_kept_for_the_last_one_written(place: Place) -> None:
    parts = parts_at(place)
    for number in range(60):
        assert parts.put(b"%d" % number * 50)[0] is OK
        parts.appender.keep_burst()
    assert len(parts.commit_log.files) == 2
    assert parts.get().status is GetMessageStatus.NO_MESSAGE_IN_QUEUE, "units wait for the commit nevertheless"
    parts.appender.end_burst()
    assert parts.bodies() == [b"%d" % number * 50 for number in range(60)]


# ---- the bound ------------------------------------------------------------------------------------------------------


def test_a_pool_that_is_full_is_committed_at_once(place: Place) -> None:
    parts = parts_at(place, size_bytes=2 * LOG_FILE_SIZE)
    for number in range(200):
        assert parts.put(b"%03d" % number * 30)[0] is OK
        parts.appender.keep_burst()
        assert parts.appender.wrote_offset - pool_of(parts).committed_offset <= 2 * LOG_FILE_SIZE
    assert parts.queues.find("TopicTest", 0).max_offset > 0, "readers saw some"
    parts.appender.end_burst()
    assert parts.bodies() == [b"%03d" % number * 30 for number in range(200)]


def test_or_it_refuses_until_it_is_committed(place: Place) -> None:
    parts = parts_at(place, size_bytes=2 * LOG_FILE_SIZE, is_fail_fast=True)
    accepted: list[bytes] = []
    while parts.put(b"%03d" % len(accepted) * 30)[0] is OK:
        accepted.append(b"%03d" % len(accepted) * 30)
        parts.appender.keep_burst()
    assert 2 * LOG_FILE_SIZE - 500 < parts.appender.wrote_offset <= 2 * LOG_FILE_SIZE
    for _ in range(3):
        assert parts.put(b"x" * 90)[0] is PutMessageStatus.CREATE_MAPEDFILE_FAILED
    status, _, _ = parts.appender.put_batch(
        "T", 0, MessageBatch.of([(0, b"x" * 90, b"", 0, ())] * 3), 0, 1, BORN_HOST, 0
    )
    assert status is PutMessageStatus.CREATE_MAPEDFILE_FAILED
    assert parts.appender.refused_count == 5
    parts.appender.end_burst()
    assert parts.bodies() == accepted
    assert parts.put(b"again")[0] is OK


# ---- ends -----------------------------------------------------------------------------------------------------------


def test_a_kill_loses_what_is_in_the_pool_and_nothing_else(place: Place) -> None:
    parts = parts_at(place)
    parts.put_all([b"one", b"two"])
    parts.put(b"three")
    parts.put(b"four", "Other")
    parts.appender.keep_burst()
    parts.kill()
    again = parts_at(place, is_clean=False)
    assert (again.bodies(), again.bodies("Other")) == ([b"one", b"two"], [])
    again.put_all([b"five"])
    assert again.bodies() == [b"one", b"two", b"five"]


@pytest.mark.parametrize("call", [1, 2])
def test_a_commit_that_fails_is_final(call: int) -> None:
    disk = SimDisk()
    parts = parts_at(Place(disk, "/store"))
    parts.put_all([b"one"])
    parts.put(b"two")
    parts.appender.keep_burst()
    disk.fail_call("write", call)
    with pytest.raises(StoreError):
        parts.appender.end_burst()
    assert parts.put(b"three")[0] is PutMessageStatus.SERVICE_NOT_AVAILABLE


def test_a_full_disk_refuses_before_the_pool_has_what_does_not_fit() -> None:
    disk = SimDisk(capacity_bytes=3 * LOG_FILE_SIZE)
    parts = parts_at(Place(disk, "/store"))
    accepted: list[bytes] = []
    while parts.put(b"%03d" % len(accepted) * 30)[0] is OK:
        accepted.append(b"%03d" % len(accepted) * 30)
        parts.appender.keep_burst()
    disk.capacity_bytes = 0
    parts.appender.end_burst()
    assert parts.bodies() == accepted
