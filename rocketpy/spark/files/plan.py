"""Plans a read of CommitLog files: byte ranges, each from one record to another.

A record belongs to the range in which it begins. So each cut must be the begin of a record, and it is one for sure: the
position of a record that a ConsumeQueue knows and the record itself confirms (:mod:`queue_units`), or one that was
reached from the begin of the file, record by record. Walking reads the pages of a whole file in the driver, so it is
done only for few files, and where more partitions are wanted than there are files.

The end of the log is found once, here: what a running broker appends later is not part of the read. In the last file
the log ends before the first bytes that are no record, and before records at its end that are torn, unless a
ConsumeQueue knows a record after them: then they are damage in the middle, as they are in any other file.

Files, and ranges, are skipped by the store timestamps of their first records. A broker's clock may have gone back a
little; ``CLOCK_STEP_MS_MAX`` says how much.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

import attrs
import numpy as np

from rocketpy.protocol.stored_message import check_message
from rocketpy.spark.columns.layout import Int64s
from rocketpy.spark.columns.records import Stop, find_records
from rocketpy.spark.files.byte_ranges import PIECE_SIZE, ByteRange
from rocketpy.spark.files.log_files import CommitLogFile, open_to_read, read_exactly, read_timestamp_ms
from rocketpy.spark.files.problems import Problem
from rocketpy.spark.files.queue_units import KnownRecords, QueueFiles
from rocketpy.spark.filters import ALL, EVERYTHING, MessageFilter, Range

CLOCK_STEP_MS_MAX = 60_000
CUT_QUEUES_MAX = 32
"""Queues that are searched for each cut; those with the most units."""
WALK_BYTES_MAX = 4 * 2**30
LOOKS_AT_TAIL = 5
LOOK_PAUSE_S = 0.02
"""Between two looks at a torn end, which a running broker may be about to write."""
PARTITION_BYTES_MIN = 4 * 2**20
"""Smaller ranges cost more than they gain, unless more partitions are asked for."""


@attrs.frozen
class Plan:
    """Ranges in the order of the log. ``tail`` is the torn record that ends it, if there is one."""

    ranges: list[ByteRange]
    tail: Problem | None = None


@attrs.frozen(kw_only=True)
class Planner:
    """How files are cut: at most ``partition_bytes_max`` each, at least ``partitions_min`` ranges, if possible."""

    queues: Sequence[QueueFiles]
    partition_bytes_max: int
    partitions_min: int = 1
    wants: MessageFilter = EVERYTHING
    cores: int = attrs.field(factory=lambda: os.cpu_count() or 1)

    def plan(self, files: Sequence[CommitLogFile], start: int = 0) -> Plan:
        """Return the ranges that hold what is wanted; ``start`` is the physical offset of a record to begin at."""
        if not files:
            return Plan([])
        starts, end, tail = self._end_of_log(files[-1])
        whole = [
            ByteRange(file, max(0, start - file.base_offset), end if file.is_last else file.size) for file in files
        ]
        wanted = self._without_skipped(whole)
        size = sum(each.size for each in wanted)
        step = max(1, min(self._shared_step(size), size // self.partitions_min))
        is_walked = size <= WALK_BYTES_MAX or len(wanted) < self.partitions_min
        known = KnownRecords(sorted(self.queues, key=lambda each: each.first - each.limit)[:CUT_QUEUES_MAX])
        ranges: list[ByteRange] = []
        for each in wanted:
            if each.file.is_last and starts is not None:
                ranges += _cut_at(each, starts, step)
            else:
                cut = _cut_at_known(each, known, step)
                ranges += cut if len(cut) > 1 or not is_walked else _cut_by_walk(each, step)
        return Plan(self._without_skipped(ranges), tail)

    def _shared_step(self, size: int) -> int:
        """Return how many bytes go into a range, so that the cores have equally many of them."""
        rounds = max(1, -(-size // (self.partition_bytes_max * self.cores)))
        step = max(PARTITION_BYTES_MIN, -(-size // (rounds * self.cores)))
        return max(1, min(step, self.partition_bytes_max))

    def _end_of_log(self, file: CommitLogFile) -> tuple[Int64s | None, int, Problem | None]:
        """Return the starts of the records of the last file if it was walked, the end of the log, and a torn tail."""
        known = KnownRecords(self.queues).last_record(file)
        starts, end, why = walk(file, known or 0)
        kept = len(starts)
        while kept and not _is_sound(file, int(starts[kept - 1]), end):
            end, kept, why = int(starts[kept - 1]), kept - 1, "a torn record"
        tail = None
        if why and _holds_bytes(file, end):
            tail = Problem(file.path, end, file.size - end, f"the log ends before it: {why}")
        return (starts[:kept] if known is None else None), end, tail

    def _without_skipped(self, ranges: list[ByteRange]) -> list[ByteRange]:
        """Return the ranges that may hold something that is wanted."""
        wants = self.wants
        if wants.store_timestamps_ms == ALL and wants.physical_offsets == ALL:
            return [each for each in ranges if each.size > 0]
        times = (
            [read_timestamp_ms(each.file, each.start) for each in ranges] if wants.store_timestamps_ms != ALL else []
        )
        kept: list[ByteRange] = []
        for number, each in enumerate(ranges):
            first, later = times[number : number + 1], times[number + 1 : number + 2]
            period = Range(_shifted(first, -CLOCK_STEP_MS_MAX), _shifted(later, CLOCK_STEP_MS_MAX))
            offsets = Range(each.file.base_offset + each.start, each.file.base_offset + each.end)
            is_time_right = not wants.store_timestamps_ms.intersect(period).is_empty
            if each.size > 0 and is_time_right and not wants.physical_offsets.intersect(offsets).is_empty:
                kept.append(each)
        return kept


def is_being_written(tail: Problem, sleep: Callable[[float], None] = time.sleep) -> bool:
    """Return whether a whole record, or BLANK, is at a torn end by now: a running broker was writing it."""
    path = tail.path
    file = CommitLogFile(path, int(os.path.basename(path)), os.path.getsize(path), is_last=True)
    for _ in range(LOOKS_AT_TAIL):
        starts, end, why = walk(file, tail.position)
        if len(starts) == 0 and not why:  # BLANK
            return True
        if len(starts) and _is_sound(file, tail.position, int(starts[1]) if len(starts) > 1 else end):
            return True
        sleep(LOOK_PAUSE_S)
    return False


def _shifted(times: Sequence[int | None], by_ms: int) -> int | None:
    """Return the one time, moved; None if it is unknown or there is none."""
    return None if not times or times[0] is None else times[0] + by_ms


def walk(file: CommitLogFile, start: int, end: int | None = None) -> tuple[Int64s, int, str]:
    """Return where the records of a file begin, from a record on; where the last one ends, and why it stopped there.

    Bodies are not checked. The reason is empty at BLANK and at the end of the file.
    """
    limit = file.size if end is None else end
    position, wanted, pieces = start, PIECE_SIZE, [np.empty(0, np.int64)]
    descriptor = open_to_read(file.path)
    try:
        while position < limit:
            piece = read_exactly(descriptor, file, position, min(wanted, limit - position))
            found = find_records(piece, base_offset=file.base_offset + position, check_crc=False)
            pieces.append(found.block.starts + position)
            position, wanted = position + found.end, PIECE_SIZE
            if found.stop is Stop.INCOMPLETE and position + found.size <= limit:
                wanted = max(wanted, found.size)
            elif found.stop is not Stop.END:
                is_closed = found.stop is Stop.BLANK or (found.stop is Stop.INCOMPLETE and limit - position < 8)
                why = found.why or f"a record of {found.size} bytes does not fit the file"
                return np.concatenate(pieces), position, "" if is_closed else why
    finally:
        os.close(descriptor)
    return np.concatenate(pieces), position, ""


def _cut_at_known(part: ByteRange, known: KnownRecords, step: int) -> list[ByteRange]:
    cuts = [part.start]
    for target in _targets(part, step):
        if target > cuts[-1]:
            found = known.next_record(part.file, target)
            if found is not None and cuts[-1] < found < part.end:
                cuts.append(found)
    return _between(part, cuts)


def _cut_by_walk(part: ByteRange, step: int) -> list[ByteRange]:
    return _cut_at(part, walk(part.file, part.start, part.end)[0], step) if part.size > step else [part]


def _cut_at(part: ByteRange, starts: Int64s, step: int) -> list[ByteRange]:
    at = np.searchsorted(starts, _targets(part, step))
    cuts = {int(starts[each]) for each in at if each < len(starts)}
    return _between(part, [part.start, *sorted(cuts - {part.start})])


def _targets(part: ByteRange, step: int) -> list[int]:
    count = -(-part.size // step)
    return [part.start + part.size * number // count for number in range(1, count)]


def _between(part: ByteRange, cuts: list[int]) -> list[ByteRange]:
    return [ByteRange(part.file, low, high) for low, high in zip(cuts, [*cuts[1:], part.end], strict=True)]


def _is_sound(file: CommitLogFile, start: int, end: int) -> bool:
    """Return whether a record's body has its checksum; a torn write may have left the head of one."""
    descriptor = open_to_read(file.path)
    try:
        record = read_exactly(descriptor, file, start, end - start)
    finally:
        os.close(descriptor)
    return not check_message(record, 0, len(record)).why


def _holds_bytes(file: CommitLogFile, position: int) -> bool:
    descriptor = open_to_read(file.path)
    try:
        return any(os.pread(descriptor, 8, position))
    finally:
        os.close(descriptor)
