"""Append: one message into the log, its unit, its index work. Plain, positional, nothing awaits.

A message becomes bytes in a list, and a burst of messages one write per file (``end_burst``), before any reply leaves.
The common case is straight-line code in :meth:`MessageAppender.put`, the fast path. Every other case (a full file,
large messages, IPv6, transactions, refusals) goes to the :class:`~rocketpy.store.append.general_path.GeneralPath`. One
comparison decides where possible: a store that cannot be written has no room for anything, and neither has a store that
does more with a message (multi-dispatch, extensions of queues).

Rules: a message gets its queue offset and physical offset by the two paths and nowhere else. It is accepted only when
its record and its unit have reserved space in open files, so that ``end_burst`` opens none. Readers see it after
``end_burst``. Nothing here knows a topic's meaning, delay levels or sockets. With a transient store pool bursts end
with ``keep_burst`` instead, and ``end_burst`` is the commit.

Compatibility: a NUL in topic or properties is refused (MESSAGE_ILLEGAL), because recovery takes it for a torn record:
the CRC covers the body only. All messages of a burst have the burst's storeTimestamp. When there is no space for a file
the status is SERVICE_NOT_AVAILABLE, as for a full disk, not CREATE_MAPEDFILE_FAILED.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final
from zlib import crc32

from rocketpy import BUILD
from rocketpy.clock import Clock
from rocketpy.errors import StoreError
from rocketpy.protocol.properties import PROPERTIES_SIZE_MAX
from rocketpy.protocol.stored_message import MESSAGE_MAGIC_CODE, RECORD_HEAD, Buffer
from rocketpy.protocol.sysflag import BORN_HOST_V6_FLAG, NO_QUEUE_FLAG, STORE_HOST_V6_FLAG
from rocketpy.store import layout
from rocketpy.store.append.burst_counts import BurstCounts
from rocketpy.store.append.general_path import GeneralPath
from rocketpy.store.append.options import AppendOptions
from rocketpy.store.append.packed_batch import PackedBatchPath
from rocketpy.store.append.refusals import MessageLimits, PutRefusals
from rocketpy.store.append.room import Room
from rocketpy.store.index.feed import Index, IndexFeed, IndexWork
from rocketpy.store.log.commit_log import CommitLog
from rocketpy.store.queue.consume_queue import ConsumeQueue
from rocketpy.store.queue.table import ConsumeQueueTable
from rocketpy.store.results import PutMessageStatus

if TYPE_CHECKING:
    from rocketpy.protocol.kernels.record import RecordWriter

_PUT_OK: Final = PutMessageStatus.PUT_OK
_MASK: Final = 0x7FFF_FFFF
# put packs its heads itself, with the struct of pack_record_head: a call less for each message. A test holds the two
# against each other.
_pack_head: Final[Callable[..., bytes]] = RECORD_HEAD.pack
_pack_unit: Final[Callable[..., bytes]] = layout.UNIT.pack
_FIELD_ERRORS: Final = (struct.error, OverflowError, ValueError)
"""Raised for a number that does not fit its field, by struct and by the kernel."""
_COPIED_MAX: Final = 4096
"""Bytes of the longest body that the kernel copies into its record; a longer one is written from where it is."""
_UNUSUAL_FLAGS: Final = NO_QUEUE_FLAG | BORN_HOST_V6_FLAG | STORE_HOST_V6_FLAG


def record_writer(store_host: bytes) -> RecordWriter:
    """Return the kernel that writes the records of one store."""
    from rocketpy.protocol.kernels.record import RecordWriter  # plain Python does not load it

    return RecordWriter(store_host)


class MessageAppender:
    """Appends for one store. Made when recovery is over."""

    def __init__(
        self,
        *,
        commit_log: CommitLog,
        queues: ConsumeQueueTable,
        clock: Clock,
        options: AppendOptions,
        index: Index | None,
        message_arriving: Callable[[str, int, int], None] | None,
        refuse_all: str | None = None,
        has_kernels: bool = BUILD.has_kernels,
    ) -> None:
        """With ``has_kernels`` the fast path has its records written by the kernel."""
        self._commit_log = commit_log
        self._queues = queues
        self._queue_by_id = queues.topics
        self._timestamp_ms = clock.timestamp_ms
        self._store_host = options.store_host
        self._records = record_writer(options.store_host) if has_kernels else None
        limits = MessageLimits(options.message_size_max)
        self._refusals = PutRefusals(limits=limits, index=index, clock=clock, why=refuse_all)
        self._refused = self._refusals.refused
        self.writable_or_why = self._refusals.writable_or_why
        # A record of this size needs no check of its parts: neither its body nor its properties can be too long.
        self._plain_size_max = min(PROPERTIES_SIZE_MAX, options.message_size_max)
        self.pool = pool = options.pool  # what ended bursts wait in, if they do
        self._index_feed = IndexFeed(index, has_pool=pool is not None)
        self._index_work = self._index_feed.work
        self._message_arriving = message_arriving
        if pool is not None:
            pool.committed_offset = commit_log.wrote_offset
        # Not where messages wait in the pool, nor where records come with the times of another broker.
        self._times_bursts = pool is None and refuse_all is None

        self.wrote_offset = commit_log.wrote_offset  # the end of the log, what is pending included
        # A record must end here or before: end of the file or of its reserved space, pending bytes, or not writable.
        self.room_end = -1
        self._parts: list[Buffer] = []  # pending bytes of the log, from commit_log.wrote_offset on
        self._touched: list[ConsumeQueue] = []  # with pending units
        self.burst_timestamp_ms = commit_log.wrote_timestamp_ms
        self.counts = BurstCounts(clock)
        self._written: list[Callable[[], None]] = []
        self._burst_took: Callable[[float], None] | None = None
        self._monotonic: Callable[[], float] = float

        self._open_general_path(options)

    def _open_general_path(self, options: AppendOptions) -> None:
        """Make the general path, which adds to the same burst, and take its puts as they are."""
        commit_log, queues = self._commit_log, self._queues
        self._room = Room(burst=self, commit_log=commit_log, queues=queues, refusals=self._refusals, options=options)
        self._expecting = self._room.expecting
        general_path = GeneralPath(
            burst=self,
            room=self._room,
            refusals=self._refusals,
            counts=self.counts,
            index_feed=self._index_feed,
            queues=queues,
            options=options,
        )
        self._put_general = general_path.put
        self.put_timed = general_path.put_timed
        self.put_kept = general_path.put_kept
        self.put_batch = general_path.put_batch
        self.put_packed = PackedBatchPath(
            burst=self, index_feed=self._index_feed, queues=queues, options=options
        ).put_packed
        self.refusal_of_waiting = general_path.refusal_of_waiting

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
            return self._put_general((
                topic, queue_id, body, properties, tags_code, keys, flag, sys_flag, born_timestamp, born_host,
                reconsume_times, prepared_transaction_offset,
            ))  # fmt: skip
        body_size = len(body)
        size = 88 + body_size + len(tail) + len(properties)
        queue_offset = queue.next_offset
        physical_offset = self.wrote_offset
        physical_end = physical_offset + size
        if (
            physical_end > self.room_end
            or size > self._plain_size_max
            or queue_offset >= queue.reserved_offset
            or sys_flag & _UNUSUAL_FLAGS
            or len(born_host) != 8
            or 0 in properties
        ):
            return self._put_general((
                topic, queue_id, body, properties, tags_code, keys, flag, sys_flag, born_timestamp, born_host,
                reconsume_times, prepared_transaction_offset,
            ))  # fmt: skip
        parts = self._parts
        if not parts:
            self.burst_timestamp_ms = self._timestamp_ms()
        records = self._records
        try:
            if records is None or body_size > _COPIED_MAX:
                unit = _pack_unit(physical_offset, size, tags_code)
                parts += (
                    _pack_head(
                        size, MESSAGE_MAGIC_CODE, crc32(body) & _MASK, queue_id, flag, queue_offset, physical_offset,
                        sys_flag, born_timestamp, born_host, self.burst_timestamp_ms, self._store_host,
                        reconsume_times, prepared_transaction_offset, body_size,
                    ),
                    body,
                    tail,
                    properties,
                )  # fmt: skip
            else:
                unit = records.unit(physical_offset, size, tags_code)
                parts.append(
                    records.record(
                        body, tail, properties, queue_id, flag, queue_offset, physical_offset, sys_flag,
                        born_timestamp, born_host, self.burst_timestamp_ms, reconsume_times,
                        prepared_transaction_offset,
                    )
                )  # fmt: skip
        except _FIELD_ERRORS:
            return self._refused(PutMessageStatus.MESSAGE_ILLEGAL)
        units = queue.units
        if not units:
            self._touched.append(queue)
        units.append(unit)
        queue.next_offset = queue_offset + 1
        self.wrote_offset = physical_end
        if keys:
            self._index_work.append((topic, keys, physical_offset, self.burst_timestamp_ms))
        return _PUT_OK, physical_offset, queue_offset

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
            self.pool.keep(self._parts, self.burst_timestamp_ms)
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
            self.write_log()
            for queue in touched:
                unit_count += queue.next_offset - queue.max_offset
                queue.write_units()
                unflushed[queue] = None
        except StoreError as error:
            self.refuse_all(f"a write failed: {error}")
            raise
        if self._expecting:
            self._room.forget_expecting()
        self.counts.end_burst(unit_count, self.burst_timestamp_ms if self._times_bursts else None)
        if pool is not None:
            pool.committed_offset = self._commit_log.wrote_offset
        self.room_end = self._room.fast_path_end()
        if not self._index_feed.end_burst():
            self.room_end = -1
        if self._message_arriving is not None:
            for queue in touched:
                self._message_arriving(queue.topic, queue.queue_id, queue.max_offset)
        for written in self._written:
            written()
        if self._burst_took is not None:
            self._burst_took(self._monotonic() - began)

    def watch_log(self, written: Callable[[], None]) -> None:
        """Call back at the end of each burst that wrote, whichever caller ended it: the log has grown in its files."""
        self._written.append(written)

    def append_records(
        self,
        content: Buffer,
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
        self.burst_timestamp_ms = timestamp_ms
        self._parts.append(content)
        self.wrote_offset += len(content)
        for queue, added in units.items():
            queue.units += added
            queue.next_offset += len(added)
            self._touched.append(queue)
        self._index_work += index_work
        self.counts.copy_count += copy_count

    @property
    def touched_count(self) -> int:
        """Number of queues with pending units."""
        return len(self._touched)

    def add_file(self, blank: Buffer | None = None) -> None:
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
        self.room_end = -1

    def refuse_while(self, why: str | None) -> None:
        """Refuse every message for a reason that will pass; None when it has."""
        self._refusals.refuse_while(why)
        if why is not None:
            self.room_end = -1

    def stamp_burst(self) -> None:
        """Take the time, if the burst has none yet.

        The first record of a file is never older than any before it, even if the clock was set back: recovery compares
        it with the checkpoint to tell whether everything before the file was durable.
        """
        if not self._parts:
            self.burst_timestamp_ms = self._timestamp_ms()
            if self.wrote_offset == self._commit_log.last_file_offset:
                self.burst_timestamp_ms = max(self.burst_timestamp_ms, self._commit_log.wrote_timestamp_ms)

    def add(self, queue: ConsumeQueue, parts: Sequence[bytes], units: Sequence[bytes], physical_end: int) -> None:
        """Add the bytes of records up to an offset, with their units; room was made for both."""
        self._parts += parts
        self.wrote_offset = physical_end
        if units:
            if not queue.units:
                self._touched.append(queue)
            queue.units += units
            queue.next_offset += len(units)

    def add_packed(self, queue: ConsumeQueue, records: bytes, units: bytes, count: int) -> None:
        """Add ``count`` records, with their units one after the other; room was made for both."""
        self._parts.append(records)
        self.wrote_offset += len(records)
        if not queue.units:
            self._touched.append(queue)
        queue.units.append(units)
        queue.next_offset += count

    def write_log(self) -> None:
        """Write the pending bytes of the log, those in the pool included; StoreError is final."""
        parts, timestamp_ms = self._parts, self.burst_timestamp_ms
        if self.pool is not None:
            self.keep_burst()
            parts, timestamp_ms = self.pool.take()
        if parts:
            content = parts[0] if len(parts) == 1 else b"".join(parts)
            parts.clear()
            self.counts.put_bytes += len(content)
            self._commit_log.write(content, timestamp_ms)
