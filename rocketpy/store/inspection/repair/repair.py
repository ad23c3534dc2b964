"""Repair of a store: ``rocketpy store repair``. Only plans, unless asked to write; writes under the store's lock.

Truncated and overwritten bytes are backed up, see :mod:`rocketpy.store.inspection.repair.kept_pieces`. The order of the
steps, and its reason, is in :mod:`rocketpy.store.inspection.repair.plan`. After a crash in the middle, the next repair
inspects everything again and plans what is left. After a repair the store opens, here and in a Java broker; the next
start rebuilds queues and index where necessary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

import attrs

from rocketpy.errors import DiskFullError, StoreError
from rocketpy.store import layout
from rocketpy.store.disk.interface import Disk
from rocketpy.store.inspection.repair.kept_pieces import KeptPieces
from rocketpy.store.inspection.repair.log_filling import LogFilling
from rocketpy.store.inspection.repair.plan import RepairPlan, RepairPlanner
from rocketpy.store.inspection.repair.steps import STAGING_SUFFIX, RepairContext, RepairStep
from rocketpy.store.inspection.verify.findings import Finding
from rocketpy.store.inspection.verify.queue_units import units_between
from rocketpy.store.inspection.verify.store_inspection import StoreInspection
from rocketpy.store.queue.end import is_unit

_REJECTED_MAX = 1000
_SPARE_BYTES = 1 << 20
_ROUNDS_MAX = 4

Progress = Callable[[int, int], None]
"""Called with the bytes of the log that are read, and their total."""


@attrs.frozen
class RepairReport:
    """The steps that were planned or executed, and their result."""

    steps: tuple[RepairStep, ...]
    kept_path: str | None
    left: tuple[Finding, ...]
    """Severe findings that no step repairs."""


def plan_repair(
    disk: Disk, root: str, *, commit_log_paths: Sequence[str] = (), cut: bool = False, progress: Progress | None = None
) -> RepairReport:
    """Inspect the whole store and return what a repair would do; changes nothing."""
    inspection = _inspect(disk, root, commit_log_paths, progress)
    try:
        steps = RepairPlanner(inspection, cut=cut).plan().steps
        return RepairReport(steps, None, () if steps else _severe(inspection))
    finally:
        inspection.close()


def repair_store(
    disk: Disk,
    root: str,
    *,
    timestamp_ms: int,
    commit_log_paths: Sequence[str] = (),
    cut: bool = False,
    progress: Progress | None = None,
    planned: Callable[[tuple[RepairStep, ...]], None] | None = None,
) -> RepairReport:
    """Repair a store, durably on return. ``planned`` is called with the steps before the first one is executed.

    Afterwards the store is inspected again, because one damage may hide another, which is then repaired too.

    StartError if a broker has the store open. StoreError, with nothing changed, if a file cannot be opened or there is
    no space to keep what is changed.
    """
    kept = KeptPieces(disk, root, timestamp_ms=timestamp_ms)
    steps: list[RepairStep] = []
    lock = disk.lock(f"{root}/{layout.LOCK_FILE}")
    try:
        for _ in range(_ROUNDS_MAX):
            inspection = _inspect(disk, root, commit_log_paths, progress)
            try:
                plan = RepairPlanner(inspection, cut=cut).plan()
                if not plan.steps:
                    break
                _require_possible(disk, inspection, plan)
                if planned is not None:
                    planned(plan.steps)
                _apply(disk, inspection, plan, kept)
                steps += plan.steps
            finally:
                inspection.close()
        else:
            inspection = _inspect(disk, root, commit_log_paths, progress)
            inspection.close()
        return RepairReport(tuple(steps), kept.path, _severe(inspection))
    finally:
        lock.release()


def _severe(inspection: StoreInspection) -> tuple[Finding, ...]:
    return tuple(finding for finding in inspection.findings if finding.severity.is_severe)


def _apply(disk: Disk, inspection: StoreInspection, plan: RepairPlan, kept: KeptPieces) -> None:
    filling = LogFilling(inspection.opened, inspection.continuity, inspection.needed, plan.holes)
    context = RepairContext(disk, inspection.inventory.root, kept, filling)
    note_path = inspection.inventory.path_in_root(layout.RECOVERY_NOTE_FILE)
    if disk.exists(note_path):
        kept.move(note_path, "it vouches for the files as they were before the repair")
    for directory in inspection.inventory.commit_log_paths:
        if disk.exists(directory + STAGING_SUFFIX):  # of a repair that died
            disk.unlink(directory + STAGING_SUFFIX)
    for step in plan.steps:
        step.apply(context)


def _require_possible(disk: Disk, inspection: StoreInspection, plan: RepairPlan) -> None:
    unopened = next((each for each in inspection.opened.unreadable if each.position is None), None)
    if unopened is not None:
        raise StoreError(f"cannot repair what cannot be read: {unopened.why}", path=unopened.path)
    free_bytes = disk.free_bytes(inspection.inventory.root)
    if plan.steps and free_bytes < plan.kept_bytes + _SPARE_BYTES:
        raise DiskFullError(
            path=inspection.inventory.root, wanted_bytes=plan.kept_bytes + _SPARE_BYTES, free_bytes=free_bytes
        )


def _inspect(disk: Disk, root: str, commit_log_paths: Sequence[str], progress: Progress | None) -> StoreInspection:
    """Inspect everything; again, if queues show that a record's head is wrong although its checksum is right."""
    rejected_offsets: frozenset[int] = frozenset()
    while True:
        with ExitStack() as scope:
            inspection = StoreInspection(
                disk, root, commit_log_paths=commit_log_paths, rejected_offsets=rejected_offsets
            )
            scope.callback(inspection.close)
            for done, total in inspection.run():
                if progress is not None:
                    progress(done, total)
            more = rejected_offsets | _inconsistent_records(inspection)
            if more == rejected_offsets or len(rejected_offsets) >= _REJECTED_MAX:
                scope.pop_all()  # the caller closes it
                return inspection
        rejected_offsets = more


def _inconsistent_records(inspection: StoreInspection) -> frozenset[int]:
    """Return the offsets of valid records with a wrong head.

    Three signs: the queue continues after the record as if it had another queue offset; a queue does not continue, and
    its unit points to a record with another queue or queue offset; or a queue does not continue, and the record that
    would continue it is the only one of an unknown queue.
    """
    found = {each.physical_offset for each in inspection.breaks if each.is_alone}
    for each in inspection.breaks:
        found |= {
            offset
            for offset, queue_offset in inspection.continuity.strays
            if queue_offset == each.expected and each.after_offset <= offset < each.physical_offset
        }
        queue = inspection.inventory.queues.get((each.topic, each.queue_id))
        if queue is None:
            continue
        end = max(each.expected + 1, min(each.found, each.expected + _REJECTED_MAX))
        for queue_offset, unit in units_between(inspection.opened, queue, each.expected, end):
            if is_unit(unit) and unit[0] <= each.physical_offset:
                record = inspection.record_at(unit[0])
                if record is not None and (record.topic, record.queue_id, record.queue_offset) != (
                    each.topic,
                    each.queue_id,
                    queue_offset,
                ):
                    found.add(unit[0])
    return frozenset(found)
