"""The two drivers: memory only, or a worker thread that files wait for."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

import pytest
import trio

from rocketpy.errors import StoreError
from rocketpy.store.files.mapped_file import MappedFile, OpenFiles
from rocketpy.store.read.steps import Reads, read_anywhere, read_blocking, read_nowait
from rocketpy.testing.sim.disk import SimDisk
from tests.store.parts import Place

T = TypeVar("T")


def file_at(place: Place, content: bytes) -> MappedFile:
    open_files = OpenFiles(disk=place.disk, open_max=4)
    mapped_file = MappedFile(directory=place.root, base_offset=0, size=100, open_files=open_files)
    place.write(mapped_file.path, content)
    return mapped_file


def pointed_to(mapped_file: MappedFile) -> Generator[Reads, list[bytes], bytes]:
    """Read a position, then the two bytes there and the two after them."""
    (position,) = yield [(mapped_file, 0, 1)]
    first, second = yield [(mapped_file, position[0], 2), (mapped_file, position[0] + 2, 2)]
    return first + second


async def test_both_drivers_bring_the_same_bytes(place: Place) -> None:
    mapped_file = file_at(place, b"\x03..body")
    assert read_nowait(pointed_to(mapped_file)) == b"body"
    assert await read_blocking(pointed_to(mapped_file), trio.to_thread.run_sync) == b"body"
    assert not mapped_file.is_held


async def test_cold_bytes_end_one_and_are_waited_for_by_the_other() -> None:
    disk = SimDisk()
    mapped_file = file_at(Place(disk, "/store"), b"\x03..body")
    disk.evict(mapped_file.path)
    assert read_nowait(pointed_to(mapped_file)) is None
    assert await read_blocking(pointed_to(mapped_file), trio.to_thread.run_sync) == b"body"
    assert read_nowait(pointed_to(mapped_file)) == b"body"


async def test_a_file_that_is_removed_meanwhile_stays_readable(place: Place) -> None:
    mapped_file = file_at(place, b"\x03..body")
    removed = False

    async def run(function: Callable[..., T], /, *arguments: object) -> T:
        nonlocal removed
        if not removed:
            removed = True
            mapped_file.hold()  # another reader, who keeps it for the second step
            mapped_file.remove(place.disk)
        await trio.lowlevel.checkpoint()
        return function(*arguments)

    assert await read_blocking(pointed_to(mapped_file), run) == b"body"
    mapped_file.release()
    assert not mapped_file.is_open


async def test_a_read_that_fails_gives_its_files_back() -> None:
    disk = SimDisk()
    mapped_file = file_at(Place(disk, "/store"), b"\x03..body")
    disk.fail_call("read")
    with pytest.raises(StoreError):
        await read_blocking(pointed_to(mapped_file), trio.to_thread.run_sync)
    assert not mapped_file.is_held


async def test_a_thread_is_asked_only_for_what_is_cold() -> None:
    disk = SimDisk()
    mapped_file = file_at(Place(disk, "/store"), b"\x03..body")
    hops = 0

    async def run(function: Callable[..., T], /, *arguments: object) -> T:
        nonlocal hops
        hops += 1
        await trio.lowlevel.checkpoint()
        return function(*arguments)

    assert await read_anywhere(lambda: pointed_to(mapped_file), run) == b"body"
    assert hops == 0
    disk.evict(mapped_file.path)
    assert await read_anywhere(lambda: pointed_to(mapped_file), run) == b"body"
    assert hops == 2
    assert not mapped_file.is_held
