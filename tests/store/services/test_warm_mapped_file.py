"""Pages ahead of the log are warmed where memory is slow, and looked at now and then where it is not."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing

from rocketpy.runner import RunBlocking
from rocketpy.store.disk.interface import PAGE_SIZE
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.files.mapped_file import OpenFiles
from rocketpy.store.log.commit_log import CommitLog
from rocketpy.store.log.directories import LogDirectories
from rocketpy.store.services.warm_mapped_file import (
    AHEAD_BYTES,
    LEAD_BYTES,
    PIECE_BYTES,
    PROBE_BYTES,
    PROBE_EVERY_BYTES,
    WarmMappedFileService,
)
from tests.store.parts import PlainAllocator
from tests.turns import run_in_turn

MIB = 1 << 20
QUICK, SLOW = 1.5e-6, 10e-6


@attrs.define(eq=False)
class Range:
    log: Log
    begin: int
    size: int

    def warm(self) -> float:
        self.log.held_in_warm.append(self.log.held)
        self.log.warmed.append((self.begin, self.begin + self.size))
        return self.size / PAGE_SIZE * self.log.page_seconds

    def release(self) -> None:
        self.log.held -= 1


@attrs.define(eq=False)
class Log:
    """A log in one file, whose pages take a given time."""

    wrote_offset: int = 0
    end_of_file: int = 1 << 30
    page_seconds: float = QUICK
    warmed: list[tuple[int, int]] = attrs.Factory(list)
    held: int = 0
    held_in_warm: list[int] = attrs.Factory(list)
    _notify: tuple[int, Callable[[], None]] | None = None

    def notify_at(self, physical_offset: int, notify: Callable[[], None], /) -> None:
        self._notify = physical_offset, notify

    def hold_ahead(self, physical_offset: int, size: int, /) -> Range | None:
        size = min(size, self.end_of_file - physical_offset)
        if size <= 0:
            return None
        self.held += 1
        return Range(self, physical_offset, size)

    async def grow(self, size: int, *, step: int = MIB // 2) -> None:
        """Write, and let the service work after each write."""
        for _ in range(0, size, step):
            self.wrote_offset += step
            if self._notify is not None and self.wrote_offset >= self._notify[0]:
                (_, notify), self._notify = self._notify, None
                notify()
            await trio.testing.wait_all_tasks_blocked()


@asynccontextmanager
async def serving(log: Log, run_blocking: RunBlocking = run_in_turn) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        await nursery.start(WarmMappedFileService(commit_log=log, run_blocking=run_blocking).run)
        await trio.testing.wait_all_tasks_blocked()
        yield
        nursery.cancel_scope.cancel()


async def test_quick_memory_is_only_probed() -> None:
    log = Log(wrote_offset=5 * MIB)
    async with serving(log):
        await log.grow(PROBE_EVERY_BYTES - MIB)
        assert log.warmed == [], "a log that hardly grows is let be"
        await log.grow(MIB)
        begin = 5 * MIB + PROBE_EVERY_BYTES + LEAD_BYTES
        assert log.warmed == [(begin, begin + PROBE_BYTES)]
        await log.grow(3 * PROBE_EVERY_BYTES)
        assert [each[0] for each in log.warmed] == [begin + n * PROBE_EVERY_BYTES for n in range(4)]
    assert (log.held, set(log.held_in_warm)) == (0, {1}), "held in the worker thread, and no longer"


async def test_slow_memory_is_warmed_ahead_without_a_gap_and_no_further() -> None:
    log = Log(page_seconds=SLOW)
    async with serving(log):
        await log.grow(PROBE_EVERY_BYTES)
        for _ in range(60):
            await log.grow(MIB)
            ahead = log.warmed[-1][1] - log.wrote_offset
            assert AHEAD_BYTES - PIECE_BYTES - MIB < ahead <= AHEAD_BYTES
        assert all(one[1] == other[0] for one, other in zip(log.warmed, log.warmed[1:], strict=False))
        assert {end - begin for begin, end in log.warmed[1:]} == {PIECE_BYTES}
    assert log.held == 0


async def test_a_log_that_overtakes_the_worker_is_warmed_from_there_on() -> None:
    log = Log(page_seconds=SLOW)
    async with serving(log):
        await log.grow(100 * MIB, step=50 * MIB)
        assert log.warmed[-1][1] <= 100 * MIB + AHEAD_BYTES
        after = [begin for begin, _ in log.warmed if begin >= 100 * MIB]
        assert after[0] == 100 * MIB + LEAD_BYTES


async def test_memory_that_has_become_quick_is_only_probed_again() -> None:
    log = Log(page_seconds=SLOW)
    async with serving(log):
        await log.grow(PROBE_EVERY_BYTES + 10 * MIB)
        log.page_seconds = QUICK
        await log.grow(PIECE_BYTES)
        count = len(log.warmed)
        await log.grow(PROBE_EVERY_BYTES - PIECE_BYTES)
        assert len(log.warmed) == count
        await log.grow(PIECE_BYTES)
        begin, end = log.warmed[-1]
        assert (len(log.warmed), end - begin) == (count + 1, PROBE_BYTES)
        log.page_seconds = SLOW
        await log.grow(PROBE_EVERY_BYTES)
        assert log.warmed[-1][1] - log.wrote_offset > AHEAD_BYTES - PIECE_BYTES - MIB


async def test_a_piece_ends_with_its_file_and_the_next_file_goes_on() -> None:
    log = Log(page_seconds=SLOW, end_of_file=30 * MIB)
    async with serving(log):
        await log.grow(30 * MIB)
        assert log.warmed[-1][1] == 30 * MIB
        count = len(log.warmed)
        log.end_of_file = 60 * MIB
        await log.grow(MIB)
        assert log.warmed[count][0] == 30 * MIB + MIB // 2 + LEAD_BYTES
        await log.grow(10 * MIB)
        assert log.warmed[-1][1] > log.wrote_offset


@pytest.mark.parametrize("end_of_file", [0, MIB])
async def test_without_space_ahead_nothing_is_done(end_of_file: int) -> None:
    """Files smaller than a probe, or none: the service waits, and does not turn in a circle."""
    log = Log(page_seconds=SLOW, end_of_file=end_of_file)
    async with serving(log):
        await log.grow(2 * PROBE_EVERY_BYTES)
    assert log.warmed == []


async def test_the_end_of_the_store_waits_for_the_worker_thread(tmp_path: Path) -> None:
    """Its descriptor may be another file's once it is closed."""
    disk = OsDisk()
    open_files = OpenFiles(disk=disk, open_max=8)
    directories = LogDirectories([str(tmp_path / "commitlog")])
    log = CommitLog(directories=directories, disk=disk, open_files=open_files, file_size=32 * MIB)
    log.load()
    log.open_at(0, timestamp_ms=0, allocator=PlainAllocator(disk))
    log.add_file()
    may_go_on, has_begun = threading.Event(), threading.Event()
    ended: list[float] = []

    async def run_slowly(function: Callable[..., float], /, *arguments: object) -> float:
        def call() -> float:
            has_begun.set()
            assert may_go_on.wait(60)
            ended.append(function(*arguments))
            return ended[-1]

        return await trio.to_thread.run_sync(call)

    async with trio.open_nursery() as nursery:
        service = WarmMappedFileService(commit_log=log, run_blocking=run_slowly)  # type: ignore[arg-type]
        await nursery.start(service.run)
        for _ in range(PROBE_EVERY_BYTES // MIB + 1):
            log.write(bytes(MIB), 1)
        await trio.to_thread.run_sync(has_begun.wait, 60)
        nursery.cancel_scope.cancel()
        nursery.start_soon(_set_when_all_wait, may_go_on)
    assert len(ended) == 1
    open_files.close_all()


async def _set_when_all_wait(event: threading.Event) -> None:
    with trio.CancelScope(shield=True):
        await trio.testing.wait_all_tasks_blocked()
    event.set()
