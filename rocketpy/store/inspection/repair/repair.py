"""Mends a store: ``rocketpy store repair``. Plans by default; writes only when told to, under the store's lock.

What is cut or overwritten is kept, see :mod:`rocketpy.store.inspection.repair.kept_pieces`; the order of the steps, and
the reason for it, is in :mod:`rocketpy.store.inspection.repair.plan`. A repair that dies in the middle is
begun again by another one, which looks at everything anew and plans what is left. After a repair the store opens, here
and in a Java broker; the next start makes queues and index again where that is needed.
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
from rocketpy.store.inspection.repair.steps import STAGING_SUFFIX, RepairStep, Workshop
from rocketpy.store.inspection.verify.findings import Finding
from rocketpy.store.inspection.verify.queue_units import is_unit, units_between
from rocketpy.store.inspection.verify.store_inspection import StoreInspection

_DISTRUSTED_MAX = 1000
_SPARE_BYTES = 1 << 20
_ROUNDS_MAX = 4

Progress = Callable[[int, int], None]
"""Told how many bytes of the log are read, and how many there are."""


@attrs.frozen
class RepairReport:
    """What was planned, and done."""

    steps: tuple[RepairStep, ...]
    kept_path: str | None
    left: tuple[Finding, ...]
    """What is severe and no step mends."""


def plan_repair(
    disk: Disk, root: str, *, commit_log_paths: Sequence[str] = (), cut: bool = False, progress: Progress | None = None
) -> RepairReport:
    """Return what a repair would do, having looked at the whole store; changes nothing."""
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
    """Mend a store; all is durable on return. ``planned`` is told the steps before the first one is taken.

    Then everything is looked at again: what one damage has hidden of another is mended too.

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
    workshop = Workshop(disk, inspection.inventory.root, kept, filling)
    for directory in inspection.inventory.commit_log_paths:
        if disk.exists(directory + STAGING_SUFFIX):  # of a repair that died
            disk.unlink(directory + STAGING_SUFFIX)
    for step in plan.steps:
        step.apply(workshop)


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
    """Look at everything; twice, if queues show that a record's head is wrong although its checksum is right."""
    distrusted: frozenset[int] = frozenset()
    while True:
        with ExitStack() as scope:
            inspection = StoreInspection(disk, root, commit_log_paths=commit_log_paths, distrusted=distrusted)
            scope.callback(inspection.close)
            for done, total in inspection.run():
                if progress is not None:
                    progress(done, total)
            more = distrusted | _impostors(inspection)
            if more == distrusted or len(distrusted) >= _DISTRUSTED_MAX:
                scope.pop_all()  # the caller closes it
                return inspection
        distrusted = more


def _impostors(inspection: StoreInspection) -> frozenset[int]:
    """Return places of records that are not what they say: a queue goes on behind one as if it had another queue
    offset, or a queue does not continue and its unit leads to a record of another queue or queue offset, or one that
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
        end = max(each.expected + 1, min(each.found, each.expected + _DISTRUSTED_MAX))
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
