"""Export of messages from the files of a store, with or without a running broker. Read-only.

With a topic that has queues, messages come in the order of each queue, queue after queue; otherwise in the order of the
log. Damage is reported and skipped, so that a failing disk yields whatever is still readable. After a crash queues may
end before the log does; their last messages then come from the log.

A message that names further queues (INNER_MULTI_DISPATCH) is exported from such a queue if a unit there points to it.
Without a unit the name is trusted only for a light queue, or if the queue has messages of other topics: clients of a
broker without multi-dispatch may write such names too.

Memory is bounded by one record and a window of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import attrs

from rocketpy.errors import LocalProtocolError, RemoteProtocolError
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.properties import ALL_INDEX_KEYS
from rocketpy.protocol.stored_message import CheckedMessage, decode_message
from rocketpy.protocol.topic_name import LMQ_PREFIX
from rocketpy.store.disk.interface import Disk
from rocketpy.store.inspection.verify.inventory import QueueFiles, StoreFile, read_inventory
from rocketpy.store.inspection.verify.log_walk import LogWalk, is_queued, read_record
from rocketpy.store.inspection.verify.queue_units import is_pre_blank, read_units, units_between
from rocketpy.store.inspection.verify.read_only_files import ReadOnlyFiles
from rocketpy.store.inspection.verify.small_files_inspection import LastEnd, read_last_end
from rocketpy.store.layout import UNIT
from rocketpy.store.queue.end import is_unit
from rocketpy.store.queue.multi_dispatch import QueueKey
from rocketpy.store.queue.record_offsets import queue_offsets_of

_FOREVER = 1 << 62


@attrs.frozen(kw_only=True)
class ExportOptions:
    """Selection of messages. Both ends of a time range are included, the end of queue offsets is not."""

    topic: str | None = None
    queue_id: int | None = None
    key: str | None = None
    """One of the message's keys, or its unique key."""
    begin_timestamp_ms: int = 0
    end_timestamp_ms: int = _FOREVER
    begin_offset: int = 0
    end_offset: int = _FOREVER
    through_log: bool = False
    """Read the log from its beginning even if there are queues."""

    def is_met_by(self, record: CheckedMessage, topic: str, queue_id: int, queue_offset: int) -> bool:
        """Whether a record is selected, as a message of the given queue."""
        return (
            (self.topic is None or topic == self.topic)
            and (self.queue_id is None or queue_id == self.queue_id)
            and self.begin_offset <= queue_offset < self.end_offset
            and self.begin_timestamp_ms <= record.store_timestamp <= self.end_timestamp_ms
            and (self.key is None or self.key.encode("utf-8", "surrogatepass") in record.index_keys(ALL_INDEX_KEYS))
        )


class StoreExport:
    """One export. Run it once, and :meth:`close` it."""

    def __init__(
        self,
        disk: Disk,
        root: str,
        options: ExportOptions,
        *,
        commit_log_paths: Sequence[str] = (),
        report: Callable[[str], None],
    ) -> None:
        """``report`` is called with a description of each range that is skipped."""
        self._opened = ReadOnlyFiles(disk)
        self._inventory = read_inventory(disk, root, commit_log_paths)
        self._options = options
        self._report = report
        self._last_end: LastEnd = read_last_end(disk, self._inventory, self._opened)
        self._queue_ends: dict[int, int] = {}  # queue offsets before these came from the queues
        self._has_multi_dispatch = False  # one of the queues has a message of another topic

    def messages(self) -> Iterator[MessageExt]:
        """Yield the selected messages, with decompressed bodies."""
        options = self._options
        queues = [
            queue
            for (topic, queue_id), queue in sorted(self._inventory.queues.items())
            if topic == options.topic and queue.files and options.queue_id in (None, queue_id)
        ]
        if queues and not options.through_log:
            for queue in queues:
                yield from self._of_queue(queue)
            if not self._last_end.is_clean:
                yield from self._of_log(self._last_end.walk_begin)
        else:
            yield from self._of_log(None)
        for each in self._opened.unreadable:
            self._report(each.why)

    def close(self) -> None:
        """Close every file."""
        self._opened.close()

    # ---- by queues ------------------------------------------------------------------------------------------------

    def _of_queue(self, queue: QueueFiles) -> Iterator[MessageExt]:
        options, log_min = self._options, self._inventory.log_min_offset
        skipped = _SkippedUnits(queue, self._report)
        begin = max(queue.min_offset, options.begin_offset)
        self._queue_ends[queue.queue_id] = begin
        end = min(queue.end_offset, options.end_offset)
        for queue_offset, unit in units_between(self._opened, queue, begin, end):
            if not is_unit(unit):
                skipped.free_or_hole(queue_offset)
                continue
            self._queue_ends[queue.queue_id] = queue_offset + 1
            if is_pre_blank(unit) or unit[0] + unit[1] <= log_min:
                continue
            record = read_record(self._inventory.log_files, self._opened, unit[0])
            expected = (queue.topic, queue.queue_id), queue_offset
            if record is None or (expected not in queue_offsets_of(record, is_multi_dispatch=True)):
                skipped.add(queue_offset, f"no valid record of it at {unit[0]} of the log")
                continue
            skipped.end()
            self._has_multi_dispatch |= (record.topic, record.queue_id) != (queue.topic, queue.queue_id)
            if options.is_met_by(record, queue.topic, queue.queue_id, queue_offset):
                yield from self._message(record)
        skipped.end()

    # ---- by the log -----------------------------------------------------------------------------------------------

    def _of_log(self, begin_offset: int | None) -> Iterator[MessageExt]:
        files: list[StoreFile] = self._inventory.log_files
        walk = LogWalk(files, self._opened, durable_end=self._last_end.durable_end, begin_offset=begin_offset)
        for found in walk.slices():
            for record in found.records:
                if self._is_wanted(record):
                    yield from self._message(record)
            if found.damage is not None:
                damage = found.damage
                where = f"{damage.path} at {damage.position}" if damage.path else "a file that is missing"
                self._report(
                    f"skipped {damage.size} bytes from {damage.begin_offset} of the log on ({where}): {damage.why}"
                )

    def _is_wanted(self, record: CheckedMessage) -> bool:
        if not is_queued(record):
            return False
        if self._options.topic is None:
            return self._options.is_met_by(record, record.topic, record.queue_id, record.queue_offset)
        return any(
            self._options.is_met_by(record, *key, queue_offset)
            and queue_offset >= self._queue_ends.get(key[1], 0)
            and (not index or self._has_unit_in(record, key, queue_offset))
            for index, (key, queue_offset) in enumerate(queue_offsets_of(record, is_multi_dispatch=True))
        )

    def _has_unit_in(self, record: CheckedMessage, key: QueueKey, queue_offset: int) -> bool:
        """Whether a record belongs to a queue that it names besides its own."""
        if self._has_multi_dispatch or key[0].startswith(LMQ_PREFIX):
            return True
        queue = self._inventory.queues.get(key)
        content = b"" if queue is None else read_units(self._opened, queue, queue_offset, 1)
        if not content or UNIT.unpack(content)[:2] != (record.physical_offset, record.size):
            return False
        self._has_multi_dispatch = key != (record.topic, record.queue_id)
        return True

    def _message(self, record: CheckedMessage) -> Iterator[MessageExt]:
        file = next(each for each in self._inventory.log_files if record.physical_offset < each.end_offset)
        content = self._opened.read(file.path, record.physical_offset - file.base_offset, record.size)
        try:
            yield decode_message(content)
        except (RemoteProtocolError, LocalProtocolError) as failure:
            self._report(f"the body of the message at {record.physical_offset} is left as it is stored: {failure}")
            yield decode_message(content, decompress=False)


class _SkippedUnits:
    """Units skipped in one queue, reported range by range."""

    def __init__(self, queue: QueueFiles, report: Callable[[str], None]) -> None:
        self._queue = queue
        self._report = report
        self._begin = -1
        self._end = -1
        self._why = ""

    def add(self, queue_offset: int, why: str) -> None:
        """Add a unit that points to no record."""
        if self._begin < 0 or self._why == _NO_UNIT:
            self.end()
            self._begin, self._why = queue_offset, why
        self._end = queue_offset

    def free_or_hole(self, queue_offset: int) -> None:
        """Add a missing unit: a hole if another unit follows, else the end of the queue."""
        if self._begin >= 0 and self._why != _NO_UNIT:
            self.end()
        if self._begin < 0:
            self._begin, self._why = queue_offset, _NO_UNIT
        self._end = queue_offset

    def end(self) -> None:
        """Report the current range: a valid unit or the end of the files follows."""
        begin, self._begin = self._begin, -1
        if begin < 0 or (self._why == _NO_UNIT and self._end + 1 >= self._queue.end_offset):
            return
        queue = self._queue
        offsets = f"queue offset {begin}" if begin == self._end else f"queue offsets {begin} to {self._end}"
        self._report(f"skipped {offsets} of {queue.topic!r}, queue {queue.queue_id}: {self._why}")


_NO_UNIT = "no unit"
