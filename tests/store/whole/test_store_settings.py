"""Settings of the store that are numbers only: each does what its description says, and nothing else moves it."""

from __future__ import annotations

import time

import pytest
import trio
import trio.testing

from rocketpy.clock import ManualClock
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.store.config import FlushDiskType
from rocketpy.testing.sim.disk import SimDisk
from tests.store.opened_store import bodies, config_for, killed, opened, send
from tests.store.parts import Place
from tests.store.whole.test_whole_store_retention import ALL_HOURS, HOUR_MS, NOON_MS, fill


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


async def seconds_until_log_is_flushed(disk: SimDisk, body: bytes, **settings: object) -> float:
    """Put one message and return after how long it is durable, to a tenth of a second."""
    async with opened(Place(disk, "/store"), **settings) as store:
        await trio.sleep(0.05)
        send(store, body)
        store.end_burst()
        begin = trio.current_time()
        while store.statistics().commit_log_flushed_offset < store.max_physical_offset:
            await trio.sleep(0.05)
        return round(trio.current_time() - begin, 1)


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        ({}, 10.0),  # fewer than four pages wait for flushCommitLogThoroughInterval
        ({"flush_commit_log_thorough_interval": 3000}, 3.0),
        ({"flush_commit_log_least_pages": 0}, 0.5),
        ({"flush_commit_log_least_pages": 0, "flush_interval_commit_log": 2000}, 2.0),
    ],
)
async def test_when_the_log_is_flushed(
    disk: SimDisk, settings: dict[str, object], seconds: float, autojump_clock: trio.testing.MockClock
) -> None:
    assert await seconds_until_log_is_flushed(disk, b"small", **settings) == pytest.approx(seconds, abs=0.3)


async def test_enough_pages_need_no_thorough_interval(disk: SimDisk, autojump_clock: trio.testing.MockClock) -> None:
    """``flushCommitLogLeastPages``: one page is enough if that is what is asked for."""
    assert await seconds_until_log_is_flushed(disk, bytes(5000)) == pytest.approx(10, abs=0.3)
    settings: dict[str, object] = {"flush_commit_log_least_pages": 1}
    assert await seconds_until_log_is_flushed(SimDisk(), bytes(5000), **settings) == pytest.approx(0.5, abs=0.3)


async def seconds_until_queue_is_flushed(count: int, **settings: object) -> float:
    """Put messages and return after how long the units of their queue are synced."""
    disk = SimDisk()
    synced_at: list[float] = []

    def note(method: str, path: str) -> None:
        if method == "sync" and "/consumequeue/" in path:
            synced_at.append(trio.current_time())

    async with opened(Place(disk, "/store"), **settings) as store:
        await trio.sleep(0.05)
        for _ in range(count):
            send(store, b"small")
        store.end_burst()
        begin = trio.current_time()
        disk.before_change = note
        while not synced_at:
            await trio.sleep(0.05)
        disk.before_change = None
        return round(synced_at[0] - begin, 1)


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        ({}, 60.0),  # fewer than two pages wait for flushConsumeQueueThoroughInterval
        ({"flush_consume_queue_thorough_interval": 5000}, 5.0),
        ({"flush_consume_queue_least_pages": 0}, 1.0),
        ({"flush_consume_queue_least_pages": 0, "flush_interval_consume_queue": 3000}, 3.0),
    ],
)
async def test_when_queues_are_flushed(
    settings: dict[str, object], seconds: float, autojump_clock: trio.testing.MockClock
) -> None:
    assert await seconds_until_queue_is_flushed(3, **settings) == pytest.approx(seconds, abs=0.5)


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        ({}, 0.2),
        ({"commit_commit_log_thorough_interval": 2000}, 2.0),
        ({"commit_commit_log_thorough_interval": 2000, "commit_commit_log_least_pages": 0}, 0.2),
        ({"commit_interval_commit_log": 1500}, 1.5),
    ],
)
async def test_when_the_pool_is_committed(
    disk: SimDisk, settings: dict[str, object], seconds: float, autojump_clock: trio.testing.MockClock
) -> None:
    async with opened(Place(disk, "/store"), transient_store_pool_enable=True, **settings) as store:
        await trio.sleep(0.01)
        send(store, b"small")
        store.end_burst()
        begin = trio.current_time()
        while store.max_physical_offset == 0:
            await trio.sleep(0.02)
        assert trio.current_time() - begin == pytest.approx(seconds, abs=0.25)


async def counts(disk: SimDisk, memory_bytes: int, **settings: object) -> int:
    """Put twenty messages of 1 KiB and return how many one answer has."""
    async with opened(Place(disk, "/store"), memory_bytes=memory_bytes, **settings) as store:
        for _ in range(20):
            send(store, bytes(1000))
        store.end_burst()
        result = await store.get_message("T", 0, 0, 32)
        return len(list(decode_messages(result.body)))


@pytest.mark.parametrize(
    ("settings", "memory_bytes", "count"),
    [
        ({}, 1 << 30, 20),
        ({"max_transfer_count_on_message_in_memory": 5}, 1 << 30, 5),
        ({"max_transfer_bytes_on_message_in_memory": 4000}, 1 << 30, 3),
        ({}, 0, 8),  # far from the end of the log: probably on disk only
        ({"max_transfer_count_on_message_in_disk": 4}, 0, 4),
        ({"max_transfer_bytes_on_message_in_disk": 3000}, 0, 2),
        ({"access_message_in_memory_max_ratio": 0}, 1 << 30, 8),
        ({"access_message_in_memory_max_ratio": 100}, 1 << 13, 8),
        ({"access_message_in_memory_max_ratio": 100}, 1 << 16, 20),
    ],
)
async def test_how_much_one_answer_holds(
    disk: SimDisk, settings: dict[str, object], memory_bytes: int, count: int
) -> None:
    assert await counts(disk, memory_bytes, **settings) == count


async def test_limits_of_answers_may_change(disk: SimDisk) -> None:
    """The settings that are ``live``: each change is passed on."""
    config = config_for(Place(disk, "/store"))
    async with opened(Place(disk, "/store"), config=config) as store:
        for _ in range(20):
            send(store, bytes(1000))
        store.end_burst()
        object.__setattr__(config, "max_transfer_count_on_message_in_memory", 6)  # as LiveSettings does
        store.settings_changed()
        result = await store.get_message("T", 0, 0, 32)
        assert len(list(decode_messages(result.body))) == 6


@pytest.mark.parametrize(("hour", "is_deleted"), [(7, True), (9, False)], ids=["in its hour", "in another hour"])
async def test_limits_of_deletion_may_change(
    autojump_clock: trio.testing.MockClock, hour: int, is_deleted: bool
) -> None:
    clock = ManualClock()
    disk = SimDisk(clock=clock)
    config = config_for(Place(disk, "/store"), delete_when="04")
    async with opened(Place(disk, "/store"), config=config, clock=clock) as store:
        for _ in range(200):
            send(store, bytes(1000))
            store.end_burst()
        clock.advance_ms(2 * 3_600_000)
        while time.localtime(clock.timestamp_ms() / 1000).tm_hour != hour:
            clock.advance_ms(600_000)
        for name, value in {"file_reserved_time": 1, "delete_when": "07"}.items():
            object.__setattr__(config, name, value)
        await trio.sleep(60)
        assert store.min_physical_offset == 0, "the listener has not been called"
        store.settings_changed()
        await trio.sleep(60)
        assert (store.min_physical_offset > 0) is is_deleted


async def test_how_many_messages_a_query_finds(disk: SimDisk) -> None:
    """``maxMsgsNumBatch``, whatever is asked for."""
    async with opened(Place(disk, "/store"), max_msgs_num_batch=3) as store:
        for _ in range(10):
            send(store, b"one", key=b"k")
        store.end_burst()
        await trio.testing.wait_all_tasks_blocked()
        result = await store.query_message("T", "k", 100, 0, 1 << 60)
        assert len(list(decode_messages(result.body))) == 3


async def test_how_many_queue_files_keep_a_descriptor(tmp_path: object) -> None:
    """``consumeQueueFilesOpenMax``, among idle queues."""
    for open_max in (8, 30):
        async with opened(Place(SimDisk(), "/store"), consume_queue_files_open_max=open_max) as store:
            for number in range(40):
                send(store, b"one", topic=f"T{number}")
                store.end_burst()
            open_files = store.statistics().open_files
            assert open_max <= open_files <= open_max + 4, "and those of the log"


async def test_how_long_a_sync_may_take(disk: SimDisk, autojump_clock: trio.testing.MockClock) -> None:
    """``syncFlushTimeout``: negative, every answer is a timeout."""
    found = {}
    for timeout_ms in (-1, 5000):
        async with opened(
            Place(disk, "/store"), flush_disk_type=FlushDiskType.SYNC_FLUSH, sync_flush_timeout=timeout_ms
        ) as store:
            send(store, b"one")
            statuses: list[object] = []
            store.wait_stored(store.wrote_offset, statuses.append)
            store.end_burst()
            while not statuses:
                await trio.sleep(0.01)
            found[timeout_ms] = str(statuses[0])
    assert found[-1] != found[5000]


# ---- deletion -------------------------------------------------------------------------------------------------------


def always(**settings: object) -> dict[str, object]:
    """Settings with which files expire at any hour, two hours after their last message."""
    return {"delete_when": ALL_HOURS, "file_reserved_time": 2, **settings}


@pytest.mark.parametrize(("pause_ms", "seconds"), [(100, 1), (3000, 21)])
async def test_the_pause_after_each_deleted_file_of_the_log(
    disk: SimDisk, pause_ms: int, seconds: float, autojump_clock: trio.testing.MockClock
) -> None:
    """``deleteCommitLogFilesInterval``: eight files with seven pauses between them, once the first minute is over."""
    clock = ManualClock(NOON_MS)
    settings = always(delete_commit_log_files_interval=pause_ms)
    async with opened(Place(disk, "/store"), clock=clock, **settings) as store:
        begin = trio.current_time()
        await fill(store, clock, 600)
        while store.clean_statistics().deleted_count < 8:
            await trio.sleep(0.1)
        assert trio.current_time() - begin - 60 == pytest.approx(seconds, abs=1)


@pytest.mark.parametrize("interval_s", [10, 40])
async def test_how_often_files_are_looked_at(
    disk: SimDisk, interval_s: int, autojump_clock: trio.testing.MockClock
) -> None:
    """``cleanResourceInterval``: what expires after a run goes with the next one."""
    clock = ManualClock(NOON_MS)
    settings = always(clean_resource_interval=interval_s * 1000)
    async with opened(Place(disk, "/store"), clock=clock, **settings) as store:
        await fill(store, clock, 600)
        await trio.sleep(63)
        assert store.clean_statistics().deleted_count == 8
        clock.advance_ms(24 * HOUR_MS)
        begin = trio.current_time()
        while store.clean_statistics().deleted_count == 8:
            await trio.sleep(0.1)
        assert interval_s - 5 <= trio.current_time() - begin <= interval_s + 1


@pytest.mark.parametrize("pause_s", [0.1, 2])
async def test_the_pause_after_each_queue_that_lost_files(
    disk: SimDisk, pause_s: float, autojump_clock: trio.testing.MockClock
) -> None:
    """``deleteConsumeQueueFilesInterval``: once the log has lost its files the queues lose theirs, one by one."""
    clock, place = ManualClock(NOON_MS), Place(disk, "/store")
    settings = always(delete_consume_queue_files_interval=int(pause_s * 1000), mapped_file_size_consume_queue=1000)
    async with opened(place, clock=clock, **settings) as store:
        for topic in "ABC":
            await fill(store, clock, 150, topic)
        clock.advance_ms(24 * HOUR_MS)
        left, gone_at = set("ABC"), []
        while left:
            await trio.sleep(0.05)
            for topic in [each for each in left if not disk.exists(place.queue_file(each, 0))]:
                left.discard(topic)
                gone_at.append(trio.current_time())
        assert gone_at[1] - gone_at[0] == pytest.approx(pause_s, abs=0.1)


@pytest.mark.parametrize(("ratio", "is_deleted"), [(75, False), (10, True)])
async def test_above_which_use_of_the_disk_expired_files_go_at_any_hour(
    ratio: int, is_deleted: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """``diskMaxUsedSpaceRatio``."""
    disk, clock = SimDisk(capacity_bytes=3_000_000), ManualClock(NOON_MS)
    settings: dict[str, object] = {"delete_when": "04", "file_reserved_time": 2, "disk_max_used_space_ratio": ratio}
    async with opened(Place(disk, "/store"), clock=clock, **settings) as store:
        await fill(store, clock, 600)
        await trio.sleep(70)
        assert bool(store.clean_statistics().deleted_count) == is_deleted


@pytest.mark.parametrize(("ratio", "is_deleted"), [(85, False), (30, True)])
async def test_above_which_use_of_the_disk_files_go_that_are_not_expired(
    ratio: int, is_deleted: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """``diskSpaceCleanForciblyRatio``."""
    disk, clock = SimDisk(capacity_bytes=1_500_000), ManualClock(NOON_MS)
    settings: dict[str, object] = {"disk_max_used_space_ratio": 10, "disk_space_clean_forcibly_ratio": ratio}
    async with opened(Place(disk, "/store"), clock=clock, **settings) as store:
        await fill(store, clock, 600)
        await trio.sleep(70)
        assert bool(store.clean_statistics().deleted_count) == is_deleted


async def test_how_often_a_file_is_synced_while_it_is_filled() -> None:
    """``flushLeastPagesWhenWarmMapedFile``, in pages of 4096 bytes; a file has sixteen."""
    syncs = {}
    for pages in (4, 4096):
        disk = SimDisk()
        settings: dict[str, object] = {
            "warm_maped_file_enable": True,
            "flush_disk_type": FlushDiskType.SYNC_FLUSH,
            "flush_least_pages_when_warm_maped_file": pages,
        }
        async with opened(Place(disk, "/store"), **settings) as store:
            send(store, b"one")
            await trio.testing.wait_all_tasks_blocked()
            syncs[pages] = disk.calls["sync"]
    assert syncs[4] >= syncs[4096] + 3


# ---- recovery -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("checks_crc", [True, False])
async def test_whether_recovery_looks_at_bodies(disk: SimDisk, checks_crc: bool) -> None:
    """``checkCRCOnRecover``: a body that was torn in the last file ends the log, or is served as it is."""
    place = Place(disk, "/store")
    async with killed(place) as store:
        send(store, b"one")
        physical_offset, _ = send(store, b"two")
        store.end_burst()
    content = place.read(place.log_file())
    at = content.index(b"two", physical_offset)
    disk.flip_bit(place.log_file(), at)
    async with opened(place, check_crc_on_recover=checks_crc) as again:
        assert len(bodies(again)) == (1 if checks_crc else 2)
