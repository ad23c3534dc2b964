"""What a repair decides, and in which order: dying between any two steps must be harmless."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.inspection.repair.plan import RepairPlan, RepairPlanner
from rocketpy.store.inspection.repair.steps import (
    CutLog,
    CutQueue,
    FillHole,
    MoveAway,
    RepairStep,
    RewindCheckpoint,
)
from rocketpy.store.inspection.verify.store_inspection import StoreInspection
from rocketpy.store.layout import UNIT_SIZE
from tests.store import broken_stores
from tests.store.broken_stores import FILE_SIZE, LOG_DAMAGES, BrokenStore, unpack

Break = Callable[[BrokenStore], None]

# Only the body has a checksum: that a record with another topic or offset is wrong is found by a second look, which is
# the affair of rocketpy.store.inspection.repair.repair.
SEEN_AT_ONCE = [each for each in LOG_DAMAGES if each not in (broken_stores.flip_queue_offset, broken_stores.flip_topic)]


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


@pytest.mark.parametrize("damage", SEEN_AT_ONCE, ids=lambda each: each.__name__)
def test_a_damaged_log_is_filled_and_cut_only_when_asked_for(store: BrokenStore, damage: Break) -> None:
    damage(store)
    filled = planned(store)
    assert FillHole in kinds(filled)
    assert CutLog not in kinds(filled)
    assert len(filled.holes) == kinds(filled).count(FillHole)
    cut = planned(store, cut=True)
    assert FillHole not in kinds(cut)
    assert cut.holes == ()
    assert isinstance(only(cut, CutLog), CutLog)


def test_a_hole_is_exactly_the_record_that_was_there(store: BrokenStore) -> None:
    record = store.record()
    broken_stores.flip_body(store)
    plan = planned(store)
    step = only(plan, FillHole)
    assert (step.begin, step.end) == (record.physical_offset, record.physical_offset + record.size)
    assert plan.kept_bytes == step.kept_bytes == record.size


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


# ---- the order ------------------------------------------------------------------------------------------------------
