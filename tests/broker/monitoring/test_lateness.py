"""Lateness under a mock clock: what is measured is what was caused."""

from __future__ import annotations

import trio
import trio.testing

from rocketpy.broker.monitoring.lateness import PERIOD_SECONDS, SAMPLES_MAX, Lateness, LatenessService


async def test_it_measures_who_hogs_the_loop(mock_clock: trio.testing.MockClock, nursery: trio.Nursery) -> None:
    service = LatenessService()
    assert service.statistics() == Lateness(0.0, 0.0, 0.0)
    nursery.start_soon(service.run)
    await trio.testing.wait_all_tasks_blocked()
    for late in [0.0] * 98 + [0.005, 0.250]:
        mock_clock.jump(PERIOD_SECONDS + late)
        await trio.testing.wait_all_tasks_blocked()
    lateness = service.statistics()
    assert round(lateness.p50_ms, 6) == 0.0
    assert round(lateness.p99_ms) == 250
    assert round(lateness.max_ms) == 250
    assert service.runtime_info()["serviceLatenessMaxMs"] == "250.000"


async def test_it_keeps_a_bounded_number(mock_clock: trio.testing.MockClock, nursery: trio.Nursery) -> None:
    service = LatenessService()
    nursery.start_soon(service.run)
    await trio.testing.wait_all_tasks_blocked()
    late = [1.0] + [0.0] * (SAMPLES_MAX - 1)
    for seconds in late:
        mock_clock.jump(PERIOD_SECONDS + seconds)
        await trio.testing.wait_all_tasks_blocked()
    assert round(service.statistics().max_ms) == 1000
    mock_clock.jump(PERIOD_SECONDS)
    await trio.testing.wait_all_tasks_blocked()
    assert round(service.statistics().max_ms) == 0, "the oldest sample has made room"
