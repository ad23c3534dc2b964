"""Dispatch of records to queues during recovery: the units of queues are rebuilt from the log.

While a store is open append makes units as it goes, and nothing is read back. Rule: the log is the truth.
A unit that is there is left alone, one that is missing is written; a queue that does not continue where the log does is
reported as a gap, and rebuilt from the beginning of the log. A unit that is missing although it was durable is reported
before it is made again: the checkpoint must not count it until it is durable again.

Only a record of a queue's own topic decides where that queue goes on. One of another topic that names the queue
(multi-dispatch) is taken at the offset that it names if that is the queue's end, and otherwise skipped: no checksum
covers its names and offsets, and a client may have written them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from rocketpy.protocol.stored_message import CheckedMessage
from rocketpy.store import layout
from rocketpy.store.log.scanner import Run, Slice
from rocketpy.store.queue.consume_queue import ConsumeQueue
from rocketpy.store.queue.extension import BitMapOf
from rocketpy.store.queue.record_offsets import queue_offsets_of
from rocketpy.store.queue.record_units import RecordUnits, TagsCodeOf, may_take
from rocketpy.store.queue.table import ConsumeQueueTable
from rocketpy.store.recovery.queue_recovery import QueueRecoveries, QueueRecovery


class QueueGap(Exception):
    """A record says that units before it are missing from its queue: they must be made from earlier records."""

    def __init__(self, recovery: QueueRecovery) -> None:
        super().__init__(recovery.queue)
        self.recovery = recovery


class LostUnit(Exception):
    """A record has no unit, although that was known to be durable."""


class LogDispatcher:
    """Dispatches valid records in log order. Blocks: for the time before a store is open."""

    def __init__(
        self,
        *,
        queues: ConsumeQueueTable,
        recoveries: QueueRecoveries,
        tags_code: TagsCodeOf,
        bit_map_of: BitMapOf | None = None,
        is_multi_dispatch: bool = False,
    ) -> None:
        self._queues = queues
        self._recoveries = recoveries
        self._units = RecordUnits(tags_code=tags_code, bit_map_of=bit_map_of)
        self._is_multi_dispatch = is_multi_dispatch
        self.durable_offset = 0
        """Units of records before it are known to be durable; one that is missing raises :class:`LostUnit`."""
        self.unit_count = 0
        self.first_offset: int | None = None  # of the first record whose unit was missing

    def built_end(self, topic: str, queue_id: int) -> int:
        """Return up to where a queue is trusted to have its units."""
        return self._recoveries.find(topic, queue_id).built_end

    def dispatch_slice(
        self, found: Slice, record_of: Callable[[int], CheckedMessage], *, is_from_beginning: bool
    ) -> None:
        """Write the units of a slice, as far as they are not there. ``record_of`` returns its record at an offset.

        Raises :class:`QueueGap` and :class:`LostUnit`, see :meth:`dispatch`.
        """
        for run in found.runs:
            self._dispatch_run(run, record_of, is_from_beginning=is_from_beginning)
        if found.other is not None:
            self.dispatch([found.other], is_from_beginning=is_from_beginning)

    def _dispatch_run(self, run: Run, record_of: Callable[[int], CheckedMessage], *, is_from_beginning: bool) -> None:
        """Take the units of a run that are there and its records'; make the others from the records."""
        physical_offsets, sizes, done = run.physical_offsets, run.sizes, 0
        deleted_before = self._queues.deleted_before.get(run.topic, 0)
        if physical_offsets[0] < deleted_before:
            done = bisect_left(physical_offsets, deleted_before)
        recovery = self._recoveries.find(run.topic, run.queue_id) if layout.names_a_directory(run.topic) else None
        while done < len(physical_offsets):
            adopted = 0
            if recovery is not None and run.queue_offset + done == recovery.queue.next_offset:
                adopted = recovery.adopt_units(physical_offsets[done:], sizes[done:])
                if adopted:
                    self._queues.unflushed[recovery.queue] = None
            done += adopted
            # After matching units comes one that must be checked alone; if the first mismatches, the rest almost
            # certainly does.
            looked_at = physical_offsets[done : done + 1] if adopted else physical_offsets[done:]
            self.dispatch([record_of(offset) for offset in looked_at], is_from_beginning=is_from_beginning)
            done += len(looked_at)

    def dispatch(self, records: list[CheckedMessage], *, is_from_beginning: bool) -> None:
        """Write the units of records. Raises :class:`QueueGap`, never if the walk is from the
        beginning of the log: then what is missing is gone. Raises :class:`LostUnit` before the first unit is made that
        was durable.
        """
        touched: dict[ConsumeQueue, None] = {}
        try:
            for record in records:
                queue_offsets = queue_offsets_of(record, is_multi_dispatch=self._is_multi_dispatch)
                for index, ((topic, queue_id), queue_offset) in enumerate(queue_offsets):
                    if record.physical_offset < self._queues.deleted_before.get(topic, 0):
                        continue
                    recovery = self._recoveries.find(topic, queue_id)
                    if record.physical_offset + record.size <= recovery.built_end:
                        continue
                    queue = recovery.queue
                    if index and not may_take(queue, queue_offset, is_gap_final=is_from_beginning):
                        continue
                    self._continue_at(recovery, queue_offset, is_from_beginning=is_from_beginning)
                    if not queue.units and recovery.adopt_units((record.physical_offset,), (record.size,)):
                        self._queues.unflushed[queue] = None
                        continue
                    if record.physical_offset < self.durable_offset:
                        raise LostUnit(queue)
                    queue.make_room(1)
                    queue.units.append(self._unit(recovery, queue_offset, record))
                    queue.next_offset += 1
                    touched[queue] = None
                    self.unit_count += 1
                    if self.first_offset is None:
                        self.first_offset = record.physical_offset
        finally:
            for queue in touched:
                queue.write_units()
                self._queues.unflushed[queue] = None

    def _unit(self, recovery: QueueRecovery, queue_offset: int, record: CheckedMessage) -> bytes:
        """Return the unit of a record, with the tags code that is there if it surely is this record's."""
        queue, stored_ms = recovery.queue, record.store_timestamp
        tags_code = recovery.stale_tags_code(queue_offset, record.physical_offset, record.size, stored_ms)
        if tags_code is None:
            return self._units.unit(queue, record)
        return layout.UNIT.pack(record.physical_offset, record.size, tags_code)

    def _continue_at(self, recovery: QueueRecovery, queue_offset: int, *, is_from_beginning: bool) -> None:
        """Bring a queue's end to an offset, or raise QueueGap."""
        queue = recovery.queue
        if queue_offset == queue.next_offset:
            return
        queue.write_units()
        if queue_offset < queue.next_offset:
            # The log is the truth: units from here on are of records that a crash took, or of a topic that was deleted
            # and created again, whose queues begin at 0. Cleared durably, before other units are written there.
            recovery.truncate(queue_offset)
        elif is_from_beginning:
            # Units before this one are gone for good. The old files go durably, before the queue begins at its new
            # offset: a unit that came back could match a record written since.
            recovery.remove_files()
            queue.start_at(queue_offset)
        else:
            raise QueueGap(recovery)
