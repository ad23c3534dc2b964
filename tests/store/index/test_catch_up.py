"""Reading the log again for the index: everything once, in order, and then append takes over."""

from __future__ import annotations

import attrs
import pytest
import trio
import trio.testing

from rocketpy.errors import StoreError
from rocketpy.store.index.catch_up import WINDOW_SIZE, IndexCatchUp, ReputMessageService
from rocketpy.store.index.feed import IndexWork
from rocketpy.store.index.hash import hash_index_key
from rocketpy.store.index.kernels import index_kernels
from rocketpy.testing.sim.disk import SimDisk
from tests.store.parts import Parts, Place, PlainIndex
from tests.turns import run_in_turn

KERNELS = {"general": None, "kernels": index_kernels()}


@pytest.fixture(autouse=True, params=KERNELS)
def either_path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs by the general path and by the kernels."""
    monkeypatch.setitem(KERNELS, "chosen", KERNELS[request.param])


def hashed(works: list[IndexWork]) -> list[tuple[int, ...]]:
    """Return hash, physical offset and timestamp of each key."""
    return [(hash_index_key(topic, key.decode()), *place) for topic, keys, *place in works for key in keys]


def taken(index: PlainIndex) -> list[tuple[int, ...]]:
    """Return what the index was given; by the kernels until append takes over."""
    assert KERNELS["chosen"] is not None or not index.packed
    return index.packed + hashed(index.pending)


def put_keyed(parts: Parts, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        key = b"k%d" % number
        parts.put(b"x" * (number * 37 % 900), properties=b"UNIQ_KEY\x01" + key, keys=(key,))
    parts.appender.end_burst()


def catch_up_of(
    parts: Parts, begin_offset: int = 0, window_size: int = WINDOW_SIZE
) -> tuple[Parts, IndexCatchUp, PlainIndex]:
    """Open the same store again, with a new index; return it with the index's way to the end of the log."""
    parts.close()
    again = Parts(parts.place, hands_over_to_index=False)
    catch_up = IndexCatchUp(
        commit_log=again.commit_log,
        appender=again.appender,
        index=again.index,
        begin_offset=begin_offset,
        run_blocking=run_in_turn,
        window_size=window_size,
        kernels=KERNELS["chosen"],
    )
    return again, catch_up, again.index


@pytest.mark.parametrize("window_size", [8, 100, 1000, 1 << 16])
async def test_the_index_gets_what_append_gave_it(place: Place, window_size: int) -> None:
    parts = Parts(place)
    put_keyed(parts, 60)
    parts.put(b"none")
    parts.put(b"gone", properties=b"KEYS\x01r", keys=(b"r",), sys_flag=0xC)
    parts.put(b"two", properties=b"KEYS\x01a b", keys=(b"a", b"b"))
    parts.appender.end_burst()
    given = list(parts.index_work)
    parts, catch_up, index = catch_up_of(parts, window_size=window_size)
    assert catch_up.behind_bytes == parts.commit_log.wrote_offset
    while await catch_up.step():
        pass
    assert taken(index) == hashed(given)
    assert catch_up.behind_bytes == 0
    assert not await catch_up.step()


async def test_what_is_sent_meanwhile_is_read_too_and_then_handed_over(place: Place) -> None:
    parts = Parts(place)
    put_keyed(parts, 50)
    parts, catch_up, index = catch_up_of(parts)
    number = 50
    while await catch_up.step():
        if number < 90:
            put_keyed(parts, 1, first=number)
            number += 1
            parts.put(b"y", properties=b"UNIQ_KEY\x01k%d" % number, keys=(b"k%d" % number,))  # its burst goes on
            number += 1
    put_keyed(parts, 10, first=number)
    assert [key for key, _, _ in taken(index)] == [
        hash_index_key("TopicTest", f"k{each}") for each in range(number + 10)
    ]


async def test_it_may_begin_after_the_beginning(place: Place) -> None:
    parts = Parts(place)
    put_keyed(parts, 30)
    given = list(parts.index_work)
    tenth = given[10][2]
    parts, catch_up, index = catch_up_of(parts, begin_offset=tenth)
    while await catch_up.step():
        pass
    assert taken(index) == hashed(given[10:])


async def test_without_space_for_the_index_it_waits(place: Place) -> None:
    parts = Parts(place)
    put_keyed(parts, 5)
    parts, catch_up, index = catch_up_of(parts)
    index.no_space = "the index has no space"
    assert await catch_up.step()
    assert taken(index) == []
    index.no_space = None
    while await catch_up.step():
        pass
    assert len(taken(index)) == 5


async def test_a_query_waits_for_what_was_stored_before_it(place: Place) -> None:
    parts = Parts(place)
    put_keyed(parts, 60)
    end = parts.commit_log.wrote_offset
    parts, catch_up, _ = catch_up_of(parts, window_size=2000)
    put_keyed(parts, 60, first=60)
    read_at_return: list[int] = []

    async def wait() -> None:
        await catch_up.wait_read(end)
        read_at_return.append(catch_up.missing_bytes(parts.commit_log.wrote_offset))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        assert catch_up.missing_bytes(end) == end
        while await catch_up.step():
            await trio.testing.wait_all_tasks_blocked()
    assert 0 < read_at_return[0] <= parts.commit_log.wrote_offset - end, "not for what came after it"
    assert catch_up.missing_bytes(end) == 0
    await catch_up.wait_read(end)


async def test_a_query_does_not_wait_for_space(place: Place) -> None:
    parts = Parts(place)
    put_keyed(parts, 5)
    parts, catch_up, index = catch_up_of(parts)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(catch_up.wait_read, parts.commit_log.wrote_offset)
        await trio.testing.wait_all_tasks_blocked()
        index.no_space = "the index has no space"
        await catch_up.step()
    assert catch_up.missing_bytes(1) == 1


async def test_cold_bytes_are_read_by_the_worker() -> None:
    disk = SimDisk()
    place = Place(disk, "/store")
    parts = Parts(place)
    put_keyed(parts, 5)
    disk.evict(place.log_file())
    parts, catch_up, index = catch_up_of(parts)
    while await catch_up.step():
        pass
    assert len(taken(index)) == 5


@pytest.mark.parametrize("is_cold", [False, True])
async def test_files_that_are_deleted_meanwhile_are_skipped(is_cold: bool) -> None:
    disk = SimDisk()
    parts = Parts(Place(disk, "/store"))
    put_keyed(parts, 60)
    given = [each[2] for each in parts.index_work]
    parts, catch_up, index = catch_up_of(parts, window_size=1000)
    commit_log = parts.commit_log
    commit_log.flushed_offset = commit_log.wrote_offset
    assert await catch_up.step()
    read = len(taken(index))
    for _ in range(2):
        mapped_file = commit_log.take_first(lambda file: file.close())
        disk.unlink(mapped_file.path)
    if is_cold:
        for mapped_file in commit_log.files:
            disk.evict(mapped_file.path)
    while await catch_up.step():
        pass
    left = [place for place in given if place >= commit_log.min_offset]
    assert [offset for _, offset, _ in taken(index)] == given[:read] + left
    assert 0 < read < len(given) - len(left)


@attrs.define(eq=False)
class Steps:
    behind_bytes: int
    is_full: bool = False
    step_count: int = 0
    error: StoreError | None = None

    async def step(self) -> bool:
        self.step_count += 1
        if self.error is not None:
            raise self.error
        if self.is_full:
            return True
        if self.behind_bytes == 0:
            return False
        self.behind_bytes -= 1
        return True


async def test_it_ends_when_it_has_caught_up(autojump_clock: trio.testing.MockClock) -> None:
    steps = Steps(100)
    service = ReputMessageService(catch_up=steps)
    assert service.behind_bytes == 100
    await service.run()
    assert (service.behind_bytes, steps.step_count) == (0, 101)
    assert trio.current_time() == 0, "without a pause"


async def test_it_waits_where_there_is_no_space(autojump_clock: trio.testing.MockClock) -> None:
    steps = Steps(10, is_full=True)
    async with trio.open_nursery() as nursery:
        await nursery.start(ReputMessageService(catch_up=steps).run)
        await trio.sleep(5.5)
        assert steps.step_count <= 7
        steps.is_full = False
        await trio.sleep(2)
    assert steps.behind_bytes == 0


async def test_a_broken_disk_ends_it() -> None:
    with pytest.raises(StoreError):
        await ReputMessageService(catch_up=Steps(1, error=StoreError("cannot read", path="/log"))).run()
