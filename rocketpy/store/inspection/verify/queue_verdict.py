"""Classifies mismatches between log and queues: lost, explained, or repaired by the next start.

A record without a unit is invisible to consumers; a unit without a record returns wrong bytes. But a unit that points
into damage shows which record was lost there; a unit after the log's end is truncated with it; one before its beginning
has expired; and units that are missing where a start scans the log are rebuilt by it.
"""

from __future__ import annotations

import enum
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import attrs

from rocketpy.protocol.topic_name import LMQ_PREFIX
from rocketpy.store.inspection.verify.findings import NOTHING, Finding, Severity
from rocketpy.store.inspection.verify.inventory import Inventory, QueueFiles
from rocketpy.store.inspection.verify.log_walk import Damage, read_record
from rocketpy.store.inspection.verify.queue_inspection import RANGES_MAX, OffsetRange, QueueCursor, QueueInspection
from rocketpy.store.inspection.verify.queue_units import file_of_unit, is_pre_blank, units_between
from rocketpy.store.inspection.verify.read_only_files import ReadOnlyFiles
from rocketpy.store.layout import CONSUME_QUEUE_DIRECTORY, UNIT_SIZE
from rocketpy.store.queue.end import Unit, is_unit
from rocketpy.store.queue.multi_dispatch import QueueKey

CUT = "truncates the queue there; the next start rebuilds its units from the log"
REBUILD = "has the next start rebuild them from the log"
_NOT_SCANNED = "does not scan there: consumers get what is there"
_NOT_REBUILT = "does not rebuild them: it does not scan there"


@attrs.frozen
class LogState:
    """The result of a scan of the log, and where a start would begin its own scan."""

    min_offset: int
    end_offset: int
    damages: Sequence[Damage]
    walk_begin: int
    """A start scans records from here on."""
    is_clean: bool
    """No abort file: a start trusts the existing units."""
    is_live: bool
    """A broker is writing at the same time: what is missing at an end may still be written."""
    next_offset: Callable[[QueueKey], int | None]
    """The queue offset after a queue's last record."""


@attrs.frozen
class QueuePart:
    """Units ``begin`` up to ``end`` of a queue."""

    queue: QueueFiles
    begin: int
    end: int


@attrs.frozen
class QueueFault:
    """A queue is valid up to a unit; from there on it must be rebuilt from this physical offset on."""

    queue: QueueFiles
    queue_offset: int
    physical_offset: int


class _Kind(enum.Enum):
    FINE = "fine"  # expired, or before the first message
    HOLE = "hole"
    WRONG = "wrong"
    PAST_END = "past the end"
    DAMAGED = "damaged"  # what it points to


@attrs.define
class _Run:
    kind: _Kind
    damage: int
    begin: int
    end: int
    first: Unit


class QueueVerdict:
    """The classification of one scan. The attributes are set when :meth:`findings` is exhausted."""

    def __init__(self, inspection: QueueInspection, inventory: Inventory, opened: ReadOnlyFiles, log: LogState) -> None:
        self._inspection = inspection
        self._inventory = inventory
        self._opened = opened
        self._log = log
        self.faults: list[QueueFault] = []
        self.rebuild_offsets: list[int] = []
        """Physical offsets of records whose units would not be rebuilt without a repair."""
        self.in_damages: dict[int, list[QueuePart]] = {}
        """By the number of a damage: the units that point into it."""

    def findings(self, known_topics: frozenset[str] | None) -> Iterator[Finding]:
        """Yield the findings. ``known_topics`` are those of the broker's table, None if there is none."""
        for key, ranges in self._inspection.without_queue.items():
            yield from self._missing_queue(key, ranges, known_topics)
        for key, queue in self._inventory.queues.items():
            if queue.files:
                yield from self._queue(self._inspection.cursor_of(key))

    # ---- records without units ------------------------------------------------------------------------------------

    def _missing_queue(
        self, key: QueueKey, ranges: list[OffsetRange], known_topics: frozenset[str] | None
    ) -> Iterator[Finding]:
        topic, queue_id = key
        is_deleted = known_topics is not None and topic not in known_topics and not topic.startswith(LMQ_PREFIX)
        for each in ranges:
            severity, start, repair = Severity.ERROR, _NOT_REBUILT, REBUILD
            if each.physical_offset >= self._log.walk_begin or self._log.is_live:
                severity, start, repair = Severity.NOTICE, "rebuilds them", NOTHING
            elif is_deleted:
                severity, start, repair = Severity.NOTICE, "nothing: the topic was deleted", NOTHING
            else:
                self.rebuild_offsets.append(each.physical_offset)
            yield Finding(
                severity=severity,
                path=f"{self._inventory.path_in_root(CONSUME_QUEUE_DIRECTORY)}/{topic}/{queue_id}",
                expected=f"units of {each.end - each.begin} records from {each.physical_offset} on",
                found="no queue",
                start=start,
                repair=repair,
            )

    def _lost(self, cursor: QueueCursor, each: OffsetRange) -> Iterator[Finding]:
        log = self._log
        is_tail = each.end >= cursor.next_unit
        severity, start, repair = Severity.NOTICE, "rebuilds them", NOTHING
        is_made = each.physical_offset >= log.walk_begin and (is_tail or not log.is_clean)
        if not is_made and not (log.is_live and is_tail):
            severity, start, repair = Severity.ERROR, _NOT_REBUILT, REBUILD
            self.rebuild_offsets.append(each.physical_offset)
            self.faults.append(QueueFault(cursor.queue, each.begin, each.physical_offset))
        expected = f"units of the records from {each.physical_offset} of the log on"
        yield _finding(cursor.queue, each.begin, each.end, severity, expected, "none", start, repair)

    # ---- units without records ------------------------------------------------------------------------------------

    def _queue(self, cursor: QueueCursor) -> Iterator[Finding]:
        queue = cursor.queue
        for previous, following in pairwise(queue.files):
            if previous.end_offset < following.base_offset:
                self._fault(queue, previous.end_offset // UNIT_SIZE)
                yield Finding(
                    severity=Severity.ERROR,
                    path=queue.path,
                    expected=f"a file that begins at {previous.end_offset}",
                    found=f"none up to {following.base_offset}",
                    start="drops the files after the gap; rebuilds units only where it scans the log",
                    repair=CUT,
                )
        for each in cursor.unmatched:
            for run in self._runs(queue, each.begin, each.end, is_tail=False):
                yield from self._judge(queue, run, is_tail=False)
        for run in self._runs(queue, cursor.next_unit, queue.end_offset, is_tail=True):
            yield from self._judge(queue, run, is_tail=True)
        for each in cursor.wrong_tags:
            self.faults.append(QueueFault(queue, each.begin, each.physical_offset))
            expected, found = "the tags code of its record", "another: a tag filter skips the message"
            yield _finding(queue, each.begin, each.end, Severity.WARNING, expected, found, _NOT_SCANNED, CUT)
        for each in cursor.lost:
            yield from self._lost(cursor, each)

    def _runs(self, queue: QueueFiles, begin: int, end: int, *, is_tail: bool) -> list[_Run]:
        """Return units as runs of one kind; the tail of a queue ends at the first missing unit."""
        runs: list[_Run] = []
        for queue_offset, unit in units_between(self._opened, queue, begin, end):
            if is_tail and not is_unit(unit):
                break
            kind, damage = self._kind(unit)
            last = runs[-1] if runs else None
            if last is not None and ((last.kind, last.damage) == (kind, damage) or len(runs) >= RANGES_MAX):
                last.end = queue_offset + 1
            else:
                runs.append(_Run(kind, damage, queue_offset, queue_offset + 1, unit))
        return runs

    def _kind(self, unit: Unit) -> tuple[_Kind, int]:
        log = self._log
        if is_pre_blank(unit):
            return _Kind.FINE, -1
        if not is_unit(unit):
            return _Kind.HOLE, -1
        physical_offset, size, _ = unit
        if physical_offset + size <= log.min_offset:
            return _Kind.FINE, -1
        index = bisect_right(log.damages, physical_offset, key=lambda damage: damage.begin_offset) - 1
        if index >= 0 and physical_offset + size <= log.damages[index].end_offset:
            return _Kind.DAMAGED, index
        return (_Kind.PAST_END if physical_offset + size > log.end_offset else _Kind.WRONG), -1

    def _judge(self, queue: QueueFiles, run: _Run, *, is_tail: bool) -> Iterator[Finding]:
        log = self._log
        if run.kind is _Kind.FINE:
            return
        if run.kind is _Kind.DAMAGED:
            self.in_damages.setdefault(run.damage, []).append(QueuePart(queue, run.begin, run.end))
            return
        if log.is_live and is_tail:
            return
        count = run.end - run.begin
        is_replaced = not log.is_clean and self._physical_before(queue, run.begin) >= log.walk_begin
        severity, start, repair = Severity.ERROR, _NOT_SCANNED, CUT
        # Units after all records of the queue are truncated with the log; one at a record's queue offset is wrong.
        if (
            run.kind is _Kind.PAST_END
            and is_tail
            and run.begin >= (log.next_offset((queue.topic, queue.queue_id)) or 0)
        ):
            severity, start, repair = Severity.NOTICE, "truncates them", NOTHING
        elif is_replaced:
            severity, start, repair = Severity.NOTICE, "rebuilds them from the log", NOTHING
        else:
            self._fault(queue, run.begin)
        if run.kind is _Kind.HOLE:
            found = "none" if count == 1 else f"none, {count} times"
        else:
            physical_offset, size, _ = run.first
            end = f"after the log's end at {log.end_offset}"
            what = end if run.kind is _Kind.PAST_END else self._what_is_at(physical_offset, queue)
            others = f", and {count - 1} like it" if count > 1 else ""
            found = f"{size} bytes at {physical_offset} of the log: {what}{others}"
        expected = "a unit of a record of this queue"
        yield _finding(queue, run.begin, run.end, severity, expected, found, start, repair)

    def _fault(self, queue: QueueFiles, queue_offset: int) -> None:
        self.faults.append(QueueFault(queue, queue_offset, self._physical_before(queue, queue_offset)))

    def _physical_before(self, queue: QueueFiles, queue_offset: int) -> int:
        """Return the physical offset of the previous unit's record: the missing records come after it."""
        log = self._log
        for _, unit in units_between(self._opened, queue, max(queue.min_offset, queue_offset - 1), queue_offset):
            if is_unit(unit) and not is_pre_blank(unit) and log.min_offset <= unit[0] < log.end_offset:
                return unit[0]
        return log.min_offset

    def _what_is_at(self, physical_offset: int, queue: QueueFiles) -> str:
        record = read_record(self._inventory.log_files, self._opened, physical_offset)
        if record is None:
            return "no valid record begins there"
        if (record.topic, record.queue_id) == (queue.topic, queue.queue_id):
            return f"a record of queue offset {record.queue_offset}, {record.size} bytes"
        return f"a record of {record.topic!r}, queue {record.queue_id}"


def _finding(
    queue: QueueFiles, begin: int, end: int, severity: Severity, expected: str, found: str, start: str, repair: str
) -> Finding:
    file = file_of_unit(queue, begin)
    offsets = f"queue offset {begin}" if end == begin + 1 else f"queue offsets {begin} to {end - 1}"
    return Finding(
        severity=severity,
        path=queue.path if file is None else file.path,
        position=None if file is None else begin * UNIT_SIZE - file.base_offset,
        expected=f"at {offsets}: {expected}",
        found=found,
        start=start,
        repair=repair,
    )
