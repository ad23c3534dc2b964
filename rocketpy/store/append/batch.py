"""The messages of a batch as columns, and the records that they become.

A batch is made into records column by column instead of message by message: the loops are C's then, and what all
records of a batch have in common is packed once. The appender decides whether and where they are stored; nothing here
knows a file or a limit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate, repeat
from typing import NamedTuple, Protocol, TypeAlias
from zlib import crc32

from rocketpy.protocol.stored_message import PROPERTIES_SIZE, pack_record_head, record_head_size
from rocketpy.store import layout

BatchRecord: TypeAlias = tuple[int, bytes, bytes, int, Sequence[bytes]]
"""Flag, body, stored properties, tags code and index keys of one message of a batch."""

_CRC_MASK = 0x7FFF_FFFF
_ALIKE_MAX = 1000
"""Above this count records are packed one by one: the struct for all at once grows with them, and is cached."""

_TAILS_MAX = 512

_pack_unit = layout.UNIT.pack


class MessageBatch(NamedTuple):
    """The messages of a batch, as columns: the first entry of each column is the first message's, and so on."""

    flags: Sequence[int]
    bodies: Sequence[bytes]
    properties: Sequence[bytes]
    """The stored text, in UTF-8."""
    tags_codes: Sequence[int]
    keys: Sequence[Sequence[bytes]]
    """The records to index."""

    @classmethod
    def of(cls, records: Iterable[BatchRecord]) -> MessageBatch:
        """Return the batch of single messages."""
        return cls(*(tuple(zip(*records, strict=True)) or ((),) * len(cls._fields)))


class SharedFields(NamedTuple):
    """Fields with one value for all records of a batch, except the time; the address bits are not set yet."""

    queue_id: int
    sys_flag: int
    born_timestamp: int
    born_host: bytes
    store_host: bytes
    reconsume_times: int


class Tails(Protocol):
    """A queue, with the cached tails of its topic."""

    topic: str
    tails: dict[int, bytes]


class Queue(Tails, Protocol):
    """The queue that a batch goes to."""

    next_offset: int


Written: TypeAlias = tuple[list[int], list[bytes], bytes]
"""The physical offset of each record, their units, and the bytes of all records."""


# A head is packed once with what the heads of all records share, and cut like this; numbers go between the pieces:
#
#     totalSize | magic | CRC | queueId | flag | queueOffset | physicalOffset | sysFlag ... preparedOffset | bodyLen
#     0         | 4     | 8   | 12      | 16   | 20          | 28             | 36                         | -4


class AlikeRecords:
    """The records of messages that have bodies of one size and properties of one size: so have most batches.

    Their fields have the same positions then, so all of them are packed in one step.
    """

    __slots__ = ("_batch", "_body_size", "_properties_size", "_shared", "_size", "bodies_size", "count", "total_size")

    def __init__(self, batch: MessageBatch, shared: SharedFields, fixed_size: int) -> None:
        self._batch = batch
        self._shared = shared
        self._body_size = len(batch.bodies[0])
        self._properties_size = len(batch.properties[0])
        self._size = fixed_size + self._body_size + self._properties_size
        self.count = len(batch.bodies)
        self.bodies_size = self._body_size * self.count
        self.total_size = self._size * self.count

    @property
    def longest_properties(self) -> bytes:
        """The properties that are the first to exceed a limit."""
        return self._batch.properties[0]

    def units(self, physical_offsets: Sequence[int], tags_codes: Sequence[int]) -> list[bytes]:
        """Return the units of the records; ``struct.error`` when a tags code does not fit."""
        return list(map(_pack_unit, physical_offsets, repeat(self._size), tags_codes))

    def written(self, physical_offset: int, queue: Queue, timestamp_ms: int) -> Written:
        """Return the records for the end of log and queue; ``struct.error`` when a number does not fit its field."""
        flags, bodies, all_properties, tags_codes, _ = self._batch
        count, size, tail = self.count, self._size, tail_for(queue, self._properties_size)
        physical_offsets = list(range(physical_offset, physical_offset + self.total_size, size))
        head = shared_head(self._shared, size, self._body_size, timestamp_ms)
        fields: list[object] = [head[:8], 0, head[12:16], 0, 0, 0, head[36:], b"", tail, b""] * count
        fields[1::10] = _crcs(bodies)
        fields[3::10] = flags
        fields[4::10] = range(queue.next_offset, queue.next_offset + count)
        fields[5::10] = physical_offsets
        fields[7::10] = bodies
        fields[9::10] = all_properties
        records = _alike_records(count, len(head) - 36, self._body_size, len(tail), self._properties_size)
        return physical_offsets, self.units(physical_offsets, tags_codes), records.pack(*fields)


class MixedRecords:
    """The records of any messages."""

    __slots__ = (
        "_batch",
        "_body_sizes",
        "_properties_sizes",
        "_shared",
        "_sizes",
        "bodies_size",
        "count",
        "total_size",
    )

    def __init__(self, batch: MessageBatch, shared: SharedFields, fixed_size: int) -> None:
        self._batch = batch
        self._shared = shared
        self._body_sizes = list(map(len, batch.bodies))
        self._properties_sizes = list(map(len, batch.properties))
        self._sizes = [
            fixed_size + body_size + properties_size
            for body_size, properties_size in zip(self._body_sizes, self._properties_sizes, strict=True)
        ]
        self.count = len(self._sizes)
        self.bodies_size = sum(self._body_sizes)
        self.total_size = sum(self._sizes)

    @property
    def longest_properties(self) -> bytes:
        """The properties that are the first to exceed a limit."""
        return max(self._batch.properties, key=len)

    def units(self, physical_offsets: Sequence[int], tags_codes: Sequence[int]) -> list[bytes]:
        """Return the units of the records; ``struct.error`` when a tags code does not fit."""
        return list(map(_pack_unit, physical_offsets, self._sizes, tags_codes))

    def written(self, physical_offset: int, queue: Queue, timestamp_ms: int) -> Written:
        """Return the records for the end of log and queue; ``struct.error`` when a number does not fit its field."""
        flags, bodies, all_properties, tags_codes, _ = self._batch
        physical_offsets = list(accumulate(self._sizes[:-1], initial=physical_offset))
        head, same = shared_head(self._shared, 0, 0, timestamp_ms), repeat
        parts = [b""] * (4 * self.count)
        parts[0::4] = map(
            _cut_head(len(head) - 40).pack, self._sizes, same(head[4:8]), _crcs(bodies), same(head[12:16]), flags,
            range(queue.next_offset, queue.next_offset + self.count), physical_offsets, same(head[36:-4]),
            self._body_sizes,
        )  # fmt: skip
        parts[1::4] = bodies
        parts[2::4] = map(tail_for, same(queue), self._properties_sizes)
        parts[3::4] = all_properties
        return physical_offsets, self.units(physical_offsets, tags_codes), b"".join(parts)


BatchRecords: TypeAlias = AlikeRecords | MixedRecords


def measured_records(batch: MessageBatch, topic: str, shared: SharedFields) -> BatchRecords:
    """Return the records of a batch, to be written when it is known where."""
    body_sizes, properties_sizes = list(map(len, batch.bodies)), list(map(len, batch.properties))
    fixed_size = record_head_size(shared.born_host, shared.store_host) + 3 + len(topic.encode("utf-8", "replace"))
    count = len(body_sizes)
    if body_sizes.count(body_sizes[0]) == properties_sizes.count(properties_sizes[0]) == count <= _ALIKE_MAX:
        return AlikeRecords(batch, shared, fixed_size)
    return MixedRecords(batch, shared, fixed_size)


def tail_for(queue: Tails, properties_size: int) -> bytes:
    """Return the bytes between body and properties: topic, and the size of the properties. Cached by that size."""
    tails = queue.tails
    tail = tails.get(properties_size)
    if tail is None:
        if len(tails) >= _TAILS_MAX:
            tails.clear()
        topic = queue.topic.encode("utf-8", "replace")
        tail = tails[properties_size] = bytes((len(topic),)) + topic + PROPERTIES_SIZE.pack(properties_size)
    return tail


def _crcs(bodies: Sequence[bytes]) -> list[int]:
    return [crc32(body) & _CRC_MASK for body in bodies]


def shared_head(shared: SharedFields, size: int, body_size: int, timestamp_ms: int) -> bytes:
    """Return a head with zeros for what records differ in; there is no preparedTransactionOffset in a batch either."""
    queue_id, sys_flag, born_timestamp, born_host, store_host, reconsume_times = shared
    return pack_record_head(
        size, 0, queue_id, 0, 0, 0, sys_flag, born_timestamp, born_host, timestamp_ms, store_host,
        reconsume_times, 0, body_size,
    )  # fmt: skip


@lru_cache(maxsize=64)
def _alike_records(count: int, rest_size: int, body_size: int, tail_size: int, properties_size: int) -> struct.Struct:
    return struct.Struct(">" + f"8si4siqq{rest_size}s{body_size}s{tail_size}s{properties_size}s" * count)


@lru_cache
def _cut_head(rest_size: int) -> struct.Struct:
    return struct.Struct(f">i4si4siqq{rest_size}si")
