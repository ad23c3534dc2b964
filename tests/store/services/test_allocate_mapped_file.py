"""A log file appears whole, in advance if there is time, and never twice."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

import pytest
import trio
import trio.testing

from rocketpy.errors import DiskFullError, StoreError
from rocketpy.store.services.allocate_mapped_file import AllocateMappedFileService
from rocketpy.testing.sim.disk import SimDisk
from tests.store.deaths import different_disks, noted_deaths
from tests.turns import run_in_turn

T = TypeVar("T")
SIZE = 16_384
FIRST, SECOND = "/log/00000000000000000000", "/log/00000000000000016384"


def new_disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directories("/log")
    disk.sync_directory("/log")
    return disk


def new_service(
    disk: SimDisk, run_blocking: Callable[..., Awaitable[object]] = run_in_turn, *, is_zero_filled: bool = False
) -> AllocateMappedFileService:
    return AllocateMappedFileService(
        disk=disk,
        run_blocking=run_blocking,  # type: ignore[arg-type]
        is_zero_filled=is_zero_filled,
    )


@pytest.mark.parametrize("is_zero_filled", [False, True])
async def test_a_file_is_made_in_advance(is_zero_filled: bool, autojump_clock: trio.testing.MockClock) -> None:
    disk = new_disk()
    service = new_service(disk, is_zero_filled=is_zero_filled)
    async with trio.open_nursery() as nursery:
        await nursery.start(service.run)
        service.prepare(FIRST, SIZE)
        await trio.testing.wait_all_tasks_blocked()
        assert disk.list_directory("/log") == ["00000000000000000000"]
        calls = disk.change_count
        service.take(FIRST, SIZE)
        assert disk.change_count == calls, "it was there already"
        service.prepare(SECOND, SIZE)
        await trio.testing.wait_all_tasks_blocked()
        service.take(SECOND, SIZE)
        nursery.cancel_scope.cancel()
    disk.lose_power(lambda count: 0)
    for path in (FIRST, SECOND):
        assert disk.open(path).read(0, SIZE) == bytes(SIZE)
    assert disk.calls["write"] == (2 if is_zero_filled else 0)


@pytest.mark.parametrize(("sync_each_bytes", "syncs"), [(4096, 4), (5000, 4), (8192, 2), (SIZE, 1), (1 << 30, 1)])
def test_a_file_can_be_filled_with_a_sync_now_and_then(sync_each_bytes: int, syncs: int) -> None:
    disk = new_disk()
    before = disk.calls["sync"]
    service = AllocateMappedFileService(
        disk=disk, run_blocking=run_in_turn, is_zero_filled=True, sync_each_bytes=sync_each_bytes
    )
    service.take(FIRST, SIZE)
    assert disk.calls["sync"] - before == syncs
    assert disk.open(FIRST).read(0, SIZE) == bytes(SIZE)


def test_a_file_that_was_not_asked_for_is_made_at_once() -> None:
    disk = new_disk()
    service = new_service(disk)
    service.take(FIRST, SIZE)
    assert disk.file_size(FIRST) == SIZE
    service.prepare(SECOND, SIZE)
    service.take(SECOND, SIZE)
    assert disk.list_directory("/log") == ["00000000000000000000", "00000000000000016384"]
    service.discard()


def test_a_file_left_by_a_crash_is_used() -> None:
    disk = new_disk()
    new_service(disk).take(FIRST, SIZE)
    disk.kill_process()
    calls = disk.change_count
    new_service(disk).take(FIRST, SIZE)
    assert disk.change_count == calls + 1, "its directory is synced: the crash may have come before that"


async def test_take_waits_for_the_thread_that_is_at_it() -> None:
    disk = new_disk()
    begun = threading.Event()

    def slow_make(function: Callable[..., T], *arguments: object) -> T:
        begun.set()
        return function(*arguments)

    async def run_blocking(function: Callable[..., T], *arguments: object) -> T:
        return await trio.to_thread.run_sync(slow_make, function, *arguments)

    service = new_service(disk, run_blocking)
    async with trio.open_nursery() as nursery:
        await nursery.start(service.run)
        service.prepare(FIRST, SIZE)
        await trio.to_thread.run_sync(begun.wait)
        service.take(FIRST, SIZE)
        assert disk.list_directory("/log") == ["00000000000000000000"]
        assert disk.calls["reserve"] == 1
        nursery.cancel_scope.cancel()


async def test_a_thread_that_comes_too_late_makes_nothing() -> None:
    disk = new_disk()
    may_run = trio.Event()

    async def run_blocking(function: Callable[..., T], *arguments: object) -> T:
        await may_run.wait()
        return function(*arguments)

    service = new_service(disk, run_blocking)
    async with trio.open_nursery() as nursery:
        await nursery.start(service.run)
        service.prepare(FIRST, SIZE)
        await trio.testing.wait_all_tasks_blocked()
        service.take(FIRST, SIZE)
        may_run.set()
        await trio.testing.wait_all_tasks_blocked()
        assert disk.calls["reserve"] == 1
        nursery.cancel_scope.cancel()


async def test_a_full_disk_is_reported_by_take() -> None:
    disk = new_disk()
    disk.capacity_bytes = SIZE - 1
    service = new_service(disk)
    async with trio.open_nursery() as nursery:
        await nursery.start(service.run)
        service.prepare(FIRST, SIZE)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(DiskFullError):
            service.take(FIRST, SIZE)
        assert disk.list_directory("/log") == []
        disk.capacity_bytes = SIZE
        service.take(FIRST, SIZE)
        nursery.cancel_scope.cancel()
    assert disk.file_size(FIRST) == SIZE


async def test_a_broken_disk_ends_the_service() -> None:
    disk = new_disk()
    disk.fail_call("sync")
    service = new_service(disk)
    with pytest.RaisesGroup(StoreError):
        async with trio.open_nursery() as nursery:
            await nursery.start(service.run)
            service.prepare(FIRST, SIZE)


async def test_a_clean_shutdown_leaves_no_preallocated_file() -> None:
    disk = new_disk()
    service = new_service(disk)
    async with trio.open_nursery() as nursery:
        await nursery.start(service.run)
        service.prepare(FIRST, SIZE)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    service.discard()
    service.discard()
    assert disk.list_directory("/log") == []


@pytest.mark.parametrize("loses", [None, Random(0).randrange])
def test_after_every_death_a_file_is_whole_or_not_there(loses: Callable[[int], int] | None) -> None:
    undisturbed = new_disk()
    with noted_deaths(undisturbed) as deaths:
        new_service(undisturbed, is_zero_filled=True).take(FIRST, SIZE)
    for disk in different_disks(deaths, loses):
        assert disk.list_directory("/log") in ([], ["00000000000000000000"])
        if disk.exists(FIRST):
            assert disk.file_size(FIRST) == SIZE
        new_service(disk).take(FIRST, SIZE)
        assert disk.open(FIRST).read(0, SIZE) == bytes(SIZE)
