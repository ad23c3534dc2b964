"""What an open store tells: in the order in which it happens, and nothing that nobody asked for."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rocketpy.clock import ManualClock
from rocketpy.store.opening import open_message_store
from rocketpy.store.reports import NO_REPORTS, StoreReports
from rocketpy.testing.sim_disk import SimDisk
from tests.store.parts import STORE_HOST, Place
from tests.store.test_message_store import config_for, send
from tests.turns import run_in_turn


@pytest.fixture
def place() -> Place:
    return Place(SimDisk(), "/store")


async def test_recovery_is_told_before_the_store_is_there_to_be_used(place: Place) -> None:
    told: list[str] = []
    reports = StoreReports(recovered=lambda report: told.append(f"recovered up to {report.end_offset}"))
    async with open_message_store(
        config_for(place),
        disk=place.disk,
        clock=ManualClock(),
        run_blocking=run_in_turn,
        store_host=STORE_HOST,
        reports=reports,
    ) as store:
        told.append("open")
        send(store, b"one")
    assert told == ["recovered up to 0", "open"]


async def test_a_full_disk_is_told_once_and_so_is_its_end(place: Place, autojump_clock: trio.testing.MockClock) -> None:
    assert isinstance(place.disk, SimDisk)
    told: list[str | None] = []
    async with open_message_store(
        config_for(place),
        disk=place.disk,
        clock=ManualClock(),
        run_blocking=run_in_turn,
        store_host=STORE_HOST,
        reports=StoreReports(full=told.append),
    ):
        await trio.sleep(120)
        assert told == []
        capacity = place.disk.capacity_bytes
        place.disk.capacity_bytes = place.disk.used_bytes("/") + 1
        await trio.sleep(120)
        assert len(told) == 1
        assert told[0]
        place.disk.capacity_bytes = capacity
        await trio.sleep(120)
        assert told[1:] == [None]


def test_without_listeners_everything_may_be_told() -> None:
    NO_REPORTS.recovering(1, 2)
    NO_REPORTS.full("why")
    NO_REPORTS.full(None)
    assert StoreReports() == NO_REPORTS
