"""Reads of queues through an open store: the burst ends first, cold reads leave the loop, and all are counted."""

from __future__ import annotations

import pytest

from rocketpy import BUILD
from rocketpy.clock import ManualClock
from rocketpy.protocol.selector.tag import TagFilter, parse_tag_expression
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.store.results import GetMessageStatus, QueueTimeSpan
from rocketpy.testing.sim.disk import SimDisk
from tests.store.opened_store import bodies, opened, send
from tests.store.parts import Place


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
        send(store, b"five", key=b"k")
        found = await store.query_message("T", "k", 32, 0, 1 << 62)
        assert [each.body for each in decode_messages(found.body)] == [b"five"]


async def test_times_of_a_queue_and_of_the_store(place: Place) -> None:
    clock = ManualClock(1_000)
    async with opened(place, clock=clock) as store:
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


async def test_a_read_with_a_filter_counts_as_one_that_nothing_was_filtered_from(place: Place) -> None:
    """Once, whether it was served by the kernels or, after they had declined it, on the general path."""
    never = TagFilter(parse_tag_expression("T", "never"))
    async with opened(place) as store:
        send(store, b"one")
        found = store.get_filtered_nowait("T", 0, 0, 32, never)
        assert (found is not None) == BUILD.has_kernels
        if found is None:
            assert store.statistics().get_count == 0
            assert store.get_message_nowait("T", 0, 0, 32, never) is not None
        else:
            assert (found.message_count, found.next_begin_offset) == (0, 1)
        assert store.get_filtered_nowait("T", 0, 1, 32, never) is None
        statistics = store.statistics()
        assert (statistics.get_count, statistics.get_miss_count, statistics.get_message_count) == (1, 1, 0)
