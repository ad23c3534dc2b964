"""The store with what its settings ask of its appender: pool, multi-dispatch, light queues, extensions, a slave."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import trio
import trio.testing

from rocketpy.clock import ManualClock
from rocketpy.protocol.java_hash import tags_code
from rocketpy.store.config import BrokerRole, FlushDiskType
from rocketpy.store.message_store import MessageStore
from rocketpy.store.queue.extension import CqExtUnit
from rocketpy.store.results import GetMessageStatus, PutMessageStatus
from rocketpy.testing.sim.disk import SimDisk
from tests.store.opened_store import bodies, killed, opened, send
from tests.store.parts import BORN_HOST, Place

POOL: dict[str, object] = {"transient_store_pool_enable": True}


def put_named(store: MessageStore, body: bytes, *names: str) -> None:
    properties = f"INNER_MULTI_DISPATCH\x01{','.join(names)}".encode()
    status, _, _ = store.put("T", 0, body, properties, 0, (), 0, 0, 1, BORN_HOST, 0)
    assert status is PutMessageStatus.PUT_OK


# ---- transient store pool -------------------------------------------------------------------------------------------


async def test_messages_in_the_pool_are_read_a_little_later(
    place: Place, autojump_clock: trio.testing.MockClock
) -> None:
    arrivals: list[tuple[str, int, int]] = []
    async with opened(place, **POOL, message_arriving=lambda *arrival: arrivals.append(arrival)) as store:
        physical_offset, _ = send(store, b"one", key=b"k")
        store.end_burst()
        assert bodies(store) == []
        assert store.max_offset_in_queue("T", 0) == store.max_physical_offset == 0
        assert await store.look_message_by_offset(physical_offset) is None
        assert (await store.query_message("T", "k", 10, 0, 1 << 60)).body == b""
        await trio.sleep(0.25)
        assert bodies(store) == [b"one"]
        assert arrivals == [("T", 0, 1)]
        assert (await store.query_message("T", "k", 10, 0, 1 << 60)).body != b""
        for _ in range(20):
            send(store, b"x" * 1000)
        store.end_burst()
        await trio.testing.wait_all_tasks_blocked()
        assert len(bodies(store)) == 21, "four pages are enough"


async def test_the_checkpoint_counts_no_record_without_its_unit(autojump_clock: trio.testing.MockClock) -> None:
    """A log file that is full is written before its units are; the thorough flush in between commits them first."""
    place = Place(SimDisk(), "/store")
    settings = POOL | {"commit_interval_commit_log": 3_600_000, "commit_commit_log_least_pages": 1 << 20}
    async with killed(place, **settings) as store:
        for _ in range(30):
            send(store, b"x" * 3000)
        store.end_burst()
        assert store.max_physical_offset >= 1 << 16
        assert store.max_offset_in_queue("T", 0) == 0
        await trio.sleep(61)
    assert isinstance(place.disk, SimDisk)
    place.disk.lose_power()
    async with opened(place, **settings) as store:
        assert len(bodies(store)) == 30


async def test_a_topic_is_deleted_with_its_messages_in_the_pool(place: Place) -> None:
    async with opened(place, **POOL) as store:
        send(store, b"one")
        store.end_burst()
        store.delete_topic_queues("T")
    place.remove_tree(f"{place.root}/orderly-end")
    async with opened(place, **POOL) as store:
        assert bodies(store) == []
        assert send(store, b"two")[1] == 0


async def test_a_pool_that_is_full_can_refuse(place: Place) -> None:
    settings = POOL | {
        "transient_store_pool_size": 1, "fast_fail_if_no_buffer_in_store_pool": True,
        "commit_interval_commit_log": 3_600_000,
    }  # fmt: skip
    async with opened(place, **settings) as store:
        statuses = [store.put("T", 0, b"x" * 5000, b"", 0, (), 0, 0, 1, BORN_HOST, 0)[0] for _ in range(20)]
        assert statuses == [PutMessageStatus.PUT_OK] * 12 + [PutMessageStatus.CREATE_MAPEDFILE_FAILED] * 8


# ---- the rest -------------------------------------------------------------------------------------------------------


async def test_a_flush_that_is_not_timed_follows_what_is_written(autojump_clock: trio.testing.MockClock) -> None:
    for is_timed in (True, False):
        async with opened(Place(SimDisk(), "/store"), flush_commit_log_timed=is_timed) as store:
            for _ in range(4):
                send(store, b"x" * 5000)
            store.end_burst()
            await trio.sleep(0.1)
            flushed = store.statistics().commit_log_flushed_offset
            assert flushed == (0 if is_timed else store.max_physical_offset)


@pytest.mark.parametrize("flush_disk_type", FlushDiskType)
async def test_warm_up_fills_the_files_in_advance(flush_disk_type: FlushDiskType) -> None:
    zeros = {}
    for is_warm in (False, True):
        disk = SimDisk()
        settings: dict[str, object] = {"warm_maped_file_enable": is_warm, "flush_disk_type": flush_disk_type}
        async with opened(Place(disk, "/store"), **settings) as store:
            writes = disk.calls["write"]
            send(store, b"one")
            await trio.testing.wait_all_tasks_blocked()
            zeros[is_warm] = disk.calls["write"] - writes
    assert zeros == ({False: 2, True: 2} if flush_disk_type is FlushDiskType.SYNC_FLUSH else {False: 0, True: 2})


@pytest.mark.parametrize(
    ("settings", "is_warmed"),
    [
        ({}, True),
        (POOL, True),
        ({"warm_ahead_enable": False}, False),
        ({"warm_maped_file_enable": True}, False),
        ({"flush_disk_type": FlushDiskType.SYNC_FLUSH}, False),
    ],
)
async def test_pages_ahead_of_the_log_are_warmed_unless_files_are_filled(
    settings: dict[str, object], is_warmed: bool, autojump_clock: trio.testing.MockClock
) -> None:
    disk = SimDisk()
    settings = {"mapped_file_size_commit_log": 32 << 20, "max_message_size": 4 << 20} | settings
    async with opened(Place(disk, "/store"), **settings) as store:
        for _ in range(5):
            send(store, bytes(4_000_000))
            store.end_burst()
            await trio.sleep(0.5)
        assert disk.calls["warm"] == is_warmed


async def test_named_queues_are_there_now_and_after_every_kind_of_end(place: Place) -> None:
    settings: dict[str, object] = {"enable_multi_dispatch": True, "enable_lmq": True}
    async with opened(place, **settings) as store:
        put_named(store, b"one", "%LMQ%a", "Audit")
        put_named(store, b"two", "%LMQ%a")
        for queue, wanted in {"T": 2, "%LMQ%a": 2, "Audit": 1}.items():
            assert len(bodies_in(store, queue)) == wanted
        assert set(store.queues()) == {("T", 0), ("%LMQ%a", 0), ("Audit", 0)}
    async with opened(place, **settings) as store:
        put_named(store, b"three", "%LMQ%a")
    place.remove_tree(f"{place.root}/consumequeue")
    async with opened(place, **settings) as store:
        assert bodies_in(store, "%LMQ%a") == [b"one", b"two", b"three"]


def bodies_in(store: MessageStore, topic: str) -> list[bytes]:
    """Bodies in a queue whose offsets are not the messages' own."""
    result = store.get_message_nowait(topic, 0, 0, 32)
    assert result is not None
    body, found = result.body, []
    while body:
        size, body_size = int.from_bytes(body[:4], "big"), int.from_bytes(body[84:88], "big")
        found.append(body[88 : 88 + body_size])
        body = body[size:]
    return found


async def test_too_many_light_queues_cannot_be_read(place: Place) -> None:
    settings: dict[str, object] = {
        "enable_multi_dispatch": True, "enable_lmq": True, "max_lmq_consume_queue_num": 2,
    }  # fmt: skip
    async with opened(place, **settings | {"max_lmq_consume_queue_num": 3}) as store:
        put_named(store, b"one", "%LMQ%a", "%LMQ%b")
        put_named(store, b"two", "%LMQ%c")
        assert bodies_in(store, "%LMQ%a") == [b"one"]
    async with opened(place, **settings) as store:
        for result in (store.get_message_nowait("%LMQ%a", 0, 0, 32), await store.get_message("%LMQ%a", 0, 0, 32)):
            assert result is not None
            assert (result.status, result.next_begin_offset) == (GetMessageStatus.OFFSET_FOUND_NULL, 0)
            assert (result.min_offset, result.max_offset, result.body) == (0, 1, b"")
        assert bodies_in(store, "T") == [b"one", b"two"]
        assert store.statistics().get_miss_count == 2
    async with opened(place, **settings | {"enable_lmq": False}) as store:
        assert bodies_in(store, "%LMQ%a") == [b"one"]


class AllTags:
    """Matches everything, and records the extension units."""

    needs_record = False

    def __init__(self) -> None:
        self.shown: list[tuple[int, CqExtUnit | None]] = []

    def is_matched_by_consume_queue(self, tags_code: int, ext: CqExtUnit | None) -> bool:
        self.shown.append((tags_code, ext))
        return True

    def is_matched_by_commit_log(self, record: bytes) -> bool:
        return True


async def test_units_are_extended_with_the_bit_maps_of_the_broker(place: Place) -> None:
    def bit_map_of(topic: str, properties: Mapping[str, str]) -> bytes:
        return f"{topic} {properties['TAGS']}".encode()

    async def shown() -> list[tuple[int, CqExtUnit | None]]:
        async with opened(place, enable_consume_queue_ext=True, clock=clock, bit_map_of=bit_map_of) as store:
            if not store.max_offset_in_queue("T", 0):
                send(store, b"one")
            message_filter = AllTags()
            await store.get_message("T", 0, 0, 32, message_filter)
            return message_filter.shown

    clock = ManualClock()
    unit = CqExtUnit(tags_code("A"), clock.timestamp_ms(), b"T A")
    assert await shown() == [(tags_code("A"), unit)]
    assert await shown() == [(tags_code("A"), unit)], "after a restart"


async def test_a_slave_appends_nothing_itself(place: Place) -> None:
    async with opened(place, broker_role=BrokerRole.SLAVE) as store:
        status, _, _ = store.put("T", 0, b"body", b"", 0, (), 0, 0, 1, BORN_HOST, 0)
        assert status is PutMessageStatus.SERVICE_NOT_AVAILABLE
        assert "slave" in (store.writable_or_why() or "")
