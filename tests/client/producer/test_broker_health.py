"""The rules of MQFaultStrategy and LatencyFaultToleranceImpl, one by one."""

from __future__ import annotations

import pytest

from rocketpy.client.producer import broker_health
from rocketpy.client.producer.broker_health import BrokerHealth


@pytest.mark.parametrize(
    ("latency_ms", "duration_ms"),
    [
        (0, 0),
        (49, 0),
        (50, 0),
        (549, 0),
        (549.9, 0),
        (550, 30_000),
        (999, 30_000),
        (1000, 60_000),
        (1999, 60_000),
        (2000, 120_000),
        (2999, 120_000),
        (3000, 180_000),
        (14_999, 180_000),
        (15_000, 600_000),
        (30_000, 600_000),
        (10**9, 600_000),
    ],
)
def test_the_largest_threshold_that_is_reached_counts(latency_ms: float, duration_ms: int) -> None:
    assert BrokerHealth().not_available_duration_ms(latency_ms) == duration_ms


def test_thresholds_and_durations_are_settings() -> None:
    health = BrokerHealth((10, 20), (100, 200))
    assert [health.not_available_duration_ms(each) for each in (9, 10, 19, 20, 1000)] == [0, 100, 100, 200, 200]


def test_an_unknown_broker_is_available() -> None:
    assert BrokerHealth().is_available("a", 0.0)
    assert BrokerHealth().pick_one_at_least(0.0) is None


def test_a_slow_broker_comes_back_after_its_time() -> None:
    health = BrokerHealth()
    health.update("a", 600, now=100.0, isolation=False)
    assert not health.is_available("a", 129.9)
    assert health.is_available("a", 130.0), "at the very millisecond, as in Java"


def test_a_failure_isolates_for_ten_minutes_however_quick_it_was() -> None:
    health = BrokerHealth()
    health.update("a", 1, now=0.0, isolation=True)
    assert not health.is_available("a", 599.9)
    assert health.is_available("a", 600.0)


def test_the_latest_answer_replaces_what_was_known() -> None:
    health = BrokerHealth()
    health.update("a", 20_000, now=0.0, isolation=False)
    health.update("a", 10, now=1.0, isolation=False)
    assert health.is_available("a", 1.0)


def test_the_better_half_takes_turns() -> None:
    """Available ones first, then the quicker ones, then those that come back earlier."""
    health = BrokerHealth()
    health.update("slow", 5000, now=0.0, isolation=False)
    health.update("failed", 1, now=0.0, isolation=True)
    health.update("quick", 10, now=0.0, isolation=False)
    health.update("quicker", 5, now=0.0, isolation=False)
    picked = {health.pick_one_at_least(1.0) for _ in range(10)}
    assert picked == {"quick", "quicker"}


def test_of_unavailable_brokers_the_one_with_the_lower_latency_is_better() -> None:
    """The latency that ranks is the real one, also of a failure, as in Java."""
    health = BrokerHealth()
    health.update("slow", 5000, now=0.0, isolation=False)
    health.update("failed", 1, now=0.0, isolation=True)
    assert {health.pick_one_at_least(1.0) for _ in range(4)} == {"failed"}


def test_with_equal_latencies_the_earlier_return_is_better() -> None:
    health = BrokerHealth()
    health.update("late", 700, now=9.0, isolation=False)
    health.update("early", 700, now=0.0, isolation=False)
    assert {health.pick_one_at_least(10.0) for _ in range(4)} == {"early"}


def test_a_single_broker_is_picked_even_if_it_is_unavailable() -> None:
    health = BrokerHealth()
    health.update("a", 1, now=0.0, isolation=True)
    assert health.pick_one_at_least(1.0) == "a"
    health.remove("a")
    health.remove("a")
    assert health.pick_one_at_least(1.0) is None


def test_of_too_many_brokers_the_one_asked_longest_ago_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_health, "FAULT_ITEMS_MAX", 2)
    health = BrokerHealth()
    for name in ("a", "b", "a", "c"):
        health.update(name, 0.0, now=0.0, isolation=True)
    assert [health.is_available(name, 0.0) for name in ("a", "b", "c")] == [False, True, False]
