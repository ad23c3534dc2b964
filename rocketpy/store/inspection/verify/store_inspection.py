"""Read-only verification of a whole store: ``rocketpy store verify``.

One pass over the log checks every record with its checksum, its units and its index entries. Nothing is written,
created or locked; memory is bounded by a window of the log, a chunk of units per queue, and the findings. It works on
stores of Java and ours, with files of any size, and on the directory of a running broker: then data that is still being
written at the ends is no finding.

The result is text for operators (:attr:`StoreInspection.findings`), and exact data for the repair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from rocketpy.protocol.stored_message import CheckedMessage
from rocketpy.store.disk.interface import Disk
from rocketpy.store.inspection.verify.findings import NOTHING, Finding, Severity
from rocketpy.store.inspection.verify.index_inspection import IndexInspection
from rocketpy.store.inspection.verify.inventory import Inventory, read_inventory
from rocketpy.store.inspection.verify.log_walk import Damage, LogWalk, read_record
from rocketpy.store.inspection.verify.queue_continuity import NeededOffsets, OffsetBreak, QueueContinuity
from rocketpy.store.inspection.verify.queue_inspection import QueueInspection
from rocketpy.store.inspection.verify.queue_verdict import LogState, QueueFault, QueuePart, QueueVerdict
from rocketpy.store.inspection.verify.read_only_files import ReadOnlyFiles
from rocketpy.store.inspection.verify.small_files_inspection import (
    LastEnd,
    known_topics,
    read_last_end,
    small_file_findings,
)
from rocketpy.store.inspection.verify.time_inspection import OddTime, TimeInspection

FINDINGS_MAX = 10_000


@attrs.frozen
class Summary:
    """Counters of one inspection."""

    log_begin: int
    log_end: int
    record_count: int
    unit_count: int
    entry_count: int
    queue_count: int
    finding_count: int


class StoreInspection:
    """One inspection of a store. The attributes are set when :meth:`run` is exhausted; then :meth:`close` it."""

    def __init__(
        self,
        disk: Disk,
        root: str,
        *,
        commit_log_paths: Sequence[str] = (),
        is_live: bool = False,
        rejected_offsets: frozenset[int] = frozenset(),
    ) -> None:
        """``is_live``: a broker has the store open. Records at ``rejected_offsets`` count as damaged.

        StoreError if ``root`` is no directory.
        """
        self.disk = disk
        self.opened = ReadOnlyFiles(disk)
        self.inventory: Inventory = read_inventory(disk, root, commit_log_paths)
        self.last_end: LastEnd = read_last_end(disk, self.inventory, self.opened)
        self._is_live = is_live
        self._queues = QueueInspection(self.inventory, self.opened)
        self.index = IndexInspection(self.inventory, self.opened)
        self._times = TimeInspection()
        self._continuity = QueueContinuity(log_min_offset=self.inventory.log_min_offset)
        self._walk = LogWalk(
            self.inventory.log_files,
            self.opened,
            durable_end=self.last_end.durable_end,
            rejected_offsets=rejected_offsets,
        )
        self.finding_count = 0
        self.findings: list[Finding] = []
        """At most ``FINDINGS_MAX``, the first ones of each kind."""
        self.faults: list[QueueFault] = []
        self.rebuild_offsets: list[int] = []
        self.in_damages: dict[int, list[QueuePart]] = {}

    @property
    def damages(self) -> list[Damage]:
        """Damage in the log that is followed by valid records."""
        return self._walk.damages

    @property
    def tail(self) -> list[Damage]:
        """The bytes after the end of the log."""
        return self._walk.tail

    @property
    def gap_after_end(self) -> Damage | None:
        """A file that is missing after the end of the log although a later one exists."""
        return next((each for each in self.tail if not each.path), None)

    @property
    def log_end(self) -> int:
        """The offset after the last valid record."""
        return self._walk.end_offset

    @property
    def needed(self) -> list[NeededOffsets]:
        """Queue offsets that were lost in damage."""
        return self._continuity.needed

    @property
    def breaks(self) -> list[OffsetBreak]:
        """Records whose queue offset is not consecutive."""
        return self._continuity.breaks

    @property
    def odd_times(self) -> list[OddTime]:
        """Records with an implausible storeTimestamp."""
        return self._times.odd

    @property
    def continuity(self) -> QueueContinuity:
        """The next queue offset of each queue of the log."""
        return self._continuity

    def record_at(self, physical_offset: int) -> CheckedMessage | None:
        """Return the valid record at a physical offset, None if there is none."""
        return read_record(self.inventory.log_files, self.opened, physical_offset)

    @property
    def is_severe(self) -> bool:
        """Whether there is any finding that requires action."""
        return any(finding.severity.is_severe for finding in self.findings)

    def run(self) -> Iterator[tuple[int, int]]:
        """Inspect everything; yields the bytes of the log done and their total, about every 20 ms."""
        inventory, total = self.inventory, self.inventory.log_bytes
        self._add(inventory.findings)
        begin = inventory.log_min_offset
        for found in self._walk.slices():
            self._queues.see(found.records)
            self.index.see(found.records)
            self._continuity.see(found.records)
            self._times.see(found.records)
            if found.damage is not None:
                self._continuity.see_damage(found.damage)
                self.index.see_damage(found.damage)
            yield min(total, found.read_offset - begin), total
        self._finish()
        yield total, total

    def close(self) -> None:
        """Close every file."""
        self.opened.close()

    def summary(self) -> Summary:
        """Return the counters."""
        return Summary(
            self.inventory.log_min_offset,
            self.log_end,
            self._walk.record_count,
            self._queues.matched_count,
            self.index.entry_count,
            len(self.inventory.queues),
            self.finding_count,
        )

    def _finish(self) -> None:
        last_end = self.last_end
        self._add(self._log_findings())
        log = LogState(
            self.inventory.log_min_offset,
            self.log_end,
            self.damages,
            last_end.walk_begin,
            last_end.is_clean,
            self._is_live,
            self._continuity.next_offset,
        )
        verdict = QueueVerdict(self._queues, self.inventory, self.opened, log)
        self._add(verdict.findings(known_topics(self.disk, self.inventory, self.opened)))
        self.faults, self.rebuild_offsets = verdict.faults, verdict.rebuild_offsets
        self.in_damages = verdict.in_damages
        self._add(self.index.finish(self.log_end, is_clean=last_end.is_clean, is_live=self._is_live))
        self._add(small_file_findings(self.disk, self.inventory, self.opened, last_end, is_live=self._is_live))
        for each in self.opened.unreadable:
            self._add([_unreadable(each.path, each.position, each.why)])

    def _add(self, findings: Sequence[Finding] | Iterator[Finding]) -> None:
        for finding in findings:
            self.finding_count += 1
            if len(self.findings) < FINDINGS_MAX:
                self.findings.append(finding)

    # ---- the log --------------------------------------------------------------------------------------------------

    def _log_findings(self) -> Iterator[Finding]:
        for damage in self.damages:
            yield self._damage(damage)
        for each in self.breaks:
            yield self._break(each)
        for odd in self.odd_times:
            path, position = self._locate(odd.offset)
            yield Finding(
                severity=Severity.WARNING,
                path=path,
                position=position,
                expected=f"a storeTimestamp near {odd.likely_ms}",
                found=f"{odd.found_ms}",
                start="may go on from that time",
                repair=f"writes {odd.likely_ms}",
            )
        yield from self._tail()

    def _damage(self, damage: Damage) -> Finding:
        last_end = self.last_end
        after = self.log_end - damage.end_offset
        is_crash_like = damage.begin_offset >= last_end.durable_end and damage.begin_offset >= last_end.walk_begin
        if not damage.path:
            start = "refuses the store"
        elif damage.begin_offset < last_end.walk_begin:
            start = "does not scan there: consumers get these bytes, or an error"
        elif is_crash_like:
            start = f"takes it for the end of the log and truncates the {after} bytes of records after it"
        else:
            start = "refuses the store"
        return Finding(
            severity=Severity.ERROR,
            path=damage.path or self.inventory.commit_log_paths[0],
            position=damage.position if damage.path else None,
            expected=f"a valid record at offset {damage.begin_offset} of the log",
            found=f"{damage.size} bytes without a valid record ({damage.why}), then valid records",
            start=start,
            repair="fills it with placeholders, or truncates the log there with --cut",
        )

    def _break(self, each: OffsetBreak) -> Finding:
        path, position = self._locate(each.physical_offset)
        is_looked_at = each.physical_offset >= self.last_end.walk_begin
        return Finding(
            severity=Severity.ERROR,
            path=path,
            position=position,
            expected=f"queue offset {each.expected} of {each.topic!r}, queue {each.queue_id}",
            found=f"{each.found}",
            start="takes it for the end of the log" if is_looked_at else "does not scan there",
            repair="truncates the log there, with --cut only",
        )

    def _tail(self) -> Iterator[Finding]:
        tail = self.tail
        durable_end = self.last_end.durable_end
        files = self.inventory.log_files
        if self.log_end < durable_end and not self._is_live:
            path, position = self._locate(self.log_end)
            why = tail[0].why if tail else "the end of the last file"
            yield Finding(
                severity=Severity.ERROR,
                path=path,
                position=position,
                expected=f"records up to offset {durable_end} of the log, which were durable",
                found=f"{why}, and no valid record after it",
                start="refuses the store",
                repair="truncates the log there",
            )
            return
        gap = self.gap_after_end
        if gap is not None:
            yield Finding(
                severity=Severity.ERROR,
                path=self.inventory.commit_log_paths[0],
                expected=f"a file that begins at {gap.begin_offset}",
                found=f"none up to {gap.end_offset}, and no record after it",
                start="refuses the store",
                repair="moves away the files after the gap",
            )
            return
        first = next((each for each in tail if not each.is_zero or each.has_stale_records_after), None)
        if first is None or self._is_live:
            return
        stale = ", then older records that a truncation has left" if first.has_stale_records_after else ""
        yield Finding(
            severity=Severity.NOTICE,
            path=first.path or files[-1].path,
            position=first.position,
            expected="free space after the last record",
            found=f"{first.why}{stale}: left by a crash",
            start="clears it",
            repair=NOTHING,
        )

    def _locate(self, offset: int) -> tuple[str, int | None]:
        for file in self.inventory.log_files:
            if file.base_offset <= offset < file.end_offset:
                return file.path, offset - file.base_offset
        return self.inventory.commit_log_paths[0], None


def _unreadable(path: str, position: int | None, why: str) -> Finding:
    return Finding(
        severity=Severity.ERROR,
        path=path,
        position=position,
        expected="bytes that the disk can read",
        found=why,
        start="fails there",
        repair="is refused while a file cannot be opened; treats unreadable bytes as zeros",
    )
