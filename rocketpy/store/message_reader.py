"""Reads of the store: messages of a queue, single records, times.

Each read is a generator that asks for bytes, ``(file, position, size)`` at a time, and is given them: what is read and
how limits work stands once, and two drivers bring the bytes. :func:`read_nowait` takes them from memory on the event
loop and gives up when something is cold; :func:`read_blocking` has a worker thread wait for the disk. The files are
held while a thread reads them. Bytes of neighbouring records are read together.

Compatibility: ``DefaultMessageStore.getMessage`` and ``ConsumeQueue.getOffsetInQueueByTime`` (4.9.8); a search by time
chooses the queue file by the times of its records, not by the file's modification time.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Generator
from functools import cache
from itertools import repeat
from operator import sub
from typing import Protocol, TypeAlias, TypeVar

import attrs

from rocketpy.protocol.stored_message import MESSAGE_MAGIC_CODE
from rocketpy.store import layout
from rocketpy.store.commit_log import CommitLog
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.consume_queue import ConsumeQueue
from rocketpy.store.consume_queue_table import ConsumeQueueTable
from rocketpy.store.disk import DiskFile
from rocketpy.store.layout import UNIT, UNIT_SIZE
from rocketpy.store.mapped_file import MappedFile
from rocketpy.store.results import GetMessageResult, GetMessageStatus, MessageFilter

T = TypeVar("T")

Reads: TypeAlias = list[tuple[MappedFile, int, int]]
"""What to read: file, position, size. The answer is the bytes of each, in order."""

Steps: TypeAlias = Generator[Reads, list[bytes], T]

_UNITS_MAX = 800
"""One read looks at so many units at most, or at as many as messages were asked for (RocketMQ: 16000 bytes)."""

_GAP_MAX = 8192
"""Copying this many unwanted bytes costs about as much as another system call."""

_EXT_ADDRESS_MAX = -(1 << 31) - 1
"""A tags code up to here is an address in a ConsumeQueueExt file (RocketMQ's enableConsumeQueueExt). It is not read:
the message may be wanted, and who filters by tag compares the text anyway."""

_SIZE_AND_MAGIC = struct.Struct(">ii")
_PLACE = struct.Struct(">28xq")
_SYS_FLAG = struct.Struct(">36xi")
_TIMESTAMP = struct.Struct(">q")
_TIME_READ_SIZE = 76  # enough to find storeTimestamp with either address family

_FOUND = GetMessageStatus.FOUND


class RunBlocking(Protocol):
    """Calls a function off the event loop (in simulation: at once) and returns what it returns."""

    def __call__(self, function: Callable[..., T], /, *arguments: object) -> Awaitable[T]:
        """Wait for ``function(*arguments)``."""
        ...


def read_nowait(steps: Steps[T]) -> T | None:
    """Run a read on what is in memory; None when some of it is not."""
    try:
        reads = next(steps)
        while True:
            contents = []
            for mapped_file, position, size in reads:
                content = mapped_file.file().read_nowait(position, size)
                if content is None:
                    steps.close()
                    return None
                contents.append(content)
            reads = steps.send(contents)
    except StopIteration as done:
        result: T = done.value
        return result


async def read_blocking(steps: Steps[T], run_blocking: RunBlocking) -> T:
    """Run a read whose bytes a worker thread waits for; files removed meanwhile stay readable for it."""
    try:
        reads = next(steps)
        while True:
            held = [(mapped_file.hold(), position, size) for mapped_file, position, size in reads]
            try:
                contents = await run_blocking(_read_all, held)
            finally:
                for mapped_file, _, _ in reads:
                    mapped_file.release()
            reads = steps.send(contents)
    except StopIteration as done:
        result: T = done.value
        return result


def _read_all(reads: list[tuple[DiskFile, int, int]]) -> list[bytes]:
    return [file.read(position, size) for file, position, size in reads]


@attrs.frozen(kw_only=True)
class ReadLimits:
    """How much one answer may hold, depending on whether the messages are likely to be in memory."""

    bytes_in_memory: int
    count_in_memory: int
    bytes_in_disk: int
    count_in_disk: int
    memory_bytes: int
    """Messages further than this behind the end of the log count as being on disk."""

    @classmethod
    def of(cls, config: MessageStoreConfig, *, memory_bytes: int) -> ReadLimits:
        """Return the limits that are configured, on a machine with so much memory."""
        return cls(
            bytes_in_memory=config.max_transfer_bytes_on_message_in_memory,
            count_in_memory=config.max_transfer_count_on_message_in_memory,
            bytes_in_disk=config.max_transfer_bytes_on_message_in_disk,
            count_in_disk=config.max_transfer_count_on_message_in_disk,
            memory_bytes=memory_bytes * config.access_message_in_memory_max_ratio // 100,
        )


class MessageReader:
    """The reads of one store, as steps for one of the drivers."""

    def __init__(
        self, *, commit_log: CommitLog, queues: ConsumeQueueTable, limits: ReadLimits, corrects_offsets: bool
    ) -> None:
        self._commit_log = commit_log
        self._queues = queues
        self._limits = limits
        self._corrects_offsets = corrects_offsets  # a slave does not, unless offsetCheckInSlave

    # ---- messages of a queue --------------------------------------------------------------------------------------

    def get_plain_nowait(
        self, topic: str, queue_id: int, queue_offset: int, max_msg_nums: int
    ) -> GetMessageResult | None:
        """Return what :meth:`get_message` would without a filter, in straight-line code for how most pulls go: all that
        was asked for is there, in memory, near the end of the log, and one read brings it. None if anything is unusual.
        """
        try:
            queue = self._queues.topics[topic][queue_id]
        except KeyError:
            return None
        max_offset = queue.max_offset
        if not queue.min_offset <= queue_offset < max_offset:
            return None
        limits, commit_log = self._limits, self._commit_log
        if max_msg_nums > limits.count_in_memory:
            max_msg_nums = limits.count_in_memory
        mapped_file, position, size = queue.locate(queue_offset, max_msg_nums)
        units = mapped_file.file().read_nowait(position, size)
        if not units:
            return None
        count = len(units) // UNIT_SIZE
        fields = _columns(count).unpack(units)
        offsets, sizes = fields[::3], fields[1::3]
        begin, body_size, log_end = offsets[0], sum(sizes), commit_log.wrote_offset
        span = offsets[-1] + sizes[-1] - begin
        if (
            not body_size <= span <= body_size + count * _GAP_MAX
            or body_size > limits.bytes_in_memory
            or begin < log_end - limits.memory_bytes
        ):
            return None
        place = commit_log.locate(begin, span)
        if place is None:
            return None
        body = place[0].file().read_nowait(place[1], span)
        if body is None:
            return None
        if span != body_size:
            places = zip(map(sub, offsets, repeat(begin)), sizes, strict=False)
            body = b"".join([body[at : at + size] for at, size in places])
        if len(body) != body_size:  # units that are not in the order of the log
            return None
        return GetMessageResult(_FOUND, queue_offset + count, queue.min_offset, max_offset, body, count)

    def get_message(
        self, topic: str, queue_id: int, queue_offset: int, max_msg_nums: int, message_filter: MessageFilter | None
    ) -> Steps[GetMessageResult]:
        """Return messages from an offset on, whole records back to back; the first one whatever its size."""
        queue = self._queues.find(topic, queue_id)
        min_offset, max_offset = queue.min_offset, queue.max_offset
        if not min_offset <= queue_offset < max_offset:
            return self._out_of_range(queue_offset, min_offset, max_offset)
        commit_log = self._commit_log
        log_end = commit_log.wrote_offset
        # As in RocketMQ one read ends with its queue file, and looks at a bounded number of units.
        units_max = max(_UNITS_MAX, max_msg_nums)
        end_offset = queue_offset + queue.locate(queue_offset, units_max)[2] // UNIT_SIZE
        scan = _Scan(self._limits, log_end, message_filter, queue_offset, end_offset, max_msg_nums)
        while scan.next_offset < end_offset and not scan.is_full:
            (units,) = yield [queue.locate(scan.next_offset, scan.count_to_look_at())]
            reads = scan.choose(units, commit_log)
            if reads:
                scan.take((yield reads))
        body = scan.bodies[0] if len(scan.bodies) == 1 else b"".join(scan.bodies)
        return GetMessageResult(
            scan.status,
            scan.next_offset,
            min_offset,
            max_offset,
            body,
            scan.message_count,
            log_end - scan.last_physical_offset > self._limits.memory_bytes,
        )

    def _out_of_range(self, queue_offset: int, min_offset: int, max_offset: int) -> GetMessageResult:
        if max_offset == 0:
            status, next_offset = GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0
        elif queue_offset < min_offset:
            status, next_offset = GetMessageStatus.OFFSET_TOO_SMALL, min_offset
        elif queue_offset == max_offset:
            status, next_offset = GetMessageStatus.OFFSET_OVERFLOW_ONE, queue_offset
        else:
            status, next_offset = GetMessageStatus.OFFSET_OVERFLOW_BADLY, max_offset
        if not self._corrects_offsets:
            next_offset = queue_offset
        return GetMessageResult(status, next_offset, min_offset, max_offset)

    # ---- single records -------------------------------------------------------------------------------------------

    def look_message(self, physical_offset: int) -> Steps[bytes | None]:
        """Return the record that begins at a place in the log, None if none does."""
        head = yield from self._read_log(physical_offset, 40)
        if head is None:
            return None
        size, magic = _SIZE_AND_MAGIC.unpack_from(head)
        if magic != MESSAGE_MAGIC_CODE or size < 40 or _PLACE.unpack_from(head)[0] != physical_offset:
            return None
        return (yield from self._read_log(physical_offset, size))

    def store_timestamp(self, topic: str, queue_id: int, queue_offset: int) -> Steps[int]:
        """Return when a message of a queue was stored, -1 if it cannot be read."""
        queue = self._queues.get(topic, queue_id)
        if queue is None or not queue.min_offset <= queue_offset < queue.max_offset:
            return -1
        physical_offset, size = yield from self._unit(queue, queue_offset)
        return (yield from self.record_timestamp(physical_offset, size))

    def record_timestamp(self, physical_offset: int, size: int) -> Steps[int]:
        """Return when the record at a place was stored, -1 if it cannot be read."""
        if physical_offset < self._commit_log.min_offset:
            return -1
        head = yield from self._read_log(physical_offset, min(size, _TIME_READ_SIZE))
        if head is None or len(head) < _TIME_READ_SIZE:
            return -1
        (sys_flag,) = _SYS_FLAG.unpack_from(head)
        (timestamp_ms,) = _TIMESTAMP.unpack_from(head, layout.store_timestamp_position(sys_flag))
        return int(timestamp_ms)

    # ---- search by time -------------------------------------------------------------------------------------------

    def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int) -> Steps[int]:
        """Return the queue offset whose message was stored nearest to a time, of its two neighbours; 0 if unknown."""
        queue = self._queues.get(topic, queue_id)
        if queue is None or not queue.files or queue.max_offset == 0:
            return 0
        mapped_file = yield from self._file_by_time(queue, timestamp_ms)
        first = mapped_file.base_offset // UNIT_SIZE
        low = max(queue.min_offset, first)
        high = min(mapped_file.end_offset // UNIT_SIZE, queue.max_offset) - 1
        left = right = first * UNIT_SIZE - 1
        left_ms = right_ms = -1
        while low <= high:
            middle = (low + high) // 2
            physical_offset, size = yield from self._unit(queue, middle)
            if physical_offset < self._commit_log.min_offset:
                low = middle + 1
                left = middle * UNIT_SIZE
                continue
            stored_ms = yield from self.record_timestamp(physical_offset, size)
            if stored_ms < 0:
                return 0
            if stored_ms == timestamp_ms:
                return middle
            if stored_ms > timestamp_ms:
                high = middle - 1
                right, right_ms = middle * UNIT_SIZE, stored_ms
            else:
                low = middle + 1
                left, left_ms = middle * UNIT_SIZE, stored_ms
        if left_ms == -1:
            found = right
        elif right_ms == -1:
            found = left
        else:
            found = right if abs(timestamp_ms - left_ms) > abs(timestamp_ms - right_ms) else left
        return max(0, found) // UNIT_SIZE

    def _file_by_time(self, queue: ConsumeQueue, timestamp_ms: int) -> Steps[MappedFile]:
        """Return the first file whose last message is not older than a time, or the last file with messages."""
        low = 0
        high = len(queue.files) - 1
        while high > 0 and queue.files[high].base_offset >= queue.max_offset * UNIT_SIZE:
            high -= 1
        while low < high:
            middle = (low + high) // 2
            physical_offset, size = yield from self._unit(queue, queue.files[middle].end_offset // UNIT_SIZE - 1)
            stored_ms = yield from self.record_timestamp(physical_offset, size)
            if stored_ms >= timestamp_ms:
                high = middle
            else:
                low = middle + 1
        return queue.files[low]

    def _unit(self, queue: ConsumeQueue, queue_offset: int) -> Steps[tuple[int, int]]:
        mapped_file, position, size = queue.locate(queue_offset, 1)
        (unit,) = yield [(mapped_file, position, size)]
        physical_offset, record_size, _ = UNIT.unpack(unit)
        return physical_offset, record_size

    def _read_log(self, physical_offset: int, size: int) -> Steps[bytes | None]:
        place = self._commit_log.locate(physical_offset, size)
        if place is None:
            return None
        (content,) = yield [(place[0], place[1], size)]
        return content if len(content) == size else None


class _Scan:
    """One walk over units: what it has chosen so far, and when the answer is full."""

    __slots__ = (
        "_body_size", "_count_max", "_limits", "_log_end", "_message_filter", "_skip_before", "_spans", "bodies",
        "end_offset", "is_full", "last_physical_offset", "message_count", "next_offset", "status",
    )  # fmt: skip

    def __init__(
        self,
        limits: ReadLimits,
        log_end: int,
        message_filter: MessageFilter | None,
        next_offset: int,
        end_offset: int,
        count_max: int,
    ) -> None:
        self._limits = limits
        self._log_end = log_end
        self._message_filter = message_filter
        self._count_max = count_max
        self._skip_before = 0  # units that point before this are known to have lost their bytes
        self._body_size = 0
        self._spans: list[_Span] = []  # of the reads under way
        self.bodies: list[bytes] = []
        self.message_count = 0
        self.is_full = False
        self.status = GetMessageStatus.NO_MATCHED_MESSAGE
        self.next_offset = next_offset
        self.end_offset = end_offset
        self.last_physical_offset = 0

    def count_to_look_at(self) -> int:
        """Return how many units to read now: with a filter nobody knows how many it takes."""
        left = self.end_offset - self.next_offset
        if self._message_filter is not None:
            return left
        return min(left, max(1, min(self._count_max, self._limits.count_in_memory) - self.message_count))

    def choose(self, units: bytes, commit_log: CommitLog) -> Reads:
        """Go through units until the answer is full, as if all of them were wanted; return what to read."""
        limits, message_filter = self._limits, self._message_filter
        log_min, log_end, count_max = commit_log.min_offset, self._log_end, self._count_max
        memory_begin = log_end - limits.memory_bytes  # records before this count as being on disk
        count, body_size, next_offset = self.message_count, self._body_size, self.next_offset
        physical_offset = self.last_physical_offset
        wanted = []
        for physical_offset, size, tags_code in UNIT.iter_unpack(units):
            if physical_offset < self._skip_before:
                next_offset += 1
                continue
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
            if (
                message_filter is not None
                and tags_code > _EXT_ADDRESS_MAX
                and not message_filter.is_matched_by_consume_queue(tags_code)
            ):
                if not count:
                    self.status = GetMessageStatus.NO_MATCHED_MESSAGE
            elif physical_offset < log_min or physical_offset + size > log_end:
                if not count:
                    self.status = GetMessageStatus.MESSAGE_WAS_REMOVING
                self._skip_before = commit_log.next_file_offset(physical_offset)
            else:
                wanted.append((physical_offset, size))
                count += 1
                body_size += size
        self.last_physical_offset = physical_offset
        self.next_offset = next_offset
        self._spans = spans = _spans_of(wanted, commit_log)
        return [(span.mapped_file, span.begin - span.mapped_file.base_offset, span.end - span.begin) for span in spans]

    def take(self, contents: list[bytes]) -> None:
        """Add the records that were read, those that the filter wants."""
        message_filter = self._message_filter
        bodies = self.bodies
        for span, content in zip(self._spans, contents, strict=True):
            if message_filter is not None and message_filter.needs_record:
                for begin, end in span.records:
                    record = content[begin:end]
                    if message_filter.is_matched_by_commit_log(record):
                        bodies.append(record)
                        self.message_count += 1
                        self._body_size += len(record)
            else:
                if span.is_solid:
                    bodies.append(content)
                else:
                    bodies += [content[begin:end] for begin, end in span.records]
                self.message_count += len(span.records)
                self._body_size += span.record_bytes
        if self.message_count:
            self.status = _FOUND
        # It was full only if all of them were wanted: then it goes on with what is left of the limits.
        if message_filter is None or not message_filter.needs_record:
            self.is_full |= self.message_count >= self._limits.count_in_memory
        else:
            self.is_full = False
        self.is_full |= self.message_count >= self._count_max


@cache
def _columns(count: int) -> struct.Struct:
    return struct.Struct(">" + "qiq" * count)


class _Span:
    """Neighbouring records that are read in one go; ``records`` are their places within it."""

    __slots__ = ("begin", "end", "is_solid", "mapped_file", "record_bytes", "records")

    def __init__(self, mapped_file: MappedFile, begin: int, size: int) -> None:
        self.mapped_file = mapped_file
        self.begin = begin
        self.end = begin + size
        self.records = [(0, size)]
        self.record_bytes = size
        self.is_solid = True  # nothing unwanted between the records


def _spans_of(wanted: list[tuple[int, int]], commit_log: CommitLog) -> list[_Span]:
    spans: list[_Span] = []
    begin = end = file_end = 0
    span: _Span | None = None
    for physical_offset, size in wanted:
        if span is not None and 0 <= physical_offset - end <= _GAP_MAX and physical_offset + size <= file_end:
            if physical_offset != end:
                span.is_solid = False
            position = physical_offset - begin
            span.records.append((position, position + size))
            span.record_bytes += size
            span.end = end = physical_offset + size
        else:
            mapped_file = commit_log.files.find(physical_offset)
            assert mapped_file is not None, physical_offset
            span = _Span(mapped_file, physical_offset, size)
            spans.append(span)
            begin, end, file_end = physical_offset, physical_offset + size, mapped_file.end_offset
    return spans
