"""What of a real log is there to be sent, warm and cold, at file ends and after deletion."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import trio
import trio.testing

from rocketpy.store.ha.log_source import CommitLogSource
from rocketpy.store.log.commit_log import CommitLog
from rocketpy.testing.sim.disk import SimDisk
from tests.store.log.test_commit_log import log_at
from tests.store.parts import Place

T = TypeVar("T")


async def run_now(function: Callable[..., T], *arguments: object) -> T:
    await trio.lowlevel.checkpoint()
    return function(*arguments)


def a_log(place: Place) -> CommitLog:
    """Two files of 100 bytes: the first is full, the second has 30."""
    log = log_at(place)
    log.add_file()
    log.write(bytes(range(92)), 1)
    log.add_file()
    log.write(bytes(range(100, 130)), 2)
    return log


async def test_bytes_are_read_up_to_the_end_of_their_file_and_of_the_log(place: Place) -> None:
    source = CommitLogSource(a_log(place), run_blocking=run_now)
    assert (source.min_offset, source.end_offset, source.file_size) == (0, 130, 100)
    for read in (source.read_nowait, source.read):
        for offset, size, expected in (
            (0, 10, bytes(range(10))),
            (85, 7, bytes(range(85, 92))),
            (92, 500, b"\0\0\0\x08\xcb\xd4\x31\x94"),
            (100, 5, bytes(range(100, 105))),
            (105, 500, bytes(range(105, 130))),
            (130, 1, b""),
            (500, 1, b""),
        ):
            found = read(offset, size)
            assert (await found if not isinstance(found, bytes | None) else found) == expected, (read, offset)


async def test_cold_bytes_are_left_to_the_worker() -> None:
    disk = SimDisk()
    log = a_log(Place(disk, "/store"))
    source = CommitLogSource(log, run_blocking=run_now)
    disk.evict(log.files[0].path)
    assert source.read_nowait(0, 10) is None
    assert await source.read(0, 10) == bytes(range(10))
    assert source.read_nowait(0, 10) == bytes(range(10)), "the read has warmed them"


async def test_deleted_files_are_no_longer_there_even_for_a_read_that_is_under_way(place: Place) -> None:
    log = a_log(place)
    log.flushed_offset = log.wrote_offset
    release = trio.Event()

    async def run_late(function: Callable[..., T], *arguments: object) -> T:
        await release.wait()
        return function(*arguments)

    source = CommitLogSource(log, run_blocking=run_late)
    found: list[bytes] = []

    async def read() -> None:
        found.append(await source.read(10, 5))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        log.take_first(lambda file: file.close())
        assert source.min_offset == 100
        assert source.read_nowait(10, 5) == b""
        release.set()
    assert found == [bytes(range(10, 15))], "the holder reads on"
    assert await source.read(10, 5) == b""
