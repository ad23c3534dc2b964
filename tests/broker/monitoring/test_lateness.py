"""Lateness under a mock clock: what is measured is what was caused."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rocketpy.broker.monitoring.lateness import (
    KEPT_SECONDS,
    LATE_SECONDS,
    PERIOD_SECONDS,
    QUIET_PERIOD_SECONDS,
    SAMPLES_MAX,
    Lateness,
    LatenessService,
)


class Loop:
    """A loop whose tasks make the service wake up late, and how many samples it has taken."""

    def __init__(self, clock: trio.testing.MockClock, nursery: trio.Nursery) -> None:
        self._clock = clock
        self.service = LatenessService()
        nursery.start_soon(self.service.run)

    async def wake(self, late: float) -> float:
        """Let the service wake up late; return how long it has slept without that."""
        await trio.testing.wait_all_tasks_blocked()
        slept = trio.lowlevel.current_statistics().seconds_to_next_deadline
        self._clock.jump(slept + late)
        await trio.testing.wait_all_tasks_blocked()
        return slept


async def test_it_measures_tasks_that_keep_the_loop(mock_clock: trio.testing.MockClock, nursery: trio.Nursery) -> None:
    loop = Loop(mock_clock, nursery)
    assert loop.service.statistics() == Lateness(0.0, 0.0, 0.0)
    assert loop.service.late_ms() == 0.0
    for late in [0.0] * 98 + [0.005, 0.250]:
        await loop.wake(late)
    lateness = loop.service.statistics()
    assert round(lateness.p50_ms, 6) == 0.0
    assert round(lateness.p99_ms) == 250
    assert round(lateness.max_ms) == 250
    assert loop.service.runtime_info()["serviceLatenessMaxMs"] == "250.000"
    assert round(loop.service.late_ms()) == 250


async def test_a_minute_is_kept(mock_clock: trio.testing.MockClock, nursery: trio.Nursery) -> None:
    loop = Loop(mock_clock, nursery)
    await loop.wake(1.0)
    begun = trio.current_time()
    while trio.current_time() - begun < KEPT_SECONDS - QUIET_PERIOD_SECONDS:
        await loop.wake(0.0)
        assert round(loop.service.statistics().max_ms) == 1000
    await loop.wake(0.0)
    await loop.wake(0.0)
    assert round(loop.service.statistics().max_ms) == 0
    assert loop.service.late_ms() == 0.0


async def test_the_lag_of_the_last_second(mock_clock: trio.testing.MockClock, nursery: trio.Nursery) -> None:
    loop = Loop(mock_clock, nursery)
    await loop.wake(0.5)
    await loop.wake(0.75)
    begun = trio.current_time()
    while trio.current_time() - begun < 1.0 - QUIET_PERIOD_SECONDS:
        await loop.wake(0.0)
        assert round(loop.service.late_ms()) == 750
    await loop.wake(0.0)
    await loop.wake(0.0)
    assert loop.service.late_ms() == 0.0


def test_a_minute_of_samples_fits() -> None:
    assert KEPT_SECONDS / PERIOD_SECONDS <= SAMPLES_MAX


async def test_an_idle_loop_is_sampled_less_often(mock_clock: trio.testing.MockClock, nursery: trio.Nursery) -> None:
    """An idle broker otherwise spends most of its processor time on this service."""
    loop = Loop(mock_clock, nursery)
    slept = [round(await loop.wake(0.0), 6) for _ in range(8)]
    assert slept[0] == PERIOD_SECONDS
    assert slept[:5] == sorted(slept[:5])
    assert slept[-2:] == [QUIET_PERIOD_SECONDS] * 2
    assert trio.current_time() % QUIET_PERIOD_SECONDS == pytest.approx(0), "together with the other services"
    await loop.wake(LATE_SECONDS * 1.01)
    for _ in range(3):
        assert round(await loop.wake(LATE_SECONDS * 1.01), 6) == PERIOD_SECONDS
