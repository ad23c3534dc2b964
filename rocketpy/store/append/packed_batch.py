"""Append of a batch by the kernel that reads and writes a whole body: for the common case of a batch.

It stores what the :class:`~rocketpy.store.append.general_path.GeneralPath` would store of the same messages, or does
nothing and says so: a batch that does not fit the open files, a queue that does not exist yet, a number that is too
large for its field, a store that adds to units. The caller then takes the general path.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from rocketpy.protocol.properties import PROPERTIES_SIZE_MAX
from rocketpy.protocol.stored_message import record_head_size
from rocketpy.protocol.sysflag import TRANSACTION_TYPE_MASK
from rocketpy.store.append.batch import SharedFields, shared_head, tail_for
from rocketpy.store.append.general_path import OpenBurst
from rocketpy.store.append.options import AppendOptions
from rocketpy.store.index.feed import IndexFeed
from rocketpy.store.index.hash import hash_before_key
from rocketpy.store.queue.table import ConsumeQueueTable

if TYPE_CHECKING:  # it is there only where the kernels are compiled
    from rocketpy.protocol.kernels.batch import BatchItems


class PackedBatchPath:
    """Puts of one appender's batches, into its bursts."""

    def __init__(
        self,
        *,
        burst: OpenBurst,
        index_feed: IndexFeed,
        queues: ConsumeQueueTable,
        options: AppendOptions,
    ) -> None:
        self._burst = burst
        self._index_feed = index_feed
        self._queues = queues
        self._store_host = options.store_host
        self._message_size_max = options.message_size_max
        self._adds_to_units = options.unit_extensions is not None

    def put_packed(
        self,
        topic: str,
        queue_id: int,
        items: BatchItems,
        suffix: bytes,
        sys_flag: int,
        born_timestamp: int,
        born_host: bytes,
        reconsume_times: int,
    ) -> tuple[list[int], int] | None:
        """Append the items of a batch, each with the text of the whole batch: ``suffix``, without tags and keys.

        Return physical offsets and the first queue offset; None if nothing was done, then ``put_batch`` decides.
        """
        burst, count = self._burst, items.count
        queue = self._queues.get(topic, queue_id)
        if queue is None or self._adds_to_units or sys_flag & TRANSACTION_TYPE_MASK or b"\0" in suffix:
            return None
        shared = SharedFields(queue_id, sys_flag, born_timestamp, born_host, self._store_host, reconsume_times)
        named = tail_for(queue, 0)[:-2]
        fixed_size = record_head_size(born_host, self._store_host) + len(named) + 2
        total_size = count * fixed_size + items.bodies_size + items.texts_size
        if (
            burst.wrote_offset + total_size > burst.room_end
            or items.bodies_size > self._message_size_max
            or items.longest_text > PROPERTIES_SIZE_MAX
            or queue.next_offset + count > queue.reserved_offset
        ):
            return None
        burst.stamp_burst()
        timestamp_ms, queue_offset = burst.burst_timestamp_ms, queue.next_offset
        try:
            head = shared_head(shared, 0, 0, timestamp_ms)
        except struct.error:
            return None
        hash_before = hash_before_key(topic) if self._index_feed.takes_keys else -1
        content, units, keys, physical_offsets = items.records(
            head, named, suffix, burst.wrote_offset, queue_offset, hash_before, timestamp_ms
        )
        burst.add_packed(queue, content, units, count)
        self._index_feed.add_packed(topic, keys, physical_offsets[0], timestamp_ms)
        return physical_offsets, queue_offset
