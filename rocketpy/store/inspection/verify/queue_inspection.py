"""Compares the units of every queue with the records of the log, in one pass over the log.

For each record the unit at its queue offset is checked. Each queue is read sequentially, so memory is one small chunk
of units per queue. The result is records without a unit and units without a record;
:mod:`rocketpy.store.inspection.verify.queue_verdict` classifies them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import attrs

from rocketpy.protocol.java_hash import tags_code as hash_of_tags
from rocketpy.protocol.properties import PROPERTY_DELAY_TIME_LEVEL, PROPERTY_TAGS
from rocketpy.protocol.stored_message import CheckedMessage
from rocketpy.protocol.topic_name import SCHEDULE_TOPIC
from rocketpy.store.inspection.repair.placeholders import is_placeholder
from rocketpy.store.inspection.verify.inventory import Inventory, QueueFiles
from rocketpy.store.inspection.verify.queue_units import ext_unit_at, read_units
from rocketpy.store.inspection.verify.read_only_files import ReadOnlyFiles
from rocketpy.store.layout import UNIT, UNIT_SIZE
from rocketpy.store.queue.end import Unit, is_unit
from rocketpy.store.queue.extension import is_ext_address
from rocketpy.store.queue.multi_dispatch import QueueKey
from rocketpy.store.queue.record_offsets import queue_offsets_of

_CHUNKS_MEMORY = 32 << 20
RANGES_MAX = 200
CLAIMED_QUEUES_MAX = 20_000
"""Limit of the queues whose units named by other queues' records are missing, tracked until one such unit is found."""


@attrs.define
class OffsetRange:
    """Queue offsets ``begin`` up to ``end``, and the physical offset of the first one's record."""

    begin: int
    end: int
    physical_offset: int


class QueueCursor:
    """The state of the pass in one queue."""

    __slots__ = ("chunk", "first", "lost", "next_unit", "queue", "unmatched", "wrong_tags")

    def __init__(self, queue: QueueFiles) -> None:
        self.queue = queue
        self.chunk = b""
        self.first = 0  # queue offset of the chunk's first unit
        self.next_unit = queue.min_offset  # units before it are accounted for
        self.unmatched: list[OffsetRange] = []  # units that no record has claimed
        self.lost: list[OffsetRange] = []  # records without unit
        self.wrong_tags: list[OffsetRange] = []


class QueueInspection:
    """One pass."""

    def __init__(self, inventory: Inventory, opened: ReadOnlyFiles) -> None:
        self._inventory = inventory
        self._opened = opened
        queue_count = max(1, len(inventory.queues))
        self._chunk_units = min(4096, max(16, _CHUNKS_MEMORY // (queue_count * 2 * UNIT_SIZE)))
        self._cursors: dict[QueueKey, QueueCursor] = {}
        self._has_multi_dispatch = False  # a unit was found that only multi-dispatch writes
        self._claims: dict[QueueKey, list[OffsetRange]] = {}  # lost, if there is multi-dispatch
        self.without_queue: dict[QueueKey, list[OffsetRange]] = {}
        """Records whose queue has no files."""
        self.matched_count = 0

    def see(self, records: Sequence[CheckedMessage]) -> None:
        """Check the units of valid records, in log order."""
        for record in records:
            queue_offsets = queue_offsets_of(record, is_multi_dispatch=True)
            for key, queue_offset in queue_offsets[:1]:
                if self._misses_unit(key, record, queue_offset):
                    self._lose(key, queue_offset, queue_offset + 1, record.physical_offset)
            for key, queue_offset in queue_offsets[1:]:
                if key != queue_offsets[0][0]:
                    self._see_named(key, record, queue_offset)

    def cursor_of(self, key: QueueKey) -> QueueCursor:
        """Return the state of the pass in a queue that has files."""
        return self._cursors.get(key) or QueueCursor(self._inventory.queues[key])

    def _see_named(self, key: QueueKey, record: CheckedMessage, queue_offset: int) -> None:
        """Check the unit of a record in a queue that it names besides its own."""
        matched_count = self.matched_count
        if self._misses_unit(key, record, queue_offset):
            if self._has_multi_dispatch:
                self._lose(key, queue_offset, queue_offset + 1, record.physical_offset)
            elif key in self._claims or len(self._claims) < CLAIMED_QUEUES_MAX:
                claims = self._claims.setdefault(key, [])
                extend_ranges(claims, queue_offset, queue_offset + 1, record.physical_offset)
        elif self.matched_count > matched_count and not self._has_multi_dispatch:
            self._has_multi_dispatch = True
            for claimed, ranges in self._claims.items():
                for each in ranges:
                    self._lose(claimed, each.begin, each.end, each.physical_offset)
            self._claims.clear()

    def _misses_unit(self, key: QueueKey, record: CheckedMessage, queue_offset: int) -> bool:
        """Compare a record with the unit at its queue offset; return whether there is none."""
        is_deleted = record.physical_offset < self._inventory.deleted_before.get(key[0], 0)
        cursor = self._cursors.get(key)
        if cursor is None:
            queue = self._inventory.queues.get(key)
            if queue is None or not queue.files:
                return not is_deleted
            cursor = self._cursors[key] = QueueCursor(queue)
        unit = self._unit(cursor, queue_offset)
        if unit[0] != record.physical_offset or unit[1] != record.size:
            # A unit that points elsewhere belongs to another record, or to none: then it stays unmatched.
            return not is_unit(unit) and not is_deleted
        self.matched_count += 1
        if queue_offset > cursor.next_unit:
            extend_ranges(cursor.unmatched, cursor.next_unit, queue_offset, record.physical_offset)
        if queue_offset >= cursor.next_unit:
            cursor.next_unit = queue_offset + 1
        if not self._is_right(unit[2], key, record):
            extend_ranges(cursor.wrong_tags, queue_offset, queue_offset + 1, record.physical_offset)
        return False

    def _lose(self, key: QueueKey, begin: int, end: int, physical_offset: int) -> None:
        """Note records without units."""
        cursor = self._cursors.get(key)
        ranges = self.without_queue.setdefault(key, []) if cursor is None else cursor.lost
        extend_ranges(ranges, begin, end, physical_offset)

    def _unit(self, cursor: QueueCursor, queue_offset: int) -> Unit:
        position = (queue_offset - cursor.first) * UNIT_SIZE
        if not 0 <= position < len(cursor.chunk):
            cursor.chunk = read_units(self._opened, cursor.queue, queue_offset, self._chunk_units)
            cursor.first, position = queue_offset, 0
            if not cursor.chunk:
                return (0, 0, 0)
        return UNIT.unpack_from(cursor.chunk, position)

    def _is_right(self, tags_code: int, key: QueueKey, record: CheckedMessage) -> bool:
        if is_ext_address(tags_code):
            ext_unit = ext_unit_at(self._opened, self._inventory.extensions.get(key), tags_code)
            if ext_unit is None or ext_unit.store_timestamp_ms != record.store_timestamp:
                return False
            tags_code = ext_unit.tags_code
        if tags_code == _hash_of_tags(record.properties.get(PROPERTY_TAGS)):
            return True
        if record.topic == SCHEDULE_TOPIC and PROPERTY_DELAY_TIME_LEVEL in record.properties:
            return tags_code >= record.store_timestamp  # the time of delivery, by levels that only the broker knows
        return is_placeholder(record)


def extend_ranges(ranges: list[OffsetRange], begin: int, end: int, physical_offset: int) -> None:
    """Add offsets to the last range if they follow it, else as a new one; there is a bound on how many."""
    if ranges and (ranges[-1].end == begin or len(ranges) >= RANGES_MAX):
        ranges[-1].end = max(ranges[-1].end, end)
    else:
        ranges.append(OffsetRange(begin, end, physical_offset))


@lru_cache(4096)
def _hash_of_tags(tags: str | None) -> int:
    return hash_of_tags(tags)
