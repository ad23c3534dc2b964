"""General path of append: any message, one that waits for its time, one that was accepted before, and batches.

It does what the fast path, :meth:`~rocketpy.store.append.appender.MessageAppender.put`, does for the common case, and
everything that the fast path leaves out: refusals with their reasons, full files, large messages, IPv6, transactions,
multi-dispatch, extensions of units. What it accepts joins the same burst.

Rule: nothing is added to the burst before room is found for all of it, so a refusal changes nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Protocol, TypeAlias
from zlib import crc32

from rocketpy.errors import StoreError
from rocketpy.protocol.properties import PROPERTIES_SIZE_MAX
from rocketpy.protocol.stored_message import pack_record_head, record_head_size
from rocketpy.protocol.sysflag import NO_QUEUE_FLAG, TRANSACTION_ROLLBACK_TYPE, TRANSACTION_TYPE_MASK
from rocketpy.store import layout
from rocketpy.store.append.batch import BatchRecords, MessageBatch, SharedFields, measured_records, tail_for
from rocketpy.store.append.burst_counts import BurstCounts
from rocketpy.store.append.options import AppendOptions
from rocketpy.store.append.refusals import PutRefusals
from rocketpy.store.append.room import GrowingBurst, Room
from rocketpy.store.index.feed import IndexFeed
from rocketpy.store.queue.consume_queue import ConsumeQueue
from rocketpy.store.queue.multi_dispatch import Addressed, QueueKey
from rocketpy.store.queue.table import ConsumeQueueTable
from rocketpy.store.results import PutMessageStatus

_PUT_OK = PutMessageStatus.PUT_OK
_MASK = 0x7FFF_FFFF
_pack_unit = layout.UNIT.pack
PlainMessage: TypeAlias = tuple[str, int, bytes, bytes, int, Sequence[bytes], int, int, int, bytes, int, int]
"""Arguments of ``MessageAppender.put``, in its order."""


class OpenBurst(GrowingBurst, Protocol):
    """The burst that a message joins; all its messages have its time as their storeTimestamp."""

    burst_timestamp_ms: int

    def stamp_burst(self) -> None:
        """Take the time, if the burst has none yet."""
        ...

    def add(self, queue: ConsumeQueue, parts: Sequence[bytes], units: Sequence[bytes], physical_end: int) -> None:
        """Add the bytes of records up to an offset, with their units; room was made for both."""
        ...

    def add_packed(self, queue: ConsumeQueue, records: bytes, units: bytes, count: int) -> None:
        """Add ``count`` records, with their units one after the other; room was made for both."""
        ...


class GeneralPath:
    """Puts into one burst after the other of one appender."""

    def __init__(
        self,
        *,
        burst: OpenBurst,
        room: Room,
        refusals: PutRefusals,
        counts: BurstCounts,
        index_feed: IndexFeed,
        queues: ConsumeQueueTable,
        options: AppendOptions,
    ) -> None:
        self._burst = burst
        self._room = room
        self._refusals = refusals
        self._refused = refusals.refused
        self._counts = counts
        self._index_feed = index_feed
        self._queues = queues
        self._store_host = options.store_host
        self._message_size_max = options.message_size_max
        self._multi_dispatch = options.multi_dispatch
        self._lmq_limit = options.lmq_limit
        self._unit_extensions = options.unit_extensions

    def put(
        self, message: PlainMessage, delay_ms: int | None = None, *, is_kept: bool = False
    ) -> tuple[PutMessageStatus, int, int]:
        """Do what the fast path does for any message, and refuse what must be refused."""
        (
            topic, queue_id, body, properties, tags_code, keys, flag, sys_flag, born_timestamp, born_host,
            reconsume_times, prepared_transaction_offset,
        ) = message  # fmt: skip
        refusal = self._refusals.refusal_of(topic, queue_id, 0 if is_kept else len(body), properties)
        if refusal is not None:
            return self._refused(refusal)
        # A message that waits is not for the queues it names yet: those get it when it is put into its own.
        dispatch = self._multi_dispatch if delay_ms is None and not is_kept else None
        addressed = Addressed(properties) if dispatch is None else dispatch.address(topic, queue_id, properties)
        if isinstance(addressed, PutMessageStatus):
            return self._refused(addressed)
        properties = addressed.properties
        head_size = record_head_size(born_host, self._store_host)
        size = head_size + 3 + len(topic.encode("utf-8", "replace")) + len(body) + len(properties)
        unit_count = 0 if sys_flag & NO_QUEUE_FLAG else 1
        queue_keys = addressed.queue_keys if unit_count else ()
        queue = self._room.queue_with_room(topic, queue_id, size, unit_count, queue_keys)
        if isinstance(queue, PutMessageStatus):
            return self._refused(queue)
        burst = self._burst
        burst.stamp_burst()
        if delay_ms is not None:
            tags_code = burst.burst_timestamp_ms + delay_ms
        physical_offset, queue_offset = burst.wrote_offset, queue.next_offset if unit_count else 0
        try:
            units = [_pack_unit(physical_offset, size, tags_code)] if unit_count else []
            head = pack_record_head(
                size, crc32(body) & _MASK, queue_id, flag, queue_offset, physical_offset, sys_flag,
                born_timestamp, born_host, burst.burst_timestamp_ms, self._store_host, reconsume_times,
                prepared_transaction_offset, len(body),
            )  # fmt: skip
        except struct.error:
            return self._refused_after_stamp()
        self._add_copies(queue_keys, units)
        if self._unit_extensions is not None and units:
            units = [_pack_unit(physical_offset, size, *self._extended(queue, (tags_code,), (properties,)))]
        burst.add(queue, (head, body, tail_for(queue, len(properties)), properties), units, physical_offset + size)
        if keys and sys_flag & TRANSACTION_TYPE_MASK != TRANSACTION_ROLLBACK_TYPE:
            self._index_feed.work.append((topic, keys, physical_offset, burst.burst_timestamp_ms))
        return _PUT_OK, physical_offset, queue_offset

    def put_timed(
        self,
        topic: str,
        queue_id: int,
        body: bytes,
        properties: bytes,
        delay_ms: int,
        keys: Sequence[bytes],
        flag: int,
        sys_flag: int,
        born_timestamp: int,
        born_host: bytes,
        reconsume_times: int,
        prepared_transaction_offset: int = 0,
    ) -> tuple[PutMessageStatus, int, int]:
        """Do what ``put`` does, with a unit whose tags code is the message's storeTimestamp plus a delay.

        A message that could not be put into the queues that it names when its time has come is refused now.
        """
        refusal = self.refusal_of_waiting(properties)
        if refusal is not None:
            return self._refused(refusal)
        message = (
            topic, queue_id, body, properties, 0, keys, flag, sys_flag, born_timestamp, born_host,
            reconsume_times, prepared_transaction_offset,
        )  # fmt: skip
        return self.put(message, delay_ms)

    def put_kept(
        self,
        topic: str,
        queue_id: int,
        body: bytes,
        properties: bytes,
        tags_code: int,
        keys: Sequence[bytes],
        flag: int,
        sys_flag: int,
        born_timestamp: int,
        born_host: bytes,
        reconsume_times: int,
        prepared_transaction_offset: int = 0,
    ) -> tuple[PutMessageStatus, int, int]:
        """Do what ``put`` does for a message that was accepted before: no limit of its body counts any more.

        Nor does it go into the queues that it names.
        """
        message = (
            topic, queue_id, body, properties, tags_code, keys, flag, sys_flag, born_timestamp, born_host,
            reconsume_times, prepared_transaction_offset,
        )  # fmt: skip
        return self.put(message, is_kept=True)

    def refusal_of_waiting(self, properties: bytes) -> PutMessageStatus | None:
        """Return why the queues that a delayed or half message names would refuse it in the end; None if nothing would.

        ``properties`` are those that it waits with, which say what its topic is (REAL_TOPIC).
        """
        if self._multi_dispatch is not None:
            return self._multi_dispatch.refusal_of_waiting(properties)
        is_refused = self._lmq_limit is not None and self._lmq_limit.refuses_waiting(properties)
        return PutMessageStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED if is_refused else None

    def put_batch(
        self,
        topic: str,
        queue_id: int,
        batch: MessageBatch,
        sys_flag: int,
        born_timestamp: int,
        born_host: bytes,
        reconsume_times: int,
    ) -> tuple[PutMessageStatus, list[int], int]:
        """Append messages of one queue, all or none, into one file with consecutive queue offsets.

        Return (PUT_OK, physical offsets, first queue offset), or a refusal with nothing.
        """
        if sys_flag & TRANSACTION_TYPE_MASK or not batch.bodies or b"\0" in b"".join(batch.properties):
            return self._refused(PutMessageStatus.MESSAGE_ILLEGAL)[0], [], -1
        shared = SharedFields(queue_id, sys_flag, born_timestamp, born_host, self._store_host, reconsume_times)
        records = measured_records(batch, topic, shared)
        queue = self._queue_of_batch(topic, queue_id, records)
        if isinstance(queue, PutMessageStatus):
            return self._refused(queue)[0], [], -1
        burst = self._burst
        burst.stamp_burst()
        try:
            physical_offsets, units, content = records.written(burst.wrote_offset, queue, burst.burst_timestamp_ms)
        except struct.error:
            return self._refused_after_stamp()[0], [], -1
        if self._unit_extensions is not None:
            units = records.units(physical_offsets, self._extended(queue, batch.tags_codes, batch.properties))
        burst.add(queue, (content,), units, burst.wrote_offset + len(content))
        self._index_feed.add(topic, batch.keys, physical_offsets, burst.burst_timestamp_ms)
        return _PUT_OK, physical_offsets, queue.next_offset - len(physical_offsets)

    def _queue_of_batch(self, topic: str, queue_id: int, records: BatchRecords) -> ConsumeQueue | PutMessageStatus:
        """Return the queue with room for a batch, or why it is refused."""
        queue = self._queues.get(topic, queue_id)
        if (
            queue is not None
            and self._burst.wrote_offset + records.total_size <= self._burst.room_end
            and records.bodies_size <= self._message_size_max
            and len(records.longest_properties) <= PROPERTIES_SIZE_MAX
            and queue.next_offset + records.count <= queue.reserved_offset
        ):
            return queue
        refusal = self._refusals.refusal_of(topic, queue_id, records.bodies_size, records.longest_properties)
        return refusal or self._room.queue_with_room(topic, queue_id, records.total_size, records.count)

    def _refused_after_stamp(self) -> tuple[PutMessageStatus, int, int]:
        """Refuse a field that fits into no record; the next message looks again whether it is the first of its file."""
        self._burst.room_end = -1
        return self._refused(PutMessageStatus.MESSAGE_ILLEGAL)

    def _add_copies(self, queue_keys: Sequence[QueueKey], units: Sequence[bytes]) -> None:
        """Give a message its unit in the queues that it names; RocketMQ gives these no extension."""
        for key in queue_keys:
            self._burst.add(self._queues.find(*key), (), units, self._burst.wrote_offset)
        self._counts.copy_count += len(queue_keys)

    def _extended(self, queue: ConsumeQueue, tags_codes: Sequence[int], texts: Sequence[bytes]) -> Sequence[int]:
        assert self._unit_extensions is not None, "a store with extensions"
        try:
            return self._unit_extensions.extend(queue, tags_codes, texts, self._burst.burst_timestamp_ms)
        except StoreError as error:
            self._burst.refuse_all(f"a write failed: {error}")
            raise
