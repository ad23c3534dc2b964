"""Descriptors of deleted files are closed off the event loop, soon, and in any case at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import trio
import trio.testing

from rocketpy.store.disk.interface import DiskFile
from rocketpy.store.services.close_files import CloseFilesService
from rocketpy.testing.sim.disk import SimDisk
from tests.turns import run_in_turn

T = TypeVar("T")


def deleted_file(disk: SimDisk) -> DiskFile:
    """Return a file that takes space although it has no name."""
    file = disk.open("/x", create=True)
    file.reserve(0, 4096)
    disk.unlink("/x")
    assert disk.used_bytes("/") == 4096
    return file


async def test_files_are_closed_as_they_come() -> None:
    disk = SimDisk()
    service = CloseFilesService(run_blocking=run_in_turn)
    async with trio.open_nursery() as nursery:
        await nursery.start(service.run)
        for _ in range(2):
            service.close(deleted_file(disk))
            await trio.testing.wait_all_tasks_blocked()
            assert disk.used_bytes("/") == 0
        nursery.cancel_scope.cancel()


async def test_who_waits_knows_that_the_space_is_free() -> None:
    disk = SimDisk()
    service = CloseFilesService(run_blocking=run_in_turn)
    await service.wait_closed()
    service.close(deleted_file(disk))
    await service.wait_closed()
    assert disk.used_bytes("/") == 0


async def test_at_the_end_nothing_stays_open() -> None:
    disk = SimDisk()
    blocked = trio.Event()

    async def never(function: Callable[..., T], /, *arguments: object) -> T:
        blocked.set()
        await trio.Event().wait()
        return function(*arguments)

    service = CloseFilesService(run_blocking=never)
    async with trio.open_nursery() as nursery:
        await nursery.start(service.run)
        nursery.cancel_scope.cancel()
        service.close(deleted_file(disk))
    assert disk.used_bytes("/") == 0
    assert not blocked.is_set()
