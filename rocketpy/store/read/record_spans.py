"""Reads of records that lie close together in the log, with their units, by kernels: one read and one check for all.

Filtering is bounded as on the general path. The clock of the processor time costs a system call, so it is not read for
an amount of bytes that no selector takes long for, unless the kernel leaves something to the closures.

The fast path of pulls where the kernels are compiled. It finds what the general path
(:meth:`~rocketpy.store.read.message_reader.MessageReader.get_message`) would find, or nothing: units that are not in
the order of the log, records far apart or not what their units say, bytes that are not cached, limits that are met.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from rocketpy import BUILD
from rocketpy.store.files.mapped_file import MappedFile
from rocketpy.store.layout import EXT_ADDRESS_MAX, UNIT_SIZE
from rocketpy.store.log.commit_log import CommitLog
from rocketpy.store.queue.consume_queue import ConsumeQueue
from rocketpy.store.read.plain_read import HeadOfRecords, PlainRead
from rocketpy.store.read.queue_scan import GAP_MAX, JUDGE_SECONDS_MAX, JUDGED_BYTES_MAX, LONG_RECORD_SIZE, ReadLimits

Judge = Callable[[bytes, bytes, int], bytes]
"""Return a byte for each of some units: whether its record is wanted. ``(units, content, offset of the content)``."""

UNTIMED_BYTES_MAX: Final = 1 << 16
"""Record bytes that are judged before the clock is read. The worst of them take the kernel three milliseconds: 16,000
properties, each compared with 64 names."""

_AHEAD_SIZE: Final = 1 << 15
"""Bytes of the log that are read at once where records are read along it."""

_UNITS_AT_ONCE: Final = 256
"""Units that are read at a time once the first ones did not suffice."""

_WANTED: Final = 1
_UNDECIDED: Final = 2


class RecordFilter(Protocol):
    """A filter of messages by their records."""

    def is_matched_by_commit_log(self, record: bytes) -> bool:
        """Whether a whole stored record matches."""
        ...


class SpanKernels(NamedTuple):
    """The kernels of :mod:`rocketpy.protocol.kernels.pull`."""

    span_of: Callable[[bytes, int], tuple[int, int, int, int] | None]
    are_records: Callable[[bytes, bytes, int], bool]
    records_of: Callable[[bytes, bytes, int, bytes], bytes]
    tagged_units: Callable[[bytes, bytes, int, int], tuple[bytes, int, int, int]]


def _kernels() -> SpanKernels | None:
    if not BUILD.has_kernels:
        return None
    from rocketpy.protocol.kernels import pull

    return SpanKernels(pull.span_of, pull.are_records, pull.records_of, pull.tagged_units)


SPAN_KERNELS: Final = _kernels()
"""None where the kernels are not compiled."""


class RecordSpans:
    """Reads of one store."""

    def __init__(self, *, commit_log: CommitLog, kernels: SpanKernels, busy_seconds: Callable[[], float]) -> None:
        self._commit_log = commit_log
        self._span_of, self._are_records, self._records_of, self._tagged_units = kernels
        self._busy_seconds = busy_seconds
        self._last_begin = self._last_end = 0  # of the records that were read last
        self._ahead = b""  # bytes of the log, read for the records to be read next
        self._ahead_at = 0  # where they begin

    def plain(
        self, units: bytes, queue: ConsumeQueue, next_offset: int, limits: ReadLimits, head_of: HeadOfRecords | None
    ) -> PlainRead | None:
        """Return the messages of the units before an offset, after the head that ``head_of`` returns."""
        found = self._span_of(units, GAP_MAX)
        if found is None:
            return None
        begin, span, records_size, last_size = found
        if records_size > limits.bytes_in_memory:
            return None
        min_offset, max_offset = queue.min_offset, queue.max_offset
        head = b"" if head_of is None else head_of(next_offset, min_offset, max_offset, records_size)
        if head is None:
            return None
        body = self._all_records(units, begin, span, records_size, limits, head)
        if body is None:
            return None
        return PlainRead(next_offset, min_offset, max_offset, body, len(units) // UNIT_SIZE, last_size, len(head))

    def judged(
        self,
        queue: ConsumeQueue,
        queue_offset: int,
        end_offset: int,
        count_max: int,
        limits: ReadLimits,
        judge: Judge,
        message_filter: RecordFilter,
    ) -> PlainRead | None:
        """Return the messages of a queue from an offset on that a filter wants.

        ``judge`` is the filter as a kernel; what that leaves undecided the filter itself decides.
        """
        bodies: list[bytes] = []
        count = body_size = judged_bytes = last_size = 0
        next_offset = queue_offset
        ends_at = 0.0  # not known before the clock was read
        while count < count_max and next_offset < end_offset:
            units = queue.units_nowait(next_offset, min(count_max - count, end_offset - next_offset))
            found = None if units is None else self._span_of(units, GAP_MAX)
            if units is None or found is None:
                return None
            begin, span, records_size, size = found
            unit_count = len(units) // UNIT_SIZE
            if body_size + records_size > limits.bytes_in_memory or records_size > unit_count * LONG_RECORD_SIZE:
                return None
            content = self._content(units, begin, span, limits)
            if content is None:
                return None
            verdicts = judge(units, content, begin)
            wanted = verdicts.count(_WANTED)
            if wanted < unit_count and _UNDECIDED in verdicts:
                ends_at = ends_at or self._busy_seconds() + JUDGE_SECONDS_MAX
                verdicts = self._decided(units, content, begin, verdicts, message_filter)
                wanted = verdicts.count(_WANTED)
            if wanted:
                if wanted < unit_count or span != records_size:
                    content = self._records_of(units, content, begin, verdicts)
                    size_at = verdicts.rfind(_WANTED) * UNIT_SIZE + 8
                    size = int.from_bytes(units[size_at : size_at + 4], "big")
                last_size = size
                bodies.append(content)
                count += wanted
                body_size += len(content)
            next_offset += unit_count
            judged_bytes += records_size
            if ends_at or judged_bytes > UNTIMED_BYTES_MAX:
                now = self._busy_seconds()
                ends_at = ends_at or now + JUDGE_SECONDS_MAX
                if now > ends_at or judged_bytes > JUDGED_BYTES_MAX:
                    break
        body = bodies[0] if len(bodies) == 1 else b"".join(bodies)
        return PlainRead(next_offset, queue.min_offset, queue.max_offset, body, count, last_size)

    def tagged(
        self, queue: ConsumeQueue, queue_offset: int, end_offset: int, count_max: int, limits: ReadLimits, codes: bytes
    ) -> PlainRead | None:
        """Return the messages of a queue from an offset on whose tags codes are among some."""
        bodies: list[bytes] = []
        count = body_size = last_size = 0
        next_offset, unit_count = queue_offset, count_max
        while count < count_max and next_offset < end_offset:
            units = queue.units_nowait(next_offset, min(unit_count, end_offset - next_offset))
            if units is None or len(units) < UNIT_SIZE:
                return None
            wanted, looked_at, least_offset, largest_size = self._tagged_units(
                units, codes, count_max - count, EXT_ADDRESS_MAX
            )
            # Units that are not wanted count too: with them the general path may suggest a slave, or be full.
            if least_offset < self._commit_log.wrote_offset - limits.memory_bytes:
                return None
            next_offset += looked_at
            unit_count = _UNITS_AT_ONCE  # where few of the first ones are wanted, few of the next ones will be
            if wanted:
                found = self._span_of(wanted, GAP_MAX)
                if found is None:
                    return None
                begin, span, records_size, last_size = found
                body_size += records_size
                if body_size > limits.bytes_in_memory:
                    return None
                records = self._all_records(wanted, begin, span, records_size, limits)
                if records is None:
                    return None
                bodies.append(records)
                count += len(wanted) // UNIT_SIZE
            if body_size + largest_size > limits.bytes_in_memory:
                return None
        body = bodies[0] if len(bodies) == 1 else b"".join(bodies)
        return PlainRead(next_offset, queue.min_offset, queue.max_offset, body, count, last_size)

    def _all_records(
        self, units: bytes, begin: int, span: int, records_size: int, limits: ReadLimits, head: bytes = b""
    ) -> bytes | None:
        """Return the records of all units back to back, after a head; None as :meth:`_content`."""
        if span == records_size:
            return self._content(units, begin, span, limits, head)
        content = self._content(units, begin, span, limits)
        if content is None:
            return None
        return head + self._records_of(units, content, begin, b"\1" * (len(units) // UNIT_SIZE))

    def _content(self, units: bytes, begin: int, span: int, limits: ReadLimits, head: bytes = b"") -> bytes | None:
        """Return cached bytes of the log that hold the records of units and are in memory, after a head; else None."""
        commit_log = self._commit_log
        if begin < commit_log.wrote_offset - limits.memory_bytes:
            return None
        located = commit_log.locate(begin, span)
        if located is None:
            return None
        end = begin + span
        is_next = self._last_begin <= begin <= self._last_end + GAP_MAX
        self._last_begin, self._last_end = begin, end
        at = begin - self._ahead_at
        if is_next and not 0 <= at <= len(self._ahead) - span:
            self._read_ahead(located[0], located[1], begin, span)
            at = begin - self._ahead_at
        if 0 <= at <= len(self._ahead) - span:
            content: bytes | None = head + self._ahead[at : at + span]
        else:
            content = located[0].file().read_nowait(located[1], span, head)
        if content is None or not self._are_records(units, content, begin - len(head)):
            return None  # cold; or a damaged unit or record: the general path finds out which
        return content

    def _read_ahead(self, mapped_file: MappedFile, position: int, begin: int, span: int) -> None:
        """Keep cached bytes of the log from an offset on, for records of which others are read next.

        Queues of a topic are mostly read one after the other, and at one speed; their records lie side by side.
        """
        size = min(min(mapped_file.size - position, self._commit_log.wrote_offset - begin), _AHEAD_SIZE)
        if size >= 2 * span:
            content = mapped_file.file().read_nowait(position, size)
            if content is not None:
                self._ahead, self._ahead_at = content, begin

    def _decided(
        self, units: bytes, content: bytes, begin: int, verdicts: bytes, message_filter: RecordFilter
    ) -> bytes:
        """Let the filter decide what the kernel has not."""
        decided = bytearray(verdicts)
        for number, verdict in enumerate(verdicts):
            if verdict == _UNDECIDED:
                one = units[number * UNIT_SIZE : (number + 1) * UNIT_SIZE]
                decided[number] = message_filter.is_matched_by_commit_log(self._records_of(one, content, begin, b"\1"))
        return bytes(decided)
