"""A whole store that deletes: what is gone is gone everywhere, and what is left is served."""

from __future__ import annotations

import time

import trio
from trio.testing import MockClock

from rocketpy.clock import ManualClock
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.store.message_store import MessageStore
from rocketpy.store.results import GetMessageStatus
from rocketpy.testing.sim.disk import SimDisk
from tests.store.opened_store import killed, opened, send
from tests.store.parts import Place

HOUR_MS = 3_600_000
NOON_MS = int(time.mktime((2026, 7, 1, 12, 0, 0, 0, 0, -1))) * 1000
ALL_HOURS = ";".join(map(str, range(24)))


async def fill(store: MessageStore, clock: ManualClock, count: int, topic: str = "T") -> None:
    """Send messages of 1 KiB, one each minute."""
    for number in range(count):
        send(store, b"%06d" % number + bytes(1000), topic=topic, key=b"key%d" % number)
        clock.advance_ms(HOUR_MS // 60)
        if number % 20 == 19:
            store.end_burst()
            await trio.sleep(0.01)
    store.end_burst()


def bodies_from(store: MessageStore, queue_offset: int, topic: str = "T") -> list[int]:
    """Return the numbers in the messages from an offset on."""
    found: list[int] = []
    while (result := store.get_message_nowait(topic, 0, queue_offset + len(found), 32)) is not None:
        if result.status is not GetMessageStatus.FOUND:
            break
        found += [int(each.body[:6]) for each in decode_messages(result.body)]
    return found


async def test_what_has_expired_is_gone_everywhere(place: Place, autojump_clock: MockClock) -> None:
    clock = ManualClock(NOON_MS)
    settings: dict[str, object] = {"delete_when": ALL_HOURS, "file_reserved_time": 2, "max_index_num": 100}
    async with opened(place, clock=clock, **settings) as store:
        await fill(store, clock, 600)
        await trio.sleep(59)
        assert store.min_physical_offset == 0
        assert place.disk.list_directory(f"{place.root}/index")
        index_files = len(place.disk.list_directory(f"{place.root}/index"))
        await trio.sleep(20)
        assert store.clean_statistics().deleted_count == 8
        assert store.min_physical_offset == 8 * (1 << 16)
        assert len(place.disk.list_directory(f"{place.root}/index")) < index_files
        first = store.min_offset_in_queue("T", 0)
        assert 400 < first < 480, "of the last two hours everything is there, and what is in their first file"
        assert bodies_from(store, first) == list(range(first, 600))
        result = store.get_message_nowait("T", 0, 0, 32)
        assert result is not None
        assert (result.status, result.next_begin_offset) == (GetMessageStatus.OFFSET_TOO_SMALL, first)
        assert not (await store.query_message("T", "key5", 9, 0, 1 << 62)).body
        assert (await store.query_message("T", "key599", 9, 0, 1 << 62)).body
        assert await store.offset_in_queue_by_time("T", 0, NOON_MS) == first
    async with opened(place, clock=clock, **settings) as store:
        assert bodies_from(store, store.min_offset_in_queue("T", 0)) == list(range(first, 600))
        send(store, b"000600")
    async with opened(place, clock=clock, **settings) as store:
        assert bodies_from(store, first) == list(range(first, 601))


async def test_how_full_a_disk_may_be_is_a_setting(autojump_clock: MockClock) -> None:
    clock, disk = ManualClock(NOON_MS), SimDisk()
    settings = {"clean_file_forcibly_enable": False, "disk_space_warning_level_ratio": 80}
    async with opened(Place(disk, "/store"), clock=clock, **settings) as store:
        await fill(store, clock, 100)
        disk.capacity_bytes = int(disk.used_bytes("/") / 0.84)
        await trio.sleep(11)
        why = "the disk of /store/commitlog is 85% full, messages are taken up to 80% (diskSpaceWarningLevelRatio)"
        assert store.writable_or_why() == why


async def test_without_clean_file_forcibly_nothing_young_is_deleted(autojump_clock: MockClock) -> None:
    """In the state in which room is made otherwise, and for as long."""
    clock, disk = ManualClock(NOON_MS), SimDisk()
    async with opened(Place(disk, "/store"), clock=clock, clean_file_forcibly_enable=False) as store:
        await fill(store, clock, 600)
        disk.capacity_bytes = int(disk.used_bytes("/") / 0.95)
        await trio.sleep(120)
        assert store.writable_or_why() is not None
        assert store.clean_statistics().deleted_count == 0


async def test_queues_without_messages_and_topics_without_use_go_by_command(
    place: Place, autojump_clock: MockClock
) -> None:
    clock = ManualClock(NOON_MS)
    async with opened(place, clock=clock, delete_when=ALL_HOURS, file_reserved_time=1) as store:
        await fill(store, clock, 1, "Old")
        await fill(store, clock, 300)
        await fill(store, clock, 1, "%LMQ%light")
        await fill(store, clock, 1, "SCHEDULE_TOPIC_XXXX")
        await fill(store, clock, 1, "Unused")
        await trio.sleep(80)
        assert await store.clean_expired_consumer_queue() == 1
        assert store.max_offset_in_queue("Old", 0) == 0
        assert await store.clean_unused_topics({"T"}) == {"Unused": store.wrote_offset}
        left = {("T", 0), ("%LMQ%light", 0), ("SCHEDULE_TOPIC_XXXX", 0)}
        assert set(store.queues()) == left
        await fill(store, clock, 2, "Old")
        assert bodies_from(store, 0, "Old") == [0, 1]
    async with opened(place, clock=clock) as store:
        assert set(store.queues()) == left | {("Old", 0)}


# ---- several directories ------------------------------------------------------------------------------------------


def several(place: Place, names: str = "abc", read_only: str = "") -> dict[str, str]:
    return {
        "store_path_commit_log": ",".join(f"{place.root}/{name}/log" for name in names),
        "read_only_commit_log_store_paths": ",".join(f"{place.root}/{name}/log" for name in read_only),
    }


def log_files(place: Place) -> dict[str, list[int]]:
    """The numbers of the files in each directory."""
    return {name: [int(each) >> 16 for each in place.disk.list_directory(f"{place.root}/{name}/log")] for name in "abc"}


async def test_a_log_in_several_directories(place: Place, autojump_clock: MockClock) -> None:
    clock = ManualClock(NOON_MS)
    settings: dict[str, object] = {"delete_when": ALL_HOURS, "file_reserved_time": 1}
    async with opened(place, clock=clock, **several(place), **settings) as store:
        await fill(store, clock, 340)
        assert log_files(place) == {"a": [0, 3, 6], "b": [1, 4], "c": [2, 5]}, "the last is the one in advance"
        assert bodies_from(store, 0) == list(range(340))
    assert log_files(place) == {"a": [0, 3], "b": [1, 4], "c": [2, 5]}
    async with killed(place, clock=clock, **several(place, "abc", "b"), **settings) as store:
        await fill(store, clock, 120)
    assert log_files(place) == {"a": [0, 3, 6, 8], "b": [1, 4], "c": [2, 5, 7]}
    async with opened(place, clock=clock, **several(place, "ac", "b"), **settings) as store:
        assert bodies_from(store, 0) == [*range(340), *range(120)]
        await trio.sleep(90)
        assert store.clean_statistics().deleted_count == 6
        assert log_files(place) == {"a": [6, 8], "b": [], "c": [7]}
        first = store.min_offset_in_queue("T", 0)
        assert bodies_from(store, first) == [*range(340), *range(120)][first:]


class FullDisk(SimDisk):
    """Two disks: that of ``/full`` has no space."""

    def free_bytes(self, path: str) -> int:
        return 0 if path.startswith("/full/") else super().free_bytes(path)


async def test_room_in_a_read_only_directory_is_none_for_the_log(autojump_clock: MockClock) -> None:
    disk = FullDisk()
    for path in ("/full/log", "/old/log"):
        disk.make_directories(path)
    directories = {"store_path_commit_log": "/full/log,/old/log", "read_only_commit_log_store_paths": "/old/log"}
    async with opened(Place(disk, "/store"), **directories) as store:
        await trio.sleep(11)
        assert (store.writable_or_why() or "").startswith("the disk of /full/log is 100% full")
