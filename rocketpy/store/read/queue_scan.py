"""Scan of a queue's units for one read: which messages the result holds, and how their records are read together.

The limits are RocketMQ's: the first message of any size, then limits of messages and bytes, lower for messages that are
probably on disk. Sizes are checked before filters, counts only for messages that match.

Filtering by record is bounded in time; a result that ends for that has a next offset, as any other.
Compatibility: RocketMQ filters the records of up to 800 units per read, or of as many units as messages are requested.

Damage is never skipped silently. A result ends before a unit that points outside the log or to no record; a result that
would begin there reports it. Compatibility: ``DefaultMessageStore.getMessage`` (4.9.8) continues after such a unit, or
returns whatever bytes it points to. Expired records are skipped here too.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping

import attrs

from rocketpy.protocol.stored_message import MESSAGE_MAGIC_CODE
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.files.mapped_file import MappedFile
from rocketpy.store.layout import EXT_ADDRESS_MAX, PRE_BLANK_SIZE, UNIT
from rocketpy.store.log.commit_log import CommitLog
from rocketpy.store.queue.extension import CqExtUnit
from rocketpy.store.read.steps import Reads
from rocketpy.store.results import GetMessageStatus, MessageFilter

JUDGE_SECONDS_MAX = 0.010
"""Limit of the processor time that one read spends on filtering records; the next pull continues there. The filter runs
on the event loop, which serves all connections. An ordinary selector takes 30 microseconds per record."""

JUDGED_BYTES_MAX = 8 << 20
"""Limit of the record bytes that one read filters, because they have to be read and copied first."""

LONG_RECORD_SIZE = 4096
"""The properties of a longer record may take milliseconds to filter, so the clock is read after each of these."""

_UNITS_TO_JUDGE = 64
"""Units read at a time when the filter needs records: a round may read the records of only some of them."""

GAP_MAX = 8192
"""Records this close together are read at once: copying so many unused bytes costs as much as another system call."""

RECORD_HEAD_CHECK_FORMAT = "ii20xq"
RECORD_HEAD_CHECK = struct.Struct(">" + RECORD_HEAD_CHECK_FORMAT)
"""The fields in which a record must agree with its unit: totalSize, magic, physicalOffset."""

_HEAD_CHECK_SIZE = RECORD_HEAD_CHECK.size
_unpack_head = RECORD_HEAD_CHECK.unpack_from


@attrs.frozen(kw_only=True)
class ReadLimits:
    """Limits of one read, depending on whether the messages are probably in memory."""

    bytes_in_memory: int
    count_in_memory: int
    bytes_in_disk: int
    count_in_disk: int
    memory_bytes: int
    """Messages further than this before the end of the log count as being on disk."""

    @classmethod
    def of(cls, config: MessageStoreConfig, *, memory_bytes: int) -> ReadLimits:
        """Return the configured limits for a machine with ``memory_bytes`` of memory."""
        return cls(
            bytes_in_memory=config.max_transfer_bytes_on_message_in_memory,
            count_in_memory=config.max_transfer_count_on_message_in_memory,
            bytes_in_disk=config.max_transfer_bytes_on_message_in_disk,
            count_in_disk=config.max_transfer_count_on_message_in_disk,
            memory_bytes=memory_bytes * config.access_message_in_memory_max_ratio // 100,
        )


class QueueScan:
    """State of one scan: the messages selected so far, and whether the result is full."""

    __slots__ = (
        "_begin_offset", "_body_size", "_busy_seconds", "_count_max", "_judged_bytes", "_judged_seconds", "_limits",
        "_log_end", "_message_filter", "_spans", "bodies", "damage", "end_offset", "is_full", "last_physical_offset",
        "message_count", "next_offset", "status",
    )  # fmt: skip

    def __init__(
        self,
        limits: ReadLimits,
        log_end: int,
        message_filter: MessageFilter | None,
        next_offset: int,
        end_offset: int,
        count_max: int,
        busy_seconds: Callable[[], float] = time.thread_time,
    ) -> None:
        self._limits = limits
        self._busy_seconds = busy_seconds
        self._judged_seconds = 0.0
        self._judged_bytes = 0
        self._log_end = log_end
        self._message_filter = message_filter
        self._count_max = count_max
        self._begin_offset = next_offset
        self._body_size = 0
        self._spans: list[_Span] = []  # of the reads requested by choose
        self.bodies: list[bytes] = []
        self.message_count = 0
        self.is_full = False
        self.status = GetMessageStatus.NO_MATCHED_MESSAGE
        self.next_offset = next_offset
        self.end_offset = end_offset
        self.last_physical_offset = 0
        self.damage = ""
        """Why the unit at ``next_offset`` cannot be served, if it is the first requested one."""

    def count_to_look_at(self) -> int:
        """Return how many units to read now. With a filter it is unknown how many it will take."""
        left = self.end_offset - self.next_offset
        if self._message_filter is not None:
            return min(left, _UNITS_TO_JUDGE) if self._message_filter.needs_record else left
        return min(left, max(1, min(self._count_max, self._limits.count_in_memory) - self.message_count))

    def choose(self, units: bytes, commit_log: CommitLog, ext_units: Mapping[int, CqExtUnit]) -> Reads:
        """Select units until the result is full, assuming that all their records match; return the reads.

        ``ext_units`` has the ConsumeQueueExt units for the addresses among the tags codes.
        """
        limits, message_filter = self._limits, self._message_filter
        log_min, log_end, count_max = commit_log.min_offset, self._log_end, self._count_max
        memory_begin = log_end - limits.memory_bytes  # records before this count as being on disk
        count, body_size, next_offset = self.message_count, self._body_size, self.next_offset
        physical_offset = self.last_physical_offset
        wanted = []
        for physical_offset, size, tags_code in UNIT.iter_unpack(units):
            if count:
                in_disk = physical_offset < memory_begin
                if (
                    count >= count_max
                    or count >= (limits.count_in_disk if in_disk else limits.count_in_memory)
                    or body_size + size > (limits.bytes_in_disk if in_disk else limits.bytes_in_memory)
                ):
                    self.is_full = True
                    break
            next_offset += 1
            if message_filter is not None and not (
                message_filter.is_matched_by_consume_queue(tags_code, None)
                if tags_code > EXT_ADDRESS_MAX
                else _may_match(message_filter, ext_units.get(tags_code))
            ):
                if not count:
                    self.status = GetMessageStatus.NO_MATCHED_MESSAGE
            elif 0 <= physical_offset < log_min or size == PRE_BLANK_SIZE:
                if not count:
                    self.status = GetMessageStatus.MESSAGE_WAS_REMOVING
            elif physical_offset < 0 or size <= 0 or physical_offset + size > log_end:
                next_offset -= 1
                self._stop_at(next_offset, f"{size} bytes at {physical_offset} of a log that ends at {log_end}")
                break
            else:
                wanted.append((physical_offset, size, next_offset - 1))
                count += 1
                body_size += size
        self.last_physical_offset = physical_offset
        self.next_offset = next_offset
        self._spans = spans = _spans_of(wanted, commit_log)
        return [(span.mapped_file, span.begin - span.mapped_file.base_offset, span.end - span.begin) for span in spans]

    def take(self, contents: list[bytes]) -> None:
        """Add the records that were read and that match the filter."""
        message_filter = self._message_filter
        bodies = self.bodies
        for span, content in zip(self._spans, contents, strict=True):
            sound_count = span.count_sound(content)
            is_sound = sound_count == len(span.records)
            if message_filter is not None and message_filter.needs_record:
                if not self._judge(span.records[:sound_count], content, message_filter):
                    break
            else:
                if span.is_solid and is_sound:
                    bodies.append(content)
                    self._body_size += len(content)
                else:
                    records = [content[begin:end] for begin, end, _ in span.records[:sound_count]]
                    bodies += records
                    self._body_size += sum(map(len, records))
                self.message_count += sound_count
            if not is_sound:
                begin, end, queue_offset = span.records[sound_count]
                self._stop_at(queue_offset, f"{end - begin} bytes at {span.begin + begin} of the log, no record")
                break
        if self.message_count:
            self.status = GetMessageStatus.FOUND
        # choose() assumed that all records match. If the filter rejected some, the scan continues within the limits.
        if message_filter is None or not message_filter.needs_record:
            self.is_full |= self.message_count >= self._limits.count_in_memory
        else:
            self.is_full = False
        self.is_full |= self.message_count >= self._count_max

    def _judge(self, records: list[tuple[int, int, int]], content: bytes, message_filter: MessageFilter) -> bool:
        """Add the records that match; False if the time or byte limit of filtering is reached: then the result ends."""
        busy_seconds = self._busy_seconds
        began = busy_seconds()
        ends_at = began + JUDGE_SECONDS_MAX - self._judged_seconds
        for count, (begin, end, queue_offset) in enumerate(records, 1):
            record = content[begin:end]
            if message_filter.is_matched_by_commit_log(record):
                self.bodies.append(record)
                self.message_count += 1
                self._body_size += len(record)
            self._judged_bytes += end - begin
            if count & 3 and end - begin < LONG_RECORD_SIZE:
                continue  # reading the clock has a cost too, so not after each short record
            if busy_seconds() > ends_at or self._judged_bytes > JUDGED_BYTES_MAX:
                self.next_offset = self.end_offset = queue_offset + 1
                return False
        self._judged_seconds += busy_seconds() - began
        return True

    def _stop_at(self, queue_offset: int, found: str) -> None:
        """End the result before a unit that cannot be served; the next read begins with it, and reports the reason."""
        self.next_offset = self.end_offset = queue_offset
        self.is_full = True
        if queue_offset == self._begin_offset:
            self.status = GetMessageStatus.MESSAGE_WAS_REMOVING
            self.damage = f"expected the position of a record, found {found}"


def _may_match(message_filter: MessageFilter, ext: CqExtUnit | None) -> bool:
    """Whether a message may match by its extension. If the extension is lost, the record decides."""
    return ext is None or message_filter.is_matched_by_consume_queue(ext.tags_code, ext)


class _Span:
    """Adjacent records that are read at once; ``records`` are begin and end within the span, and the queue offset."""

    __slots__ = ("begin", "end", "is_solid", "mapped_file", "records")

    def __init__(self, mapped_file: MappedFile, begin: int, size: int, queue_offset: int) -> None:
        self.mapped_file = mapped_file
        self.begin = begin
        self.end = begin + size
        self.records = [(0, size, queue_offset)]
        self.is_solid = True  # no other bytes between the records

    def count_sound(self, content: bytes) -> int:
        """Return how many records, from the first on, agree with their units in size, magic and physical offset."""
        first, content_end = self.begin, len(content)
        for count, (begin, end, _) in enumerate(self.records):
            size = end - begin
            if (
                size < _HEAD_CHECK_SIZE
                or end > content_end
                or _unpack_head(content, begin) != (size, MESSAGE_MAGIC_CODE, first + begin)
            ):
                return count
        return len(self.records)


def _spans_of(wanted: list[tuple[int, int, int]], commit_log: CommitLog) -> list[_Span]:
    spans: list[_Span] = []
    begin = end = file_end = 0
    span: _Span | None = None
    for physical_offset, size, queue_offset in wanted:
        if span is not None and 0 <= physical_offset - end <= GAP_MAX and physical_offset + size <= file_end:
            if physical_offset != end:
                span.is_solid = False
            position = physical_offset - begin
            span.records.append((position, position + size, queue_offset))
            span.end = end = physical_offset + size
        else:
            mapped_file = commit_log.files.find(physical_offset)
            assert mapped_file is not None, physical_offset
            span = _Span(mapped_file, physical_offset, size, queue_offset)
            spans.append(span)
            begin, end, file_end = physical_offset, physical_offset + size, mapped_file.end_offset
    return spans
