"""Counters over windows: the difference of the first and the last sample, and the lines that report it."""

from __future__ import annotations

import pytest

from rocketpy.broker.monitoring import stats_item
from rocketpy.broker.monitoring.stats_item import (
    MomentStatsItemSet,
    StatsItem,
    StatsItemSet,
    StatsSnapshot,
    StatsWindow,
    remove_infixed,
    remove_prefixed,
    remove_suffixed,
)

MINUTE = StatsWindow.MINUTE


def test_a_counter_without_a_note_says_nothing() -> None:
    item = StatsItem()
    item.add(5)
    assert item.snapshot(MINUTE) == StatsSnapshot(0, 0.0, 0, 0.0)


def test_the_first_note_tells_what_came_within_one_period() -> None:
    item = StatsItem()
    item.add(30, 3)
    item.sample(MINUTE, 1000.0)
    assert item.snapshot(MINUTE) == StatsSnapshot(sum=30, tps=3.0, times=3, avgpt=10.0)


@pytest.mark.parametrize("window", list(StatsWindow))
def test_a_window_forgets_what_is_older_than_itself(window: StatsWindow) -> None:
    item = StatsItem()
    for step in range(100):
        item.add(10, 2)
        item.sample(window, step * window.period_seconds)
    periods = window.notes_max - 1
    assert item.snapshot(window) == StatsSnapshot(
        sum=periods * 10, tps=10 / window.period_seconds, times=periods * 2, avgpt=5.0
    )


def test_notes_at_the_same_time_give_no_rate() -> None:
    item = StatsItem()
    for _ in range(10):
        item.sample(MINUTE, 5.0)
        item.add(1)
    assert item.snapshot(MINUTE).tps == 0.0


def test_windows_do_not_know_of_each_other() -> None:
    item = StatsItem()
    item.add(7)
    item.sample(StatsWindow.DAY, 0.0)
    assert item.snapshot(StatsWindow.DAY).sum == 7
    assert item.snapshot(StatsWindow.HOUR).sum == 0


def test_lines_are_as_rocketmq_writes_them() -> None:
    counters = StatsItemSet("TOPIC_PUT_NUMS")
    counters.add("T", 30, 3)
    list(counters.sample(MINUTE, 0.0))
    assert list(counters.lines(MINUTE)) == ["[TOPIC_PUT_NUMS] [T] Stats In One Minute, SUM: 30 TPS: 3.00 AVGPT: 10.00"]
    assert list(counters.lines(StatsWindow.HOUR)) == [
        "[TOPIC_PUT_NUMS] [T] Stats In One Hour, SUM: 0 TPS: 0.00 AVGPT: 0.00"
    ]


def test_lines_of_response_times_have_no_sum() -> None:
    times = StatsItemSet("GROUP_GET_LATENCY", is_response_time=True)
    times.add("0@T@G", 9, 2)
    list(times.sample(StatsWindow.DAY, 0.0))
    assert list(times.lines(StatsWindow.DAY)) == ["[GROUP_GET_LATENCY] [0@T@G] Stats In One Day, TIMES: 2 AVGRT: 4.50"]


def test_lines_of_moments_say_the_last_value() -> None:
    moments = MomentStatsItemSet("GROUP_GET_FALL_SIZE")
    moments.set("0@T@G", 4)
    moments.set("0@T@G", 2)
    assert list(moments.lines()) == ["[GROUP_GET_FALL_SIZE] [0@T@G] Stats Every 5 Minutes, Value: 2"]


def test_a_key_that_is_not_there_has_figures_of_nothing() -> None:
    counters = StatsItemSet("N")
    assert counters.get("T") is None
    assert counters.snapshot("T", MINUTE) == StatsSnapshot()


def test_a_set_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats_item, "ITEMS_MAX", 2)
    counters, moments = StatsItemSet("N"), MomentStatsItemSet("M")
    for key in ("a", "b", "c", "a"):
        counters.add(key, 1)
        moments.set(key, len(moments.table))
    assert {key: item.value for key, item in counters.table.items()} == {"a": 2, "b": 1}
    assert counters.dropped_count == 1
    assert moments.table == {"a": 2, "b": 1}


def test_counters_may_come_and_go_while_they_are_sampled() -> None:
    counters = StatsItemSet("N")
    counters.add("a", 1)
    counters.add("b", 1)
    sampling = counters.sample(MINUTE, 0.0)
    next(sampling)
    counters.add("c", 1)
    del counters.table["b"]
    assert len(list(sampling)) == 1


@pytest.mark.parametrize(
    ("remove", "left"),
    [
        (remove_prefixed, {"T", "Tx@G", "1@T@G", "1@x@T"}),
        (remove_infixed, {"T", "T@G", "Tx@G", "1@x@T"}),
        (remove_suffixed, {"T", "T@G", "Tx@G", "1@T@G"}),
    ],
)
def test_keys_are_removed_by_a_whole_name_only(remove: object, left: set[str]) -> None:
    table = dict.fromkeys(("T", "T@G", "Tx@G", "1@T@G", "1@x@T"), 0)
    assert callable(remove)
    remove(table, "T")
    assert set(table) == left
