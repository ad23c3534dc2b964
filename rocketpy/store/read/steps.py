"""Reads as generators, and the ways to bring them their bytes.

A read yields ``(file, position, size)`` for what it needs and is sent the bytes, as often as it takes: what is read,
and in which order, stands once. :func:`read_nowait` takes the bytes from memory on the event loop and gives up when
something is cold; :func:`read_blocking` has a worker thread wait for the disk, and holds the files meanwhile;
:func:`read_anywhere` tries the first, then does the second. :func:`read_now` waits for the disk where it is called,
before the store is open.
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
"""What to read: file, position, size. The answer is the bytes of each, in order."""

Steps: TypeAlias = Generator[Reads, list[bytes], T]


def read_now(steps: Steps[T]) -> T:
    """Run a read here and now. Blocks if something is cold."""
    try:
        reads = next(steps)
        while True:
            reads = steps.send([mapped_file.file().read(position, size) for mapped_file, position, size in reads])
    except StopIteration as done:
        result: T = done.value
        return result


def read_nowait(steps: Steps[T]) -> T | None:
    """Run a read on what is in memory; None when some of it is not."""
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
    """Run a read whose bytes a worker thread waits for; files removed meanwhile stay readable for it."""
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
    """Run a read from memory if everything it needs is there, else with a worker thread, from its beginning.

    A hop to a thread costs a hundred times what a small read from memory does, and a search takes dozens of reads.
    """
    result = read_nowait(steps_of())
    if result is None:
        return await read_blocking(steps_of(), run_blocking)
    await trio.lowlevel.checkpoint()
    return result


def _read_all(reads: list[tuple[DiskFile, int, int]]) -> list[bytes]:
    return [file.read(position, size) for file, position, size in reads]
