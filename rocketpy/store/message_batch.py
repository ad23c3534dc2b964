"""The messages of a batch as columns, and the records that they become.

A batch is made into records column by column instead of message by message: the loops are C's then, and what all
records of a batch have in common is packed once. The appender decides whether and where they are stored; nothing here
knows a queue, a file or a limit.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, repeat
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


class BatchRecords:
    """The records of a batch: measured at first, written when it is known where they will stand."""

    __slots__ = ("_batch", "_body_sizes", "_properties_sizes", "_sizes", "bodies_size", "total_size")

    def __init__(self, batch: MessageBatch, fixed_size: int) -> None:
        """Measure records that are so long without body and properties."""
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

    def written(
        self, shared: SharedFields, queue_offset: int, places: Sequence[int], tail_for: Callable[[int], bytes]
    ) -> bytes:
        """Return the records, the first one's queue offset given; ``tail_for`` says what stands before properties.

        ``struct.error`` when a number does not fit into its field.
        """
        _, bodies, all_properties, _, _ = self._batch
        tails = list(map(tail_for, self._properties_sizes))
        parts = [b""] * (4 * len(bodies))
        parts[0::4], parts[1::4], parts[2::4], parts[3::4] = (
            self._heads(shared, queue_offset, places), bodies, tails, all_properties
        )  # fmt: skip
        return b"".join(parts)

    def units(self, places: Sequence[int], tags_codes: Sequence[int]) -> list[bytes]:
        """Return the units of the records; ``struct.error`` when a tags code does not fit."""
        return list(map(_pack_unit, places, self._sizes, tags_codes))

    def _heads(self, shared: SharedFields, queue_offset: int, places: Sequence[int]) -> Iterable[bytes]:
        head, queue_id, sys_flag, born_timestamp, born_host, store_timestamp, store_host, reconsume_times = shared
        crcs = [crc32(body) & _CRC_MASK for body in self._batch.bodies]
        queue_offsets = range(queue_offset, queue_offset + len(crcs))
        same = repeat
        return map(
            head.pack, self._sizes, same(MESSAGE_MAGIC_CODE), crcs, same(queue_id), self._batch.flags, queue_offsets,
            places, same(sys_flag), same(born_timestamp), same(born_host), same(store_timestamp), same(store_host),
            same(reconsume_times), same(0), self._body_sizes,
        )  # fmt: skip
