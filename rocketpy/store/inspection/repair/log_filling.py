"""Computes the records that fill a damaged range of the log, so that everything after it can be kept.

The lost records are derived from three sources, in this order: the units of queues that point into the range (offset,
size, queue and queue offset); the heads of records whose bodies are damaged; and the queue offsets that are missing
between the records before and after the range (their physical offsets are unknown, so they go into the gaps). A start
accepts a log only if the queue offsets of every queue are consecutive. So a record is written only if its queue offset
is the next one of its queue. All other bytes become fillers; a file ends in a BLANK.

The result depends on the log and the queues only. If a repair crashes after some of its records have reached the disk,
the next one finds the rest of the same ranges and fills them in the same way. Nothing is written here.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import groupby

import attrs

from rocketpy.protocol.stored_message import BLANK_SIZE_MIN, CheckedMessage, encode_blank
from rocketpy.protocol.topic_name import LMQ_PREFIX
from rocketpy.store.inspection.repair.placeholders import (
    FILLER_SIZE_MAX,
    FILLER_SIZE_MIN,
    filler,
    placeholder,
    placeholder_size,
    placeholder_size_min,
)
from rocketpy.store.inspection.verify.log_walk import is_queued
from rocketpy.store.inspection.verify.queue_continuity import NeededOffsets, QueueContinuity
from rocketpy.store.inspection.verify.queue_units import is_pre_blank, units_between
from rocketpy.store.inspection.verify.queue_verdict import QueuePart
from rocketpy.store.inspection.verify.read_only_files import ReadOnlyFiles
from rocketpy.store.queue.end import is_unit
from rocketpy.store.queue.multi_dispatch import QueueKey
from rocketpy.store.queue.record_offsets import multi_dispatch_properties

_FOREVER = 1 << 62


@attrs.frozen
class Hole:
    """A damaged range within one file of the log, or a missing file."""

    path: str
    base_offset: int
    """The offset of the file."""
    begin_offset: int
    end_offset: int
    is_file_end: bool
    """Whether it extends to the end of the file."""
    is_new_file: bool
    timestamp_ms: int
    parts: Sequence[QueuePart]
    """Units that point into it."""
    suspects: Sequence[CheckedMessage]


@attrs.frozen
class Piece:
    """Bytes to be written: a head, then zeros, then a tail."""

    offset: int
    head: bytes
    zero_size: int = 0
    tail: bytes = b""

    @property
    def end_offset(self) -> int:
        """The offset of the next piece."""
        return self.offset + len(self.head) + self.zero_size + len(self.tail)


class CannotFill(Exception):
    """No record fits into some bytes: the log has to be truncated here."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


@attrs.define(eq=False)
class _Chain:
    """Queue offsets of one queue that must be consecutive, between two physical offsets."""

    key: QueueKey
    next_offset: int | None  # None: the first one may be any
    end: int
    after_offset: int
    before_offset: int
    missing: list[tuple[int, int]]  # queue offsets with an unknown physical offset

    @property
    def lacks_offset(self) -> bool:
        """Whether the physical offset of the next queue offset is unknown."""
        while self.missing and self.next_offset is not None and self.missing[0][1] <= self.next_offset:
            self.missing.pop(0)
        return bool(self.missing) and self.next_offset is not None and self.missing[0][0] <= self.next_offset


@attrs.frozen
class _Known:
    """A lost record with a known physical offset."""

    offset: int
    size: int
    key: QueueKey
    queue_offset: int
    is_suspect: bool


class LogFilling:
    """One pass over the holes of a log, in order."""

    def __init__(
        self,
        opened: ReadOnlyFiles,
        continuity: QueueContinuity,
        needed: Sequence[NeededOffsets],
        holes: Sequence[Hole],
    ) -> None:
        self._opened = opened
        self._continuity = continuity
        known: dict[QueueKey, list[tuple[int, int]]] = {}
        for hole in holes:
            for part in hole.parts:
                known.setdefault((part.queue.topic, part.queue.queue_id), []).append((part.begin, part.end))
            for suspect in hole.suspects:
                if is_queued(suspect):
                    key = suspect.topic, suspect.queue_id
                    known.setdefault(key, []).append((suspect.queue_offset, suspect.queue_offset + 1))
        self._chains: dict[QueueKey, list[_Chain]] = {}
        for each in sorted(needed, key=lambda each: each.after_offset):
            key = each.topic, each.queue_id
            missing = [] if each.begin is None else _without((each.begin, each.end), sorted(known.get(key, [])))
            chain = _Chain(key, each.begin, each.end, each.after_offset, each.before_offset, missing)
            self._chains.setdefault(key, []).append(chain)
        self._unlocated = sorted(
            (chain for chains in self._chains.values() for chain in chains if chain.missing),
            key=lambda chain: (chain.key, chain.after_offset),
        )
        self.placeholder_count = 0
        self.first_invented: int | None = None
        """The first placeholder with a chosen physical offset: no unit points to it."""

    @property
    def first_break(self) -> int | None:
        """The offset where a queue does not continue in spite of all placeholders: the log must be truncated there."""
        broken = [
            chain.before_offset
            for chains in self._chains.values()
            for chain in chains
            if chain.next_offset is not None and chain.next_offset < chain.end < _FOREVER
        ]
        return min(broken, default=None)

    def pieces(self, hole: Hole) -> Iterator[Piece]:
        """Yield the contents of a hole, without gaps. CannotFill where that is not possible."""
        position = hole.begin_offset
        limit = hole.end_offset - (BLANK_SIZE_MIN if hole.is_file_end else 0)
        for offset, group in groupby(self._known_records(hole), key=lambda each: each.offset):
            candidates = list(group)
            gap = offset - position
            if gap < 0 or (0 < gap < FILLER_SIZE_MIN and not self._fits_something(position, offset)):
                continue
            chosen = self._choose(candidates, offset, limit, has_gap=gap > 0)
            if chosen is None:
                continue
            main, others = chosen
            yield from self._fill_gap(position, offset, hole.timestamp_ms)
            if not self._follow(main.key, main.queue_offset, offset):
                yield from _fillers(offset, offset + main.size, hole.timestamp_ms)
            else:
                more = multi_dispatch_properties([(each.key, each.queue_offset) for each in others])
                yield Piece(
                    offset,
                    *placeholder(*main.key, main.queue_offset, offset, main.size, hole.timestamp_ms, more),
                )
                self.placeholder_count += 1
            position = offset + main.size
        if hole.is_file_end:
            yield from self._end_file(position, hole)
        else:
            yield from self._fill_gap(position, hole.end_offset, hole.timestamp_ms)

    # ---- what is known --------------------------------------------------------------------------------------------

    def _known_records(self, hole: Hole) -> Iterator[_Known]:
        suspects = [
            _Known(each.physical_offset, each.size, (each.topic, each.queue_id), each.queue_offset, True)
            for each in hole.suspects
            if is_queued(each) and hole.begin_offset <= each.physical_offset < hole.end_offset
        ]
        sources = [iter(suspects), *(self._units(part, hole) for part in hole.parts)]
        return heapq.merge(*sources, key=lambda each: each.offset)

    def _units(self, part: QueuePart, hole: Hole) -> Iterator[_Known]:
        key = part.queue.topic, part.queue.queue_id
        for queue_offset, unit in units_between(self._opened, part.queue, part.begin, part.end):
            if is_unit(unit) and not is_pre_blank(unit) and hole.begin_offset <= unit[0] < hole.end_offset:
                yield _Known(unit[0], unit[1], key, queue_offset, False)

    def _choose(
        self, candidates: list[_Known], offset: int, limit: int, *, has_gap: bool
    ) -> tuple[_Known, list[_Known]] | None:
        """Return the lost record at an offset, and its entries in other queues; None if no candidate is possible."""
        possible = [
            each
            for each in candidates
            if each.offset + each.size <= limit
            and each.size >= placeholder_size_min(each.key[0])
            and self._can_follow(each.key, each.queue_offset, offset, has_gap=has_gap)
        ]
        suspect = next((each for each in possible if each.is_suspect), None)
        units = [each for each in possible if not each.is_suspect]
        if not units:
            return None if suspect is None else (suspect, [])
        # A record of several queues belongs to its own topic, which its head names, if the head is intact.
        units.sort(
            key=lambda each: (
                suspect is not None and each.key != suspect.key,
                each.key[0].startswith(LMQ_PREFIX),
                self._continuity.next_offset(each.key) is None,
                each.key,
            )
        )
        main = units[0]
        return main, [each for each in units[1:] if each.size == main.size]

    # ---- which queue offset comes next ----------------------------------------------------------------------------

    def _chain_at(self, key: QueueKey, offset: int) -> _Chain | None:
        for chain in self._chains.get(key, ()):
            if chain.after_offset <= offset < chain.before_offset:
                return chain
        end_offset = self._continuity.end_offset(key)
        if end_offset is not None and end_offset > offset:
            return None  # the queue continues after this offset without a gap: nothing of it is missing here
        chain = _Chain(key, self._continuity.next_offset(key), _FOREVER, end_offset or 0, _FOREVER, [])
        self._chains.setdefault(key, []).append(chain)
        return chain

    def _can_follow(self, key: QueueKey, queue_offset: int, offset: int, *, has_gap: bool) -> bool:
        chain = self._chain_at(key, offset)
        if chain is None:
            # Not the topic's own queue, but one that its messages are dispatched to as well.
            return self._continuity.next_offset(key) is None
        if chain.next_offset is None or chain.next_offset == queue_offset:
            return queue_offset < chain.end
        return has_gap and chain.next_offset < queue_offset < chain.end and chain.lacks_offset

    def _follow(self, key: QueueKey, queue_offset: int, offset: int) -> bool:
        chain = self._chain_at(key, offset)
        if chain is None or (chain.next_offset is not None and chain.next_offset != queue_offset):
            return False
        chain.next_offset = queue_offset + 1
        return True

    # ---- unknown bytes --------------------------------------------------------------------------------------------

    def _fits_something(self, begin: int, end: int) -> bool:
        return any(
            chain.after_offset <= begin < chain.before_offset
            and chain.lacks_offset
            and placeholder_size_min(chain.key[0]) <= end - begin
            for chain in self._unlocated
        )

    def _fill_gap(self, begin: int, end: int, timestamp_ms: int) -> Iterator[Piece]:
        """Cover bytes up to a record: with records of unknown physical offset, the rest with fillers."""
        if begin == end:
            return
        last: tuple[QueueKey, int, int, int] | None = None
        position = begin
        for key, queue_offset, size in self._invent(begin, end):
            if last is not None:
                yield self._invented(last, timestamp_ms)
            last = key, queue_offset, position, size
            position += size
        rest = end - position
        if last is not None:
            if rest < FILLER_SIZE_MIN:
                last = (*last[:3], last[3] + rest)
                position = end
            yield self._invented(last, timestamp_ms)
        elif rest < FILLER_SIZE_MIN:
            raise CannotFill(begin)
        yield from _fillers(position, end, timestamp_ms)

    def _end_file(self, begin: int, hole: Hole) -> Iterator[Piece]:
        end = hole.end_offset
        if end - begin < BLANK_SIZE_MIN:
            raise CannotFill(begin)
        position = begin
        for key, queue_offset, size in self._invent(begin, end - BLANK_SIZE_MIN):
            yield self._invented((key, queue_offset, position, size), hole.timestamp_ms)
            position += size
        if end - BLANK_SIZE_MIN - position >= FILLER_SIZE_MIN:
            yield from _fillers(position, end - BLANK_SIZE_MIN, hole.timestamp_ms)
            position = end - BLANK_SIZE_MIN
        yield Piece(position, encode_blank(end - position), end - position - BLANK_SIZE_MIN)

    def _invent(self, begin: int, end: int) -> Iterator[tuple[QueueKey, int, int]]:
        """Yield queue, queue offset and size of records that go between two offsets, as many as fit."""
        free = end - begin
        for chain in self._unlocated:
            if not chain.after_offset <= begin < chain.before_offset:
                continue
            while chain.lacks_offset:
                assert chain.next_offset is not None
                size = placeholder_size(chain.key[0], begin)
                if size > free:
                    size = placeholder_size_min(chain.key[0])
                if size > free:
                    break
                free -= size
                chain.next_offset += 1
                yield chain.key, chain.next_offset - 1, size

    def _invented(self, each: tuple[QueueKey, int, int, int], timestamp_ms: int) -> Piece:
        key, queue_offset, offset, size = each
        if self.first_invented is None:
            self.first_invented = offset
        self.placeholder_count += 1
        return Piece(offset, *placeholder(*key, queue_offset, offset, size, timestamp_ms))


def _fillers(begin: int, end: int, timestamp_ms: int) -> Iterator[Piece]:
    while begin < end:
        size = min(FILLER_SIZE_MAX, end - begin)
        if 0 < end - begin - size < FILLER_SIZE_MIN:
            size -= FILLER_SIZE_MIN
        yield Piece(begin, *filler(begin, size, timestamp_ms))
        begin += size


def _without(whole: tuple[int, int], parts: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return what of a range is in none of the parts, which are in order of their beginnings."""
    rest = []
    begin, end = whole
    for part_begin, part_end in parts:
        if begin < part_begin:
            rest.append((begin, min(part_begin, end)))
        begin = max(begin, part_end)
        if begin >= end:
            break
    if begin < end:
        rest.append((begin, end))
    return rest
