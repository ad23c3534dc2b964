"""Continuity of queue offsets in a log: each is its predecessor's in the same queue plus one, or 0 again.

There are two kinds of discontinuity: offsets lost in damage (*needed*: a repair must fill the damage with records of
these offsets), and breaks without any damage, where a start would end the log.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from rocketpy.protocol.stored_message import RECORD_SIZE_MIN, CheckedMessage
from rocketpy.store.inspection.verify.log_walk import Damage, is_queued
from rocketpy.store.queue.multi_dispatch import QueueKey
from rocketpy.store.queue.record_offsets import NamedUnits, follows, queue_offsets_of

_NEEDS_MAX = 100_000
_BREAKS_MAX = 1000


@attrs.frozen
class NeededOffsets:
    """Queue offsets without a record: ``begin`` up to ``end``, between two physical offsets."""

    topic: str
    queue_id: int
    begin: int | None
    """None if the first lost one is unknown, or whether any is lost."""
    end: int
    after_offset: int
    """The end of the queue's last record before them."""
    before_offset: int
    """The physical offset of the queue's first record after them."""


@attrs.frozen
class OffsetBreak:
    """A record whose queue offset is not consecutive, although there is no damage in between."""

    physical_offset: int
    topic: str
    queue_id: int
    expected: int
    found: int
    after_offset: int
    """The end of the queue's previous record."""
    is_alone: bool = False
    """This record itself is wrong: its queue continues as if it had the expected queue offset, or the queue cannot have
    so many messages."""


class _Queue:
    __slots__ = ("broken", "end_offset", "named", "next_offset")

    def __init__(self, next_offset: int, end_offset: int) -> None:
        self.next_offset = next_offset
        self.end_offset = end_offset  # in the log, of the last record
        self.named: NamedUnits | None = None  # of records of other topics, since that offset is expected
        self.broken = -1  # the number of the break that the last record was


class QueueContinuity:
    """The state after the records seen so far."""

    def __init__(self, *, log_min_offset: int) -> None:
        self._log_min_offset = log_min_offset
        self._queues: dict[QueueKey, _Queue] = {}
        self._named_first: dict[QueueKey, NamedUnits] = {}  # in queues without a record of their own
        self._last_damage_end = -1
        self._damaged_bytes = 0
        self.needed: list[NeededOffsets] = []
        self.breaks: list[OffsetBreak] = []
        self.strays: list[tuple[int, int]] = []
        """(physical offset, queue offset) of records that are unexpectedly the first of their queue: they may belong to
        another queue."""

    def see_damage(self, damage: Damage) -> None:
        """Process a damage; the next records come after it."""
        self._last_damage_end = damage.end_offset
        self._damaged_bytes += damage.size

    def see(self, records: Sequence[CheckedMessage]) -> None:
        """Process valid records, in order."""
        queues = self._queues
        for record in records:
            if not is_queued(record):
                continue
            key = record.topic, record.queue_id
            queue = queues.get(key)
            queue_offset = record.queue_offset
            if queue_offset > record.physical_offset // RECORD_SIZE_MIN:
                self._break(record, queue, is_alone=True)
                continue
            if queue is None:
                queue = queues[key] = self._first(record)
            if follows(queue_offset, queue.next_offset, queue.named):
                queue.broken = -1
            else:
                self._does_not_follow(record, queue)
            queue.next_offset = queue_offset + 1
            queue.end_offset = record.physical_offset + record.size
            self._take_names(record)

    def _take_names(self, record: CheckedMessage) -> None:
        for key, queue_offset in queue_offsets_of(record, is_multi_dispatch=True)[1:]:
            queue = self._queues.get(key)
            if queue is None:
                self._named_first[key] = NamedUnits.taken(self._named_first.get(key), 0, queue_offset)
            else:
                queue.named = NamedUnits.taken(queue.named, queue.next_offset, queue_offset)

    def next_offset(self, key: QueueKey) -> int | None:
        """Return the queue offset that must come next, None for a queue without records."""
        queue = self._queues.get(key)
        return None if queue is None else queue.next_offset

    def end_offset(self, key: QueueKey) -> int | None:
        """Return where in the log the last record of a queue ends, None for a queue without records."""
        queue = self._queues.get(key)
        return None if queue is None else queue.end_offset

    def _first(self, record: CheckedMessage) -> _Queue:
        """Return the state of a queue before its first record, which may have any queue offset."""
        queue_offset = record.queue_offset
        if self._last_damage_end >= 0 and queue_offset:
            # The queue may have begun within damage; if no file of the log was ever deleted, it began with 0.
            if not self._log_min_offset and queue_offset <= self._damaged_bytes // RECORD_SIZE_MIN:
                return _Queue(0, 0)
            self._need(record, None, self._log_min_offset)
        elif not self._log_min_offset and len(self.strays) < _BREAKS_MAX and not self._is_named_before(record):
            self.strays.append((record.physical_offset, queue_offset))
        return _Queue(queue_offset, self._log_min_offset)

    def _is_named_before(self, record: CheckedMessage) -> bool:
        """Whether the queue of a record may have begun with it, or with records that name the queue."""
        return follows(record.queue_offset, 0, self._named_first.get((record.topic, record.queue_id)))

    def _does_not_follow(self, record: CheckedMessage, queue: _Queue) -> None:
        if queue.broken >= 0 and record.queue_offset == self.breaks[queue.broken].expected + 1:
            self.breaks[queue.broken] = attrs.evolve(self.breaks[queue.broken], is_alone=True)
            queue.broken = -1
        elif record.queue_offset > queue.next_offset and queue.end_offset < self._last_damage_end:
            self._need(record, queue.next_offset, queue.end_offset)
            queue.broken = -1
        else:
            queue.broken = self._break(record, queue)

    def _break(self, record: CheckedMessage, queue: _Queue | None, *, is_alone: bool = False) -> int:
        """Note a break; return its number, -1 if there are too many."""
        if len(self.breaks) >= _BREAKS_MAX:
            return -1
        expected, after_offset = (0, 0) if queue is None else (queue.next_offset, queue.end_offset)
        record_key = record.physical_offset, record.topic, record.queue_id
        self.breaks.append(OffsetBreak(*record_key, expected, record.queue_offset, after_offset, is_alone))
        return len(self.breaks) - 1

    def _need(self, record: CheckedMessage, begin: int | None, after_offset: int) -> None:
        if len(self.needed) < _NEEDS_MAX:
            end = record.queue_offset
            self.needed.append(
                NeededOffsets(record.topic, record.queue_id, begin, end, after_offset, record.physical_offset)
            )
