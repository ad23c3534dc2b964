"""The store as the broker has it: what is put, what is read, and what it says of itself."""

from __future__ import annotations

import pytest
import trio

from rocketpy.store.config import FlushDiskType
from rocketpy.store.results import PutMessageStatus
from rocketpy.store.services.worker_thread import open_worker_thread
from rocketpy.testing.sim.disk import SimDisk
from tests.patience import PATIENCE_SECONDS
from tests.store.opened_store import Reports, bodies, killed, opened, send
from tests.store.parts import Place


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
    async with killed(place) as store:
        for number in range(10):
            send(store, b"%d" % number)
            send(store, b"%d" % number, "Other")
        store.delete_topic_queues("T")
        assert list(store.queues()) == [("Other", 0)]
        send(store, b"again")
        assert bodies(store) == [b"again"]
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


async def test_no_loss_of_power_brings_queues_back_whose_removal_is_synced() -> None:
    disk = SimDisk()
    place = Place(disk, "/store")
    async with opened(place) as store:
        send(store, b"1", "T")
        send(store, b"1", "Other")
    async with killed(place) as store:
        store.delete_topic_queues("T")
        store.delete_topic_queues("Other")
        await store.sync_removed_queues(["T"])
    disk.lose_power(lambda count: 0)  # nothing survives that was not synced
    found = [topic for topic in ("T", "Other") if disk.is_directory(f"{place.consume_queue}/{topic}/0")]
    assert found == ["Other"]


@pytest.mark.parametrize("is_log_empty", [False, True])
async def test_a_deletion_does_not_reach_past_the_end_of_the_log(is_log_empty: bool, place: Place) -> None:
    """It may be durable when the end of the log at that time was not."""
    async with killed(place) as store:
        send(store, b"other", "Other")
        store.end_burst()
        end = 0 if is_log_empty else store.wrote_offset
        for _ in range(10):
            send(store, b"old" * 100)
        store.delete_topic_queues("T")
        deleted_end = store.wrote_offset
    if is_log_empty:
        place.remove_tree(place.commit_log)
    else:
        place.write(place.log_file(), bytes(deleted_end - end), end)
    for expected in ([b"new"], [b"new", b"newer"]):
        async with killed(place) as store:
            assert bodies(store) == expected[:-1]
            send(store, expected[-1])
            assert store.wrote_offset < deleted_end
            store.end_burst()
    async with opened(place) as store:
        assert bodies(store) == [b"new", b"newer"]


async def test_the_record_of_a_deleted_queue_is_there_for_the_store_and_for_no_peer(place: Place) -> None:
    async with opened(place) as store:
        physical_offset, _ = send(store, b"one")
        record = await store.look_message_by_offset(physical_offset)
        assert record is not None
        store.delete_topic_queues("T")
        assert await store.look_message_by_offset(physical_offset) is None
        assert await store.record_at(physical_offset) == record
        assert await store.record_at(physical_offset + 1) is None


@pytest.mark.parametrize("has_own_thread", [False, True])
async def test_sync_flush_calls_back_when_the_disk_has_the_message(has_own_thread: bool) -> None:
    flushed = trio.Event()
    async with opened(
        Place(SimDisk(), "/store"),
        flush_disk_type=FlushDiskType.SYNC_FLUSH,
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
