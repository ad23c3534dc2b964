"""Facade of an open store: the interface that the broker uses.

The appender owns the order of writes within a burst, the reader owns reads, and the services own durability. This
module only connects them. Opening and shutdown are in :mod:`rocketpy.store.opening`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Set
from functools import partial

import attrs
import trio

from rocketpy.protocol.topic_name import LMQ_PREFIX, SCHEDULE_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from rocketpy.store.append.appender import MessageAppender
from rocketpy.store.background import StoreServices
from rocketpy.store.config import BrokerRole, MessageStoreConfig
from rocketpy.store.disk.interface import sync_directory_if_there
from rocketpy.store.environment import StoreEnvironment
from rocketpy.store.figures import StoreFigures
from rocketpy.store.ha.following_log import FollowingCommitLog
from rocketpy.store.ha.log_mark import LogMarks
from rocketpy.store.ha.record_digest import RecordDigests
from rocketpy.store.ha.recorded_log import CommitLogRecords
from rocketpy.store.ha.tail_cut import CutOrder, order_cut, remove_order
from rocketpy.store.index.query import MessageQuery
from rocketpy.store.log.record_reader import RecordReader
from rocketpy.store.queue.consume_queue import ConsumeQueue
from rocketpy.store.queue.multi_dispatch import LmqLimit
from rocketpy.store.read.message_reader import MessageReader
from rocketpy.store.read.queue_messages import QueueMessages
from rocketpy.store.read.queue_scan import ReadLimits
from rocketpy.store.read.steps import read_anywhere, read_blocking, read_nowait
from rocketpy.store.recovery.store_files import StoreFiles
from rocketpy.store.results import (
    QueryMessageResult,
    StoreStatistics,
)
from rocketpy.store.services.clean_commit_log import CleanCommitLogStatistics
from rocketpy.store.services.group_commit import FlushWait
from rocketpy.store.services.waiting import call_until_done
from rocketpy.store.status import RunningFlags

_HEAD_SIZE = 88


class MessageStore:
    """An open store. Plain calls never block; the async ones may wait for the disk in a worker thread.

    ``put``, ``put_timed``, ``put_batch`` and ``put_packed`` are the appender's own methods (see
    :class:`MessageAppender`), and reads of queues are those of :class:`QueueMessages`, so neither path has an extra
    call. With a transient store pool, ``end_burst`` leaves the burst in the pool, and readers see it only after the
    next commit.
    """

    def __init__(
        self,
        *,
        config: MessageStoreConfig,
        files: StoreFiles,
        services: StoreServices,
        appender: MessageAppender,
        environment: StoreEnvironment,
        memory_bytes: int,
        following_log: FollowingCommitLog | None = None,
    ) -> None:
        self._config = config
        self._files = files
        self._services = services
        self._commit_log = files.commit_log
        self._queues = files.queues
        self._appender = appender
        self._disk, self._clock, self._run_blocking = environment.disk, environment.clock, environment.run_blocking
        self.message_size_max = config.max_message_size
        self.cut_ordered = trio.Event()
        """Set once the next opening is to cut the log: the owner of the store closes it then, and opens it again."""
        self.following_log = following_log
        """The way into the log of a slave's store; None in a master's."""
        self.figures = StoreFigures(
            statistics=self.statistics,
            read_earliest=self.get_earliest_message_time_of_store,
            slow_bursts=appender.counts.slow_bursts,
            config=config,
            clock=environment.clock,
            disk=environment.disk,
            current_time=trio.current_time,
        )
        self._expose_append()
        self._expose_log()
        self._expose_reads(ReadLimits.of(config, memory_bytes=memory_bytes))

    def _expose_append(self) -> None:
        """Take puts, the end of a burst and durability as they are: a call less for each message."""
        config, appender, services = self._config, self._appender, self._services
        self.appender = appender
        """Exposed so that the send path reads ``wrote_offset`` without a call. Append through :attr:`put`."""
        self.put = appender.put
        self.put_timed = appender.put_timed
        self.put_kept = appender.put_kept
        self.refusal_of_waiting = appender.refusal_of_waiting
        self.put_batch = appender.put_batch
        self.put_packed = appender.put_packed
        self.writable_or_why = appender.writable_or_why
        self.watch_bursts = appender.watch_bursts
        self.end_burst = services.end_burst
        self.waits_for_storing = config.is_sync_flush or config.is_sync_master
        """Whether producers are answered by :attr:`wait_stored`: under SYNC_FLUSH or SYNC_MASTER."""
        self.wait_stored = services.wait_stored
        """Calls back with a status when what was put up to an offset is stored as the settings promise.

        ``wait_stored(physical_end, callback)`` calls back with PUT_OK, FLUSH_DISK_TIMEOUT (SYNC_FLUSH),
        FLUSH_SLAVE_TIMEOUT or SLAVE_NOT_AVAILABLE (SYNC_MASTER). Never directly, and not before what was put is
        written, so the caller ends its burst. Only with :attr:`waits_for_storing`: otherwise there is no notification,
        and a message is stored as promised when its burst has ended.
        """

    def _expose_log(self) -> None:
        """Take the log as slaves and readers of single records see it."""
        commit_log, run_blocking = self._commit_log, self._run_blocking
        self.ha_service = self._services.ha_service
        """Serves the connections of slaves, whatever the role."""
        self.log_source = self._services.log_source
        """The log as slaves get it: what is in files, and with a transient store pool what is committed."""
        self.record_reader = RecordReader(commit_log=commit_log, run_blocking=run_blocking, end_burst=self.end_burst)
        self.recorded_log = CommitLogRecords(commit_log, run_blocking=run_blocking)
        """The places of the records, for comparing the log with a master's while nothing is appended."""
        self.record_digests = RecordDigests(commit_log, run_blocking=run_blocking)
        """Whether the log has the records of a slave that compares."""
        self.log_marks = LogMarks(commit_log, self.recorded_log, self.record_digests)
        """Marks of places in the log, for tables beside it."""

    def _expose_reads(self, limits: ReadLimits) -> None:
        """Take the reads of queues as they are, and the queries by key if there is an index."""
        config = self._config
        self._reader = MessageReader(
            commit_log=self._commit_log,
            queues=self._queues,
            limits=limits,
            corrects_offsets=config.broker_role is not BrokerRole.SLAVE or config.offset_check_in_slave,
        )
        lmq_limit = None
        if config.enable_multi_dispatch and config.enable_lmq:
            lmq_limit = LmqLimit(topics=self._queues.topics, count_max=config.max_lmq_consume_queue_num)
        self._messages = messages = QueueMessages(
            reader=self._reader,
            queues=self._queues,
            appender=self._appender,
            end_burst=self.end_burst,
            lmq_limit=lmq_limit,
            run_blocking=self._run_blocking,
            clock=self._clock,
            cold_read_took=self.figures.cold_read_took,
        )
        self.get_message_nowait = messages.get_message_nowait
        self.get_plain_nowait = messages.get_plain_nowait
        self.get_filtered_nowait = messages.get_filtered_nowait
        self.get_message = messages.get_message
        self.max_offset_in_queue = messages.max_offset_in_queue
        self.min_offset_in_queue = messages.min_offset_in_queue
        self.check_in_disk_by_consume_offset_nowait = messages.check_in_disk_by_consume_offset_nowait
        self.check_in_disk_by_consume_offset = messages.check_in_disk_by_consume_offset
        self.offset_in_queue_by_time = messages.offset_in_queue_by_time
        self.store_timestamp_of = messages.store_timestamp_of
        self.list_units = messages.list_units
        self.get_earliest_message_time = messages.get_earliest_message_time
        self.queue_time_span = messages.queue_time_span
        self._index = self._files.index
        self._message_query: MessageQuery | None = None
        if self._index is not None:
            self._message_query = MessageQuery(
                query_offset=self._index.query_offset, record_at=self.record_at, timestamp_at=self._timestamp_at
            )

    # ---- append ---------------------------------------------------------------------------------------------------

    @property
    def wrote_offset(self) -> int:
        """The end of the log, with the bytes of the current burst: the offset to pass to :attr:`wait_stored`."""
        return self._appender.wrote_offset

    @property
    def burst_timestamp_ms(self) -> int:
        """The storeTimestamp of the current burst's messages, or of the last one's."""
        return self._appender.burst_timestamp_ms

    @property
    def waiting_for_storing_count(self) -> int:
        """Calls of :attr:`wait_stored` that were not called back; one that waits for disk and slave counts twice."""
        transfer = self._services.group_transfer
        return self.flush_wait().waiting_count + (0 if transfer is None else transfer.statistics().waiting)

    def give_up_waits(self) -> None:
        """Answer FLUSH_SLAVE_TIMEOUT for whatever waits for a slave: the broker is about to stop."""
        if self._services.group_transfer is not None:
            self._services.group_transfer.give_up()

    def flush_soon(self) -> None:
        """Request a flush of what was put, for a message without a waiting producer; cheap.

        Under SYNC_FLUSH nothing else flushes such a message. Under ASYNC_FLUSH its flush comes anyway.
        """
        if self._services.group_commit is not None:
            self._services.group_commit.wake()

    @property
    def durable_offset(self) -> int:
        """The end of the part of the log that survives a loss of power."""
        return self._commit_log.flushed_offset

    async def flush(self) -> None:
        """Return when everything put so far is durable, under either flush type. StoreError is final."""
        self._appender.end_burst()
        await self._services.flush_log(self._commit_log.wrote_offset)

    def flush_wait(self) -> FlushWait:
        """Return how many requests wait for the disk now, and for how long: always none under ASYNC_FLUSH."""
        group_commit = self._services.group_commit
        return FlushWait() if group_commit is None else group_commit.wait()

    # ---- the log --------------------------------------------------------------------------------------------------

    @property
    def min_physical_offset(self) -> int:
        """The offset of the first byte of the log."""
        return self._commit_log.min_offset

    @property
    def max_physical_offset(self) -> int:
        """The end of the log as readers see it, without the current burst."""
        return self._commit_log.wrote_offset

    async def get_earliest_message_time_of_store(self) -> int:
        """Return the storeTimestamp of the first message in the log, -1 if there is none."""
        self.end_burst()
        first = self._commit_log.min_offset
        return await read_anywhere(lambda: self._reader.record_timestamp(first, _HEAD_SIZE), self._run_blocking)

    def write_up_to(self, physical_offset: int) -> None:
        """Write a record that may begin at an offset, if it waits in a burst, or in the transient store pool.

        For a producer that knows the offset already, and must not be told that nothing is there.
        """
        if self._commit_log.wrote_offset <= physical_offset < self._appender.wrote_offset:
            self._appender.end_burst()

    def look_message_by_offset_nowait(self, physical_offset: int) -> bytes | None:
        """Return a record that is in memory; None if it is cold or missing: then call the async variant."""
        if physical_offset >= self._commit_log.wrote_offset and self._appender.has_pending:
            self.end_burst()
        return read_nowait(self._reader.look_named_message(physical_offset))

    async def look_message_by_offset(self, physical_offset: int) -> bytes | None:
        """Return the record that begins at a physical offset, None if there is none.

        The offset may come from a peer, so a record is returned only if a unit of its own queue points to it, with this
        offset and size. Records without a unit, or of a deleted queue, are not found.
        """
        self.end_burst()
        return await read_anywhere(lambda: self._reader.look_named_message(physical_offset), self._run_blocking)

    async def query_message(
        self, topic: str, key: str, max_num: int, begin_timestamp_ms: int, end_timestamp_ms: int
    ) -> QueryMessageResult:
        """Return the records of a topic that the index has for a key, in log order, up to QUERY_BYTES_MAX.

        The index looks up a hash of topic and key. Records of other topics with the same hash are filtered out, because
        the caller may not be allowed to read them. Other keys of the same topic with the same hash are left to the
        client, as in RocketMQ. When nothing is found there are up to two more rounds, further back in time. A query
        that has looked at too many entries of the index ends with what it has found, and says so.

        Compatibility: a message that has the key twice is returned once, in RocketMQ twice. RocketMQ also returns the
        records of other topics.
        """
        self.end_burst()
        if self._message_query is None:
            return QueryMessageResult(b"", 0, 0)
        why_incomplete = self._services.why_not_indexed(self._appender.wrote_offset)
        result = await self._message_query.query(topic, key, max_num, begin_timestamp_ms, end_timestamp_ms)
        return attrs.evolve(result, why_incomplete="; ".join(filter(None, (why_incomplete, result.why_incomplete))))

    async def wait_indexed(self) -> None:
        """Return when a query finds all that was appended before, or while the index has no space for it.

        After a crash the index is built again while the store serves: that may take long.
        """
        self.end_burst()
        await self._services.wait_indexed()

    async def record_at(self, physical_offset: int) -> bytes | None:
        """Return the record at a trusted physical offset, whether or not its queue still exists.

        For offsets from the index and from scans of the log. Offsets that a peer sends go through
        :meth:`look_message_by_offset`.
        """
        return await read_anywhere(lambda: self._reader.look_message(physical_offset), self._run_blocking)

    async def _timestamp_at(self, physical_offset: int) -> int:
        return await read_blocking(self._reader.record_timestamp(physical_offset, _HEAD_SIZE), self._run_blocking)

    # ---- queues ---------------------------------------------------------------------------------------------------

    def queues(self) -> Iterable[tuple[str, int]]:
        """Return topic and queue id of every queue that has, or once had, messages."""
        return [(queue.topic, queue.queue_id) for queue in self._queues if queue.next_offset or queue.files]

    def delete_topic_queues(self, topic: str) -> int:
        """Delete a topic's queues; return the end of the log: the topic's records before it are deleted ones.

        They stay in the log until their files are deleted.
        """
        self._appender.end_burst()
        self._queues.remove_topic(topic, self._commit_log.wrote_offset)
        return self._commit_log.wrote_offset

    async def delete_topic_before(self, topic: str, physical_offset: int) -> bool:
        """Delete a topic's queues that have no record from a physical offset on; return whether there were any.

        The offset is not past the end of the log. A queue that has later records began again after the deletion.
        """
        gone: list[ConsumeQueue] = []
        ends: dict[ConsumeQueue, int] | None = None
        while ends != (now := self._ends_of(topic)):
            ends, gone = now, []
            for queue, end in ends.items():
                last = max(queue.min_offset, end - 1)
                found, _ = await read_anywhere(partial(queue.search, last, physical_offset), self._run_blocking)
                if found >= end:
                    gone.append(queue)
        # With the mark of a deletion there may be queues all the same: a loss of power can undo that they were removed.
        known = self._queues.deleted_before.get(topic, -1)
        if gone or known < physical_offset:
            self._queues.remove_queues_of_deleted(gone, topic, max(known, physical_offset))
        return bool(gone)

    async def sync_removed_queues(self, topics: Collection[str]) -> None:
        """Make it durable that queues of these topics were removed: no later loss of power brings them back."""
        for directory in (*(f"{self._queues.path}/{topic}" for topic in topics), self._queues.path):
            await call_until_done(self._run_blocking, sync_directory_if_there, self._disk, directory)

    def _ends_of(self, topic: str) -> dict[ConsumeQueue, int]:
        self._appender.end_burst()
        return {queue: queue.max_offset for queue in self._queues.topics.get(topic, {}).values()}

    # ---- deletion -------------------------------------------------------------------------------------------------

    @property
    def running_flags(self) -> RunningFlags:
        """Flags of the operations that the store serves at the moment."""
        return self._services.running_flags

    def execute_delete_files_manually(self) -> None:
        """Let the next runs delete expired files of the log at any hour of the day."""
        self._services.clean_commit_log.execute_delete_files_manually()

    def clean_statistics(self) -> CleanCommitLogStatistics:
        """Return the counters of deletion, and how full the disks are."""
        return self._services.clean_commit_log.statistics()

    async def clean_expired_consumer_queue(self) -> int:
        """Delete queues with no message left in the log; return how many. Their next message gets offset 0."""
        self._appender.end_burst()
        return await self._services.clean_queues.delete_expired_queues((SCHEDULE_TOPIC,))

    async def clean_unused_topics(self, topics_in_use: Set[str]) -> dict[str, int]:
        """Delete the queues of unused topics; return these, with the end of the log then. System topics are kept."""
        kept = {SCHEDULE_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC}
        deleted: dict[str, int] = {}
        for topic in list(self._queues.topics):
            if topic not in kept and topic not in topics_in_use and not topic.startswith(LMQ_PREFIX):
                deleted[topic] = self.delete_topic_queues(topic)
                await trio.lowlevel.checkpoint()
        return deleted

    async def order_cut(self, physical_offset: int) -> str | None:
        """Order that the next opening cuts the log at an offset, with its queues and index; return why it must not.

        Durable on return. What is cut is kept (:mod:`rocketpy.store.ha.tail_cut`). Nothing may be appended from now on.
        """
        done = self._files.cut_report
        if done is not None and done.refusal:
            return f"this start was to cut at {done.order.offset}, and could not: {done.refusal}"
        order = CutOrder(physical_offset, self.max_physical_offset, self._clock.timestamp_ms())
        refusal = await self._run_blocking(order_cut, self._disk, self._config, order)
        if refusal is None:
            self.cut_ordered.set()
        return refusal

    @property
    def was_cut(self) -> bool:
        """Whether this opening, or one that was killed since, has cut the log: the tables beside it may not know."""
        report = self._files.cut_report
        return report is not None and not report.refusal

    async def tables_were_cut(self) -> None:
        """Remove the order of a cut, once nothing beside the log stands for what was cut; before anything is stored."""
        await self._run_blocking(remove_order, self._disk, self._config.root)

    # ---- lag ------------------------------------------------------------------------------------------------------

    @property
    def dispatch_behind(self) -> int:
        """Bytes of the log without units: always 0, because append writes the units itself."""
        return 0

    @property
    def is_index_behind(self) -> bool:
        """Backpressure: whether the index's queue is full, so that a batch first awaits :meth:`wait_for_index`."""
        return self._index is not None and self._index.is_full

    async def wait_for_index(self) -> None:
        """Return when the index has room for the keys of another batch."""
        if self._index is not None:
            await self._index.wait_room()

    @property
    def index_behind(self) -> int:
        """The lag of the index: in messages, or after a crash in bytes of the log that are still to be read."""
        return self._services.index_behind

    def settings_changed(self) -> None:
        """Apply the live settings of deletion and of read sizes; all others take effect at the next start."""
        self._files.settings_changed()
        self._reader.settings_changed(self._config)

    # ---- figures --------------------------------------------------------------------------------------------------

    def statistics(self) -> StoreStatistics:
        """Return the counters."""
        appender, commit_log, pool = self._appender, self._commit_log, self._appender.pool
        messages = self._messages
        return StoreStatistics(
            put_count=appender.counts.put_count,
            put_bytes=appender.counts.put_bytes,
            put_refused_count=appender.refused_count,
            burst_count=appender.counts.burst_count,
            get_count=messages.get_count,
            get_miss_count=messages.miss_count,
            get_message_count=messages.message_count,
            get_cold_count=messages.cold_count,
            commit_log_min_offset=commit_log.min_offset,
            commit_log_max_offset=commit_log.wrote_offset,
            commit_log_flushed_offset=commit_log.flushed_offset,
            uncommitted_bytes=0 if pool is None else appender.wrote_offset - pool.committed_offset,
            queue_count=len(self._queues),
            open_files=len(self._files.open_files),
            index_behind=self.index_behind,
        )

    def runtime_info(self) -> dict[str, str]:
        """Return the store's entries of GET_BROKER_RUNTIME_INFO, under RocketMQ's names."""
        recovery = self._files.report.after_a_crash or "the last run was shut down cleanly, or this store is new"
        return self.figures.runtime_info() | {"lastRecovery": recovery}
