"""Plans of reads through ConsumeQueues: which units, and up to where queues are believed."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from rocketpy.spark.files.log_files import CommitLogFile, list_log_files
from rocketpy.spark.files.plan import CLOCK_STEP_MS_MAX
from rocketpy.spark.files.problems import raise_problem
from rocketpy.spark.files.queue_units import QueueFiles, list_queues
from rocketpy.spark.files.unit_plan import UnitPlanner, dispatched_to
from rocketpy.spark.files.unit_ranges import UnitRange
from rocketpy.spark.filters import MessageFilter, Range
from tests.spark.files.built_store import START_MS, BuiltStore, Spec, build_store

SPECS = [Spec(topic="TU"[number % 2], queue_id=number // 2 % 2) for number in range(400)]  # one a second
MARGIN = CLOCK_STEP_MS_MAX // 1000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> BuiltStore:
    return build_store(tmp_path_factory.mktemp("units") / "store", SPECS)


def parts_of(store: BuiltStore) -> tuple[list[CommitLogFile], list[QueueFiles]]:
    return list_log_files(str(store.root), raise_problem), list_queues(str(store.root / "consumequeue"))


def plan(
    store: BuiltStore, wants: MessageFilter, limit: int = 1 << 62, step: int = 1 << 30
) -> tuple[list[tuple[UnitRange, ...]], int]:
    files, queues = parts_of(store)
    return UnitPlanner(queues=queues, wants=wants, partition_bytes=step).plan(files, limit)


def units(tasks: list[tuple[UnitRange, ...]]) -> list[tuple[str, int, int, int]]:
    return [(each.queue.topic, each.queue.queue_id, each.start, each.end) for task in tasks for each in task]


def wanted(**conditions: object) -> MessageFilter:
    return MessageFilter(topics=frozenset("T"), **conditions)  # type: ignore[arg-type]


def test_topics_and_queues_are_chosen(store: BuiltStore) -> None:
    ranges, size = plan(store, wanted())
    assert units(ranges) == [("T", 0, 0, 100), ("T", 1, 0, 100)]
    assert size == 200 * len(store.records[0][1])
    assert units(plan(store, wanted(queue_ids=frozenset((1, 7))))[0]) == [("T", 1, 0, 100)]
    assert plan(store, MessageFilter(topics=frozenset("X"))) == ([], 0)


def test_units_are_narrowed_by_offsets_and_the_limit(store: BuiltStore) -> None:
    narrow = wanted(queue_ids=frozenset((0,)), queue_offsets=Range(10, 30))
    assert units(plan(store, narrow)[0]) == [("T", 0, 10, 30)]
    assert units(plan(store, narrow, limit=store.offsets[4 * 20])[0]) == [("T", 0, 10, 20)]
    physical = wanted(
        queue_ids=frozenset((0,)), physical_offsets=Range(store.offsets[4 * 15 + 1], store.offsets[4 * 18])
    )
    assert units(plan(store, physical)[0]) == [("T", 0, 16, 18)]


def test_units_are_narrowed_by_time_with_a_margin_for_the_clock(store: BuiltStore) -> None:
    """Units of queue 0 are four seconds apart."""
    times = wanted(queue_ids=frozenset((0,)), store_timestamps_ms=Range(START_MS + 200_000, START_MS + 240_000))
    assert units(plan(store, times)[0]) == [("T", 0, (200 - MARGIN) // 4, (240 + MARGIN) // 4)]


def test_ranges_are_as_large_as_asked_for(store: BuiltStore) -> None:
    size = len(store.records[0][1])
    ranges, _ = plan(store, wanted(queue_ids=frozenset((0,))), step=40 * size)
    assert units(ranges) == [("T", 0, 0, 40), ("T", 0, 40, 80), ("T", 0, 80, 100)]
    assert [len(task) for task in ranges] == [1, 1, 1]


def test_small_queues_are_read_by_one_task(store: BuiltStore) -> None:
    size = len(store.records[0][1])
    both = MessageFilter(topics=frozenset("TU"))
    assert [len(task) for task in plan(store, both, step=200 * size)[0]] == [2, 2]
    assert [len(task) for task in plan(store, both, step=300 * size)[0]] == [3, 1]
    assert [len(task) for task in plan(store, both)[0]] == [4]


def test_the_queues_of_a_clean_store_hold_all_that_any_of_them_knows(tmp_path: Path) -> None:
    store = build_store(tmp_path / "store", SPECS[:50])
    files, queues = parts_of(store)
    end = store.offsets[-1] + len(store.records[-1][1])
    assert dispatched_to(str(store.root), files, queues) == end
    [gone] = [queue for queue in queues if (queue.topic, queue.queue_id) == ("U", 0)]
    assert dispatched_to(str(store.root), files, [gone]) == store.offsets[49] + len(store.records[49][1])
    assert dispatched_to(str(store.root), files, []) == 0


@pytest.mark.parametrize(("flushed_s", "count"), [(0, 0), (30, 28), (1000, 50)])
def test_the_queues_of_a_killed_store_hold_what_its_checkpoint_says(flushed_s: int, count: int, tmp_path: Path) -> None:
    store = build_store(tmp_path / "store", SPECS[:50])
    (store.root / "abort").touch()
    files, queues = parts_of(store)
    assert dispatched_to(str(store.root), files, queues) == 0
    flushed_ms = START_MS + 1000 * flushed_s
    (store.root / "checkpoint").write_bytes(struct.pack(">qqq", flushed_ms, flushed_ms, 0).ljust(4096, b"\0"))
    limit = dispatched_to(str(store.root), files, queues)
    assert sum(offset < limit for offset in store.offsets) == count
    assert limit == 0 or limit in [offset + len(content) for offset, content in store.records]
