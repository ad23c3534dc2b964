"""The names and keys of RocketMQ's statistics, and that the fast paths' counters are drained into them."""

from __future__ import annotations

import pytest

from rocketpy.broker.monitoring import stats_item
from rocketpy.broker.monitoring.broker_stats_manager import (
    COMMERCIAL_NAMES,
    QUEUE_NAMES,
    STATS_NAMES,
    BrokerStatsManager,
)
from rocketpy.broker.monitoring.stats_item import StatsSnapshot, StatsWindow
from rocketpy.clock import ManualClock
from rocketpy.store.results import GetMessageResult, GetMessageStatus
from tests.broker.monitoring.test_counters import record
from tests.forgotten import sizes_within

MINUTE = StatsWindow.MINUTE


@pytest.fixture
def stats() -> BrokerStatsManager:
    return make_stats()


def make_stats(**settings: bool) -> BrokerStatsManager:
    return BrokerStatsManager(cluster_name="C", clock=ManualClock(10_000), **settings)


def sample(stats: BrokerStatsManager) -> None:
    list(stats.sample(MINUTE, 1000.0))


def figures(stats: BrokerStatsManager, name: str, key: str) -> tuple[int, int] | None:
    item = stats.get_stats_item(name, key)
    return None if item is None else (item.value, item.times)


def found(*records: bytes) -> GetMessageResult:
    return GetMessageResult(GetMessageStatus.FOUND, len(records), 0, len(records), b"".join(records), len(records))


def test_names_are_those_of_rocketmq(stats: BrokerStatsManager) -> None:
    assert len({*QUEUE_NAMES, *STATS_NAMES, *COMMERCIAL_NAMES}) == 23
    assert stats.get_stats_item("NO_SUCH_NAME", "T") is None
    assert stats.get_stats_item("TOPIC_PUT_NUMS", "T") is None


def test_puts_count_for_topic_and_broker(stats: BrokerStatsManager) -> None:
    stats.inc_topic_put("T", 3, 900)
    stats.inc_topic_put("U", 1, 100)
    assert figures(stats, "TOPIC_PUT_NUMS", "T") == (3, 1)
    assert figures(stats, "TOPIC_PUT_SIZE", "T") == (900, 1)
    assert figures(stats, "BROKER_PUT_NUMS", "C") == (4, 0)


def test_puts_of_the_fast_path_are_drained_by_a_query(stats: BrokerStatsManager) -> None:
    counter = stats.topic_put_counter("T")
    assert stats.topic_put_counter("T") is counter
    counter.count, counter.size_bytes = 2, 300
    assert figures(stats, "TOPIC_PUT_NUMS", "T") == (2, 2)
    assert figures(stats, "TOPIC_PUT_SIZE", "T") == (300, 2)
    assert figures(stats, "BROKER_PUT_NUMS", "C") == (2, 0)
    assert figures(stats, "TOPIC_PUT_NUMS", "T") == (2, 2)


def test_pulls_count_for_group_queue_and_broker(stats: BrokerStatsManager) -> None:
    first, second = record(0, 9_000), record(200, 9_500)
    stats.inc_pulled("G", "T", 3, found(first, second), 1_000)
    stats.inc_pulled("G", "T", 4, found(first), 1_000)
    stats.inc_pull_wait("G", "T", 3, 12)
    assert figures(stats, "GROUP_GET_NUMS", "T@G") == (3, 2)
    assert figures(stats, "GROUP_GET_SIZE", "T@G") == (2 * len(first) + len(second), 2)
    assert figures(stats, "GROUP_GET_LATENCY", "3@T@G") == (12, 1)
    assert figures(stats, "GROUP_GET_LATENCY", "4@T@G") == (0, 1)
    assert figures(stats, "BROKER_GET_NUMS", "C") == (3, 0)
    assert stats.fall_bytes() == {"3@T@G": 800, "4@T@G": 1_000}
    sample(stats)
    assert stats.tps_group_get_nums("G", "T") == pytest.approx(0.3)
    assert sorted(stats.moment_lines()) == [
        "[GROUP_GET_FALL_SIZE] [3@T@G] Stats Every 5 Minutes, Value: 800",
        "[GROUP_GET_FALL_SIZE] [4@T@G] Stats Every 5 Minutes, Value: 1000",
        "[GROUP_GET_FALL_TIME] [3@T@G] Stats Every 5 Minutes, Value: 500",
        "[GROUP_GET_FALL_TIME] [4@T@G] Stats Every 5 Minutes, Value: 1000",
    ]


def test_lag_in_bytes_is_kept_only_with_disk_fall_recorded() -> None:
    stats = make_stats(disk_fall_recorded=False)
    stats.record_fall("G", "T", 0, 5, 6)
    assert stats.fall_bytes() == {}
    assert list(stats.moment_lines()) == ["[GROUP_GET_FALL_TIME] [0@T@G] Stats Every 5 Minutes, Value: 6"]


def test_verbs_of_others(stats: BrokerStatsManager) -> None:
    stats.inc_group_get("G", "T", 2, 50)
    stats.inc_group_get_latency("G", "T", 1, 4)
    stats.inc_send_back("G", "T")
    stats.inc_queue_put("D", 2, 1, 300)
    stats.inc_queue_get("G", "D", 2, 1, 300)
    stats.inc_commercial("COMMERCIAL_SEND_TIMES", "O", "T", "G", "SEND_SUCCESS", 1)
    assert figures(stats, "GROUP_GET_NUMS", "T@G") == (2, 1)
    assert figures(stats, "GROUP_GET_SIZE", "T@G") == (50, 1)
    assert figures(stats, "GROUP_GET_LATENCY", "1@T@G") == (4, 1)
    assert figures(stats, "SNDBCK_PUT_NUMS", "T@G") == (1, 1)
    assert figures(stats, "QUEUE_PUT_NUMS", "D@2") == (1, 1)
    assert figures(stats, "QUEUE_PUT_SIZE", "D@2") == (300, 1)
    assert figures(stats, "QUEUE_GET_NUMS", "D@2@G") == (1, 1)
    assert figures(stats, "QUEUE_GET_SIZE", "D@2@G") == (300, 1)
    assert figures(stats, "COMMERCIAL_SEND_TIMES", "O@T@G@SEND_SUCCESS") == (1, 1)


def test_without_detail_there_are_no_queues_in_keys() -> None:
    stats = make_stats(enable_detail_stat=False)
    stats.inc_queue_put("D", 2, 1, 300)
    stats.inc_queue_get("G", "D", 2, 1, 300)
    stats.inc_pulled("G", "T", 3, found(record()), 1_000)
    assert all(stats.get_stats_item(name, "D@2") is None for name in QUEUE_NAMES)
    assert figures(stats, "GROUP_GET_LATENCY", "T@G") == (0, 1)


def test_light_queues_are_counted_as_one() -> None:
    stats = make_stats(enable_lmq=True)
    stats.inc_pulled("%LMQ%g", "%LMQ%1", 0, found(record()), 1_000)
    stats.inc_pulled("%LMQ%h", "%LMQ%2", 0, found(record()), 1_000)
    stats.inc_send_back("%LMQ%g", "T")
    assert figures(stats, "GROUP_GET_NUMS", "%LMQ%@%LMQ%") == (2, 2)
    assert figures(stats, "SNDBCK_PUT_NUMS", "T@%LMQ%") == (1, 1)


@pytest.mark.parametrize("enable_detail_stat", [True, False])
def test_a_deleted_topic_is_forgotten_whole(enable_detail_stat: bool) -> None:
    """Java throws here without detail (AdminBrokerProcessor.deleteTopic with autoDeleteUnusedStats)."""
    stats = make_stats(enable_detail_stat=enable_detail_stat)
    for topic in ("T", "Tx"):
        stats.inc_topic_put(topic, 1, 1)
        stats.topic_put_counter(topic).count += 1
        stats.inc_queue_put(topic, 0, 1, 1)
        stats.inc_pulled("G", topic, 0, found(record()), 1_000)
        stats.inc_queue_get("G", topic, 0, 1, 1)
        stats.inc_send_back("G", topic)
    stats.on_topic_deleted("T")
    sample(stats)
    text = "\n".join([*stats.lines(MINUTE), *stats.moment_lines()])
    assert "Tx" in text
    assert "[T" not in text.replace("[Tx", "").replace("[TOPIC", "")
    assert "@T@" not in text
    assert figures(stats, "BROKER_PUT_NUMS", "C") == (4, 0)


def test_a_deleted_group_is_forgotten_whole(stats: BrokerStatsManager) -> None:
    for group in ("G", "Gx"):
        stats.inc_pulled(group, "T", 0, found(record()), 1_000)
        stats.inc_queue_get(group, "T", 0, 1, 1)
        stats.inc_send_back(group, "T")
    stats.on_group_deleted("G")
    sample(stats)
    text = "\n".join([*stats.lines(MINUTE), *stats.moment_lines()])
    assert "@Gx]" in text
    assert "@G]" not in text


def test_lines_of_commerce_are_apart(stats: BrokerStatsManager) -> None:
    stats.inc_topic_put("T", 1, 10)
    stats.inc_commercial("COMMERCIAL_SEND_SIZE", "O", "T", "G", "SEND_SUCCESS", 10)
    sample(stats)
    assert sorted(stats.lines(MINUTE)) == [
        "[BROKER_PUT_NUMS] [C] Stats In One Minute, SUM: 1 TPS: 0.10 AVGPT: 0.00",
        "[TOPIC_PUT_NUMS] [T] Stats In One Minute, SUM: 1 TPS: 0.10 AVGPT: 1.00",
        "[TOPIC_PUT_SIZE] [T] Stats In One Minute, SUM: 10 TPS: 1.00 AVGPT: 10.00",
    ]
    assert list(stats.commercial_lines(MINUTE)) == [
        "[COMMERCIAL_SEND_SIZE] [O@T@G@SEND_SUCCESS] Stats In One Minute, SUM: 10 TPS: 1.00 AVGPT: 10.00"
    ]


def test_all_counters_share_a_bound(stats: BrokerStatsManager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats_item, "STATS_BYTES_MAX", 30_000)
    for topic in ("T", "U"):
        for number in range(10):
            stats.topic_put_counter(f"{topic}{number}").count += 1
            stats.inc_pulled(f"G{number}", topic, 0, found(record()), 1_000)
            stats.inc_topic_put(f"{topic}{number}", 1, 1)
    assert figures(stats, "TOPIC_PUT_NUMS", "T0") == (2, 2)
    assert figures(stats, "TOPIC_PUT_NUMS", "U9") is None
    assert figures(stats, "GROUP_GET_NUMS", "U@G9") is None
    assert stats.dropped_count > 0
    assert StatsSnapshot() == stats.get_stats_item("TOPIC_PUT_NUMS", "T0").snapshot(MINUTE)  # type: ignore[union-attr]


def count_everything(stats: BrokerStatsManager, topic: str, group: str) -> None:
    stats.inc_topic_put(topic, 1, 1)
    stats.topic_put_counter(topic).count += 1
    stats.inc_queue_put(topic, 0, 1, 1)
    stats.inc_pulled(group, topic, 0, found(record()), 1_000)
    stats.inc_queue_get(group, topic, 0, 1, 1)
    stats.inc_send_back(group, topic)
    stats.inc_commercial("COMMERCIAL_SEND_TIMES", "O", topic, group, "SEND_SUCCESS", 1)


def test_topics_and_groups_that_come_and_go_leave_nothing(stats: BrokerStatsManager) -> None:
    """What they leave is the broker's own: counters of the cluster."""
    count_everything(stats, "T", "G")
    sample(stats)
    stats.on_topic_deleted("T")
    stats.on_group_deleted("G")
    sizes = sizes_within(stats)
    for number in range(20):
        count_everything(stats, f"T{number}", f"G{number}")
        sample(stats)
        stats.on_topic_deleted(f"T{number}")
        stats.on_group_deleted(f"G{number}")
    assert sizes_within(stats) == sizes


def test_what_nothing_touches_for_an_hour_is_forgotten(stats: BrokerStatsManager) -> None:
    held = sizes_within(stats)
    stats.inc_topic_put("T", 1, 1)
    stats.on_topic_deleted("T")
    of_the_cluster = sizes_within(stats)
    assert of_the_cluster != held
    count_everything(stats, "T", "G")
    for step in range(6):
        list(stats.sample(StatsWindow.HOUR, 600.0 * step))
        assert figures(stats, "GROUP_GET_LATENCY", "0@T@G") == (0, 1)
    for step in range(6, 8):
        list(stats.sample(StatsWindow.HOUR, 600.0 * step))
    stats.on_forgotten.clear()
    assert figures(stats, "BROKER_GET_NUMS", "C") == (1, 0)
    assert figures(stats, "TOPIC_PUT_NUMS", "T") is None
    assert not stats.fall_bytes()
    text = "\n".join([*stats.lines(MINUTE), *stats.commercial_lines(MINUTE), *stats.moment_lines()])
    assert "T@" not in text
    assert "@T" not in text


def test_a_fast_path_keeps_no_counter_that_was_forgotten(stats: BrokerStatsManager) -> None:
    """It would count into an object that is drained no more."""
    dropped = []
    stats.on_forgotten.append(lambda: dropped.append(True))
    stats.topic_put_counter("T").count += 1
    stats.on_topic_deleted("U")
    assert not dropped
    stats.on_topic_deleted("T")
    assert dropped == [True]
    counter = stats.topic_put_counter("T")
    counter.count += 1
    for step in range(7):
        assert len(dropped) == 1
        assert stats.topic_put_counter("T") is counter
        list(stats.sample(StatsWindow.HOUR, 600.0 * step))
    assert len(dropped) == 2
