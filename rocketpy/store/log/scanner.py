"""Scans the records of a log from a given file to the first position without a valid record.

Used before a store is open: it blocks, and works in slices so that its caller can do other work in between. A record is
valid only if its physical offset is its position, its lengths add up, its body matches its CRC, its queue offset
follows its predecessor's in the same queue (or is 0: the topic was deleted and created again), and neither topic nor
properties contain a NUL. The CRC covers the body only: the other checks detect records that are torn, or left over from
before a truncation. Between a record and its predecessor there may be units of records of other topics that name the
queue (multi-dispatch). They are no more than claims, so the record may follow any number of them.

A scan reads millions of records. So there is a fast path for plain ones (IPv4, with a queue, valid), the tight loop of
:mod:`.plain_records`, and they are yielded as :class:`Run`, column by column. Any other record takes the general path
through :func:`check_message`, which decides and states the reason.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import attrs

from rocketpy.protocol.properties import PROPERTY_INNER_MULTI_DISPATCH
from rocketpy.protocol.stored_message import (
    MESSAGE_MAGIC_CODE,
    RECORD_SIZE_MAX,
    CheckedMessage,
    RecordStatus,
    check_message,
)
from rocketpy.protocol.sysflag import NO_QUEUE_FLAG
from rocketpy.store.files.mapped_file import MappedFile
from rocketpy.store.log.commit_log import CommitLog
from rocketpy.store.log.plain_records import PlainRecords
from rocketpy.store.queue.record_offsets import NamedUnits, follows, queue_offsets_of

SLICE_RECORDS = 4000
"""Records per slice, about 10 ms of work."""

WINDOW_SIZE = 1 << 20
"""Bytes read at a time; a longer record is read whole."""

_HEAD = struct.Struct(">ii")  # totalSize and magic
_WORD = 0xFFFF_FFFF
_SIZE = struct.Struct(">i")
_MULTI_DISPATCH = PROPERTY_INNER_MULTI_DISPATCH.encode()
_NOTHING = CheckedMessage(RecordStatus.NOTHING)


@attrs.frozen
class Run:
    """Valid records of one queue with consecutive queue offsets, none of them dispatched to several queues."""

    topic: str
    queue_id: int
    queue_offset: int  # of the first
    physical_offsets: list[int]
    sizes: list[int]


@attrs.frozen
class Slice:
    """The records of one slice that need units: those of the runs, and after them at most one other."""

    runs: list[Run]
    other: CheckedMessage | None


class _Queue:
    """State of one queue during a scan."""

    __slots__ = ("built_end", "named", "next_offset", "physical_offsets", "queue_id", "sizes", "topic")

    def __init__(self, topic: str, queue_id: int, next_offset: int, built_end: int) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.next_offset = next_offset  # the expected queue offset of the next record
        self.named: NamedUnits | None = None  # of records that name the queue, since that offset is expected
        self.built_end = built_end  # records before this physical offset have their units
        self.physical_offsets: list[int] = []  # of the current run
        self.sizes: list[int] = []

    def take_run(self) -> Run:
        """End the current run and return it."""
        begin = self.next_offset - len(self.sizes)
        run = Run(self.topic, self.queue_id, begin, self.physical_offsets, self.sizes)
        self.physical_offsets, self.sizes = [], []
        return run


class LogScanner:
    """One scan. After its last slice, ``end_offset`` is the end of the log, and ``why`` tells what was found there."""

    def __init__(
        self,
        commit_log: CommitLog,
        *,
        first_file: int,
        begin_offset: int | None = None,
        check_crc: bool,
        built_end: Callable[[str, int], int],
        is_multi_dispatch: bool = False,
        window_size: int = WINDOW_SIZE,
    ) -> None:
        """Prepare a scan from the beginning of a file, or from a record in it.

        Records of a queue before ``built_end(topic, queue_id)`` are checked but not yielded. ``is_multi_dispatch``:
        records may be in more queues than their own.
        """
        self._is_multi_dispatch = is_multi_dispatch
        self._files = commit_log.files
        self._check_crc = check_crc
        self._built_end = built_end
        self._window_size = window_size
        self._window = b""
        self._window_begin = 0  # its position in the file
        self._base_offset = 0  # of that file
        self._is_window_plain = True  # no record in it is in several queues
        self._position = 0  # in the file, of the next record
        self._queues: PlainRecords[_Queue] = PlainRecords()
        self.first_file = first_file
        self.begin_offset = self._files[first_file].base_offset if begin_offset is None else begin_offset
        self.end_offset = self.begin_offset
        self.timestamp_ms = 0  # the latest storeTimestamp of a valid record
        self.record_count = 0
        self.why = ""

    def slices(self) -> Iterator[Slice]:
        """Yield the valid records that need units, in order. A slice may be empty."""
        for index in range(self.first_file, len(self._files)):
            mapped_file = self._files[index]
            begin = self.end_offset - mapped_file.base_offset
            if begin and index != self.first_file:
                return  # the file before it ends without a BLANK
            self._base_offset = mapped_file.base_offset
            self._set_window(b"", begin)
            self._position = begin
            is_going = True
            while is_going:
                touched: list[_Queue] = []
                other = None
                count = self._take_plain(touched) if self._is_window_plain else 0
                runs = [queue.take_run() for queue in touched]
                if count < SLICE_RECORDS:
                    is_going, other = self._take_one(mapped_file)
                yield Slice(runs, other)

    def record_of(self, physical_offset: int) -> CheckedMessage:
        """Return a record of the last yielded slice, decoded."""
        position = physical_offset - self._base_offset
        begin = position - self._window_begin
        record = (
            check_message(self._window, begin, len(self._window) - begin, check_crc=False) if begin >= 0 else _NOTHING
        )
        if record.status is not RecordStatus.MESSAGE:  # the record after the runs has moved the window
            mapped_file = self._files.find(physical_offset)
            assert mapped_file is not None, physical_offset
            (size,) = _SIZE.unpack(mapped_file.file().read(position, _SIZE.size))
            record = check_message(mapped_file.file().read(position, size), 0, size, check_crc=False)
        assert record.status is RecordStatus.MESSAGE, (physical_offset, record)
        return record

    def _take_plain(self, touched: list[_Queue]) -> int:
        """Fast path: take at most a slice of plain records; return how many. Stops at any other record."""
        window, position = self._window, self._position
        begin = position - self._window_begin
        records = self._queues.take(
            window,
            begin,
            len(window),
            self._base_offset + position,
            count_max=SLICE_RECORDS,
            check_crc=self._check_crc,
        )
        if not records:
            return 0
        for queue, _, physical_offset, size, _, _ in records:
            if physical_offset + size > queue.built_end:
                if not queue.sizes:
                    touched.append(queue)
                queue.physical_offsets.append(physical_offset)
                queue.sizes.append(size)
        _, _, physical_offset, size, _, _ = records[-1]
        self.end_offset = physical_offset + size
        self._position = self.end_offset - self._base_offset
        self.timestamp_ms = max(self.timestamp_ms, max([record[4] for record in records]))
        self.record_count += len(records)
        return len(records)

    def _take_one(self, mapped_file: MappedFile) -> tuple[bool, CheckedMessage | None]:
        """General path for one record: return whether the file continues, and the record if it needs a unit."""
        position = self._position
        record = self._record_at(mapped_file, position)
        if record.status is RecordStatus.BLANK and record.size == mapped_file.size - position:
            if mapped_file is not self._files[len(self._files) - 1]:
                self.end_offset = mapped_file.end_offset
            return False, None
        if record.status is not RecordStatus.MESSAGE or self._is_inconsistent(record, mapped_file, position):
            if record.why:  # it names a position in the window, not in the log
                self.why = f"record at {mapped_file.base_offset + position}: {record.why.partition(': ')[2]}"
            elif not self.why:
                self._explain_end(mapped_file, position)
            return False, None
        self._position = position + record.size
        self.end_offset = mapped_file.base_offset + self._position
        self.timestamp_ms = max(self.timestamp_ms, record.store_timestamp)
        self.record_count += 1
        if record.sys_flag & NO_QUEUE_FLAG:
            return True, None  # its queue offset, which is 0, does not say where its queue is
        queue = self._queue_of(record)
        queue.next_offset = record.queue_offset + 1
        if self._is_multi_dispatch and _MULTI_DISPATCH in record.properties_text:
            self._take_names(record)
        return True, record if record.physical_offset + record.size > queue.built_end else None

    def _take_names(self, record: CheckedMessage) -> None:
        """Note the units of a record in the queues that it names, if they have records of their own."""
        for (topic, queue_id), queue_offset in queue_offsets_of(record, is_multi_dispatch=True)[1:]:
            queue = self._queues.find(topic.encode("utf-8", "replace"), queue_id)
            if queue is not None:
                queue.named = NamedUnits.taken(queue.named, queue.next_offset, queue_offset)

    def _explain_end(self, mapped_file: MappedFile, position: int) -> None:
        """Set ``why`` to what was found instead of a record; zeros are space that is not written yet, and normal."""
        begin = position - self._window_begin
        head = self._window[begin : begin + _HEAD.size]
        if any(head):
            self.why = (
                f"record at {mapped_file.base_offset + position}: expected magic code {MESSAGE_MAGIC_CODE & _WORD:#x} "
                f"and its size, found {head.hex()}"
            )

    def _queue_of(self, record: CheckedMessage) -> _Queue:
        topic = record.topic.encode("utf-8", "replace")
        queue = self._queues.find(topic, record.queue_id)
        if queue is None:
            built_end = self._built_end(record.topic, record.queue_id)
            queue = _Queue(record.topic, record.queue_id, record.queue_offset, built_end)
            self._queues.add(topic, record.queue_id, queue)
        return queue

    def _record_at(self, mapped_file: MappedFile, position: int) -> CheckedMessage:
        """Return the record at a position, moving the window if it ends inside the record."""
        begin = position - self._window_begin
        available = len(self._window) - begin
        record = check_message(self._window, begin, available, check_crc=self._check_crc) if available > 0 else _NOTHING
        if record.status is RecordStatus.MESSAGE or record.status is RecordStatus.BLANK:
            return record
        left = mapped_file.size - position
        if available < _HEAD.size:
            wanted = _HEAD.size
        else:
            wanted, magic = _HEAD.unpack_from(self._window, begin)
            if magic != MESSAGE_MAGIC_CODE or wanted > min(left, RECORD_SIZE_MAX):
                return record
        if available >= min(wanted, left):
            return record
        self._set_window(mapped_file.file().read(position, min(left, max(wanted, self._window_size))), position)
        if len(self._window) <= max(available, 0):
            return record
        return self._record_at(mapped_file, position)

    def _set_window(self, window: bytes, position: int) -> None:
        self._window = window
        self._window_begin = position
        self._is_window_plain = _MULTI_DISPATCH not in window

    def _is_inconsistent(self, record: CheckedMessage, mapped_file: MappedFile, position: int) -> bool:
        """Whether a well-formed record is inconsistent with its position in this log; sets ``why``."""
        physical_offset = mapped_file.base_offset + position
        why = objection(record, physical_offset)
        if why:
            self.why = f"record at {physical_offset}: {why}"
        elif not record.sys_flag & NO_QUEUE_FLAG and record.queue_offset:
            queue = self._queue_of(record)
            expected = queue.next_offset
            if not follows(record.queue_offset, expected, queue.named):
                self.why = f"record at {physical_offset}: expected queue offset {expected}, found {record.queue_offset}"
        return bool(self.why)


def objection(record: CheckedMessage, physical_offset: int) -> str:
    """Return why a well-formed record is not one of the log at an offset; empty if it is consistent.

    A NUL is in no record that was accepted. The fast path of the scanner makes the same checks inline.
    """
    if record.physical_offset != physical_offset:
        return f"it says it is at {record.physical_offset}"
    if "\0" in record.topic or b"\0" in record.properties_text:
        return "a NUL in topic or properties"
    return ""
