"""Walks records through the files of a log, from a given file to the first place where no valid record is.

Used before a store is open: it blocks, and works in slices so that its caller can look up in between. A record is valid
only if its physical offset is its position, its lengths add up, its body has its CRC, its queue offset follows its
predecessor's in the same queue (or is 0 again: the topic was deleted and created anew), and neither topic nor
properties contain a NUL. The CRC covers the body only: the rest is what finds records that are torn, or left over from
before a truncation.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from rocketpy.protocol.stored_message import MESSAGE_MAGIC_CODE, CheckedMessage, RecordStatus, check_message
from rocketpy.store import layout
from rocketpy.store.commit_log import CommitLog
from rocketpy.store.mapped_file import MappedFile

_WINDOW_SIZE = 1 << 20
_HEAD = struct.Struct(">ii")  # totalSize and magic
_NOTHING = CheckedMessage(RecordStatus.NOTHING)
SLICE_RECORDS = 2000
"""So many records are about 10 ms of work."""


class LogScanner:
    """One walk. When the records are used up, ``end_offset`` says where the log ends, and ``why`` what stands there."""

    def __init__(self, commit_log: CommitLog, *, first_file: int, check_crc: bool) -> None:
        self._files = commit_log.files
        self.first_file = first_file
        self._check_crc = check_crc
        self._window = b""
        self._window_begin = 0  # its position in the file
        self._next_queue_offset: dict[tuple[str, int], int] = {}
        self.end_offset = self._files[first_file].base_offset
        self.timestamp_ms = 0  # storeTimestamp of the last valid record
        self.why = ""

    def slices(self) -> Iterator[list[CheckedMessage]]:
        """Yield the valid records in order, about 10 ms of work at a time."""
        records: list[CheckedMessage] = []
        for index in range(self.first_file, len(self._files)):
            mapped_file = self._files[index]
            if index > self.first_file and mapped_file.base_offset != self.end_offset:
                break  # the file before it ends without a BLANK
            for record in self._records_of(mapped_file):
                records.append(record)
                if len(records) >= SLICE_RECORDS:
                    yield records
                    records = []
        yield records

    def _records_of(self, mapped_file: MappedFile) -> Iterator[CheckedMessage]:
        """Yield a file's valid records, moving ``end_offset`` along; a BLANK moves it to the next file, if any."""
        self._window, self._window_begin = b"", 0
        position = 0
        while True:
            record = self._record_at(mapped_file, position)
            if record.status is not RecordStatus.MESSAGE:
                break
            self.why = self._objection(record, mapped_file.base_offset + position)
            if self.why:
                return
            if not record.sys_flag & layout.SYS_FLAG_NO_QUEUE:
                self._next_queue_offset[record.topic, record.queue_id] = record.queue_offset + 1
            position += record.size
            self.end_offset = mapped_file.base_offset + position
            self.timestamp_ms = record.store_timestamp
            yield record
        is_last = mapped_file is self._files[len(self._files) - 1]
        if record.status is RecordStatus.BLANK and record.size == mapped_file.size - position:
            if not is_last:
                self.end_offset = mapped_file.end_offset
        else:
            self.why = record.why

    def _record_at(self, mapped_file: MappedFile, position: int) -> CheckedMessage:
        """Return what stands at a position, reading on when the window ends before it does."""
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
            if magic != MESSAGE_MAGIC_CODE or wanted > left:
                return record
        if available >= min(wanted, left):
            return record
        self._window = mapped_file.file().read(position, min(left, max(wanted, _WINDOW_SIZE)))
        self._window_begin = position
        if len(self._window) <= max(available, 0):
            return record
        return self._record_at(mapped_file, position)

    def _objection(self, record: CheckedMessage, physical_offset: int) -> str:
        """Return why a record that is one in itself is none of this log at this place, empty if it is."""
        if record.physical_offset != physical_offset:
            return f"record at {physical_offset}: it says it is at {record.physical_offset}"
        if "\0" in record.topic or b"\0" in record.properties_text:
            return f"record at {physical_offset}: a NUL in topic or properties"
        if record.sys_flag & layout.SYS_FLAG_NO_QUEUE == 0 and record.queue_offset:
            expected = self._next_queue_offset.get((record.topic, record.queue_id), record.queue_offset)
            if record.queue_offset != expected:
                return f"record at {physical_offset}: expected queue offset {expected}, found {record.queue_offset}"
        return ""
