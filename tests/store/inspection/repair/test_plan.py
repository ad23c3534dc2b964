"""What a repair decides: where a queue is cut, from where the next start walks, and which files of the index go."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.inspection.repair.plan import RepairPlan, RepairPlanner
from rocketpy.store.inspection.repair.steps import (
    CutLog,
    CutQueue,
    MoveAway,
    RepairStep,
    RewindCheckpoint,
)
from rocketpy.store.inspection.verify.store_inspection import StoreInspection
from rocketpy.store.layout import UNIT_SIZE
from tests.store import broken_stores
from tests.store.broken_stores import FILE_SIZE, BrokenStore, unpack

Break = Callable[[BrokenStore], None]


@pytest.fixture
def store(tmp_path: Path) -> BrokenStore:
    return unpack("store-clean", tmp_path)


def planned(store: BrokenStore, *, cut: bool = False) -> RepairPlan:
    inspection = StoreInspection(OsDisk(), str(store.root))
    for _ in inspection.run():
        pass
    try:
        return RepairPlanner(inspection, cut=cut).plan()
    finally:
        inspection.close()


def kinds(plan: RepairPlan) -> list[type]:
    return [type(step) for step in plan.steps]


def only(plan: RepairPlan, kind: type[RepairStep]) -> RepairStep:
    (step,) = [each for each in plan.steps if isinstance(each, kind)]
    return step


def test_a_sound_store_is_left_alone(store: BrokenStore) -> None:
    assert planned(store) == RepairPlan((), (), 0)
    assert planned(store, cut=True) == RepairPlan((), (), 0)


# ---- what is chosen -------------------------------------------------------------------------------------------------


def test_a_queue_is_cut_once_at_its_first_fault(store: BrokenStore) -> None:
    broken_stores.hole_in_queue(store)
    broken_stores.unit_elsewhere(store)
    step = only(planned(store), CutQueue)
    assert isinstance(step, CutQueue)
    assert (step.queue_offset, step.path, step.begin) == (2, str(store.queue_file("GoldB")), 2 * UNIT_SIZE)


@pytest.mark.parametrize(
    "damage", [broken_stores.unit_elsewhere, broken_stores.remove_topic], ids=lambda each: each.__name__
)
def test_the_next_start_walks_from_before_what_is_to_be_made_again(store: BrokenStore, damage: Break) -> None:
    first = min(record.physical_offset for record in store.records() if record.topic == "GoldB")
    damage(store)
    step = only(planned(store), RewindCheckpoint)
    assert isinstance(step, RewindCheckpoint)
    assert step.ends.durable_offset <= first
    assert step.ends.durable_offset % FILE_SIZE == 0, "where a file begins, as Java's walk does"
    assert step.ends.log_flushed_offset > first, "what was durable still is: damage there is not taken for an end"


def test_after_a_cut_nothing_after_it_counts_as_durable(store: BrokenStore) -> None:
    broken_stores.garbage_in_log(store)
    plan = planned(store, cut=True)
    cut, rewind = only(plan, CutLog), only(plan, RewindCheckpoint)
    assert isinstance(cut, CutLog)
    assert isinstance(rewind, RewindCheckpoint)
    assert rewind.ends.durable_offset <= rewind.ends.log_flushed_offset <= cut.offset


def test_the_index_goes_from_its_first_wrong_file_on_the_last_one_first(store: BrokenStore) -> None:
    """Java's and our start trust the files that are there: a gap in the middle would not be noticed."""
    broken_stores.index_entry_elsewhere(store)
    moved = [step.path for step in planned(store).steps if isinstance(step, MoveAway)]
    assert moved == sorted((str(path) for path in (store.root / "index").iterdir()), reverse=True)
