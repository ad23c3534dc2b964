"""Files of the log go when they are old or space is short, oldest first; a full disk stops messages only."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from trio.testing import MockClock

from rocketpy.clock import ManualClock
from rocketpy.errors import StoreError
from rocketpy.store.retention import RetentionPolicy
from rocketpy.store.services.clean_commit_log import CleanCommitLogService
from rocketpy.store.services.close_files import CloseFilesService
from rocketpy.store.status import RunningFlags
from rocketpy.testing.sim.disk import SimDisk
from tests.store.parts import LOG_FILE_SIZE, Parts, Place
from tests.turns import run_in_turn

HOUR_MS = 3_600_000
NOON_MS = int(time.mktime((2026, 7, 1, 12, 0, 0, 0, 0, -1))) * 1000
FOUR_MS = NOON_MS - 8 * HOUR_MS
FILES = 14


@attrs.define
class World:
    """A log of some files, one of them written in each hour, and the service over it."""

    disk: SimDisk
    clock: ManualClock
    parts: Parts
    service: CleanCommitLogService
    close_files: CloseFilesService
    flags: RunningFlags
    refusals: list[str | None]
    reports: list[str | None]
    shrunk: list[int]

    @property
    def bases(self) -> list[int]:
        """The numbers of the files that are left."""
        assert [int(name) for name in self.disk.list_directory("/store/commitlog")] == [
            each.base_offset for each in self.parts.commit_log.files
        ]
        return [each.base_offset // LOG_FILE_SIZE for each in self.parts.commit_log.files]

    def fill_to(self, ratio: float) -> None:
        """Let the disk be so full."""
        self.disk.capacity_bytes = math.ceil(self.disk.used_bytes("/") / ratio)


def new_world(*, hours: int = 6, pause_ms: int = 100, is_forcible: bool = True) -> World:
    disk = SimDisk()
    place = Place(disk, "/store")
    clock = ManualClock(FOUR_MS - FILES * HOUR_MS)
    parts = Parts(place, clock=clock)
    for _ in range(FILES):
        parts.put_all([bytes(3800), bytes(3800)])
        clock.advance_ms(HOUR_MS)
    parts.flush()
    close_files = CloseFilesService(run_blocking=run_in_turn)
    flags = RunningFlags()
    refusals: list[str | None] = []
    reports: list[str | None] = []
    shrunk: list[int] = []
    service = CleanCommitLogService(
        commit_log=parts.commit_log,
        disk=disk,
        clock=clock,
        run_blocking=run_in_turn,
        policy=RetentionPolicy.of(
            delete_hours=frozenset({4}),
            file_reserved_hours=hours,
            max_used_percent=75,
            clean_forcibly_percent=85,
            warning_percent=90,
            is_forcible=is_forcible,
        ),
        log_paths=[place.commit_log],
        queue_path=place.consume_queue,
        interval_ms=10_000,
        pause_ms=pause_ms,
        running_flags=flags,
        close_files=close_files,
        refuse_while=refusals.append,
        report_full=reports.append,
        log_shrunk=lambda: shrunk.append(parts.commit_log.min_offset),
    )
    return World(disk, clock, parts, service, close_files, flags, refusals, reports, shrunk)


@asynccontextmanager
async def running(world: World) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        await nursery.start(world.close_files.run)
        await nursery.start(world.service.run)
        yield
        nursery.cancel_scope.cancel()


async def test_in_the_hour_what_is_old_enough_goes(autojump_clock: MockClock) -> None:
    world = new_world()
    assert await world.service.clean() == 8
    # At 4:00 the file of 21:00 has ended with the record of 22:00, six hours ago; the next one at 23:00.
    assert world.bases == list(range(8, FILES))
    assert world.shrunk == [8 * LOG_FILE_SIZE], "reported once"
    assert await world.service.clean() == 0
    assert world.service.statistics().deleted_count == 8


async def test_at_other_hours_nothing_goes_unless_asked_for(autojump_clock: MockClock) -> None:
    world = new_world()
    world.clock.advance_ms(8 * HOUR_MS)
    assert await world.service.clean() == 0
    world.service.execute_delete_files_manually()
    assert world.service.statistics().manual_runs == 20
    assert await world.service.clean() == 10, "no more than ten in a run"
    assert await world.service.clean() == 3
    assert world.bases == [FILES - 1], "the last file stays, however old"
    for runs_left in range(17, -1, -1):
        assert await world.service.clean() == 0
        assert world.service.statistics().manual_runs == runs_left
    assert await world.service.clean() == 0


async def test_when_nothing_was_sent_for_long_the_last_time_of_all_counts(autojump_clock: MockClock) -> None:
    """The next file may be there without a record in it."""
    world = new_world(hours=2)
    world.parts.commit_log.add_file()
    world.parts.commit_log.flushed_offset = world.parts.commit_log.wrote_offset
    while await world.service.clean():
        pass
    assert world.bases == [FILES - 2, FILES - 1, FILES]
    world.clock.advance_ms(24 * HOUR_MS)
    assert await world.service.clean() == 2
    assert world.bases == [FILES]


async def test_a_disk_that_is_nearly_full_takes_young_files_but_no_more_than_it_must(autojump_clock: MockClock) -> None:
    world = new_world(hours=1000)
    world.fill_to(1.0)
    assert await world.service.clean() == 3
    assert (await world.service.check_disks())[0].ratio <= 0.85
    assert world.refusals[-1] is None


async def test_above_the_limit_messages_are_refused_until_there_is_space_again(autojump_clock: MockClock) -> None:
    world = new_world(hours=1000, is_forcible=False)
    world.fill_to(0.93)
    limit = "messages are taken up to 90% (diskSpaceWarningLevelRatio)"
    async with running(world):
        await trio.sleep(0.5)
        assert world.refusals == []
        await trio.sleep(1)
        assert world.refusals == [f"the disk of /store/commitlog is 93% full, {limit}"]
        assert (world.flags.is_writeable, world.flags.is_readable) == (False, True)
        world.fill_to(0.91)
        await trio.sleep(10)
        assert world.refusals[1:] == [f"the disk of /store/commitlog is 91% full, {limit}"]
        world.fill_to(0.90)
        await trio.sleep(10)
        assert world.refusals[2:] == [None]
        assert world.flags.is_writeable
        await trio.sleep(100)
        assert set(world.refusals[3:]) == {None}
    assert world.reports == [world.refusals[0], None], "reported when it changes"


async def test_a_file_that_is_read_goes_at_once_and_its_space_with_the_reader(autojump_clock: MockClock) -> None:
    world = new_world()
    first = world.parts.commit_log.files[0]
    file = first.hold()
    async with running(world):
        used = world.disk.used_bytes("/")
        await world.service.clean()
        assert world.bases == list(range(8, FILES))
        assert world.disk.used_bytes("/") == used - 7 * LOG_FILE_SIZE
        assert file.read(0, 4) != b""
        statistics = world.service.statistics()
        assert (statistics.deleted_count, statistics.hanged_count, statistics.held_count) == (8, 1, 1)
        first.release()
        await trio.testing.wait_all_tasks_blocked()
        assert world.disk.used_bytes("/") == used - 8 * LOG_FILE_SIZE
        assert world.service.statistics().held_count == 0


async def test_a_disk_that_refuses_ends_the_service(autojump_clock: MockClock) -> None:
    world = new_world()
    world.disk.fail_call("unlink")
    with pytest.RaisesGroup(pytest.RaisesGroup(StoreError)):
        async with running(world):
            await trio.sleep(100)


async def test_each_file_is_gone_for_good_before_the_next_one_goes(autojump_clock: MockClock) -> None:
    for keeps in (0, 1):
        world = new_world(pause_ms=0)
        for mapped_file in world.parts.commit_log.files:
            mapped_file.file().sync()
        world.disk.sync_directory("/store/commitlog")
        for name in ("unlink", "sync_directory"):
            world.disk.calls[name] = 0
        await world.service.clean()
        assert world.disk.calls["unlink"] == world.disk.calls["sync_directory"] == 8
        world.disk.lose_power(lambda count, keeps=keeps: keeps)  # type: ignore[misc]
        assert len(world.disk.list_directory("/store/commitlog")) == FILES - 8
