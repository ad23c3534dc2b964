"""Scan of every record of a log that resynchronizes after damage.

The scan of recovery stops at the first invalid record. This one finds the next valid record: by the length in a damaged
record's head if that leads to one, else by searching for a magic whose record has the matching physical offset. The
bytes in between are a :class:`Damage`. The bytes after the last valid record are the tail: free space, a write torn by
a crash, or older records that a truncation has left (their storeTimestamps are before that of the last valid record,
and no start would serve them).

Read-only. Memory is bounded by a window of the file, the longest record, and the damages found.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence

import attrs

from rocketpy.protocol.stored_message import (
    BLANK_MAGIC_CODE,
    BLANK_SIZE_MIN,
    MESSAGE_MAGIC_CODE,
    RECORD_SIZE_MAX,
    RECORD_SIZE_MIN,
    CheckedMessage,
    RecordStatus,
    check_message,
)
from rocketpy.protocol.sysflag import NO_QUEUE_FLAG
from rocketpy.store.inspection.verify.inventory import StoreFile
from rocketpy.store.inspection.verify.read_only_files import ReadOnlyFiles
from rocketpy.store.inspection.verify.time_inspection import is_time
from rocketpy.store.log.scanner import objection

SLICE_RECORDS = 4000
_WINDOW_SIZE = 1 << 20
_SUSPECTS_MAX = 100_000
_SIZE_AND_MAGIC = struct.Struct(">ii")
_MAGIC_BYTES = MESSAGE_MAGIC_CODE.to_bytes(4, "big", signed=True)
_BLANK_BYTES = BLANK_MAGIC_CODE.to_bytes(4, "big", signed=True)
_PHYSICAL_OFFSET_POSITION = 28
_ZEROS = bytes(_WINDOW_SIZE)


@attrs.frozen
class Damage:
    """Bytes of the log that belong to no valid record: physical offsets, all within one file.

    ``path`` is empty if the file is missing. ``suspects`` are records whose heads are consistent with their positions,
    although their checksums are wrong: probably the original records.
    """

    begin_offset: int
    end_offset: int
    path: str
    position: int
    why: str
    is_zero: bool = False
    reaches_file_end: bool = False
    suspects: tuple[CheckedMessage, ...] = ()
    has_stale_records_after: bool = False
    """Older records follow, which a truncation has left."""
    timestamp_ms: int = 0
    """The storeTimestamp of the records around it."""

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return self.end_offset - self.begin_offset


@attrs.frozen
class LogSlice:
    """Some valid records in order; then a damage that is followed by valid records."""

    records: Sequence[CheckedMessage]
    damage: Damage | None
    read_offset: int
    """The offset reached by the scan, for progress."""


class LogWalk:
    """One walk over files in order. When the slices are used up, the attributes say how the log ends."""

    def __init__(
        self,
        files: Sequence[StoreFile],
        opened: ReadOnlyFiles,
        *,
        durable_end: int = 0,
        begin_offset: int | None = None,
        rejected_offsets: frozenset[int] = frozenset(),
    ) -> None:
        """Prepare a walk, from the beginning or from a record at ``begin_offset``.

        Records before ``durable_end`` are known to be written by the last owner of the store. Records at
        ``rejected_offsets`` count as damaged: their checksums are right, but a checksum covers the body only.
        """
        self._rejected_offsets = rejected_offsets
        self._files = files
        self._opened = opened
        self._durable_end = durable_end
        self._begin_offset = begin_offset
        self._pending: list[Damage] = []  # not known yet whether a valid record follows
        self._window = b""
        self._window_begin = 0
        self._window_path = ""
        self._is_over = False
        self.end_offset = files[0].base_offset if files else 0
        """The offset after the last valid record, and after its BLANK if another file follows."""
        self.timestamp_ms = 0
        """The storeTimestamp of the last valid record."""
        self.record_count = 0
        self.damages: list[Damage] = []
        self.tail: list[Damage] = []
        """The bytes after the end, file by file."""

    def slices(self) -> Iterator[LogSlice]:
        """Walk."""
        first = 0
        if self._begin_offset is not None:
            bases = [file.base_offset for file in self._files]
            first = max(0, bisect_right(bases, self._begin_offset) - 1)
            self.end_offset = self._begin_offset
        expected = self._files[first].base_offset if self._files else 0
        for file in self._files[first:]:
            if file.base_offset > expected:
                self._pending.append(
                    Damage(expected, file.base_offset, "", 0, "a file is missing", reaches_file_end=True)
                )
            yield from self._walk_file(file)
            if self._is_over:
                break
            expected = file.end_offset
        self.tail = self._pending

    # ---- one file -------------------------------------------------------------------------------------------------

    def _walk_file(self, file: StoreFile) -> Iterator[LogSlice]:
        position = max(0, (self._begin_offset or 0) - file.base_offset)
        records: list[CheckedMessage] = []
        while position < file.size:
            record = self._record_at(file, position)
            if record.status is RecordStatus.MESSAGE and not objection(record, file.base_offset + position):
                if self._pending:
                    if self._is_stale(record):
                        self._pending[-1] = attrs.evolve(self._pending[-1], has_stale_records_after=True)
                        self._is_over = True
                        return
                    yield from self._confirm_damages(record.store_timestamp)
                records.append(record)
                position += record.size
                self._take(record, file.base_offset + position)
                if len(records) >= SLICE_RECORDS:
                    yield LogSlice(records, None, file.base_offset + position)
                    records = []
                continue
            if records:
                yield LogSlice(records, None, file.base_offset + position)
                records = []
            if record.status is RecordStatus.BLANK and record.size == file.size - position:
                if not self._pending and file is not self._files[-1]:
                    self.end_offset = file.end_offset
                return
            damage = self._damage_at(file, position, record)
            self._pending.append(damage)
            position = damage.end_offset - file.base_offset
        if records:
            yield LogSlice(records, None, file.end_offset)

    def _take(self, record: CheckedMessage, end_offset: int) -> None:
        self.record_count += 1
        self.end_offset = end_offset
        if is_time(record.store_timestamp):
            self.timestamp_ms = record.store_timestamp

    def _is_stale(self, record: CheckedMessage) -> bool:
        return record.physical_offset >= self._durable_end and record.store_timestamp < self.timestamp_ms

    def _confirm_damages(self, timestamp_ms: int) -> Iterator[LogSlice]:
        for damage in self._pending:
            damage = attrs.evolve(damage, timestamp_ms=self.timestamp_ms or timestamp_ms)
            self.damages.append(damage)
            yield LogSlice((), damage, damage.end_offset)
        self._pending.clear()

    def _record_at(self, file: StoreFile, position: int) -> CheckedMessage:
        """Return the record at a position, read completely."""
        self._look_at(file, position, BLANK_SIZE_MIN)
        begin = position - self._window_begin
        available = len(self._window) - begin
        if available >= BLANK_SIZE_MIN:
            size, magic = _SIZE_AND_MAGIC.unpack_from(self._window, begin)
            if magic == MESSAGE_MAGIC_CODE and available < size <= min(file.size - position, RECORD_SIZE_MAX):
                self._look_at(file, position, size)
                begin = position - self._window_begin
                available = len(self._window) - begin
        record = check_message(self._window, begin, min(available, file.size - position))
        if file.base_offset + position in self._rejected_offsets and record.status is RecordStatus.MESSAGE:
            return CheckedMessage(RecordStatus.DAMAGED, why="record: topic, queue or queue offset are not its own")
        return record

    def _look_at(self, file: StoreFile, position: int, size: int) -> None:
        """Fill the window with ``size`` bytes from a position on, as far as the file has them."""
        end = min(position + size, file.size, file.length)
        begin = self._window_begin
        if self._window_path != file.path or position < begin or end > begin + len(self._window):
            self._window = self._opened.read(
                file.path, position, min(max(size, _WINDOW_SIZE), max(0, file.size - position))
            )
            self._window_begin = position
            self._window_path = file.path

    # ---- after damage ---------------------------------------------------------------------------------------------

    def _damage_at(self, file: StoreFile, position: int, record: CheckedMessage) -> Damage:
        """Return the damage that begins at a position, up to where the scan can continue."""
        why = record.why.partition(": ")[2]
        if record.status is RecordStatus.MESSAGE:
            why = why or objection(record, file.base_offset + position)
        suspects, end = self._follow_suspects(file, position)
        if end is None:
            end, is_zero = self._search(file, position)
        else:
            is_zero = False
        if is_zero:
            why = "zeros"
        return Damage(
            file.base_offset + position,
            file.base_offset + end,
            file.path,
            position,
            why or "no record",
            is_zero,
            end == file.size,
            tuple(suspects),
        )

    def _follow_suspects(self, file: StoreFile, position: int) -> tuple[list[CheckedMessage], int | None]:
        """Follow heads whose lengths lead from one to the next; return them, and where a valid record or BLANK is."""
        suspects: list[CheckedMessage] = []
        while position < file.size and len(suspects) < _SUSPECTS_MAX:
            record = self._record_at(file, position)
            if record.status is RecordStatus.BLANK:
                return suspects, position if record.size == file.size - position else None
            if record.status is RecordStatus.MESSAGE and not objection(record, file.base_offset + position):
                return suspects, position
            begin = position - self._window_begin
            available = len(self._window) - begin
            record = check_message(self._window, begin, min(available, file.size - position), check_crc=False)
            if file.base_offset + position in self._rejected_offsets:
                position += max(record.size, 1)
                continue
            if record.status is not RecordStatus.MESSAGE or objection(record, file.base_offset + position):
                break
            suspects.append(record)
            position += record.size
        return suspects, None

    def _search(self, file: StoreFile, position: int) -> tuple[int, bool]:
        """Return the position of the next valid record or BLANK, else the end of the file; and whether only zeros come
        before it.
        """
        is_zero = True
        begin = position
        while begin < file.size:
            content = self._opened.read(file.path, begin, min(_WINDOW_SIZE, file.size - begin))
            if not content:
                break
            if content != _ZEROS[: len(content)]:
                for found in _candidates(content):
                    candidate = begin + found - 4
                    if candidate > position and self._is_valid(file, candidate):
                        is_zero = is_zero and not any(content[: max(0, candidate - begin)])
                        return candidate, is_zero
                is_zero = False
            if begin + len(content) >= min(file.length, file.size):
                break
            begin += max(1, len(content) - (RECORD_SIZE_MIN - 1))
        return file.size, is_zero

    def _is_valid(self, file: StoreFile, position: int) -> bool:
        head = self._opened.read(file.path, position, _PHYSICAL_OFFSET_POSITION + 8)
        if len(head) < BLANK_SIZE_MIN:
            return False
        size, magic = _SIZE_AND_MAGIC.unpack_from(head)
        if magic == BLANK_MAGIC_CODE:
            return bool(size == file.size - position)
        if not RECORD_SIZE_MIN <= size <= min(file.size - position, RECORD_SIZE_MAX):
            return False
        if int.from_bytes(head[_PHYSICAL_OFFSET_POSITION:], "big") != file.base_offset + position:
            return False
        content = self._opened.read(file.path, position, size)
        record = check_message(content, 0, len(content))
        return record.status is RecordStatus.MESSAGE and not objection(record, file.base_offset + position)


def read_record(files: Sequence[StoreFile], opened: ReadOnlyFiles, physical_offset: int) -> CheckedMessage | None:
    """Return the valid record at a physical offset, None if there is none."""
    index = bisect_right(files, physical_offset, key=lambda file: file.base_offset) - 1
    if index < 0 or physical_offset >= files[index].end_offset:
        return None
    file = files[index]
    position = physical_offset - file.base_offset
    size = int.from_bytes(opened.read(file.path, position, 4), "big")
    if not RECORD_SIZE_MIN <= size <= min(file.size - position, RECORD_SIZE_MAX):
        return None
    content = opened.read(file.path, position, size)
    record = check_message(content, 0, len(content))
    if record.status is not RecordStatus.MESSAGE or objection(record, physical_offset):
        return None
    return record


def is_queued(record: CheckedMessage) -> bool:
    """Whether a record has a queue offset and a unit."""
    return not record.sys_flag & NO_QUEUE_FLAG


def _candidates(content: bytes) -> Iterator[int]:
    """Yield every position of a magic, of a record or a BLANK, in order."""
    message, blank = content.find(_MAGIC_BYTES), content.find(_BLANK_BYTES)
    while message >= 0 or blank >= 0:
        if blank < 0 or 0 <= message < blank:
            yield message
            message = content.find(_MAGIC_BYTES, message + 1)
        else:
            yield blank
            blank = content.find(_BLANK_BYTES, blank + 1)
