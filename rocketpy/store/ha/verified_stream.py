"""Checks the bytes of a master's log before they are stored: only whole, valid records pass.

A record is valid if recovery would accept it: its size fits into the file, its physical offset is its position in the
log, its lengths add up, its body matches its CRC, and neither topic nor properties contain a NUL. The rest of a file is
a BLANK that ends exactly with the file. An incomplete record is kept in memory until the rest arrives, so a slave's log
always ends with a record. As in the scanner of recovery there is a fast path for plain records, a tight loop, and a
general path that decides about all others. Records leave decoded, so that nothing is parsed twice.

That the records are those of *this* log's master, not of another with the same offsets, cannot be seen here: the logs
are compared before anything is requested.

Compatibility: RocketMQ 4.9.8 appends what comes. A damaged record then stops the slave's dispatch for good while it
goes on acknowledging.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from zlib import crc32

import attrs

from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.stored_message import (
    BLANK_MAGIC_CODE,
    BLANK_SIZE_MIN,
    MESSAGE_MAGIC_CODE,
    RECORD_HEADS,
    RECORD_SIZE_MAX,
    RECORD_SIZE_MIN,
    CheckedMessage,
    RecordStatus,
    check_message,
)
from rocketpy.protocol.sysflag import BORN_HOST_V6_FLAG, STORE_HOST_V6_FLAG
from rocketpy.store.log.scanner import objection

_TOTAL_AND_MAGIC = Struct(">ii")
_PHYSICAL_OFFSET = Struct(">28xq")
_PLAIN = Struct(">iiii4xqqiq8xq12xqi")
"""The checked fields of a record with IPv4 hosts: totalSize, magic, bodyCRC, queueId, queueOffset, physicalOffset,
sysFlag, bornTimestamp, storeTimestamp, preparedTransactionOffset, bodyLen."""
_PLAIN_SIZE_MAX = 4 << 20
_NOT_PLAIN_FLAGS = BORN_HOST_V6_FLAG | STORE_HOST_V6_FLAG
_TOPICS_MAX = 10_000
assert _PLAIN.size == RECORD_HEADS[0].size


@attrs.frozen
class VerifiedPiece:
    """Whole records that follow each other within one file, or the BLANK at its end."""

    offset: int
    data: bytes
    records: Sequence[CheckedMessage]
    """The records, decoded; none for a BLANK."""

    @property
    def end_offset(self) -> int:
        """The offset after the last byte."""
        return self.offset + len(self.data)

    @property
    def record_count(self) -> int:
        """Number of records."""
        return len(self.records)


class VerifiedStream:
    """The log of a master, from ``next_offset`` on, in pieces that may be stored."""

    def __init__(self, next_offset: int, *, file_size: int) -> None:
        self.next_offset = next_offset
        """Where the next record begins, in bytes; everything before it has been returned."""
        self._file_size = file_size
        self._pending = bytearray()  # begins at next_offset: the incomplete record
        self._wanted = 0  # fewer pending bytes than this are not looked at again
        self._topics: dict[bytes, str] = {}  # of records that took the general path

    @property
    def pending_bytes(self) -> int:
        """The received bytes of an incomplete record."""
        return len(self._pending)

    def receive(self, data: bytes) -> list[VerifiedPiece]:
        """Return what is complete now, in order.

        RemoteProtocolError, naming the offset, for bytes that are no valid record; what was complete before them has
        been lost with the call, and the master sends it again from ``next_offset``.
        """
        if self._pending:
            self._pending += data
            if len(self._pending) < self._wanted:
                return []
            data = bytes(self._pending)
        base, position, begin = self.next_offset, 0, 0
        pieces: list[VerifiedPiece] = []
        records: list[CheckedMessage] = []
        while True:
            position = self._take_plain(data, base, position, records)
            found = self._take_one(data, base, position) if position < len(data) else None
            if found is None:
                break
            if found.status is RecordStatus.MESSAGE:
                records.append(found)
                position += found.size
                continue
            if records:
                pieces.append(VerifiedPiece(base + begin, data[begin:position], records))
                records = []
            begin, position = position, position + found.size
            pieces.append(VerifiedPiece(base + begin, data[begin:position], ()))
            begin = position
        if records:
            pieces.append(VerifiedPiece(base + begin, data[begin:position], records))
        self._pending = bytearray(data[position:])
        self.next_offset = base + position
        return pieces

    def _take_plain(self, data: bytes, base: int, begin: int, records: list[CheckedMessage]) -> int:
        """Fast path: add the plain records from a position on; return the end of the last. Stops at any other record.

        Plain are valid whole records with IPv4 hosts, of topics that were seen before.
        """
        view, last_begin = memoryview(data), len(data) - RECORD_SIZE_MIN
        end_max = min(len(data), begin + self._left_in_file(base + begin) - BLANK_SIZE_MIN)
        topics, add, unpack_from, find = self._topics, records.append, _PLAIN.unpack_from, data.find
        message, magic_code, not_plain = RecordStatus.MESSAGE, MESSAGE_MAGIC_CODE, _NOT_PLAIN_FLAGS
        while begin <= last_begin:
            (
                size, magic, crc, queue_id, queue_offset, physical_offset, sys_flag, born_timestamp, store_timestamp,
                prepared_transaction_offset, body_size,
            ) = unpack_from(data, begin)  # fmt: skip
            end = begin + size
            body_begin = begin + 88
            body_end = body_begin + body_size
            if (
                magic != magic_code
                or physical_offset != base + begin
                or sys_flag & not_plain
                or body_size < 0
                or size > _PLAIN_SIZE_MAX
                or not body_end + 3 <= end <= end_max
            ):
                break
            topic_end = body_end + 1 + data[body_end]
            properties_begin = topic_end + 2
            topic = topics.get(data[body_end + 1 : topic_end])
            if (
                topic is None
                or properties_begin > end
                or data[topic_end] << 8 | data[topic_end + 1] != end - properties_begin
                or data[topic_end] > 0x7F
                or find(0, properties_begin, end) >= 0
                or crc32(view[body_begin:body_end]) & 0x7FFFFFFF != crc
            ):
                break
            add(
                CheckedMessage(
                    message, size, topic, queue_id, queue_offset, physical_offset, sys_flag, born_timestamp,
                    store_timestamp, prepared_transaction_offset, data[properties_begin:end],
                )
            )  # fmt: skip
            begin = end
        return begin

    def _take_one(self, data: bytes, base: int, position: int) -> CheckedMessage | None:
        """General path: return the valid record or BLANK at a position, None while it is incomplete."""
        available = len(data) - position
        if available < BLANK_SIZE_MIN:
            self._wanted = BLANK_SIZE_MIN
            return None
        offset = base + position
        size: int
        size, magic = _TOTAL_AND_MAGIC.unpack_from(data, position)
        self._check_head(size, magic, offset)
        if magic == MESSAGE_MAGIC_CODE:
            if available < _PHYSICAL_OFFSET.size:
                self._wanted = _PHYSICAL_OFFSET.size
                return None
            (physical_offset,) = _PHYSICAL_OFFSET.unpack_from(data, position)
            if physical_offset != offset:
                raise _refused(offset, "a record with this physical offset", physical_offset)
        if available < size:
            self._wanted = size
            return None
        checked = check_message(data, position, size)
        if checked.status is RecordStatus.BLANK:
            return checked
        why = checked.why if checked.status is not RecordStatus.MESSAGE else objection(checked, offset)
        if why:
            raise RemoteProtocolError(f"replicated log at {offset}: {why}")
        if len(self._topics) >= _TOPICS_MAX:
            self._topics.clear()
        checked.topic = self._topics.setdefault(checked.topic.encode("utf-8", "replace"), checked.topic)
        return checked

    def _check_head(self, size: int, magic: int, offset: int) -> None:
        """Refuse what neither record nor BLANK can begin with at an offset, before its bytes arrive."""
        left_in_file = self._left_in_file(offset)
        if magic == BLANK_MAGIC_CODE:
            if size != left_in_file or size > RECORD_SIZE_MAX:
                raise _refused(
                    offset,
                    f"a BLANK of the {left_in_file} bytes that are left of its file",
                    f"{size}; mappedFileSizeCommitLog must be the same on both sides, here it is {self._file_size}, "
                    f"and there a file ends at {offset + size}",
                )
            return
        if magic != MESSAGE_MAGIC_CODE:
            raise _refused(offset, "the magic number of a record or of a BLANK", magic)
        size_max = min(RECORD_SIZE_MAX, left_in_file - BLANK_SIZE_MIN)
        if not RECORD_SIZE_MIN <= size <= size_max:
            raise _refused(
                offset,
                f"a record of {RECORD_SIZE_MIN} to {size_max} bytes",
                f"{size}; here mappedFileSizeCommitLog is {self._file_size}",
            )

    def _left_in_file(self, offset: int) -> int:
        return self._file_size - offset % self._file_size


def _refused(offset: int, expected: str, found: int | str) -> RemoteProtocolError:
    return RemoteProtocolError(f"replicated log at {offset}: expected {expected}, found {found}")
