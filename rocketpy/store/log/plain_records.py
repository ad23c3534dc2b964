"""The check of plain records in a tight loop: for recovery, the index's catch-up, and what a slave receives.

Plain is a whole, valid record with IPv4 hosts and a queue, the next one of a queue that is known: its size and its
lengths add up, its physical offset is its position, its body matches its CRC, and its properties contain no NUL. The
loop stops at any other record, about which :func:`~rocketpy.protocol.stored_message.check_message` and its caller
decide. Whoever has accepted that record adds its queue, so that the next one is plain.

This is where recovery and replication spend their time, so records come out as tuples, and topic and properties are not
decoded.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import repeat
from typing import Any, Generic, Protocol, TypeAlias, TypeVar
from zlib import crc32

from rocketpy import BUILD
from rocketpy.protocol.stored_message import MESSAGE_MAGIC_CODE, RECORD_SIZE_MIN, CheckedMessage
from rocketpy.protocol.sysflag import BORN_HOST_V6_FLAG, NO_QUEUE_FLAG, STORE_HOST_V6_FLAG

_PLAIN = struct.Struct(">iiii4xqqi16xq12x8xi")
"""The checked fields of a record with IPv4 hosts: totalSize, magic, bodyCRC, queueId, queueOffset, physicalOffset,
sysFlag, storeTimestamp, bodyLen."""
_HEAD_SIZE = 88
assert _PLAIN.size == _HEAD_SIZE
_NOT_PLAIN_FLAGS = BORN_HOST_V6_FLAG | STORE_HOST_V6_FLAG | NO_QUEUE_FLAG
_TAILS_MAX = 10_000


class QueueEnd(Protocol):
    """Where a queue continues."""

    next_offset: int
    """The queue offset of its next record."""


Queue = TypeVar("Queue", bound=QueueEnd)
PlainRecord: TypeAlias = tuple[Queue, int, int, int, int, bytes]
"""Queue, queue offset, physical offset, size, storeTimestamp and properties of a record."""


TakePlain: TypeAlias = Callable[..., list[Any]]
"""``take_plain`` of the kernel ``log_scan``."""


def scan_kernel() -> TakePlain:
    """Return the kernel, compiled or not."""
    from rocketpy.protocol.kernels.log_scan import take_plain

    return take_plain


TAKE_PLAIN: TakePlain | None = scan_kernel() if BUILD.has_kernels else None
"""What takes records by default; None is the general path."""


class PlainRecords(Generic[Queue]):
    """The queues that are known, and the loop over their records.

    With ``queues_max`` all are forgotten when there are so many: where a peer names them.
    """

    def __init__(self, queues_max: int | None = None, *, take_plain: TakePlain | None = TAKE_PLAIN) -> None:
        self._take_plain = take_plain
        self._queues_max = queues_max
        self._added_count = 0
        self._topics: dict[bytes, dict[int, Queue]] = {}
        # What is between body and properties, the sizes of topic and properties included: one look-up finds the queues
        # of the topic, and checks both sizes.
        self._tails: dict[bytes, tuple[dict[int, Queue], int]] = {}

    def find(self, topic: bytes, queue_id: int) -> Queue | None:
        """Return a queue that is known."""
        queues = self._topics.get(topic)
        return None if queues is None else queues.get(queue_id)

    def add(self, topic: bytes, queue_id: int, queue: Queue) -> None:
        """Let a queue be known, instead of the one that was known before."""
        if self._added_count == self._queues_max:
            self._added_count = 0
            self._topics.clear()
            self._tails.clear()
        self._added_count += 1
        self._topics.setdefault(topic, {})[queue_id] = queue

    def take(
        self, data: bytes, begin: int, end_max: int, offset: int, *, count_max: int, check_crc: bool = True
    ) -> list[PlainRecord[Queue]]:
        """Return the plain records from a position on, which is a physical offset; none ends after ``end_max``.

        Their queues continue after them.
        """
        if self._take_plain is None:
            records = self._taken(data, begin, end_max, offset, count_max=count_max, check_crc=check_crc)
        else:
            records = self._take_plain(data, begin, end_max, offset, count_max, check_crc, self._tails, self._learn)
        if b"\0" in b"".join([record[5] for record in records]):
            _drop_from_nul(records)
        return records

    def _taken(
        self, data: bytes, begin: int, end_max: int, offset: int, *, count_max: int, check_crc: bool
    ) -> list[PlainRecord[Queue]]:
        """Return plain records, of which the text may have a NUL: the general path, which defines what is plain."""
        view, last_begin, tails = memoryview(data), len(data) - RECORD_SIZE_MIN, self._tails
        unpack_from, magic_code, not_plain = _PLAIN.unpack_from, MESSAGE_MAGIC_CODE, _NOT_PLAIN_FLAGS
        records: list[PlainRecord[Queue]] = []
        add = records.append
        for _ in repeat(None, count_max):
            if begin > last_begin:
                break
            size, magic, crc, queue_id, queue_offset, physical_offset, sys_flag, stored_ms, body_size = unpack_from(
                data, begin
            )
            end = begin + size
            body_begin = begin + 88
            body_end = body_begin + body_size
            if (
                magic != magic_code
                or physical_offset != offset
                or sys_flag & not_plain
                or not body_begin <= body_end < end <= end_max
            ):
                break
            properties_begin = body_end + data[body_end] + 3
            tail = data[body_end:properties_begin]
            found = tails.get(tail) or self._learn(tail)
            if (
                found is None
                or properties_begin + found[1] != end
                or (check_crc and crc32(view[body_begin:body_end]) & 0x7FFF_FFFF != crc)
            ):
                break
            queue = found[0].get(queue_id)
            if queue is None or queue_offset != queue.next_offset:
                break
            queue.next_offset = queue_offset + 1
            add((queue, queue_offset, physical_offset, size, stored_ms, data[properties_begin:end]))
            begin = end
            offset += size
        return records

    def _learn(self, tail: bytes) -> tuple[dict[int, Queue], int] | None:
        """Return the queues of a topic and the size of the properties; None where the general path must look."""
        queues, properties_size = self._topics.get(tail[1:-2]), int.from_bytes(tail[-2:], "big", signed=True)
        if len(tail) != tail[0] + 3 or queues is None or properties_size < 0:
            return None
        if len(self._tails) >= _TAILS_MAX:
            self._tails.clear()
        found = self._tails[tail] = queues, properties_size
        return found


class QueueRun:
    """Records of one queue whose queue offsets follow each other: where nothing else is known of the queues."""

    __slots__ = ("next_offset", "queue_id", "topic")

    def __init__(self, topic: str, queue_id: int, next_offset: int) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.next_offset = next_offset


def continued_run(known: PlainRecords[QueueRun], record: CheckedMessage) -> QueueRun:
    """Return the run of a record with a queue, which the general path has accepted: a new one if it continues none."""
    topic = record.topic.encode("utf-8", "replace")
    run = known.find(topic, record.queue_id)
    if run is None or run.next_offset != record.queue_offset:
        run = QueueRun(record.topic, record.queue_id, record.queue_offset)
        known.add(topic, record.queue_id, run)
    run.next_offset = record.queue_offset + 1
    return run


def _drop_from_nul(records: list[PlainRecord[Queue]]) -> None:
    """Take back the records from the first one on whose properties contain a NUL."""
    first = next(number for number, record in enumerate(records) if b"\0" in record[5])
    for queue, queue_offset, *_ in reversed(records[first:]):
        queue.next_offset = queue_offset
    del records[first:]
