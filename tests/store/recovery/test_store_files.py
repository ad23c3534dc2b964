"""The files of a store: what makes a start trust them, what a start writes, and which index files are kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import attrs
import pytest

from rocketpy.clock import ManualClock
from rocketpy.store.config import FlushDiskType, MessageStoreConfig
from rocketpy.store.environment import StoreEnvironment
from rocketpy.store.recovery.store_files import StoreFiles
from rocketpy.testing.sim.disk import SimDisk
from tests.store.opened_store import config_for, killed, opened, send
from tests.store.parts import Place
from tests.turns import run_in_turn


@pytest.fixture
def place() -> Place:
    return Place(SimDisk(), "/store")


async def fill(place: Place, count: int = 3, **settings: object) -> None:
    """A life of the store, with a clean shutdown."""
    async with opened(place, **settings) as store:
        for number in range(count):
            send(store, b"%d" % number, key=b"k%d" % number)
        store.end_burst()


async def crash(place: Place, count: int = 3, **settings: object) -> None:
    """A life of the store that a kill ends, before its first flush."""
    async with killed(place, **settings) as store:
        for number in range(count):
            send(store, b"%d" % number, key=b"k%d" % number)
        store.end_burst()


@contextmanager
def files_of(place: Place, config: MessageStoreConfig | None = None, **settings: object) -> Iterator[StoreFiles]:
    """The files, found and not yet recovered."""
    place.disk.make_directories(place.root)
    config = config or config_for(place, **settings)
    environment = StoreEnvironment(disk=place.disk, clock=ManualClock(), run_blocking=run_in_turn)
    with closing(StoreFiles(config, environment=environment)) as files:
        yield files


def recover(files: StoreFiles) -> StoreFiles:
    for _ in files.recover(lambda topic, properties, timestamp: 0):
        pass
    return files


def index_files(place: Place) -> list[str]:
    path = f"{place.root}/index"
    return place.disk.list_directory(path) if place.disk.is_directory(path) else []


# ---- what is trusted ------------------------------------------------------------------------------------------------


async def test_a_clean_shutdown_spares_the_walk(place: Place) -> None:
    await fill(place)
    with files_of(place) as files:
        assert recover(files).report.record_count == 0
        assert files.index_begin_offset == files.report.end_offset


@pytest.mark.parametrize("what", ["abort file", "no checkpoint", "empty checkpoint"])
async def test_what_is_not_trusted_is_scanned(place: Place, what: str) -> None:
    """Java leaves a checkpoint with every clean shutdown: a store without one is not trusted, abort file or not."""
    await crash(place)
    if what != "abort file":
        place.disk.unlink(f"{place.root}/abort")
        assert not place.disk.exists(f"{place.root}/checkpoint")
    if what == "empty checkpoint":
        place.write(f"{place.root}/checkpoint", bytes(4096))
    with files_of(place) as files:
        assert recover(files).report.record_count == 3


async def test_a_store_that_begins_has_nothing_to_recover(place: Place) -> None:
    with files_of(place) as files:
        assert files.recovery_progress == (0, 0)
        report = recover(files).report
        assert (report.end_offset, report.record_count, report.unit_count) == (0, 0, 0)


# ---- what a start leaves --------------------------------------------------------------------------------------------


async def test_from_the_beginning_on_an_end_that_is_not_a_clean_shutdown_is_noticed(place: Place) -> None:
    assert isinstance(place.disk, SimDisk)
    await fill(place)
    with files_of(place) as files:
        recover(files)
        assert not files.abort_file.exists()
        files.begin()
        assert files.abort_file.exists()
    place.disk.lose_power(choose=lambda count: 0)
    assert place.disk.exists(f"{place.root}/abort"), "durable before anything is appended"


async def test_a_store_of_java_s_gets_a_checkpoint_of_ours_before_its_first_message(place: Place) -> None:
    """Java's says only when something was flushed; ours up to where, so a missing abort file alone proves nothing."""
    await fill(place)
    times = place.read(f"{place.root}/checkpoint")[:24]
    place.write(f"{place.root}/checkpoint", times.ljust(4096, b"\0"))
    with files_of(place) as files:
        assert files.checkpoint.ends is None
        recover(files).begin()
        end = files.report.end_offset
    with files_of(place) as files:
        assert files.checkpoint.ends is not None
        assert files.checkpoint.ends.durable_offset == end > 0


async def test_a_failed_sync_of_an_earlier_life_is_done_with(place: Place) -> None:
    await fill(place)
    with files_of(place) as files:
        place.write(f"{place.root}/failed-sync", b"")
        assert files.failed_sync_mark.exists()
        recover(files).begin()
        assert not files.failed_sync_mark.exists()


async def test_the_mark_of_a_failed_sync_stays_until_recovery_is_over(place: Place) -> None:
    """If that dies, the next one must write again what this one has not."""
    assert isinstance(place.disk, SimDisk)
    await crash(place)
    with files_of(place) as files:
        place.write(f"{place.root}/failed-sync", b"")
        seen: list[bool] = []
        place.disk.before_change = lambda method, path: seen.append(files.failed_sync_mark.exists())
        recover(files)
        place.disk.before_change = None
        assert len(seen) > 3
        assert all(seen)
        assert files.failed_sync_mark.exists()


@pytest.mark.parametrize(
    ("settings", "mark", "is_rewritten"),
    [({}, False, False), ({"flush_disk_type": FlushDiskType.SYNC_FLUSH}, False, True), ({}, True, True)],
)
async def test_what_may_be_in_memory_only_is_written_again(
    place: Place, settings: dict[str, object], mark: bool, is_rewritten: bool
) -> None:
    """Before SYNC_FLUSH answers again, and after a sync that failed, whose pages may be taken for clean."""
    assert isinstance(place.disk, SimDisk)
    await crash(place)
    with files_of(place, **settings) as files:
        if mark:
            place.write(f"{place.root}/failed-sync", b"")
        written: list[str] = []
        place.disk.before_change = lambda method, path: written.append(path) if method == "write" else None
        recover(files)
        place.disk.before_change = None
    assert (place.log_file() in written) is is_rewritten


# ---- the index ------------------------------------------------------------------------------------------------------


async def test_an_index_file_that_is_not_full_does_not_outlive_a_crash(place: Place) -> None:
    await fill(place)
    assert len(index_files(place)) == 1
    with files_of(place) as files:
        recover(files)
    assert len(index_files(place)) == 1, "after a clean shutdown it is true"
    place.write(f"{place.root}/abort", b"")
    with files_of(place) as files:
        assert recover(files).index_begin_offset == 0
    assert index_files(place) == []


# ---- the rest -------------------------------------------------------------------------------------------------------


def test_settings_of_deletion_count_from_now_on(place: Place) -> None:
    config = config_for(place)
    with files_of(place, config) as files:
        before = attrs.asdict(files.retention_policy)
        object.__setattr__(config, "file_reserved_time", 1)
        assert attrs.asdict(files.retention_policy) == before
        files.settings_changed()
        assert attrs.asdict(files.retention_policy) != before
