"""The index follows the log, gives what Java's gives, and loses only what can be read again."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import pytest
import trio
import trio.testing

from rocketpy.clock import ManualClock
from rocketpy.errors import StoreError
from rocketpy.protocol.properties import index_keys_of
from rocketpy.runner import RunBlocking
from rocketpy.store.index.feed import IndexWork
from rocketpy.store.index.file import ChainSteps, IndexLayout
from rocketpy.store.index.file_list import IndexFileList
from rocketpy.store.index.hash import hash_before_key, hash_of_key
from rocketpy.store.index.kernels import index_kernels
from rocketpy.store.index.service import PENDING_MAX, IndexService, QueryOffsetResult
from rocketpy.store.recovery.checkpoint import StoreCheckpoint, load_checkpoint
from rocketpy.testing.sim.disk import SimDisk
from tests.store.golden_store import records, unpack_store
from tests.turns import run_in_turn

T = TypeVar("T")
NOW = 1_700_000_000_000
LAYOUT = IndexLayout(slot_count=50, entry_count=11)
"""Of a file that ten keys fill."""

LARGE = IndexLayout(slot_count=50, entry_count=1 << 17)
EVER = (0, 1 << 62)
KERNELS = {"general": None, "kernels": index_kernels()}


@pytest.fixture(autouse=True, params=KERNELS)
def either_path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs by the general path and by the kernels."""
    monkeypatch.setitem(KERNELS, "chosen", KERNELS[request.param])


def new_service(
    disk: SimDisk | None = None,
    *,
    layout: IndexLayout = LAYOUT,
    is_clean: bool = True,
    checkpoint: StoreCheckpoint | None = None,
    run_blocking: RunBlocking = run_in_turn,
) -> IndexService:
    """Load an index, by the path that is chosen."""
    disk = disk or SimDisk()
    files = IndexFileList(
        path="/index",
        disk=disk,
        clock=ManualClock(),
        checkpoint=checkpoint or load_checkpoint(disk, "/checkpoint"),
        layout=layout,
    )
    service = IndexService(
        files=files, disk=disk, run_blocking=run_blocking, query_count_max=64, kernels=KERNELS["chosen"]
    )
    service.load(is_clean=is_clean, log_end_offset=1 << 62)
    return service


@asynccontextmanager
async def running(service: IndexService) -> AsyncIterator[None]:
    """The service at work."""
    async with trio.open_nursery() as nursery:
        await nursery.start(service.run)
        yield
        nursery.cancel_scope.cancel()


def work(number: int, *keys: str, topic: str = "TopicTest") -> IndexWork:
    """Message n: at physical offset 100 n, of second n."""
    return topic, [key.encode() for key in keys] or [b"key%d" % number], number * 100, NOW + number * 1_000


async def offsets(service: IndexService, key: str, topic: str = "TopicTest", count: int = 64) -> list[int]:
    return (await service.query_offset(topic, key, count, *EVER)).physical_offsets


class TestBuilding:
    async def test_a_query_finds_what_was_only_just_appended(self) -> None:
        service = new_service()
        assert await service.query_offset("TopicTest", "key1", 9, *EVER) == QueryOffsetResult([], 0, 0)
        service.pending += [work(1), work(2, "a", "b"), work(3, "b", "größe")]
        assert service.behind == 3
        assert await offsets(service, "b") == [300, 200]
        assert await offsets(service, "größe") == [300]
        assert await offsets(service, "key1") == [100]
        assert await offsets(service, "key1", topic="Other") == []
        assert service.behind == 0
        result = await service.query_offset("TopicTest", "nothing", 9, *EVER)
        assert result == QueryOffsetResult([], NOW + 3_000, 300)

    async def test_a_key_that_a_message_repeats_has_one_entry(self) -> None:
        """A message with 128 equal keys would make a chain of 128 entries, which each query of it has to walk."""
        service = new_service(layout=IndexLayout(50, 500))
        service.pending += [work(1, *["same"] * 128), work(2, "same", "other", "same"), work(3, "same")]
        packed, _ = index_kernels().hash_work(
            [work(4, "same", "same"), work(5, "same")], 1 << 30, hash_before_key, hash_of_key
        )
        service.pending.append(("TopicTest", packed, 400, NOW + 5_000))
        service.build()
        service.build_packed(struct.pack(">iqq", 5, 600, NOW) * 2, index_kernels())
        assert service.statistics().key_count == 1 + 2 + 1 + 2 + 1
        assert await offsets(service, "same") == [500, 400, 300, 200, 100]
        assert await offsets(service, "other") == [200]

    async def test_one_query_walks_no_more_than_its_steps_over_all_files(self) -> None:
        """The layout has room for 9 keys in a file."""
        service = new_service()
        service.pending += [work(number, "same") for number in range(1, 41)]
        steps = ChainSteps(25)
        found = await service.query_offset("TopicTest", "same", 64, 0, NOW + 5_000, steps)
        assert (found.physical_offsets, steps.is_short) == ([500, 400, 300, 200, 100], False)
        steps = ChainSteps(25)
        found = await service.query_offset("TopicTest", "same", 64, *EVER, steps)
        assert (len(found.physical_offsets), steps.is_short) == (25, True)

    async def test_a_period_may_begin_in_the_second_in_which_one_file_ends_and_the_next_begins(self) -> None:
        service = new_service()
        seconds = [0] * 8 + [1] * 4  # the second file begins with the eleventh message
        service.pending += [
            ("TopicTest", [b"same"], 100 * number, NOW + 1_000 * second) for number, second in enumerate(seconds, 1)
        ]
        found = await service.query_offset("TopicTest", "same", 64, NOW + 1_000, NOW + 9_000)
        assert found.physical_offsets == [1200, 1100, 1000, 900]

    async def test_no_more_than_the_configured_number_is_found(self) -> None:
        service = new_service(layout=IndexLayout(50, 500))
        service.pending += [work(number, "same") for number in range(100)]
        assert len(await offsets(service, "same", count=1_000)) == 64

    async def test_it_lags_a_little(self, autojump_clock: trio.testing.MockClock) -> None:
        service = new_service()
        async with running(service):
            service.end_burst()
            for number in range(1, 6):
                service.pending.append(work(number))
                service.end_burst()
            assert service.behind == 5
            await trio.sleep(0.1)
            assert service.behind == 0
            service.pending.append(work(6))
            service.end_burst()
            await trio.sleep(0.1)
            assert service.statistics().key_count == 6

    def test_too_much_waiting_is_built_at_once(self) -> None:
        service = new_service(layout=IndexLayout(1_000, 100_000))
        pending = service.pending
        pending += [work(number) for number in range(PENDING_MAX + 1)]
        service.end_burst()
        assert len(service.pending) <= PENDING_MAX
        assert service.pending is pending

    def test_what_waits_is_counted_in_keys(self) -> None:
        """A message may have many: not memory, nor the time that a slice takes, may depend on how many."""
        service = new_service(layout=LARGE)
        keys = [f"k{number}" for number in range(128)]
        service.pending += [work(number, *keys) for number in range(PENDING_MAX // 128)]
        service.end_burst()
        assert service.statistics().key_count == 0, "as many as may wait"
        service.pending += [work(1000, *keys), work(1001)]
        service.end_burst()
        assert service.statistics().key_count == 512, "one slice, of four messages"
        service.build_slice()
        assert service.statistics().key_count == 1024
        service.build()
        assert service.statistics().key_count == PENDING_MAX + 129
        assert service.behind == 0
        service.pending.append(work(1002))
        service.end_burst()
        service.build_slice()
        assert service.behind == 0

    def test_a_burst_builds_no_more_than_is_quick(self) -> None:
        """A batch may bring any number of keys: those are built over the next bursts."""
        service = new_service(layout=LARGE)
        service.pending += [work(number, *(f"k{key}" for key in range(100))) for number in range(500)]
        counts: list[int] = []
        while not counts or service.is_full:
            service.end_burst()
            counts.append(service.statistics().key_count)
        assert counts[0] < 1024
        assert max(later - earlier for earlier, later in pairwise(counts)) < 10_000
        assert len(counts) == 5

    async def test_who_brings_many_keys_waits_for_room(self) -> None:
        service = new_service(layout=LARGE)
        service.pending += [work(number, *(f"k{key}" for key in range(100))) for number in range(500)]
        service.end_burst()
        was_full = service.is_full
        await service.wait_room()
        assert (was_full, service.is_full) == (True, False)
        assert service.behind > 100, "and no longer"

    async def test_no_caller_waits_for_room_while_the_disk_is_full(self) -> None:
        service = new_service(SimDisk(capacity_bytes=0))
        service.pending += [work(number) for number in range(PENDING_MAX + 1000)]
        service.end_burst()
        await service.wait_room()
        assert service.writable_or_why() is not None

    async def test_a_query_waits_for_all_keys_that_were_there_before_it(self) -> None:
        service = new_service(layout=LARGE)
        keys = [f"k{number}" for number in range(100)]
        service.pending += [*(work(number, *keys) for number in range(100)), work(100, "last")]
        assert await offsets(service, "last") == [10_000]


class TestDurability:
    async def test_no_file_is_covered_before_its_sync(self, autojump_clock: trio.testing.MockClock) -> None:
        """Others write the checkpoint too, in the middle of that sync as well."""
        disk = SimDisk()
        seen: list[int] = []

        async def run_blocking(function: Callable[..., T], /, *arguments: object) -> T:
            await trio.lowlevel.checkpoint()
            before = disk.calls["sync_directory"]
            checkpoint.flush()
            seen.append(load_checkpoint(disk, "/checkpoint").index_msg_timestamp_ms)
            result = function(*arguments)
            if disk.calls["sync_directory"] > before + 1:  # that of the checkpoint's first flush, and the index's
                checkpoint.flush()
                seen.append(load_checkpoint(disk, "/checkpoint").index_msg_timestamp_ms)
            return result

        checkpoint = load_checkpoint(disk, "/checkpoint")
        service = new_service(disk, run_blocking=run_blocking, checkpoint=checkpoint)
        async with running(service):
            service.pending += [work(number) for number in range(1, 13)]
            service.end_burst()
            await trio.sleep(1)
        assert seen == [0, 0, NOW + 10_000], "before, and after the sync itself; and when it was noted"

    async def test_a_failed_sync_is_final(self, autojump_clock: trio.testing.MockClock) -> None:
        disk = SimDisk()
        service = new_service(disk)
        disk.fail_call("sync")
        with pytest.RaisesGroup(StoreError):
            async with trio.open_nursery() as nursery:
                await nursery.start(service.run)
                service.pending += [work(number) for number in range(1, 13)]
                service.end_burst()
        assert not disk.exists("/checkpoint")

    @pytest.mark.parametrize(
        ("is_clean", "found"), [(True, [600, 500, 400]), (False, [600, 500, 500])], ids=["clean", "crash"]
    )
    async def test_the_last_message_is_read_again_only_after_a_crash(self, is_clean: bool, found: list[int]) -> None:
        """One of its keys may be in a file that is lost; after a clean shutdown it is complete."""
        disk = SimDisk()
        checkpoint = load_checkpoint(disk, "/checkpoint")
        service = new_service(disk, checkpoint=checkpoint)
        # Ten keys fill a file, so the last key of the last message is alone in the next one.
        service.pending += [work(0, "c"), *(work(number, "a", "b") for number in range(1, 6))]
        service.flush()
        checkpoint.index_msg_timestamp_ms = NOW + 5_000
        checkpoint.flush()
        again = new_service(disk, is_clean=is_clean)
        again.pending += [work(number, "a", "b") for number in range(5, 7)]
        assert await offsets(again, "a", count=3) == found
        assert await offsets(again, "b", count=3) == [600, 500, 400]


class TestDeletion:
    async def test_a_query_that_is_under_way_keeps_its_files(self) -> None:
        disk = SimDisk()
        may_read = trio.Event()

        async def slow(function: Callable[..., T], /, *arguments: object) -> T:
            if function.__name__ == "_select":
                await may_read.wait()
            return function(*arguments)

        service = new_service(disk, run_blocking=slow)
        service.pending += [work(number, "same") for number in range(1, 16)]
        service.flush()
        found: list[int] = []

        async def query() -> None:
            found.extend(await offsets(service, "same"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(query)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(service.delete_expired_files, 1 << 40)
            await trio.testing.wait_all_tasks_blocked()
            assert len(disk.list_directory("/index")) == 2
            may_read.set()
        assert len(found) == 15
        assert len(disk.list_directory("/index")) == 1
        assert await offsets(service, "same") == [number * 100 for number in range(15, 10, -1)]


class TestFullDisk:
    async def test_building_stops_and_goes_on(self, autojump_clock: trio.testing.MockClock) -> None:
        disk = SimDisk(capacity_bytes=2 * 4096)
        service = new_service(disk)
        async with running(service):
            service.pending += [work(number, "same", f"key{number}") for number in range(1, 15)]
            service.end_burst()
            await trio.sleep(0.1)
            why = service.writable_or_why()
            assert why is not None
            assert why.startswith("the index has no space: no space: ")
            assert service.behind
            assert await offsets(service, "same") == [number * 100 for number in range(10, 0, -1)]
            disk.capacity_bytes = 1 << 20
            await trio.sleep(3)
            assert service.writable_or_why() is None
            assert await offsets(service, "same") == [number * 100 for number in range(14, 0, -1)]
            assert service.statistics().key_count == 28

    def test_waiting_keys_are_not_built_over_and_over(self) -> None:
        disk = SimDisk(capacity_bytes=0)
        service = new_service(disk)
        service.pending += [work(number) for number in range(PENDING_MAX + 10)]
        service.end_burst()
        calls = disk.change_count
        service.end_burst()
        assert disk.change_count == calls


class TestJava:
    def _rebuilt(self, name: str, directory: Path) -> SimDisk:
        root = unpack_store(name, directory)
        disk = SimDisk()
        service = new_service(disk, layout=IndexLayout(500, 2_000))
        for record in records(root):
            keys = index_keys_of(record.properties)
            if keys and record.sys_flag & 0xC != 0xC:
                service.pending.append((record.topic, keys, record.physical_offset, record.store_timestamp))
        service.build()
        return disk

    @pytest.mark.parametrize("name", ["store-clean", "store-ipv6", "store-ext", "store-multi"])
    def test_the_same_messages_make_the_same_bytes(self, name: str, tmp_path: Path) -> None:
        disk = self._rebuilt(name, tmp_path)
        theirs = [path.read_bytes() for path in sorted((tmp_path / "index").iterdir())]
        ours = [disk.open(f"/index/{each}").read(0, 1 << 20) for each in disk.list_directory("/index")]
        assert ours == theirs


class TestKeysOfBatches:
    """As the kernel makes them that writes a batch's records; other messages come before and after."""

    def batch(self, numbers: Sequence[int], *keys: str) -> IndexWork:
        works = [work(number, *keys) for number in numbers]
        packed, _ = index_kernels().hash_work(works, 1 << 30, hash_before_key, hash_of_key)
        return "TopicTest", packed, numbers[0] * 100, NOW + numbers[-1] * 1_000

    async def test_they_are_found_beside_those_of_messages(self) -> None:
        service = new_service()
        service.pending += [work(1, "same"), self.batch(range(2, 20), "same"), self.batch([20], "same")]
        service.pending += [work(21, "same", "other"), self.batch([22], "same", "other")]
        assert await offsets(service, "same") == [number * 100 for number in range(22, 0, -1)]
        assert await offsets(service, "other") == [2200, 2100]
        assert service.behind == 0

    def test_they_are_counted_at_the_end_of_the_burst_that_brings_them(self) -> None:
        service = new_service(layout=LARGE)
        service.pending.append(self.batch(range(500)))
        service.end_burst(has_packed=True)
        assert service.statistics().key_count == 0, "less than a slice"
        service.pending += [work(500), self.batch(range(501, 520))]
        service.end_burst(has_packed=True)
        built = service.statistics().key_count
        assert built in (500, 520), "one slice: the keys of a batch are not divided, and alone in plain Python"
        service.pending += [self.batch(range(1000 * number, 1000 * number + 1000)) for number in range(1, 20)]
        service.end_burst(has_packed=True)
        assert service.statistics().key_count < 2000, "one slice"
        assert service.is_full
        service.end_burst()
        assert not service.is_full, "so later bursts build more"
        service.build()
        assert service.statistics().key_count == 19_520

    async def test_those_that_the_last_run_has_built_are_not_built_again(self) -> None:
        disk = SimDisk()
        service = new_service(disk)
        service.pending.append(self.batch(range(1, 4), "same"))
        service.flush()
        service.close()
        again = new_service(disk)
        again.pending += [self.batch([3], "same"), self.batch(range(4, 6), "same")]
        assert await offsets(again, "same") == [500, 400, 300, 200, 100]


class TestKeysFromTheLog:
    """As the kernels read them, before append gives any."""

    KERNELS = index_kernels()

    def packed(self, *works: IndexWork) -> bytes:
        return self.KERNELS.hash_work(list(works), 1_000, hash_before_key, hash_of_key)[0]

    async def test_they_are_built_at_once(self) -> None:
        service = new_service()
        service.build_packed(self.packed(*(work(number) for number in range(1, 31))), self.KERNELS)
        assert service.behind == 0
        assert [await offsets(service, f"key{number}") for number in (1, 10, 30)] == [[100], [1000], [3000]]

    async def test_what_a_full_disk_leaves_is_built_later_in_order(self) -> None:
        disk = SimDisk()
        service = new_service(disk)
        service.build_packed(self.packed(work(1, "same")), self.KERNELS)
        disk.capacity_bytes = disk.used_bytes("/")
        numbers = iter(range(2, 1_000))
        while service.writable_or_why() is None:  # until the file is full, and there is no space for another
            service.build_packed(self.packed(*(work(next(numbers), "same") for _ in range(4))), self.KERNELS)
        service.build_packed(self.packed(work(next(numbers), "same")), self.KERNELS)
        assert service.behind == 1
        disk.capacity_bytes *= 100
        service.build()
        assert service.behind == 0
        found = await offsets(service, "same", count=1_000)
        assert found == [number * 100 for number in reversed(range(1, next(numbers)))]

    async def test_what_the_last_run_has_built_is_not_built_again(self) -> None:
        disk = SimDisk()
        service = new_service(disk)
        service.build_packed(self.packed(*(work(number, "a", "b") for number in range(1, 4))), self.KERNELS)
        service.flush()
        service.close()
        again = new_service(disk)
        again.build_packed(self.packed(*(work(number, "a", "b") for number in range(3, 6))), self.KERNELS)
        assert await offsets(again, "a") == [500, 400, 300, 200, 100]
        assert await offsets(again, "b") == [500, 400, 300, 200, 100]

    async def test_a_file_that_they_fill_is_synced_at_once(self, autojump_clock: trio.testing.MockClock) -> None:
        disk = SimDisk()
        checkpoint = load_checkpoint(disk, "/checkpoint")
        service = new_service(disk, checkpoint=checkpoint)
        async with running(service):
            await trio.testing.wait_all_tasks_blocked()
            service.build_packed(self.packed(*(work(number) for number in range(1, 13))), self.KERNELS)
            await trio.sleep(1)
            assert checkpoint.index_msg_timestamp_ms == NOW + 10_000
