"""Running flags and what each of them forbids; events of an open store, in order, and only to listeners."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rocketpy.store.status import NO_REPORTS, RunningFlag, RunningFlags, StoreReports
from rocketpy.testing.sim.disk import SimDisk
from tests.store.opened_store import opened, send
from tests.store.parts import Place


def test_a_new_store_serves_everything() -> None:
    flags = RunningFlags()
    assert (flags.is_readable, flags.is_writeable, flags.is_cq_writeable) == (True, True, True)


@pytest.mark.parametrize(
    ("flag", "bit", "is_readable", "is_writeable", "is_cq_writeable"),
    [
        (RunningFlag.NOT_READABLE, 1, False, True, True),
        (RunningFlag.NOT_WRITEABLE, 2, True, False, False),
        (RunningFlag.WRITE_LOGICS_QUEUE_ERROR, 4, True, False, False),
        (RunningFlag.WRITE_INDEX_FILE_ERROR, 8, True, False, False),
        (RunningFlag.DISK_FULL, 16, True, False, True),
    ],
)
def test_what_a_flag_forbids(
    flag: RunningFlag, bit: int, is_readable: bool, is_writeable: bool, is_cq_writeable: bool
) -> None:
    flags = RunningFlags()
    assert flags.set(flag, to=True)
    assert not flags.set(flag, to=True), "nothing has changed"
    assert flags.value == bit
    assert (flags.is_readable, flags.is_writeable, flags.is_cq_writeable) == (
        is_readable,
        is_writeable,
        is_cq_writeable,
    )
    assert flags.set(flag, to=False)
    assert flags.value == 0


@pytest.fixture
def place() -> Place:
    return Place(SimDisk(), "/store")


async def test_recovery_is_reported_before_the_store_is_yielded(place: Place) -> None:
    events: list[str] = []
    reports = StoreReports(recovered=lambda report: events.append(f"recovered up to {report.end_offset}"))
    async with opened(place, reports=reports) as store:
        events.append("open")
        send(store, b"one")
    assert events == ["recovered up to 0", "open"]


async def test_a_full_disk_is_reported_once_and_so_is_its_end(
    place: Place, autojump_clock: trio.testing.MockClock
) -> None:
    assert isinstance(place.disk, SimDisk)
    events: list[str | None] = []
    async with opened(place, reports=StoreReports(full=events.append)):
        await trio.sleep(120)
        assert events == []
        capacity = place.disk.capacity_bytes
        place.disk.capacity_bytes = place.disk.used_bytes("/") + 1
        await trio.sleep(120)
        assert len(events) == 1
        assert events[0]
        place.disk.capacity_bytes = capacity
        await trio.sleep(120)
        assert events[1:] == [None]


def test_events_without_listeners_are_dropped() -> None:
    NO_REPORTS.recovering(1, 2)
    NO_REPORTS.full("why")
    NO_REPORTS.full(None)
    assert StoreReports() == NO_REPORTS
