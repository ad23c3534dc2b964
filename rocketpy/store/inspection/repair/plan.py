"""Planner of repairs: derives the steps from an inspection. Changes nothing.

The order of the steps makes a crash between any two of them harmless. First the log is completed, while a start still
refuses the damaged store. Then the checkpoint is set back, so that the next start recovers as after a crash. Only then
queues and index lose the parts that this recovery rebuilds. If the log has to be truncated, the checkpoint is set back
first, because recovery would truncate at the same offset.

The plan loses as little as possible: damaged ranges and missing files are filled if the bytes allow it. The log is
truncated where nothing valid follows, where no record fits, where a queue cannot continue, or where ``cut`` asks for
it.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterator, Sequence

import attrs

from rocketpy.store import layout
from rocketpy.store.inspection.repair.log_filling import CannotFill, Hole, LogFilling
from rocketpy.store.inspection.repair.steps import (
    CutLog,
    CutQueue,
    FillHole,
    MoveAway,
    RepairStep,
    RestoreTable,
    RewindCheckpoint,
    SetLength,
    SetTime,
)
from rocketpy.store.inspection.verify.inventory import StoreFile
from rocketpy.store.inspection.verify.log_walk import Damage
from rocketpy.store.inspection.verify.queue_verdict import QueueFault, QueuePart
from rocketpy.store.inspection.verify.small_files_inspection import (
    first_timestamp_ms,
    is_checkpoint_sane,
    restorable_tables,
)
from rocketpy.store.inspection.verify.store_inspection import StoreInspection
from rocketpy.store.recovery.checkpoint import TOLERANCE_MS, DurableEnds

_WHY_QUEUE = "from there on its units do not match its records"
_WHY_INDEX = "its entries do not match the log's records"


@attrs.frozen
class RepairPlan:
    """Steps in the order of their execution."""

    steps: tuple[RepairStep, ...]
    holes: tuple[Hole, ...]
    """The damaged ranges that the FillHole steps fill, in order."""
    kept_bytes: int
    """Approximate size of the backup of the bytes that the steps change."""


class RepairPlanner:
    """Plans the repair for one finished inspection."""

    def __init__(self, inspection: StoreInspection, *, cut: bool) -> None:
        self._found = inspection
        self._cut = cut
        self._inventory = inspection.inventory

    def plan(self) -> RepairPlan:
        """Return the plan; without steps if nothing needs repair."""
        inventory, found = self._inventory, self._found
        steps: list[RepairStep] = [
            MoveAway(path=path, why="the log has, or needs, another file at that offset")
            for path in inventory.misplaced
        ]
        steps += self._lengths()
        steps += self._times()
        holes, fillings, cut_offset, first_invented = self._fill()
        steps += fillings
        cut_steps = [] if cut_offset is None else self._cut_log(cut_offset)
        again = [*(fault.physical_offset for fault in found.faults), *found.rebuild_offsets]
        again += [each for each in (first_invented, cut_offset, found.index.rebuild_offset) if each is not None]
        if again or not is_checkpoint_sane(found.last_end.checkpoint):
            # Not after the offset where a start would begin anyway: no other step covers what it rebuilds from there.
            steps.append(self._rewind_checkpoint(min([*again, found.last_end.walk_begin]), cut_offset))
        steps += cut_steps
        steps += self._cut_queues()
        if found.index.bad_from is not None:
            bad = [each.path for each in inventory.index_files if each.path >= found.index.bad_from]
            steps += [MoveAway(path=path, why=_WHY_INDEX) for path in reversed(bad)]
        tables = restorable_tables(found.disk, inventory, found.opened)
        steps += [RestoreTable(path=path, why=why) for path, why in tables]
        if steps:
            steps += [MoveAway(path=path, why="it has no bytes") for path in inventory.log_leftovers]
        return RepairPlan(tuple(steps), tuple(holes), sum(step.kept_bytes for step in steps))

    # ---- the log --------------------------------------------------------------------------------------------------

    def _lengths(self) -> Iterator[SetLength]:
        for file in self._inventory.log_files:
            if file.length != file.size:
                yield SetLength(path=file.path, size=file.size, length=file.length)
        for queue in self._inventory.queues.values():
            for file in queue.files:
                if file.length != file.size:
                    yield SetLength(path=file.path, size=file.size, length=file.length, item_size=layout.UNIT_SIZE)

    def _times(self) -> Iterator[SetTime]:
        for odd in self._found.odd_times:
            for file in self._inventory.log_files:
                if file.base_offset <= odd.offset < file.end_offset:
                    position = odd.offset - file.base_offset
                    why = f"it says {odd.found_ms}"
                    yield SetTime(path=file.path, begin=position, timestamp_ms=odd.likely_ms, why=why)

    def _fill(self) -> tuple[list[Hole], list[RepairStep], int | None, int | None]:
        """Return the holes, the steps that fill them, the offset of truncation, and the first placeholder without unit.

        Whether a queue can continue is known only after the last hole. If it cannot, the plan is made again with the
        log truncated at that offset.
        """
        found = self._found
        cut_offset = self._first_cut()
        while True:
            holes = [hole for hole in self._holes() if cut_offset is None or hole.begin_offset < cut_offset]
            filling = LogFilling(found.opened, found.continuity, found.needed, holes)
            steps: list[RepairStep] = []
            stopped: int | None = None
            for hole in holes:
                count = filling.placeholder_count
                try:
                    for _ in filling.pieces(hole):
                        pass
                except CannotFill:
                    stopped = hole.begin_offset
                    break
                why = _why(found.damages, hole)
                steps.append(FillHole(hole=hole, placeholder_count=filling.placeholder_count - count, why=why))
            cut_offsets = [each for each in (stopped, filling.first_break) if each is not None]
            if not cut_offsets or (cut_offset is not None and min(cut_offsets) >= cut_offset):
                return holes, steps, cut_offset, filling.first_invented
            cut_offset = min(cut_offsets)

    def _first_cut(self) -> int | None:
        found = self._found
        if self._cut:
            cut_offsets = [damage.begin_offset for damage in found.damages]
            cut_offsets += [each.physical_offset for each in found.breaks]
            if cut_offsets:
                return min(cut_offsets)
        is_end_lost = found.log_end < found.last_end.durable_end or found.gap_after_end is not None
        return found.log_end if is_end_lost else None

    def _holes(self) -> Iterator[Hole]:
        inventory = self._inventory
        bases = {file.path: file.base_offset for file in inventory.log_files}
        for number, damage in enumerate(self._found.damages):
            parts = self._found.in_damages.get(number, [])
            if damage.path:
                yield _hole(damage, damage.path, bases[damage.path], parts)
                continue
            directory = self._directory_for(damage.begin_offset)
            size = inventory.usual_log_size
            if damage.size % size:
                size = damage.size
            for base_offset in range(damage.begin_offset, damage.end_offset, size):
                piece = attrs.evolve(damage, begin_offset=base_offset, end_offset=base_offset + size)
                path = f"{directory}/{layout.file_name(base_offset)}"
                yield _hole(piece, path, base_offset, parts)

    def _directory_for(self, offset: int) -> str:
        """Return the directory of the log file before an offset: a missing file is created beside it."""
        before = [file for file in self._inventory.log_files if file.base_offset < offset]
        return os.path.dirname(before[-1].path) if before else self._inventory.commit_log_paths[0]

    def _cut_log(self, offset: int) -> list[RepairStep]:
        files = tuple(file for file in self._inventory.log_files if file.end_offset > offset)
        if not files:
            return []
        lost_bytes = max(0, self._found.log_end - offset)
        return [CutLog(files=files, offset=offset, lost_bytes=lost_bytes, why=self._why_cut(offset))]

    def _why_cut(self, offset: int) -> str:
        for damage in self._found.damages:
            if damage.begin_offset == offset:
                return f"{damage.why}; requested by --cut, or no record fits there"
        if any(each.physical_offset == offset for each in self._found.breaks):
            return "a queue's offsets are not consecutive there"
        if offset >= self._found.log_end:
            return "a file is missing, or the log was durable beyond this offset, but nothing valid follows"
        return "a queue's offsets cannot be consecutive there, however the damage before it is filled"

    # ---- the next start -------------------------------------------------------------------------------------------

    def _rewind_checkpoint(self, again_from: int, cut_offset: int | None) -> RewindCheckpoint:
        """Return the step that makes the next start, of either broker, scan the log from a file on.

        Java rebuilds its index from the beginning of its scan, so that must not be after the end of its index files.
        """
        inventory, found = self._inventory, self._found
        checkpoint = found.last_end.checkpoint
        index_ms = checkpoint.index_msg_timestamp_ms if is_checkpoint_sane(checkpoint) else 0
        index_ms, index_end = found.index.complete_until(index_ms)
        file = _file_before(inventory.log_files, again_from)
        java_ms = self._java_time(min(again_from, index_end))
        begin = 0 if file is None else file.base_offset
        flushed = found.last_end.durable_end
        if cut_offset is not None:
            # The last record before a cut may end earlier, followed by a BLANK; but not before the last remaining file.
            left = [each.base_offset for each in inventory.log_files if each.base_offset < cut_offset]
            flushed = min(flushed, max(left, default=0))
        return RewindCheckpoint(
            root=inventory.root,
            why="units or index entries must be rebuilt, or the log ends elsewhere now",
            ends=DurableEnds(log_flushed_offset=flushed, durable_offset=min(begin, flushed), unit_count=0),
            physic_msg_timestamp_ms=java_ms,
            index_msg_timestamp_ms=index_ms,
        )

    def _java_time(self, offset: int) -> int:
        """Return the timestamp that makes Java begin its scan with the file of an offset, or with an earlier one.

        Java takes the last file whose first record is not later, so the next file must be younger.
        """
        files = [file for file in self._inventory.log_files if file.base_offset <= offset]
        following = [file for file in self._inventory.log_files if file.base_offset > offset]
        later = [first_timestamp_ms(self._found.opened, file) for file in following]
        limit = min((each for each in later if each > 0), default=1 << 62)
        for file in reversed(files[1:]):
            time_ms = first_timestamp_ms(self._found.opened, file)
            if 0 < time_ms < limit:
                return time_ms + TOLERANCE_MS
            if time_ms > 0:
                limit = min(limit, time_ms)
        return 0

    def _cut_queues(self) -> Iterator[CutQueue]:
        first: dict[str, QueueFault] = {}
        for fault in self._found.faults:
            known = first.get(fault.queue.path)
            if known is None or fault.queue_offset < known.queue_offset:
                first[fault.queue.path] = fault
        for fault in first.values():
            if fault.queue.files and fault.queue_offset * layout.UNIT_SIZE < fault.queue.files[-1].end_offset:
                yield CutQueue(queue=fault.queue, queue_offset=fault.queue_offset, why=_WHY_QUEUE)


def _hole(damage: Damage, path: str, base_offset: int, parts: Sequence[QueuePart]) -> Hole:
    return Hole(
        path=path,
        base_offset=base_offset,
        begin_offset=damage.begin_offset,
        end_offset=damage.end_offset,
        is_file_end=damage.reaches_file_end,
        is_new_file=not damage.path,
        timestamp_ms=damage.timestamp_ms,
        parts=parts,
        suspects=damage.suspects,
    )


def _why(damages: Sequence[Damage], hole: Hole) -> str:
    return next(each.why for each in damages if each.begin_offset <= hole.begin_offset < each.end_offset)


def _file_before(files: Sequence[StoreFile], offset: int) -> StoreFile | None:
    before = [file for file in files if file.base_offset <= offset]
    return before[-1] if before else None
