"""Persistence of tables: when they are written, and the effect of a full disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
import trio
import trio.testing

from rocketpy.broker.metadata.persistence import RETRY_SECONDS, TablePersistService, persist_change
from rocketpy.broker.metadata.stored_table import StoredTable
from rocketpy.errors import (
    DescriptorShortageError,
    DiskFullError,
    RequestError,
    ShortageError,
    StoreError,
    TableWriteError,
)
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.testing.sim.disk import SimDisk

T = TypeVar("T")


class Disks:
    """Runs what is to be written at once, or fails."""

    def __init__(self) -> None:
        self.failure: StoreError | None = None

    async def __call__(self, function: Callable[..., T], /, *arguments: object) -> T:
        await trio.lowlevel.checkpoint()
        if self.failure is not None:
            raise self.failure
        return function(*arguments)


@pytest.fixture
def disks() -> Disks:
    return Disks()


@pytest.fixture
def make_table(tmp_path: Path, disks: Disks) -> Callable[[str], StoredTable]:
    def make(name: str) -> StoredTable:
        return StoredTable(path=str(tmp_path / name), disk=OsDisk(), run_blocking=disks, snapshot=lambda: {"n": 1})

    return make


async def test_a_table_is_written_soon_after_it_changed(
    make_table: Callable[[str], StoredTable], nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    table = make_table("a")
    service = TablePersistService(at_once=[table], periodic=[], period_seconds=lambda: 5)
    await nursery.start(service.run)
    for count in (1, 2):
        table.changed()
        await trio.testing.wait_all_tasks_blocked()
        assert not table.has_changes
        assert service.statistics().persisted_count == count
    assert trio.current_time() == 0


async def test_changes_before_the_service_runs_are_written_too(
    make_table: Callable[[str], StoredTable], nursery: trio.Nursery
) -> None:
    table = make_table("a")
    table.changed()
    await nursery.start(TablePersistService(at_once=[table], periodic=[], period_seconds=lambda: 5).run)
    await trio.testing.wait_all_tasks_blocked()
    assert not table.has_changes


async def test_a_periodic_table_waits_for_its_time(
    make_table: Callable[[str], StoredTable], nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    table = make_table("a")
    service = TablePersistService(at_once=[], periodic=[table], period_seconds=lambda: 5)
    await nursery.start(service.run)
    table.changed()
    await trio.sleep(4.9)
    assert table.has_changes
    await trio.sleep(0.2)
    assert not table.has_changes
    await trio.sleep(100)
    assert service.statistics().persisted_count == 1


async def test_the_period_may_change(
    make_table: Callable[[str], StoredTable], nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """``flushConsumerOffsetInterval`` counts from the next round on."""
    table, periods = make_table("a"), [5.0]
    service = TablePersistService(at_once=[], periodic=[table], period_seconds=lambda: periods[-1])
    await nursery.start(service.run)
    periods.append(2.0)
    await trio.sleep(5.1)
    table.changed()
    await trio.sleep(2.1)
    assert not table.has_changes


@pytest.mark.parametrize(
    "shortage",
    [DiskFullError(path="a", wanted_bytes=1, free_bytes=0), DescriptorShortageError("cannot open", path="a")],
)
async def test_after_a_shortage_it_tries_again(
    shortage: ShortageError,
    make_table: Callable[[str], StoredTable],
    disks: Disks,
    nursery: trio.Nursery,
    autojump_clock: trio.testing.MockClock,
) -> None:
    table = make_table("a")
    service = TablePersistService(at_once=[table], periodic=[], period_seconds=lambda: 5)
    await nursery.start(service.run)
    disks.failure = shortage
    table.changed()
    await trio.sleep(3 * RETRY_SECONDS + 0.1)
    assert table.has_changes
    assert service.statistics().disk_full_count == 4
    disks.failure = None
    await trio.sleep(RETRY_SECONDS)
    assert not table.has_changes


async def test_a_directory_that_cannot_be_made_ends_nothing(
    tmp_path: Path,
    disks: Disks,
    nursery: trio.Nursery,
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The disk says that no program may start here; the broker has long been running."""
    directory = tmp_path / "config"
    directory.write_text("a file has the name")
    table = StoredTable(
        path=str(directory / "topics.json"), disk=OsDisk(), run_blocking=disks, snapshot=lambda: {"n": 1}
    )
    service = TablePersistService(at_once=[table], periodic=[], period_seconds=lambda: 5)
    await nursery.start(service.run)
    table.changed()
    await trio.sleep(2 * RETRY_SECONDS + 0.1)
    assert "cannot make directory" in caplog.text
    with pytest.raises(RequestError, match="the change counts"):
        await persist_change(table)
    directory.unlink()
    await trio.sleep(RETRY_SECONDS)
    assert not table.has_changes
    assert (directory / "topics.json").exists()


async def test_a_failed_write_of_a_table_ends_nothing(make_table: Callable[[str], StoredTable], tmp_path: Path) -> None:
    (tmp_path / "a.tmp").mkdir()
    table = make_table("a")
    table.changed()
    with pytest.raises(TableWriteError):
        await table.persist()
    (tmp_path / "a.tmp").rmdir()
    await table.persist()
    assert not table.has_changes


async def test_a_failed_sync_of_a_table_is_final(disks: Disks) -> None:
    disk = SimDisk()
    table = StoredTable(path="/config/a", disk=disk, run_blocking=disks, snapshot=lambda: {"n": 1})
    table.changed()
    disk.fail_call("sync")
    with pytest.raises(StoreError) as failure:
        await table.persist()
    assert not isinstance(failure.value, ShortageError)


async def test_a_broken_disk_ends_the_service(make_table: Callable[[str], StoredTable], disks: Disks) -> None:
    table = make_table("a")
    disks.failure = StoreError("the disk is gone", path="a")
    table.changed()
    with pytest.raises(ExceptionGroup) as failure:
        await TablePersistService(at_once=[table], periodic=[], period_seconds=lambda: 5).run()
    assert failure.group_contains(StoreError)


async def test_at_the_end_everything_is_written(make_table: Callable[[str], StoredTable], disks: Disks) -> None:
    tables = [make_table(name) for name in "abc"]
    service = TablePersistService(at_once=tables[:1], periodic=tables[1:], period_seconds=lambda: 5)
    tables[0].changed()
    tables[2].changed()
    assert await service.persist_all()
    assert service.statistics().persisted_count == 2
    disks.failure = DiskFullError(path="a", wanted_bytes=1, free_bytes=0)
    tables[0].changed()
    assert not await service.persist_all()


async def test_a_change_is_in_every_file_before_its_request_is_answered(
    make_table: Callable[[str], StoredTable],
) -> None:
    tables = [make_table("a.json"), make_table("b.json")]
    for table in tables:
        table.changed()
    await persist_change(*tables)
    assert [table.has_changes for table in tables] == [False, False]


async def test_a_change_that_does_not_fit_the_disk_is_refused_and_stays_pending(
    make_table: Callable[[str], StoredTable], disks: Disks
) -> None:
    table = make_table("a.json")
    table.changed()
    disks.failure = DiskFullError(path="a.json", wanted_bytes=9, free_bytes=0)
    with pytest.raises(RequestError, match="the change counts, but is not in the file yet: no space"):
        await persist_change(table)
    assert table.has_changes
