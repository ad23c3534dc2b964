"""Counters over windows: the difference of the first and the last sample, and the lines that report it."""

from __future__ import annotations

import tracemalloc

import pytest

from rocketpy.broker.monitoring import stats_item
from rocketpy.broker.monitoring.stats_item import (
    ITEM_BYTES,
    MOMENT_BYTES,
    MomentStatsItemSet,
    StatsItem,
    StatsItemSet,
    StatsKey,
    StatsMemory,
    StatsSnapshot,
    StatsWindow,
)

MINUTE = StatsWindow.MINUTE


def new_set(
    name: str = "N",
    *,
    key: StatsKey | None = None,
    memory: StatsMemory | None = None,
    is_response_time: bool = False,
    keeps_idle: bool = False,
) -> StatsItemSet:
    return StatsItemSet(
        name,
        key=key or StatsKey("topic"),
        memory=memory or StatsMemory(),
        is_response_time=is_response_time,
        keeps_idle=keeps_idle,
    )


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
    counters = new_set("TOPIC_PUT_NUMS")
    counters.add("T", 30, 3)
    list(counters.sample(MINUTE, 0.0))
    assert list(counters.lines(MINUTE)) == ["[TOPIC_PUT_NUMS] [T] Stats In One Minute, SUM: 30 TPS: 3.00 AVGPT: 10.00"]
    assert list(counters.lines(StatsWindow.HOUR)) == [
        "[TOPIC_PUT_NUMS] [T] Stats In One Hour, SUM: 0 TPS: 0.00 AVGPT: 0.00"
    ]


def test_lines_of_response_times_have_no_sum() -> None:
    times = new_set("GROUP_GET_LATENCY", is_response_time=True)
    times.add("0@T@G", 9, 2)
    list(times.sample(StatsWindow.DAY, 0.0))
    assert list(times.lines(StatsWindow.DAY)) == ["[GROUP_GET_LATENCY] [0@T@G] Stats In One Day, TIMES: 2 AVGRT: 4.50"]


def test_lines_of_moments_say_the_last_value() -> None:
    moments = MomentStatsItemSet("GROUP_GET_FALL_SIZE", memory=StatsMemory())
    moments.set("0@T@G", 4)
    moments.set("0@T@G", 2)
    assert list(moments.lines()) == ["[GROUP_GET_FALL_SIZE] [0@T@G] Stats Every 5 Minutes, Value: 2"]


def test_a_key_that_is_not_there_has_figures_of_nothing() -> None:
    counters = new_set("N")
    assert counters.get("T") is None
    assert counters.snapshot("T", MINUTE) == StatsSnapshot()


def test_all_sets_share_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    of_key = 4 * len("a")
    monkeypatch.setattr(stats_item, "STATS_BYTES_MAX", 2 * (ITEM_BYTES + of_key) + MOMENT_BYTES + of_key)
    memory = StatsMemory()
    counters, others = new_set(memory=memory), new_set(memory=memory)
    moments = MomentStatsItemSet("M", memory=memory)
    for key in ("a", "b", "a"):
        counters.add(key, 1)
        moments.set(key, len(moments.table))
    others.add("a", 1)
    assert {key: item.value for key, item in counters.table.items()} == {"a": 2, "b": 1}
    assert moments.table == {"a": 1}
    assert (counters.dropped_count, others.dropped_count) == (0, 1)
    counters.forget("topic", "b")
    others.add("a", 1)
    assert set(others.table) == {"a"}
    moments.remove("a")
    moments.remove("a")
    moments.set("c", 1)
    assert moments.table == {"c": 1}


def test_counters_may_come_and_go_while_they_are_sampled() -> None:
    counters = new_set("N")
    counters.add("a", 1)
    counters.add("b", 1)
    sampling = counters.sample(MINUTE, 0.0)
    next(sampling)
    counters.add("c", 1)
    counters.forget("topic", "b")
    assert len(list(sampling)) == 1


@pytest.mark.parametrize(
    ("key", "part", "left"),
    [
        (StatsKey("topic", "group"), "topic", {"Tx@G", "1@T@G", "1@x@T", "x@T"}),
        (StatsKey("queueId", "topic", "group"), "topic", {"T", "T@G", "Tx@G", "1@x@T"}),
        (StatsKey("topic", "group"), "group", {"T", "T@G", "Tx@G", "1@T@G", "1@x@T"}),
        (StatsKey("queueId", "topic", "group"), "group", {"T", "T@G", "Tx@G", "1@T@G", "x@T"}),
        (StatsKey("cluster"), "topic", {"T", "T@G", "Tx@G", "1@T@G", "1@x@T", "x@T"}),
    ],
)
def test_keys_are_forgotten_by_a_whole_name_at_its_part_only(key: StatsKey, part: str, left: set[str]) -> None:
    counters = new_set(key=key)
    for each in ("T", "T@G", "Tx@G", "1@T@G", "1@x@T", "x@T"):
        counters.add(each, 1)
    counters.forget(part, "T")
    assert set(counters.table) == left


def test_a_group_may_have_the_separator_in_its_name() -> None:
    counters = new_set(key=StatsKey("topic", "group"))
    counters.add("T@a@G", 1)
    counters.forget("group", "G")
    assert set(counters.table) == {"T@a@G"}
    counters.forget("group", "a@G")
    assert not counters.table


def test_what_nothing_has_counted_for_an_hour_is_forgotten_and_gives_its_room_back() -> None:
    memory = StatsMemory()
    counters = new_set(memory=memory)
    counters.add("idle", 1)
    counters.add("busy", 1)
    held = memory.held_bytes
    for step in range(6):
        counters.add("busy", 1)
        list(counters.sample(StatsWindow.HOUR, 600.0 * step))
        assert set(counters.table) == {"idle", "busy"}
    list(counters.sample(StatsWindow.DAY, 3600.0))
    list(counters.sample(StatsWindow.HOUR, 3600.0))
    assert set(counters.table) == {"busy"}
    assert memory.held_bytes == held - (ITEM_BYTES + 4 * len("idle"))


def test_a_counter_that_was_replaced_meanwhile_is_not_forgotten_for_the_old_one() -> None:
    counters = new_set()
    for key in ("first", "idle"):
        counters.add(key, 1)
    for step in range(6):
        list(counters.sample(StatsWindow.HOUR, 600.0 * step))
    sampling = counters.sample(StatsWindow.HOUR, 3600.0)
    next(sampling)
    counters.forget("topic", "idle")
    counters.add("idle", 1)
    list(sampling)
    assert set(counters.table) == {"idle"}


def test_a_set_of_the_whole_broker_keeps_what_is_idle() -> None:
    counters = new_set(keeps_idle=True)
    counters.add("C", 1)
    for step in range(10):
        list(counters.sample(StatsWindow.HOUR, 600.0 * step))
    assert set(counters.table) == {"C"}


def test_a_counter_with_all_samples_holds_no_more_than_it_is_counted_for() -> None:
    tracemalloc.start()
    try:
        counters = new_set()
        for number in range(1_000):
            counters.add(f"T{number}", 1)
        for window in StatsWindow:
            for step in range(window.notes_max):
                for item in counters.table.values():
                    item.add(1_000)
                list(counters.sample(window, 600.0 * step))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held <= 1_000 * (ITEM_BYTES + 4 * len("T1000"))
