"""Reads of records that lie close together in the log, with their units, by kernels: one read and one check for all.

The fast path of pulls where the kernels are compiled. It finds what the general path
(:meth:`~rocketpy.store.read.message_reader.MessageReader.get_message`) would find, or nothing: units that are not in
the order of the log, records far apart or not what their units say, bytes that are not cached, limits that are met.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from rocketpy import BUILD
from rocketpy.store.layout import UNIT_SIZE
from rocketpy.store.log.commit_log import CommitLog
from rocketpy.store.queue.consume_queue import ConsumeQueue
from rocketpy.store.read.queue_scan import GAP_MAX, JUDGE_SECONDS_MAX, JUDGED_BYTES_MAX, LONG_RECORD_SIZE, ReadLimits
from rocketpy.store.results import GetMessageResult, GetMessageStatus

Judge = Callable[[bytes, bytes, int], bytes]
"""Return a byte for each of some units: whether its record is wanted. ``(units, content, offset of the content)``."""

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


def _kernels() -> SpanKernels | None:
    if not BUILD.has_kernels:
        return None
    from rocketpy.protocol.kernels import pull

    return SpanKernels(pull.span_of, pull.are_records, pull.records_of)


SPAN_KERNELS: Final = _kernels()
"""None where the kernels are not compiled."""


class RecordSpans:
    """Reads of one store."""

    def __init__(self, *, commit_log: CommitLog, kernels: SpanKernels, busy_seconds: Callable[[], float]) -> None:
        self._commit_log = commit_log
        self._span_of, self._are_records, self._records_of = kernels
        self._busy_seconds = busy_seconds

    def plain(self, units: bytes, limits: ReadLimits) -> tuple[bytes, int] | None:
        """Return the records of units back to back, and the size of the last one."""
        found = self._span_of(units, GAP_MAX)
        if found is None:
            return None
        begin, span, records_size, last_size = found
        if records_size > limits.bytes_in_memory:
            return None
        content = self._content(units, begin, span, limits)
        if content is None:
            return None
        if span != records_size:
            content = self._records_of(units, content, begin, b"\1" * (len(units) // UNIT_SIZE))
        return content, last_size

    def judged(
        self,
        queue: ConsumeQueue,
        queue_offset: int,
        end_offset: int,
        count_max: int,
        limits: ReadLimits,
        judge: Judge,
        message_filter: RecordFilter,
    ) -> GetMessageResult | None:
        """Return the messages of a queue from an offset on that a filter wants.

        ``judge`` is the filter as a kernel; what that leaves undecided the filter itself decides.
        """
        bodies: list[bytes] = []
        count = body_size = judged_bytes = 0
        next_offset = queue_offset
        ends_at = self._busy_seconds() + JUDGE_SECONDS_MAX
        while count < count_max and next_offset < end_offset:
            mapped_file, position, size = queue.locate(next_offset, min(count_max - count, end_offset - next_offset))
            units = mapped_file.file().read_nowait(position, size)
            found = None if units is None else self._span_of(units, GAP_MAX)
            if units is None or found is None:
                return None
            begin, span, records_size, _ = found
            unit_count = len(units) // UNIT_SIZE
            if body_size + records_size > limits.bytes_in_memory or records_size > unit_count * LONG_RECORD_SIZE:
                return None
            content = self._content(units, begin, span, limits)
            if content is None:
                return None
            verdicts = judge(units, content, begin)
            if _UNDECIDED in verdicts:
                verdicts = self._decided(units, content, begin, verdicts, message_filter)
            wanted = verdicts.count(_WANTED)
            if wanted:
                if wanted < unit_count or span != records_size:
                    content = self._records_of(units, content, begin, verdicts)
                bodies.append(content)
                count += wanted
                body_size += len(content)
            next_offset += unit_count
            judged_bytes += records_size
            if self._busy_seconds() > ends_at or judged_bytes > JUDGED_BYTES_MAX:
                break
        return GetMessageResult(
            GetMessageStatus.FOUND if count else GetMessageStatus.NO_MATCHED_MESSAGE,
            next_offset,
            queue.min_offset,
            queue.max_offset,
            bodies[0] if len(bodies) == 1 else b"".join(bodies),
            count,
        )

    def _content(self, units: bytes, begin: int, span: int, limits: ReadLimits) -> bytes | None:
        """Return cached bytes of the log that hold the records of units and are in memory; else None."""
        commit_log = self._commit_log
        if begin < commit_log.wrote_offset - limits.memory_bytes:
            return None
        located = commit_log.locate(begin, span)
        if located is None:
            return None
        content = located[0].file().read_nowait(located[1], span)
        if content is None or not self._are_records(units, content, begin):
            return None  # cold; or a damaged unit or record: the general path finds out which
        return content

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
