"""Append: one message into the log, its unit, its index work. Plain, positional, nothing awaits.

A message becomes bytes in a list, and a burst of messages one write per file (``end_burst``), before any reply leaves.
The common case is straight-line code in :meth:`MessageAppender.put`, the fast path. Every other case (a full file,
large messages, IPv6, transactions, refusals) goes to the general path, :meth:`MessageAppender._put_unusual`. One
comparison decides where possible: a store that cannot be written has no room for anything, and neither has a store that
does more with a message (multi-dispatch, extensions of queues).

Rules: a message gets its queue offset and physical offset here and nowhere else. It is accepted only when its record
and its unit have reserved space in open files, so that ``end_burst`` opens none. Readers see it after ``end_burst``.
Nothing here knows a topic's meaning, delay levels or sockets. With a transient store pool bursts end with
``keep_burst`` instead, and ``end_burst`` is the commit.

Compatibility: a NUL in topic or properties is refused (MESSAGE_ILLEGAL), because recovery takes it for a torn record:
the CRC covers the body only. All messages of a burst have the burst's storeTimestamp. When there is no space for a file
the status is SERVICE_NOT_AVAILABLE, as for a full disk, not CREATE_MAPEDFILE_FAILED.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias
from zlib import crc32

from rocketpy.clock import Clock
from rocketpy.errors import DescriptorShortageError, ShortageError, StoreError
from rocketpy.protocol.host import HOST_V4_SIZE
from rocketpy.protocol.properties import PROPERTIES_SIZE_MAX
from rocketpy.protocol.stored_message import (
    BLANK_SIZE_MIN,
    MESSAGE_MAGIC_CODE,
    RECORD_HEAD,
    pack_record_head,
    record_head_size,
)
from rocketpy.protocol.sysflag import (
    BORN_HOST_V6_FLAG,
    NO_QUEUE_FLAG,
    STORE_HOST_V6_FLAG,
    TRANSACTION_ROLLBACK_TYPE,
    TRANSACTION_TYPE_MASK,
)
from rocketpy.store import layout
from rocketpy.store.append.batch import BatchRecords, MessageBatch, SharedFields, measured_records, tail_for
from rocketpy.store.append.burst_counts import BurstCounts
from rocketpy.store.append.refusals import MessageLimits, PutRefusals
from rocketpy.store.append.transient_store_pool import TransientStorePool
from rocketpy.store.append.unit_extensions import UnitExtensions
from rocketpy.store.index.feed import Index, IndexFeed, IndexWork
from rocketpy.store.log.commit_log import CommitLog
from rocketpy.store.queue.consume_queue import ConsumeQueue
from rocketpy.store.queue.multi_dispatch import Addressed, LmqLimit, MultiDispatch, QueueKey
from rocketpy.store.queue.table import ConsumeQueueTable
from rocketpy.store.results import PutMessageStatus

_PUT_OK = PutMessageStatus.PUT_OK
_MASK = 0x7FFF_FFFF
_PENDING_BYTES_MAX = 4 << 20
"""Bytes of a burst above which it is written, without waiting for the burst's end."""

# put packs its heads itself, with the struct of pack_record_head: a call less for each message. A test holds the two
# against each other.
_pack_head = RECORD_HEAD.pack
_pack_unit = layout.UNIT.pack
PlainMessage: TypeAlias = tuple[str, int, bytes, bytes, int, Sequence[bytes], int, int, int, bytes, int, int]
"""Arguments of :meth:`MessageAppender.put`, in its order."""

_UNUSUAL_FLAGS = NO_QUEUE_FLAG | BORN_HOST_V6_FLAG | STORE_HOST_V6_FLAG


class MessageAppender:
    """Appends for one store. Made when recovery is over; ``close`` ends it."""

    def __init__(
        self,
        *,
        commit_log: CommitLog,
        queues: ConsumeQueueTable,
        clock: Clock,
        store_host: bytes,
        message_size_max: int,
        index: Index | None,
        message_arriving: Callable[[str, int, int], None] | None,
        refuse_all: str | None = None,
        multi_dispatch: MultiDispatch | None = None,
        lmq_limit: LmqLimit | None = None,
        unit_extensions: UnitExtensions | None = None,
        pool: TransientStorePool | None = None,
    ) -> None:
        self._commit_log = commit_log
        self._queues = queues
        self._queue_by_id = queues.topics
        self._timestamp_ms = clock.timestamp_ms
        self._store_host = store_host
        self._refusals = PutRefusals(limits=MessageLimits(message_size_max), index=index, clock=clock, why=refuse_all)
        self._refused = self._refusals.refused
        self.writable_or_why = self._refusals.writable_or_why
        # A record of this size needs no check of its parts: neither its body nor its properties can be too long.
        self._message_size_max = message_size_max
        self._plain_size_max = min(PROPERTIES_SIZE_MAX, message_size_max)
        self._index_feed = IndexFeed(index, has_pool=pool is not None)
        self._index_work = self._index_feed.work
        self._message_arriving = message_arriving
        self._multi_dispatch = multi_dispatch
        self._lmq_limit = lmq_limit
        self._unit_extensions = unit_extensions
        has_v6_host = len(store_host) != HOST_V4_SIZE
        self._does_more = has_v6_host or unit_extensions is not None or multi_dispatch is not None  # all are unusual
        self.pool = pool  # what ended bursts wait in, if they do
        if pool is not None:
            pool.committed_offset = commit_log.wrote_offset
        # Not where messages wait in the pool, nor where records come with the times of another broker.
        self._times_bursts = pool is None and refuse_all is None

        self.wrote_offset = commit_log.wrote_offset  # the end of the log, what is pending included
        # A record must end here or before: end of the file or of its reserved space, pending bytes, or not writable.
        self._room_end = -1
        self._parts: list[bytes] = []  # pending bytes of the log, from commit_log.wrote_offset on
        self._touched: list[ConsumeQueue] = []  # with pending units
        self._touched_max = queues.pending_max  # a burst of messages for more queues ends early
        self._expecting: list[ConsumeQueue] = []  # with room for the message at hand
        self._burst_timestamp_ms = commit_log.wrote_timestamp_ms
        self.counts = BurstCounts(clock)
        self._written: Callable[[], None] | None = None
        self._burst_took: Callable[[float], None] | None = None
        self._monotonic: Callable[[], float] = float

    # ---- the fast path --------------------------------------------------------------------------------------------

    def put(
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
        """Append a message; return (PUT_OK, physical offset, queue offset), or a refusal with -1 and -1.

        ``properties`` is the stored text in UTF-8, ``keys`` what is indexed, ``born_host`` the address bytes with the
        port. Visible to readers, and safe from a kill, after ``end_burst``; acknowledged when ``wait_stored`` says so.
        """
        try:
            queue = self._queue_by_id[topic][queue_id]
            tail = queue.tails[len(properties)]
        except KeyError:
            return self._put_unusual(
                topic, queue_id, body, properties, tags_code, keys, flag, sys_flag, born_timestamp, born_host,
                reconsume_times, prepared_transaction_offset,
            )  # fmt: skip
        body_size = len(body)
        size = 88 + body_size + len(tail) + len(properties)
        queue_offset = queue.next_offset
        physical_offset = self.wrote_offset
        physical_end = physical_offset + size
        if (
            physical_end > self._room_end
            or size > self._plain_size_max
            or queue_offset >= queue.reserved_offset
            or sys_flag & _UNUSUAL_FLAGS
            or len(born_host) != 8
            or b"\0" in properties
        ):
            return self._put_unusual(
                topic, queue_id, body, properties, tags_code, keys, flag, sys_flag, born_timestamp, born_host,
                reconsume_times, prepared_transaction_offset,
            )  # fmt: skip
        parts = self._parts
        if not parts:
            self._burst_timestamp_ms = self._timestamp_ms()
        try:
            unit = _pack_unit(physical_offset, size, tags_code)
            parts += (
                _pack_head(
                    size, MESSAGE_MAGIC_CODE, crc32(body) & _MASK, queue_id, flag, queue_offset, physical_offset,
                    sys_flag, born_timestamp, born_host, self._burst_timestamp_ms, self._store_host, reconsume_times,
                    prepared_transaction_offset, body_size,
                ),
                body,
                tail,
                properties,
            )  # fmt: skip
        except struct.error:
            return self._refused(PutMessageStatus.MESSAGE_ILLEGAL)
        units = queue.units
        if not units:
            self._touched.append(queue)
        units.append(unit)
        queue.next_offset = queue_offset + 1
        self.wrote_offset = physical_end
        if keys:
            self._index_work.append((topic, keys, physical_offset, self._burst_timestamp_ms))
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
        """Do what :meth:`put` does, with a unit whose tags code is the message's storeTimestamp plus a delay.

        A message that could not be put into the queues that it names when its time has come is refused now.
        """
        refusal = self.refusal_of_waiting(properties)
        if refusal is not None:
            return self._refused(refusal)
        return self._put_unusual(
            topic, queue_id, body, properties, 0, keys, flag, sys_flag, born_timestamp, born_host,
            reconsume_times, prepared_transaction_offset, delay_ms,
        )  # fmt: skip

    def put_kept(self, *message: *PlainMessage) -> tuple[PutMessageStatus, int, int]:
        """Do what :meth:`put` does for a message that was accepted before: no limit of its body counts any more.

        Nor does it go into the queues that it names.
        """
        return self._put_unusual(*message, is_kept=True)

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
        self._stamp_burst()
        try:
            physical_offsets, units, content = records.written(self.wrote_offset, queue, self._burst_timestamp_ms)
        except struct.error:
            self._room_end = -1  # the next message looks again whether it is the first of its file
            return self._refused(PutMessageStatus.MESSAGE_ILLEGAL)[0], [], -1
        if self._unit_extensions is not None:
            units = records.units(physical_offsets, self._extended(queue, batch.tags_codes, batch.properties))
        self._append(queue, [content], units, self.wrote_offset + len(content))
        self._index_feed.add(topic, batch.keys, physical_offsets, self._burst_timestamp_ms)
        return _PUT_OK, physical_offsets, queue.next_offset - len(physical_offsets)

    # ---- the burst ------------------------------------------------------------------------------------------------

    @property
    def refused_count(self) -> int:
        """Number of refused puts; a batch is one."""
        return self._refusals.count

    @property
    def has_pending(self) -> bool:
        """Whether something is collected that readers do not see yet."""
        return bool(self._parts)

    def keep_burst(self) -> None:
        """End a burst in the transient store pool: readers see it, and a kill spares it, after ``end_burst`` only."""
        assert self.pool is not None, "a store with a pool"
        if self._parts:
            self.pool.keep(self._parts, self._burst_timestamp_ms)
            self._parts.clear()

    def end_burst(self) -> None:
        """Make what was put real: log bytes, then units, then the notes of arrival. StoreError is final."""
        pool = self.pool
        if not self._parts and not self._touched and (pool is None or pool.committed_offset == self.wrote_offset):
            return
        began = self._monotonic()
        touched, self._touched = self._touched, []
        unflushed, unit_count = self._queues.unflushed, 0
        try:
            self._write_log()
            for queue in touched:
                unit_count += len(queue.units)
                queue.write_units()
                unflushed[queue] = None
        except StoreError as error:
            self.refuse_all(f"a write failed: {error}")
            raise
        if self._expecting:
            self._forget_expecting()
        self.counts.end_burst(unit_count, self._burst_timestamp_ms if self._times_bursts else None)
        if pool is not None:
            pool.committed_offset = self._commit_log.wrote_offset
        self._set_room_end()
        if not self._index_feed.end_burst():
            self._room_end = -1
        if self._message_arriving is not None:
            for queue in touched:
                self._message_arriving(queue.topic, queue.queue_id, queue.max_offset)
        if self._written is not None:
            self._written()
        if self._burst_took is not None:
            self._burst_took(self._monotonic() - began)

    def watch_log(self, written: Callable[[], None]) -> None:
        """Call back at the end of each burst that wrote, whichever caller ended it: the log has grown in its files."""
        self._written = written

    def append_records(
        self,
        content: bytes,
        units: Mapping[ConsumeQueue, Sequence[bytes]],
        index_work: Sequence[IndexWork],
        timestamp_ms: int,
        *,
        copy_count: int = 0,
    ) -> None:
        """Append records that another broker has made, with their units: what ``end_burst`` writes next.

        There is room for all of it in files that stay open, and nothing else is pending. ``timestamp_ms`` is the latest
        storeTimestamp. Of the units ``copy_count`` are in queues besides the message's own.
        """
        assert not self._parts, "records of a master and messages of producers are never mixed"
        self._burst_timestamp_ms = timestamp_ms
        self._parts.append(content)
        self.wrote_offset += len(content)
        for queue, added in units.items():
            queue.units += added
            queue.next_offset += len(added)
            self._touched.append(queue)
        self._index_work += index_work
        self.counts.copy_count += copy_count

    def add_file(self, blank: bytes | None = None) -> None:
        """Roll to the next file of the log, see :meth:`CommitLog.add_file`; nothing is pending."""
        self._commit_log.add_file(blank)
        self.wrote_offset = self._commit_log.wrote_offset

    def make_index_room(self) -> None:
        """Let the index take the keys of more records; ShortageError when it has no space for them."""
        self._index_feed.make_room()

    def watch_bursts(self, took_seconds: Callable[[float], None], monotonic: Callable[[], float]) -> None:
        """Call back at the end of each burst, whichever caller ended it, with its duration: mostly for writing."""
        self._burst_took, self._monotonic = took_seconds, monotonic

    def hand_over_to_index(self) -> None:
        """From the next message on, give keys to the index; what was stored before it has read from the log."""
        self.end_burst()
        self._index_feed.begin()
        self._index_work = self._index_feed.work

    def refuse_all(self, why: str) -> None:
        """Refuse every message from now on."""
        self._refusals.refuse_all(why)
        self._room_end = -1

    def refuse_while(self, why: str | None) -> None:
        """Refuse every message for a reason that will pass; None when it has."""
        self._refusals.refuse_while(why)
        if why is not None:
            self._room_end = -1

    # ---- everything that is not plain -----------------------------------------------------------------------------

    def _put_unusual(
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
        prepared_transaction_offset: int,
        delay_ms: int | None = None,
        *,
        is_kept: bool = False,
    ) -> tuple[PutMessageStatus, int, int]:
        """Do what :meth:`put` does for any message, and refuse what must be refused."""
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
        queue = self._queue_with_room(topic, queue_id, size, unit_count, queue_keys)
        if isinstance(queue, PutMessageStatus):
            return self._refused(queue)
        self._stamp_burst()
        if delay_ms is not None:
            tags_code = self._burst_timestamp_ms + delay_ms
        physical_offset, queue_offset = self.wrote_offset, queue.next_offset if unit_count else 0
        try:
            units = [_pack_unit(physical_offset, size, tags_code)] if unit_count else []
            head = pack_record_head(
                size, crc32(body) & _MASK, queue_id, flag, queue_offset, physical_offset, sys_flag,
                born_timestamp, born_host, self._burst_timestamp_ms, self._store_host, reconsume_times,
                prepared_transaction_offset, len(body),
            )  # fmt: skip
        except struct.error:
            self._room_end = -1  # the next message looks again whether it is the first of its file
            return self._refused(PutMessageStatus.MESSAGE_ILLEGAL)
        self._append_copies(queue_keys, units)
        if self._unit_extensions is not None and units:
            units = [_pack_unit(physical_offset, size, *self._extended(queue, (tags_code,), (properties,)))]
        self._append(queue, [head, body, tail_for(queue, len(properties)), properties], units, physical_offset + size)
        if keys and sys_flag & TRANSACTION_TYPE_MASK != TRANSACTION_ROLLBACK_TYPE:
            self._index_work.append((topic, keys, physical_offset, self._burst_timestamp_ms))
        return _PUT_OK, physical_offset, queue_offset

    def _queue_of_batch(self, topic: str, queue_id: int, records: BatchRecords) -> ConsumeQueue | PutMessageStatus:
        """Return the queue with room for a batch, or why it is refused."""
        queue = self._queues.get(topic, queue_id)
        if (
            queue is not None
            and self.wrote_offset + records.total_size <= self._room_end
            and records.bodies_size <= self._message_size_max
            and len(records.longest_properties) <= PROPERTIES_SIZE_MAX
            and queue.next_offset + records.count <= queue.reserved_offset
        ):
            return queue
        refusal = self._refusals.refusal_of(topic, queue_id, records.bodies_size, records.longest_properties)
        return refusal or self._queue_with_room(topic, queue_id, records.total_size, records.count)

    def _queue_with_room(
        self, topic: str, queue_id: int, size: int, unit_count: int, queue_keys: Sequence[QueueKey] = ()
    ) -> ConsumeQueue | PutMessageStatus:
        """Return the queue with room for everything, in the queues named besides too; or why there is none."""
        if self._lmq_limit is not None and self._lmq_limit.refuses([topic, *(name for name, _ in queue_keys)]):
            return PutMessageStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED
        if size + BLANK_SIZE_MIN > self._commit_log.file_size:
            return PutMessageStatus.MESSAGE_ILLEGAL
        pool = self.pool
        if pool is not None and self.wrote_offset + size > pool.end_offset:
            if pool.is_fail_fast:
                return PutMessageStatus.CREATE_MAPEDFILE_FAILED
            self.end_burst()
        queue = self._queues.find(topic, queue_id)
        queues = [queue, *(self._queues.find(*key) for key in queue_keys)]
        return queue if self._has_room(queues, size, unit_count) else PutMessageStatus.SERVICE_NOT_AVAILABLE

    def _has_room(self, queues: Sequence[ConsumeQueue], size: int, unit_count: int) -> bool:
        """Make room for a record and its units in each queue; False in a shortage. Any other StoreError is final."""
        if not self._refusals.may_find_room:
            return False
        commit_log = self._commit_log
        self._forget_expecting()
        if len(self._touched) >= self._touched_max:
            self.end_burst()
        try:
            if self.wrote_offset + size + BLANK_SIZE_MIN > commit_log.end_of_file:
                self._write_log()
                commit_log.add_file()
                self.wrote_offset = commit_log.wrote_offset
            elif self.pool is None and self.wrote_offset + size > commit_log.wrote_offset + _PENDING_BYTES_MAX:
                self._write_log()
            commit_log.make_room(self.wrote_offset + size)
            for queue in queues:
                self._expecting.append(queue)
                queue.is_expecting = True
                queue.make_room(unit_count)
        except DescriptorShortageError as error:
            # Queues whose files are open have room all the same, so the next message is tried at once.
            self._refusals.note_shortage(str(error))
            return False
        except ShortageError as error:
            self._refusals.note_no_room(str(error))
            self._room_end = -1
            return False
        except StoreError as error:
            self.refuse_all(f"a write failed: {error}")
            raise
        self._refusals.note_room()
        self._set_room_end()
        return True

    def _forget_expecting(self) -> None:
        for queue in self._expecting:
            queue.is_expecting = False
        self._expecting.clear()

    def _stamp_burst(self) -> None:
        """Take the time, if the burst has none yet.

        The first record of a file is never older than any before it, even if the clock was set back: recovery compares
        it with the checkpoint to tell whether everything before the file was durable.
        """
        if not self._parts:
            self._burst_timestamp_ms = self._timestamp_ms()
            if self.wrote_offset == self._commit_log.last_file_offset:
                self._burst_timestamp_ms = max(self._burst_timestamp_ms, self._commit_log.wrote_timestamp_ms)

    def _append(self, queue: ConsumeQueue, parts: list[bytes], units: list[bytes], physical_end: int) -> None:
        self._parts += parts
        self.wrote_offset = physical_end
        if units:
            if not queue.units:
                self._touched.append(queue)
            queue.units += units
            queue.next_offset += len(units)

    def _append_copies(self, queue_keys: Sequence[QueueKey], units: list[bytes]) -> None:
        """Give a message its unit in the queues that it names; RocketMQ gives these no extension."""
        for key in queue_keys:
            self._append(self._queues.find(*key), [], units, self.wrote_offset)
        self.counts.copy_count += len(queue_keys)

    def _extended(self, queue: ConsumeQueue, tags_codes: Sequence[int], texts: Sequence[bytes]) -> Sequence[int]:
        assert self._unit_extensions is not None, "a store with extensions"
        try:
            return self._unit_extensions.extend(queue, tags_codes, texts, self._burst_timestamp_ms)
        except StoreError as error:
            self.refuse_all(f"a write failed: {error}")
            raise

    def _write_log(self) -> None:
        parts, timestamp_ms = self._parts, self._burst_timestamp_ms
        if self.pool is not None:
            self.keep_burst()
            parts, timestamp_ms = self.pool.take()
        if parts:
            content = b"".join(parts)
            parts.clear()
            self.counts.put_bytes += len(content)
            self._commit_log.write(content, timestamp_ms)

    def _set_room_end(self) -> None:
        if self._refusals.is_open and not self._does_more:
            commit_log, pool = self._commit_log, self.pool
            pending_end = commit_log.wrote_offset + _PENDING_BYTES_MAX if pool is None else pool.end_offset
            file_end = commit_log.end_of_file - BLANK_SIZE_MIN
            self._room_end = min(file_end, commit_log.reserved_offset, pending_end)
