"""The messages of a batch as columns, and the records that they become.

A batch is made into records column by column instead of message by message: the loops are C's then, and what all
records of a batch have in common is packed once. The appender decides whether and where they are stored; nothing here
knows a queue, a file or a limit.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import accumulate, chain, count, repeat
from typing import NamedTuple, TypeAlias
from zlib import crc32

from rocketpy.protocol.stored_message import MESSAGE_MAGIC_CODE
from rocketpy.store import layout

BatchRecord: TypeAlias = tuple[int, bytes, bytes, int, Sequence[bytes]]
"""Flag, body, stored properties, tags code and index keys of one message of a batch."""

_CRC_MASK = 0x7FFF_FFFF

_pack_unit = layout.UNIT.pack


class MessageBatch(NamedTuple):
    """The messages of a batch: what stands first in each column is the first message's, and so on."""

    flags: Sequence[int]
    bodies: Sequence[bytes]
    properties: Sequence[bytes]
    """The stored text, in UTF-8."""
    tags_codes: Sequence[int]
    keys: Sequence[Sequence[bytes]]
    """What is indexed."""

    @classmethod
    def of(cls, records: Iterable[BatchRecord]) -> MessageBatch:
        """Return the batch of messages that are there one by one."""
        return cls(*(tuple(zip(*records, strict=True)) or ((),) * len(cls._fields)))


class SharedFields(NamedTuple):
    """What the heads of all records of a batch say alike; ``sys_flag`` has its address bits, as ``head`` must be."""

    head: struct.Struct
    queue_id: int
    sys_flag: int
    born_timestamp: int
    born_host: bytes
    store_timestamp: int
    store_host: bytes
    reconsume_times: int


TailFor: TypeAlias = Callable[[int], bytes]
"""Says what stands between body and properties of such a size."""


class AlikeRecords:
    """The records of messages that have bodies of one size and properties of one size: so have most batches.

    All that they differ in lies at the same places of each, and what is between is copied. A head is cut like this::

        totalSize, magic | CRC | queueId | flag | queueOffset | physicalOffset | sysFlag ... bodyLen
        0                | 8   | 12      | 16   | 20          | 28             | 36
    """

    __slots__ = ("_batch", "_body_size", "_count", "_properties_size", "_size", "bodies_size", "total_size")

    def __init__(self, batch: MessageBatch, fixed_size: int) -> None:
        self._batch = batch
        self._count = len(batch.bodies)
        self._body_size = len(batch.bodies[0])
        self._properties_size = len(batch.properties[0])
        self._size = fixed_size + self._body_size + self._properties_size
        self.bodies_size = self._body_size * self._count
        self.total_size = self._size * self._count

    @property
    def longest_properties(self) -> bytes:
        """The properties that are the first to exceed a limit."""
        return self._batch.properties[0]

    def places(self, physical_offset: int) -> list[int]:
        """Return where each record begins if the first one begins there."""
        return list(range(physical_offset, physical_offset + self.total_size, self._size))

    def units(self, places: Sequence[int], tags_codes: Sequence[int]) -> list[bytes]:
        """Return the units of the records; ``struct.error`` when a tags code does not fit."""
        return list(map(_pack_unit, places, repeat(self._size), tags_codes))

    def written(self, shared: SharedFields, queue_offset: int, places: Sequence[int], tail_for: TailFor) -> bytes:
        """Return the records, from the first one's queue offset on; ``struct.error`` when a number is too large."""
        flags, bodies, all_properties, _, _ = self._batch
        head = shared.head.pack(
            self._size, MESSAGE_MAGIC_CODE, 0, shared.queue_id, 0, 0, 0, *_rest(shared), self._body_size
        )
        tail = tail_for(self._properties_size)
        record = _record_struct(len(head) - 36, self._body_size, len(tail), self._properties_size)
        same, queue_offsets = repeat, count(queue_offset)
        return b"".join(
            map(
                record.pack, same(head[:8]), _crcs(bodies), same(head[12:16]), flags, queue_offsets, places,
                same(head[36:]), bodies, same(tail), all_properties,
            )
        )  # fmt: skip


class MixedRecords:
    """The records of any messages."""

    __slots__ = ("_batch", "_body_sizes", "_properties_sizes", "_sizes", "bodies_size", "total_size")

    def __init__(self, batch: MessageBatch, fixed_size: int) -> None:
        self._batch = batch
        self._body_sizes = list(map(len, batch.bodies))
        self._properties_sizes = list(map(len, batch.properties))
        self._sizes = [
            fixed_size + body_size + properties_size
            for body_size, properties_size in zip(self._body_sizes, self._properties_sizes, strict=True)
        ]
        self.bodies_size = sum(self._body_sizes)
        self.total_size = sum(self._sizes)

    @property
    def longest_properties(self) -> bytes:
        """The properties that are the first to exceed a limit."""
        return max(self._batch.properties, key=len)

    def places(self, physical_offset: int) -> list[int]:
        """Return where each record begins if the first one begins there."""
        places = list(accumulate(self._sizes, initial=physical_offset))
        places.pop()
        return places

    def units(self, places: Sequence[int], tags_codes: Sequence[int]) -> list[bytes]:
        """Return the units of the records; ``struct.error`` when a tags code does not fit."""
        return list(map(_pack_unit, places, self._sizes, tags_codes))

    def written(self, shared: SharedFields, queue_offset: int, places: Sequence[int], tail_for: TailFor) -> bytes:
        """Return the records, from the first one's queue offset on; ``struct.error`` when a number is too large."""
        flags, bodies, all_properties, _, _ = self._batch
        same, queue_offsets = repeat, count(queue_offset)
        heads = map(
            shared.head.pack, self._sizes, same(MESSAGE_MAGIC_CODE), _crcs(bodies), same(shared.queue_id), flags,
            queue_offsets, places, *map(same, _rest(shared)), self._body_sizes,
        )  # fmt: skip
        tails = map(tail_for, self._properties_sizes)
        return b"".join(chain.from_iterable(zip(heads, bodies, tails, all_properties, strict=True)))


BatchRecords: TypeAlias = AlikeRecords | MixedRecords


def measured_records(batch: MessageBatch, fixed_size: int) -> BatchRecords:
    """Return the records of a batch, to be written when it is known where; they are so long without body and
    properties.
    """
    is_alike = len(set(map(len, batch.bodies))) == len(set(map(len, batch.properties))) == 1
    return AlikeRecords(batch, fixed_size) if is_alike else MixedRecords(batch, fixed_size)


def _crcs(bodies: Sequence[bytes]) -> list[int]:
    return [crc32(body) & _CRC_MASK for body in bodies]


def _rest(shared: SharedFields) -> tuple[int, int, bytes, int, bytes, int, int]:
    """Return the fields of a head behind physicalOffset, up to preparedTransactionOffset: no batch is a transaction."""
    _, _, sys_flag, born_timestamp, born_host, store_timestamp, store_host, reconsume_times = shared
    return sys_flag, born_timestamp, born_host, store_timestamp, store_host, reconsume_times, 0


@lru_cache(maxsize=256)
def _record_struct(rest_size: int, body_size: int, tail_size: int, properties_size: int) -> struct.Struct:
    return struct.Struct(f">8si4siqq{rest_size}s{body_size}s{tail_size}s{properties_size}s")
