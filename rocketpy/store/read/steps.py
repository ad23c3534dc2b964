"""Reads as generators, and the drivers that supply their bytes.

A read yields ``(file, position, size)`` for the bytes it needs and is sent these bytes, as often as necessary. So the
logic of a read is written once, for four drivers: :func:`read_nowait` reads from the page cache on the event loop and
gives up when something is cold; :func:`read_blocking` waits for the disk in a worker thread, holding the files;
:func:`read_anywhere` tries the first, then the second; :func:`read_now` blocks its caller, before the store is open.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

import trio

from rocketpy.runner import RunBlocking
from rocketpy.store.disk.interface import DiskFile
from rocketpy.store.files.mapped_file import MappedFile

T = TypeVar("T")

Reads: TypeAlias = list[tuple[MappedFile, int, int]]
"""Requested reads: file, position, size. The generator is sent the bytes of each, in the same order."""

Steps: TypeAlias = Generator[Reads, list[bytes], T]


def read_now(steps: Steps[T]) -> T:
    """Run a read on the calling thread. Blocks if something is cold."""
    try:
        reads = next(steps)
        while True:
            reads = steps.send([mapped_file.file().read(position, size) for mapped_file, position, size in reads])
    except StopIteration as done:
        result: T = done.value
        return result


def read_nowait(steps: Steps[T]) -> T | None:
    """Run a read on cached bytes only; None if some of them are not cached."""
    try:
        reads = next(steps)
        while True:
            contents = []
            for mapped_file, position, size in reads:
                content = mapped_file.file().read_nowait(position, size)
                if content is None:
                    steps.close()
                    return None
                contents.append(content)
            reads = steps.send(contents)
    except StopIteration as done:
        result: T = done.value
        return result


async def read_blocking(steps: Steps[T], run_blocking: RunBlocking) -> T:
    """Run a read in a worker thread. Files deleted in the meantime stay readable for it."""
    try:
        reads = next(steps)
        while True:
            held = [(mapped_file.hold(), position, size) for mapped_file, position, size in reads]
            try:
                contents = await run_blocking(_read_all, held)
            finally:
                for mapped_file, _, _ in reads:
                    mapped_file.release()
            reads = steps.send(contents)
    except StopIteration as done:
        result: T = done.value
        return result


async def read_anywhere(steps_of: Callable[[], Steps[T]], run_blocking: RunBlocking) -> T:
    """Run a read on cached bytes if all are cached, else from its beginning in a worker thread.

    A hop to a thread costs a hundred times as much as a small cached read, and a search takes dozens of reads.
    """
    result = read_nowait(steps_of())
    if result is None:
        return await read_blocking(steps_of(), run_blocking)
    await trio.lowlevel.checkpoint()
    return result


def _read_all(reads: list[tuple[DiskFile, int, int]]) -> list[bytes]:
    return [file.read(position, size) for file, position, size in reads]
