"""The store as the broker has it: what is put, what is read, and what it says of itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import attrs
import pytest
import trio

from rocketpy.clock import ManualClock
from rocketpy.errors import StoreError
from rocketpy.protocol.java_hash import tags_code
from rocketpy.protocol.stored_message import decode_message, decode_messages
from rocketpy.store.config import FlushDiskType, MessageStoreConfig
from rocketpy.store.message_store import MessageStore
from rocketpy.store.opening import open_message_store
from rocketpy.store.recovery.recovery import RecoveryReport
from rocketpy.store.results import GetMessageStatus, PutMessageStatus, QueueTimeSpan
from rocketpy.store.services.worker_thread import open_worker_thread
from rocketpy.store.status import NO_REPORTS, StoreReports
from rocketpy.testing.sim.disk import SimDisk
from tests.patience import PATIENCE_SECONDS
from tests.store.parts import BORN_HOST, STORE_HOST, Place
from tests.turns import run_in_turn


def config_for(place: Place, **changes: object) -> MessageStoreConfig:
    config = MessageStoreConfig(
        store_path_root_dir=place.root,
        mapped_file_size_commit_log=1 << 16,
        mapped_file_size_consume_queue=6000,
        max_hash_slot_num=100,
        max_index_num=1000,
        max_message_size=8192,
    )
    return attrs.evolve(config, **changes)  # type: ignore[arg-type]


Reports = list[RecoveryReport]


@asynccontextmanager
async def opened(
    place: Place,
    *,
    clock: ManualClock | None = None,
    reports: Reports | None = None,
    memory_bytes: int = 1 << 40,
    **changes: object,
) -> AsyncIterator[MessageStore]:
    async with open_message_store(
        config_for(place, **changes),
        disk=place.disk,
        clock=clock or ManualClock(),
        run_blocking=run_in_turn,
        store_host=STORE_HOST,
        reports=NO_REPORTS if reports is None else StoreReports(recovered=reports.append),
        memory_bytes=memory_bytes,
    ) as store:
        yield store


def send(store: MessageStore, body: bytes, topic: str = "T", queue_id: int = 0, key: bytes = b"") -> tuple[int, int]:
    properties = b"TAGS\x01A" + (b"\x02UNIQ_KEY\x01" + key if key else b"")
    keys = (key,) if key else ()
    status, physical_offset, queue_offset = store.put(
        topic, queue_id, body, properties, tags_code("A"), keys, 0, 0, 1, BORN_HOST, 0
    )
    assert status is PutMessageStatus.PUT_OK, store.writable_or_why()
    return physical_offset, queue_offset


def bodies(store: MessageStore, topic: str = "T", queue_id: int = 0) -> list[bytes]:
    found: list[bytes] = []
    while True:
        result = store.get_message_nowait(topic, queue_id, len(found), 32)
        assert result is not None
        if result.status is not GetMessageStatus.FOUND:
            return found
        found += [each.body for each in decode_messages(result.body)]


class Killed(Exception):
    """Ends a store without a clean shutdown."""


async def kill(scope: AbstractAsyncContextManager[MessageStore]) -> None:
    killed = Killed()
    with pytest.raises(BaseException) as raised:
        await scope.__aexit__(Killed, killed, None)
    assert raised.group_contains(Killed) if isinstance(raised.value, BaseExceptionGroup) else raised.value is killed


async def test_what_is_sent_is_read_back_now_and_after_a_restart(place: Place) -> None:
    sent = [b"%06d" % number * 3 for number in range(2000)]
    async with opened(place) as store:
        assert place.disk.exists(f"{place.root}/abort")
        for number, body in enumerate(sent):
            send(store, body)
            if number % 50 == 49:
                store.end_burst()
                await trio.lowlevel.checkpoint()
        assert bodies(store) == sent
    assert not place.disk.exists(f"{place.root}/abort")
    reports: Reports = []
    async with opened(place, reports=reports) as store:
        assert reports[0].unit_count == 0, "nothing was missing"
        assert bodies(store) == sent
        assert store.max_offset_in_queue("T", 0) == 2000
        assert list(store.queues()) == [("T", 0)]


async def test_deleted_queues_stay_deleted(place: Place) -> None:
    scope = opened(place)
    store = await scope.__aenter__()
    for number in range(10):
        send(store, b"%d" % number)
        send(store, b"%d" % number, "Other")
    store.delete_topic_queues("T")
    assert list(store.queues()) == [("Other", 0)]
    send(store, b"again")
    assert bodies(store) == [b"again"]
    await kill(scope)
    for _ in range(2):
        async with opened(place) as store:
            assert bodies(store) == [b"again"]
            assert len(bodies(store, "Other")) == 10
            store.delete_topic_queues("Other")
            send(store, b"other", "Other")
            store.delete_topic_queues("Other")
        async with opened(place) as store:
            assert list(store.queues()) == [("T", 0)]
            for number in range(10):
                send(store, b"%d" % number, "Other")


@pytest.mark.parametrize("is_log_empty", [False, True])
async def test_a_deletion_does_not_reach_past_the_end_of_the_log(is_log_empty: bool, place: Place) -> None:
    """It may be durable when the end of the log at that time was not."""
    scope = opened(place)
    store = await scope.__aenter__()
    send(store, b"other", "Other")
    store.end_burst()
    end = 0 if is_log_empty else store.wrote_offset
    for _ in range(10):
        send(store, b"old" * 100)
    store.delete_topic_queues("T")
    deleted_end = store.wrote_offset
    await kill(scope)
    if is_log_empty:
        place.remove_tree(place.commit_log)
    else:
        place.write(place.log_file(), bytes(deleted_end - end), end)
    for expected in ([b"new"], [b"new", b"newer"]):
        scope = opened(place)
        store = await scope.__aenter__()
        assert bodies(store) == expected[:-1]
        send(store, expected[-1])
        assert store.wrote_offset < deleted_end
        store.end_burst()
        await kill(scope)
    async with opened(place) as store:
        assert bodies(store) == [b"new", b"newer"]


async def test_single_records_and_times(place: Place) -> None:
    clock = ManualClock()
    async with opened(place, clock=clock) as store:
        begin_ms = clock.timestamp_ms()
        places = []
        for number in range(20):
            places.append(send(store, b"%d" % number)[0])
            store.end_burst()
            clock.advance_ms(100)
        record = await store.look_message_by_offset(places[7])
        assert record is not None
        assert decode_message(record).body == b"7"
        assert await store.look_message_by_offset(places[7] + 1) is None
        assert await store.look_message_by_offset(store.max_physical_offset) is None
        assert await store.look_message_by_offset(-5) is None
        assert await store.store_timestamp_of("T", 0, 3) == begin_ms + 300
        assert await store.store_timestamp_of("T", 0, 20) == -1
        assert await store.store_timestamp_of("None", 0, 0) == -1
        assert await store.offset_in_queue_by_time("T", 0, begin_ms + 730) == 7
        assert await store.offset_in_queue_by_time("T", 0, begin_ms + 770) == 8
        assert await store.offset_in_queue_by_time("T", 0, 0) == 0
        assert await store.offset_in_queue_by_time("T", 0, begin_ms * 2) == 19
        assert await store.offset_in_queue_by_time("None", 0, begin_ms) == 0
        assert (store.min_offset_in_queue("T", 0), store.max_offset_in_queue("T", 0)) == (0, 20)
        assert (store.min_offset_in_queue("None", 0), store.max_offset_in_queue("None", 0)) == (0, 0)
        assert store.check_in_disk_by_consume_offset_nowait("T", 0, 0) is False
        assert store.check_in_disk_by_consume_offset_nowait("None", 0, 0) is False


@pytest.mark.parametrize("memory_bytes", [1, 1 << 40])
async def test_whether_a_cold_unit_s_message_is_on_disk_is_asked_in_the_worker(memory_bytes: int) -> None:
    disk = SimDisk()
    place = Place(disk, "/store")
    async with opened(place, memory_bytes=memory_bytes) as store:
        for number in range(10):
            send(store, b"%d" % number)
        store.end_burst()
        is_on_disk = memory_bytes == 1
        assert store.check_in_disk_by_consume_offset_nowait("T", 0, 0) is is_on_disk
        disk.evict(place.queue_file("T", 0))
        reads = disk.calls["read"]
        assert store.check_in_disk_by_consume_offset_nowait("T", 0, 0) is None
        assert disk.calls["read"] == reads
        assert await store.check_in_disk_by_consume_offset("T", 0, 0) is is_on_disk
        assert disk.calls["read"] == reads + 1
        assert not await store.check_in_disk_by_consume_offset("None", 0, 0)


async def test_the_record_of_a_deleted_queue_is_there_for_the_store_and_for_no_peer(place: Place) -> None:
    async with opened(place) as store:
        physical_offset, _ = send(store, b"one")
        record = await store.look_message_by_offset(physical_offset)
        assert record is not None
        store.delete_topic_queues("T")
        assert await store.look_message_by_offset(physical_offset) is None
        assert await store.record_at(physical_offset) == record
        assert await store.record_at(physical_offset + 1) is None


async def test_a_cold_read_goes_to_the_worker() -> None:
    disk = SimDisk()
    place = Place(disk, "/store")
    async with opened(place) as store:
        for number in range(10):
            send(store, b"%d" % number)
        store.end_burst()
        disk.evict(place.log_file())
        assert store.get_message_nowait("T", 0, 0, 32) is None
        result = await store.get_message("T", 0, 0, 32)
        assert [each.body for each in decode_messages(result.body)] == [b"%d" % number for number in range(10)]
        assert store.statistics().get_cold_count == 1
        again = store.get_message_nowait("T", 0, 0, 32)
        assert again == result


async def test_reads_end_the_burst_first(place: Place) -> None:
    async with opened(place) as store:
        send(store, b"one")
        assert store.max_offset_in_queue("T", 0) == 1
        send(store, b"two")
        assert bodies(store) == [b"one", b"two"]
        physical_offset, _ = send(store, b"three")
        assert await store.look_message_by_offset(physical_offset) is not None
        send(store, b"four")
        assert (await store.get_message("T", 0, 3, 1)).status is GetMessageStatus.FOUND


@pytest.mark.parametrize("has_own_thread", [False, True])
async def test_sync_flush_calls_back_when_the_disk_has_the_message(has_own_thread: bool) -> None:
    disk = SimDisk()
    place = Place(disk, "/store")
    flushed = trio.Event()
    async with open_message_store(
        config_for(place, flush_disk_type=FlushDiskType.SYNC_FLUSH),
        disk=disk,
        clock=ManualClock(),
        run_blocking=run_in_turn,
        store_host=STORE_HOST,
        flush_replies=flushed.set,
        open_runner=open_worker_thread if has_own_thread else None,
    ) as store:
        assert store.waits_for_storing
        answers: list[PutMessageStatus] = []
        send(store, b"one")
        send(store, b"two")
        store.wait_stored(store.wrote_offset, answers.append)
        assert answers == []
        with trio.fail_after(PATIENCE_SECONDS):
            await flushed.wait()
        assert answers == [PutMessageStatus.PUT_OK]
        assert store.statistics().commit_log_flushed_offset == store.wrote_offset


@pytest.mark.parametrize("flush_disk_type", FlushDiskType)
async def test_a_failed_sync_ends_the_store_and_leaves_the_abort_file(flush_disk_type: FlushDiskType) -> None:
    disk = SimDisk()
    place = Place(disk, "/store")
    with pytest.raises(ExceptionGroup) as raised:
        async with opened(place, flush_disk_type=flush_disk_type, flush_interval_commit_log=1) as store:
            send(store, b"one" * 100)
            store.end_burst()
            disk.fail_call("sync")
            if store.waits_for_storing:
                store.wait_stored(store.wrote_offset, lambda status: None)
            for _ in range(200):
                send(store, b"x" * 100)
                store.end_burst()
                await trio.sleep(0.001)
            raise AssertionError("the store should have ended")
    assert raised.group_contains(StoreError)
    assert disk.exists("/store/abort")


async def test_runtime_info_has_the_names_that_tools_ask_for(place: Place) -> None:
    async with opened(place) as store:
        send(store, b"one", key=b"k")
        store.end_burst()
        info = store.runtime_info()
        assert info["putMessageTimesTotal"] == "1"
        assert info["commitLogMaxOffset"] == str(store.max_physical_offset)
        assert info["dispatchBehindBytes"] == "0"
        assert int(info["indexBehind"]) == store.index_behind == 1


async def test_without_an_index_nothing_is_kept_for_it(place: Place) -> None:
    async with opened(place, message_index_enable=False) as store:
        send(store, b"one", key=b"k")
        store.end_burst()
        assert store.index_behind == 0
        assert (await store.query_message("T", "k", 32, 0, 1 << 62)).body == b""
    assert not place.disk.exists(f"{place.root}/index")


async def test_a_real_thread_reads_what_is_cold(tmp_path_factory: pytest.TempPathFactory) -> None:
    from rocketpy.store.disk.os_disk import OsDisk

    place = Place(OsDisk(), str(tmp_path_factory.mktemp("store")))
    async with open_message_store(
        config_for(place),
        disk=place.disk,
        clock=ManualClock(),
        run_blocking=trio.to_thread.run_sync,
        store_host=STORE_HOST,
    ) as store:
        for number in range(200):
            send(store, b"%d" % number, key=b"k%d" % number)
        result = await store.get_message("T", 0, 150, 32)
        assert [each.body for each in decode_messages(result.body)] == [b"%d" % number for number in range(150, 182)]
        found = await store.query_message("T", "k77", 32, 0, 1 << 62)
        assert [each.body for each in decode_messages(found.body)] == [b"77"]


async def test_times_of_a_queue_and_of_the_store(place: Place) -> None:
    clock = ManualClock(1_000)
    async with open_message_store(
        config_for(place), disk=place.disk, clock=clock, run_blocking=run_in_turn, store_host=STORE_HOST
    ) as store:
        assert await store.get_earliest_message_time_of_store() == -1
        assert await store.get_earliest_message_time("T", 0) == -1
        assert await store.queue_time_span("T", 0, 0) == QueueTimeSpan(-1, -1, -1, None)
        for _ in range(3):
            clock.advance_ms(100)
            send(store, b"one")
            store.end_burst()
        assert await store.get_earliest_message_time_of_store() == 1100
        assert await store.get_earliest_message_time("T", 0) == 1100
        assert await store.queue_time_span("T", 0, 0) == QueueTimeSpan(1100, 1300, 1100, 1100)
        assert await store.queue_time_span("T", 0, 2) == QueueTimeSpan(1100, 1300, 1200, 1300)
        assert await store.queue_time_span("T", 0, 3) == QueueTimeSpan(1100, 1300, 1300, None)


async def test_figures_count_reads_that_find_nothing(place: Place) -> None:
    async with opened(place) as store:
        send(store, b"one")
        assert store.get_message_nowait("T", 0, 0, 32) is not None
        assert store.get_message_nowait("T", 0, 1, 32) is not None
        await store.get_message("T", 0, 7, 32)
        statistics = store.statistics()
        assert (statistics.get_count, statistics.get_miss_count, statistics.get_message_count) == (3, 2, 1)


async def test_a_burst_that_takes_milliseconds_is_seen(place: Place) -> None:
    clock = ManualClock()
    async with open_message_store(
        config_for(place), disk=place.disk, clock=clock, run_blocking=run_in_turn, store_host=STORE_HOST
    ) as store:
        for number in range(16):
            send(store, b"one")
            send(store, b"two")
            clock.advance_ms(12 if number == 8 else 0)
            store.end_burst()
        store.figures.sample()
        info = store.runtime_info()
        assert info["putMessageDistributeTime"].startswith("[<=0ms]:16 [0~10ms]:0 [10~50ms]:16 ")
        assert info["putMessageEntireTimeMax"] == "12"


@pytest.mark.parametrize("has_pool", [False, True])
async def test_slaves_get_what_is_in_files(has_pool: bool, place: Place) -> None:
    """Bytes of a burst, or of the transient store pool, may still be lost with the process."""
    async with opened(place, transient_store_pool_enable=has_pool, commit_interval_commit_log=1 << 30) as store:
        source = store.log_source
        first, _ = send(store, b"one")
        assert (source.min_offset, source.end_offset, source.file_size) == (0, 0, 1 << 16)
        store.end_burst()
        assert source.end_offset == (0 if has_pool else store.wrote_offset)
        store.appender.end_burst()
        assert source.end_offset == store.wrote_offset
        second, _ = send(store, b"two")
        store.appender.end_burst()
        assert source.read_nowait(second, 1 << 20) == await store.record_at(second)
        last = await store.recorded_log.last_record()
        assert last is not None
        assert (last.offset, last.end_offset) == (second, store.wrote_offset)
        assert [each.offset for each in await store.recorded_log.records_from(first)] == [first, second]
