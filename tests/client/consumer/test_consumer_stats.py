"""Rates and times in their windows."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketpy.client.consumer.consumer_stats import ConsumerStats
from rocketpy.protocol.bodies.running import ConsumeStatus
from tests.forgotten import sizes_within


async def test_rates_are_those_of_the_last_minute(autojump_clock: MockClock) -> None:
    stats = ConsumerStats()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stats.run)
        stats.add_pulled("T", 1000, 5.0)
        await trio.sleep(300.5)
        stats.add_pulled("T", 60, 0.5)
        stats.add_pulled("T", 0, 1.5)
        stats.add_consumed("T", 30, 0.25)
        stats.add_failed("T", 6)
        await trio.sleep(1)
        found = stats.status("T", trio.current_time())
        nursery.cancel_scope.cancel()
    assert found.pull_rt == pytest.approx(1000)
    assert found.consume_rt == pytest.approx(250)
    assert found.pull_tps == pytest.approx(60 / 51.5)
    assert found.consume_ok_tps == pytest.approx(30 / 51.5)
    assert found.consume_failed_tps == pytest.approx(6 / 51.5)
    assert found.consume_failed_msgs == 6


async def test_failures_are_those_of_the_last_hour(autojump_clock: MockClock) -> None:
    stats = ConsumerStats()
    with trio.move_on_after(4000):
        stats.add_failed("T", 5)
        await stats.run()
    assert stats.status("T", trio.current_time()).consume_failed_msgs == 0
    stats.add_failed("T", 2)
    assert stats.status("T", trio.current_time()).consume_failed_msgs == 2


def test_an_unknown_topic_has_no_rates() -> None:
    assert ConsumerStats().status("T", 0.0) == ConsumeStatus()


def count(stats: ConsumerStats, topic: str) -> None:
    stats.add_pulled(topic, 1, 0.0)
    stats.add_consumed(topic, 1, 0.0)
    stats.add_failed(topic, 1)


async def test_a_topic_without_a_count_for_an_hour_is_forgotten(autojump_clock: MockClock) -> None:
    stats = ConsumerStats()
    count(stats, "busy")
    count(stats, "idle")
    with trio.move_on_after(3700):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stats.run)
            while True:
                count(stats, "busy")
                await trio.sleep(60)
    assert stats.status("idle", trio.current_time()) == ConsumeStatus()
    sizes = sizes_within(stats)
    assert (sizes["ConsumerStats._topics"], sizes["ConsumerStats._samples"]) == (1, 1)
    found = stats.statistics()
    assert found.pulled_count == found.consumed_count == found.failed_count == 64, "counters never go back"
