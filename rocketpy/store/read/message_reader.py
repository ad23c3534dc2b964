"""Reads of the store: messages of a queue, single records, timestamps; as generators for the drivers in ``steps``.

Compatibility: ``DefaultMessageStore.getMessage`` and ``ConsumeQueue.getOffsetInQueueByTime`` (4.9.8); a search by time
chooses the queue file by the times of its records, not by the file's modification time.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from itertools import accumulate, repeat

import attrs

from rocketpy.protocol.stored_message import (
    MESSAGE_MAGIC_CODE,
    RECORD_HEAD,
    RECORD_HEADS,
    TOPIC_SIZE_MAX,
    store_timestamp_position,
)
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.files.mapped_file import MappedFile
from rocketpy.store.layout import UNIT, UNIT_SIZE
from rocketpy.store.log.commit_log import CommitLog
from rocketpy.store.queue.consume_queue import ConsumeQueue
from rocketpy.store.queue.extension import ConsumeQueueExt, CqExtUnit, is_ext_address, read_ext_unit
from rocketpy.store.queue.table import ConsumeQueueTable
from rocketpy.store.read.plain_read import HeadOfRecords, PlainRead
from rocketpy.store.read.queue_scan import GAP_MAX, RECORD_HEAD_CHECK, RECORD_HEAD_CHECK_FORMAT, QueueScan, ReadLimits
from rocketpy.store.read.record_spans import SPAN_KERNELS, Judge, RecordSpans, SpanKernels
from rocketpy.store.read.steps import Steps
from rocketpy.store.results import GetMessageResult, GetMessageStatus, ListedUnit, MessageFilter, QueueListing

_NO_EXT: Mapping[int, CqExtUnit] = {}
_UNITS_MAX = 800
"""Limit of the units that one read scans, or the message limit of a read, if that is higher and more are requested.

Compatibility: RocketMQ scans as many units as messages are requested, up to 2^31.
"""

_HEAD = struct.Struct(">ii4xi4xqq4x")  # totalSize, magic, queueId, queueOffset, physicalOffset; up to sysFlag
assert _HEAD.size == 40
_BODY_SIZE = struct.Struct(">i")
_WINDOW_SIZE = 1024  # holds most records completely
_TOPIC_READ_SIZE = 1 + TOPIC_SIZE_MAX
_SYS_FLAG = struct.Struct(">36xi")
_TIMESTAMP = struct.Struct(">q")
_TIME_READ_SIZE = 76  # enough to find storeTimestamp with either address family
_unpack_head = RECORD_HEAD_CHECK.unpack_from
_HEAD_CHECK_SIZE = RECORD_HEAD_CHECK.size


class MessageReader:
    """The reads of one store, as generators for the drivers."""

    def __init__(
        self,
        *,
        commit_log: CommitLog,
        queues: ConsumeQueueTable,
        limits: ReadLimits,
        corrects_offsets: bool,
        busy_seconds: Callable[[], float] = time.thread_time,
        span_kernels: SpanKernels | None = SPAN_KERNELS,
    ) -> None:
        self._commit_log = commit_log
        self._queues = queues
        self._limits = limits
        self._busy_seconds = busy_seconds  # processor time of this thread, which bounds filtering
        self._spans: RecordSpans | None = None
        if span_kernels is not None:
            self._spans = RecordSpans(commit_log=commit_log, kernels=span_kernels, busy_seconds=busy_seconds)
        self._corrects_offsets = corrects_offsets  # a slave does not, unless offsetCheckInSlave

    # ---- messages of a queue --------------------------------------------------------------------------------------

    def settings_changed(self, config: MessageStoreConfig) -> None:
        """Apply the live settings of read limits."""
        memory_bytes = self._limits.memory_bytes
        self._limits = attrs.evolve(ReadLimits.of(config, memory_bytes=0), memory_bytes=memory_bytes)

    def get_plain_nowait(
        self, topic: str, queue_id: int, queue_offset: int, max_msg_nums: int
    ) -> GetMessageResult | None:
        """Return what :meth:`read_plain_nowait` finds as the general path returns it; None if it declines."""
        plain = self.read_plain_nowait(topic, queue_id, queue_offset, max_msg_nums)
        return None if plain is None else plain.result()

    def read_plain_nowait(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_msg_nums: int,
        head_of: HeadOfRecords | None = None,
    ) -> PlainRead | None:
        """Fast path of :meth:`get_message` without a filter, for messages that are cached, near the end of the log, and
        close enough together for one read. None if anything is unusual: then the general path decides.
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
        elif max_msg_nums < 1:
            return None
        units = queue.units_nowait(queue_offset, max_msg_nums)
        if not units:
            return None
        count = len(units) // UNIT_SIZE
        if self._spans is not None:
            return self._spans.plain(units, queue, queue_offset + count, limits, head_of)
        fields = _columns(count).unpack(units)
        offsets, sizes = fields[::3], fields[1::3]
        begin, body_size, log_end = offsets[0], sum(sizes), commit_log.wrote_offset
        span = offsets[-1] + sizes[-1] - begin
        if (
            not body_size <= span <= body_size + count * GAP_MAX
            or body_size > limits.bytes_in_memory
            or begin < log_end - limits.memory_bytes
        ):
            return None
        located = commit_log.locate(begin, span)
        if located is None:
            return None
        body = located[0].file().read_nowait(located[1], span)
        if body is None:
            return None
        if span != body_size:
            body = b"".join([body[at - begin : at - begin + size] for at, size in zip(offsets, sizes, strict=True)])
        if len(body) != body_size:  # units that are not in the order of the log
            return None
        size = sizes[0]
        if size > _HEAD_CHECK_SIZE and sizes.count(size) == count:  # as in most queues: one look at all of them
            fields = _heads(count, size).unpack(body)
            are_records = fields[1::3].count(MESSAGE_MAGIC_CODE) == count
            is_right = are_records and fields[2::3] == offsets and fields[::3] == sizes
        else:
            try:
                heads = [_unpack_head(body, at) for at in accumulate(sizes[:-1], initial=0)]
            except struct.error:
                return None
            is_right = heads == list(zip(sizes, repeat(MESSAGE_MAGIC_CODE), offsets, strict=False))
        if not is_right:
            return None  # a damaged unit or record: the general path finds out which
        head = b"" if head_of is None else head_of(queue_offset + count, queue.min_offset, max_offset, body_size)
        if head is None:
            return None
        return PlainRead(queue_offset + count, queue.min_offset, max_offset, head + body, count, sizes[-1], len(head))

    def get_filtered_nowait(
        self, topic: str, queue_id: int, queue_offset: int, max_msg_nums: int, message_filter: MessageFilter
    ) -> GetMessageResult | None:
        """Return what :meth:`read_filtered_nowait` finds as the general path returns it; None if it declines."""
        found = self.read_filtered_nowait(topic, queue_id, queue_offset, max_msg_nums, message_filter)
        return None if found is None else found.result()

    def read_filtered_nowait(
        self, topic: str, queue_id: int, queue_offset: int, max_msg_nums: int, message_filter: MessageFilter
    ) -> PlainRead | None:
        """Fast path of :meth:`get_message` for a filter that a kernel evaluates: of SQL92, or of a few tags.

        None as :meth:`read_plain_nowait`.
        """
        if self._spans is None:
            return None
        judge: Judge | None = None
        codes: bytes | None = None
        if message_filter.needs_record:
            judge = getattr(message_filter, "judge", None)
        else:
            codes = getattr(message_filter, "packed_codes", None)
        if judge is None and codes is None:
            return None
        try:
            queue = self._queues.topics[topic][queue_id]
        except KeyError:
            return None
        # An extension may know that a message does not match, without a look at its record.
        if queue.ext is not None or max_msg_nums < 1 or not queue.min_offset <= queue_offset < queue.max_offset:
            return None
        count_max = min(max_msg_nums, self._limits.count_in_memory)
        end_offset = queue_offset + queue.locate(queue_offset, max(_UNITS_MAX, count_max))[2] // UNIT_SIZE
        if judge is None:
            assert codes is not None
            return self._spans.tagged(queue, queue_offset, end_offset, count_max, self._limits, codes)
        return self._spans.judged(queue, queue_offset, end_offset, count_max, self._limits, judge, message_filter)

    def get_message(
        self, topic: str, queue_id: int, queue_offset: int, max_msg_nums: int, message_filter: MessageFilter | None
    ) -> Steps[GetMessageResult]:
        """Return messages from a queue offset on, whole records back to back; the first one of any size.

        A ``max_msg_nums`` below one counts as one, as in RocketMQ, which checks it only after the first message.
        """
        max_msg_nums = max(1, max_msg_nums)
        queue = self._queues.find(topic, queue_id)
        min_offset, max_offset = queue.min_offset, queue.max_offset
        if not min_offset <= queue_offset < max_offset:
            return self._out_of_range(queue_offset, min_offset, max_offset)
        commit_log = self._commit_log
        log_end = commit_log.wrote_offset
        # As in RocketMQ one read ends with its queue file, and looks at a bounded number of units.
        units_max = max(_UNITS_MAX, min(max_msg_nums, self._limits.count_in_memory))
        end_offset = queue_offset + queue.locate(queue_offset, units_max)[2] // UNIT_SIZE
        scan = QueueScan(
            self._limits, log_end, message_filter, queue_offset, end_offset, max_msg_nums, self._busy_seconds
        )
        # Files may be deleted while the disk is waited for; then the queue's min_offset has moved, or it is empty.
        while scan.next_offset < scan.end_offset and not scan.is_full and _has(queue, scan.next_offset):
            (units,) = yield [queue.locate(scan.next_offset, scan.count_to_look_at())]
            ext_units = _NO_EXT
            if message_filter is not None and queue.ext is not None:
                ext_units = yield from _ext_units(queue.ext, units)
            reads = scan.choose(units, commit_log, ext_units)
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
            _damage(queue, scan),
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
        """Return the record that begins at a physical offset, None if there is none.

        For trusted offsets only (from the index), because the body of a message may contain bytes that look like a
        record. For offsets from peers see :meth:`look_named_message`.
        """
        head = yield from self._read_log(physical_offset, _HEAD.size)
        if head is None:
            return None
        size, magic, _, _, found_offset = _HEAD.unpack(head)
        if magic != MESSAGE_MAGIC_CODE or size < _HEAD.size or found_offset != physical_offset:
            return None
        return (yield from self._read_log(physical_offset, size))

    def look_named_message(self, physical_offset: int) -> Steps[bytes | None]:
        """Return the record at a physical offset if a unit of its own queue points to it, None otherwise.

        For offsets that a peer sends. A producer can put the bytes of a record into a body and predict their physical
        offset, so magic, physical offset and checksum prove nothing. It cannot write a unit. So a record is accepted
        only if its own queue has, at the record's queue offset, a unit with exactly this physical offset and size. No
        more is read than a fixed amount until the unit has confirmed the size.
        """
        window = yield from self._window(physical_offset)
        if window is None:
            return None
        size, magic, queue_id, queue_offset, found_offset = _HEAD.unpack_from(window)
        (sys_flag,) = _SYS_FLAG.unpack_from(window)
        head_size = RECORD_HEADS[sys_flag >> 4 & 3].size
        if magic != MESSAGE_MAGIC_CODE or found_offset != physical_offset or head_size > len(window):
            return None
        (body_size,) = _BODY_SIZE.unpack_from(window, head_size - _BODY_SIZE.size)
        topic_at = head_size + body_size
        topic_end = topic_at + min(size - topic_at, _TOPIC_READ_SIZE)
        if body_size < 0 or topic_end <= topic_at:
            return None
        if topic_end <= len(window):  # as in most records
            named: bytes | None = window[topic_at:topic_end]
        else:
            named = yield from self._read_log(physical_offset + topic_at, topic_end - topic_at)
        if named is None or named[0] >= len(named):
            return None
        queue = self._queues.get(named[1 : 1 + named[0]].decode("utf-8", "replace"), queue_id)
        if queue is None or (yield from self._unit(queue, queue_offset)) != (physical_offset, size):
            return None
        if size <= len(window):
            return window[:size]
        return (yield from self._read_log(physical_offset, size))

    def _window(self, physical_offset: int) -> Steps[bytes | None]:
        """Return up to ``_WINDOW_SIZE`` bytes of the log from an offset on, None if no record can begin there."""
        located = self._commit_log.locate(physical_offset, RECORD_HEAD.size)
        if located is None:
            return None
        end = min(physical_offset + _WINDOW_SIZE, located[0].end_offset, self._commit_log.wrote_offset)
        (content,) = yield [(located[0], located[1], end - physical_offset)]
        return content if len(content) == end - physical_offset else None

    def store_timestamp(self, topic: str, queue_id: int, queue_offset: int) -> Steps[int]:
        """Return the storeTimestamp of a message in a queue, -1 if it cannot be read."""
        queue = self._queues.get(topic, queue_id)
        if queue is None or not queue.min_offset <= queue_offset < queue.max_offset:
            return -1
        physical_offset, size = yield from self._unit(queue, queue_offset)
        return (yield from self.record_timestamp(physical_offset, size))

    def record_timestamp(self, physical_offset: int, size: int) -> Steps[int]:
        """Return the storeTimestamp of the record at a physical offset, -1 if it cannot be read."""
        if physical_offset < self._commit_log.min_offset or size <= 0:
            return -1
        head = yield from self._read_log(physical_offset, min(size, _TIME_READ_SIZE))
        if head is None or len(head) < _TIME_READ_SIZE:
            return -1
        (sys_flag,) = _SYS_FLAG.unpack_from(head)
        (timestamp_ms,) = _TIMESTAMP.unpack_from(head, store_timestamp_position(sys_flag))
        return int(timestamp_ms)

    def is_likely_on_disk(self, topic: str, queue_id: int, queue_offset: int) -> Steps[bool]:
        """Return whether the message of a unit is probably no longer cached; False if there is no such unit."""
        queue = self._queues.get(topic, queue_id)
        if queue is None or not _has(queue, queue_offset):
            return False
        (unit,) = yield [queue.locate(queue_offset, 1)]
        physical_offset, _, _ = UNIT.unpack(unit)
        return bool(self._commit_log.wrote_offset - physical_offset > self._limits.memory_bytes)

    def list_units(self, topic: str, queue_id: int, queue_offset: int, count: int) -> Steps[QueueListing | None]:
        """Return up to ``count`` units from a queue offset on, at most to the end of the file; None without a queue."""
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return None
        min_offset, max_offset = queue.min_offset, queue.max_offset
        if count <= 0 or not _has(queue, queue_offset):
            return QueueListing(min_offset, max_offset, ())
        ext = queue.ext
        (content,) = yield [queue.locate(queue_offset, count)]
        found = {} if ext is None else (yield from _ext_units(ext, content))
        units = (ListedUnit(at, size, code, found.get(code)) for at, size, code in UNIT.iter_unpack(content))
        return QueueListing(min_offset, max_offset, tuple(units))

    # ---- search by time -------------------------------------------------------------------------------------------

    def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int) -> Steps[int]:
        """Return the queue offset of the first message with the storeTimestamp nearest to a time; 0 if unknown.

        Compatibility: ``DefaultMessageStore.getOffsetInQueueByTime`` (4.9.8), which returns any of several messages
        that were stored at the very time.
        """
        queue = self._queues.get(topic, queue_id)
        if queue is None or not queue.files or queue.max_offset == 0:
            return 0
        mapped_file = yield from self._file_by_time(queue, timestamp_ms)
        first = mapped_file.base_offset // UNIT_SIZE
        low = max(queue.min_offset, first)
        high = min(mapped_file.end_offset // UNIT_SIZE, queue.max_offset) - 1
        left = right = first * UNIT_SIZE - 1
        left_ms = right_ms = exact = -1
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
            if stored_ms == timestamp_ms:  # perhaps not the first of that time: those of a batch share it
                exact = middle
                high = middle - 1
            elif stored_ms > timestamp_ms:
                high = middle - 1
                right, right_ms = middle * UNIT_SIZE, stored_ms
            else:
                low = middle + 1
                left, left_ms = middle * UNIT_SIZE, stored_ms
        if exact >= 0:
            return exact
        if left_ms == -1:
            found = right
        elif right_ms == -1:
            found = left
        else:
            found = right if abs(timestamp_ms - left_ms) > abs(timestamp_ms - right_ms) else left
        return max(0, found) // UNIT_SIZE

    def _file_by_time(self, queue: ConsumeQueue, timestamp_ms: int) -> Steps[MappedFile]:
        """Return the first file whose last message is not older than a time, or the last file with messages."""
        files = list(queue.files)  # a copy, because the first of them may be deleted during an await
        low = 0
        high = len(files) - 1
        while high > 0 and files[high].base_offset >= queue.max_offset * UNIT_SIZE:
            high -= 1
        while low < high:
            middle = (low + high) // 2
            physical_offset, size = yield from self._unit(queue, files[middle].end_offset // UNIT_SIZE - 1)
            stored_ms = yield from self.record_timestamp(physical_offset, size)
            if stored_ms >= timestamp_ms:
                high = middle
            else:
                low = middle + 1
        return files[low]

    def _unit(self, queue: ConsumeQueue, queue_offset: int) -> Steps[tuple[int, int]]:
        """Return physical offset and size of a unit; (-1, 0) if its message was deleted in the meantime."""
        if not _has(queue, queue_offset):
            return -1, 0
        mapped_file, position, size = queue.locate(queue_offset, 1)
        (unit,) = yield [(mapped_file, position, size)]
        physical_offset, record_size, _ = UNIT.unpack(unit)
        return physical_offset, record_size

    def _read_log(self, physical_offset: int, size: int) -> Steps[bytes | None]:
        located = self._commit_log.locate(physical_offset, size)
        if located is None:
            return None
        (content,) = yield [(located[0], located[1], size)]
        return content if len(content) == size else None


def _has(queue: ConsumeQueue, queue_offset: int) -> bool:
    return queue.min_offset <= queue_offset < queue.max_offset


def _damage(queue: ConsumeQueue, scan: QueueScan) -> str:
    """Return the description of a unit that cannot be served, with its file and position."""
    if not scan.damage or not _has(queue, scan.next_offset):
        return ""
    mapped_file, position, _ = queue.locate(scan.next_offset, 1)
    return (
        f"{scan.damage} (unit {scan.next_offset} of topic {queue.topic}, queue {queue.queue_id}: "
        f"{mapped_file.path} at {position})"
    )


def _ext_units(ext: ConsumeQueueExt, units: bytes) -> Steps[Mapping[int, CqExtUnit]]:
    """Return the ConsumeQueueExt units for the addresses among the tags codes of units."""
    groups = ext.groups(sorted(code for _, _, code in UNIT.iter_unpack(units) if is_ext_address(code)))
    contents = (yield [located for _, located in groups]) if groups else []
    found = {}
    for (addresses, _), content in zip(groups, contents, strict=True):
        for address in addresses:
            unit = read_ext_unit(content, address - addresses[0])
            if unit is not None:
                found[address] = unit
    return found


@lru_cache(maxsize=64)
def _heads(count: int, size: int) -> struct.Struct:
    """Struct of records of one size back to back, with the fields of RECORD_HEAD_CHECK of each."""
    return struct.Struct(">" + f"{RECORD_HEAD_CHECK_FORMAT}{size - _HEAD_CHECK_SIZE}x" * count)


@cache
def _columns(count: int) -> struct.Struct:
    return struct.Struct(">" + "qiq" * count)
