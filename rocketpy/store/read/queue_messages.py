"""Messages of queues as the broker reads them: by offset, and by time; hot from memory, cold in a worker thread.

A read sees everything that was put before it, so it ends the open burst first. What is read, and what an offset outside
the queue means, is for :class:`~rocketpy.store.read.message_reader.MessageReader` to say.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketpy.clock import Clock
from rocketpy.runner import RunBlocking
from rocketpy.store.append.appender import MessageAppender
from rocketpy.store.queue.multi_dispatch import LmqLimit
from rocketpy.store.queue.table import ConsumeQueueTable
from rocketpy.store.read.message_reader import MessageReader
from rocketpy.store.read.plain_read import HeadOfRecords, PlainRead
from rocketpy.store.read.steps import read_anywhere, read_blocking, read_nowait
from rocketpy.store.results import GetMessageResult, GetMessageStatus, MessageFilter, QueueListing, QueueTimeSpan


class QueueMessages:
    """Reads of one open store by topic and queue, and their counters."""

    def __init__(
        self,
        *,
        reader: MessageReader,
        queues: ConsumeQueueTable,
        appender: MessageAppender,
        end_burst: Callable[[], None],
        lmq_limit: LmqLimit | None,
        run_blocking: RunBlocking,
        clock: Clock,
        cold_read_took: Callable[[int], None],
    ) -> None:
        self._reader = reader
        self._queues = queues
        self._appender = appender
        self._end_burst = end_burst
        self._lmq_limit = lmq_limit
        self._run_blocking = run_blocking
        self._timestamp_ms = clock.timestamp_ms
        self._cold_read_took = cold_read_took
        self.get_count = 0
        self.miss_count = 0
        self.message_count = 0
        self.cold_count = 0

    def get_message_nowait(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_msg_nums: int,
        message_filter: MessageFilter | None = None,
    ) -> GetMessageResult | None:
        """Return messages that are in memory, None if some of them are cold: then call :meth:`get_message`."""
        if self._appender.has_pending:
            self._end_burst()
        if self._lmq_limit is not None and self._lmq_limit.is_exceeded_for(topic):
            return self._nothing_found(topic, queue_id, queue_offset)
        result = None
        if message_filter is None:
            result = self._reader.get_plain_nowait(topic, queue_id, queue_offset, max_msg_nums)
        else:
            result = self._reader.get_filtered_nowait(topic, queue_id, queue_offset, max_msg_nums, message_filter)
        if result is None:
            result = read_nowait(self._reader.get_message(topic, queue_id, queue_offset, max_msg_nums, message_filter))
        if result is not None:
            self.get_count += 1
            if result.message_count:
                self.message_count += result.message_count
            else:
                self.miss_count += 1
        return result

    def get_plain_nowait(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_msg_nums: int,
        head_of: HeadOfRecords | None = None,
    ) -> PlainRead | None:
        """Fast path of :meth:`get_message_nowait` without a filter; None, and nothing is counted, if it declines.

        With ``head_of`` the body begins with the head that it returns.
        """
        if self._appender.has_pending:
            self._end_burst()
        if self._lmq_limit is not None:
            return None
        found = self._reader.read_plain_nowait(topic, queue_id, queue_offset, max_msg_nums, head_of)
        if found is not None:
            self.get_count += 1
            self.message_count += found.message_count
        return found

    def get_filtered_nowait(
        self, topic: str, queue_id: int, queue_offset: int, max_msg_nums: int, message_filter: MessageFilter
    ) -> PlainRead | None:
        """Fast path of :meth:`get_message_nowait` with a filter; None, and nothing is counted, if it declines."""
        if self._appender.has_pending:
            self._end_burst()
        if self._lmq_limit is not None:
            return None
        found = self._reader.read_filtered_nowait(topic, queue_id, queue_offset, max_msg_nums, message_filter)
        if found is not None:
            self.get_count += 1
            self.message_count += found.message_count
            if not found.message_count:
                self.miss_count += 1
        return found

    async def get_message(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_msg_nums: int,
        message_filter: MessageFilter | None = None,
    ) -> GetMessageResult:
        """Return messages, cached or not; a worker thread waits for the disk."""
        self._end_burst()
        if self._lmq_limit is not None and self._lmq_limit.is_exceeded_for(topic):
            return self._nothing_found(topic, queue_id, queue_offset)
        self.cold_count += 1
        began_ms = self._timestamp_ms()
        steps = self._reader.get_message(topic, queue_id, queue_offset, max_msg_nums, message_filter)
        result = await read_blocking(steps, self._run_blocking)
        self._cold_read_took(self._timestamp_ms() - began_ms)
        self.get_count += 1
        self.message_count += result.message_count
        self.miss_count += not result.message_count
        return result

    def max_offset_in_queue(self, topic: str, queue_id: int) -> int:
        """Return the queue offset that the next message will get; 0 for an unknown queue."""
        if self._appender.has_pending:
            self._end_burst()
        queue = self._queues.get(topic, queue_id)
        return 0 if queue is None else queue.max_offset

    def min_offset_in_queue(self, topic: str, queue_id: int) -> int:
        """Return the queue offset of the oldest message that is still there; 0 for an unknown queue."""
        queue = self._queues.get(topic, queue_id)
        return 0 if queue is None else queue.min_offset

    def check_in_disk_by_consume_offset_nowait(self, topic: str, queue_id: int, queue_offset: int) -> bool | None:
        """Whether the message of a unit is so far back in the log that it is probably on disk only; False if unknown.

        None if the unit itself is cold: then call :meth:`check_in_disk_by_consume_offset`.
        """
        return read_nowait(self._reader.is_likely_on_disk(topic, queue_id, queue_offset))

    async def check_in_disk_by_consume_offset(self, topic: str, queue_id: int, queue_offset: int) -> bool:
        """Return the same, also for a unit that is cold; a worker thread waits for the disk."""
        return await read_blocking(self._reader.is_likely_on_disk(topic, queue_id, queue_offset), self._run_blocking)

    async def offset_in_queue_by_time(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """Return the queue offset of the message with the storeTimestamp nearest to a time; 0 if there is none."""
        self._end_burst()
        return await read_anywhere(
            lambda: self._reader.offset_by_time(topic, queue_id, timestamp_ms), self._run_blocking
        )

    async def store_timestamp_of(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """Return the storeTimestamp of a message, -1 if it does not exist."""
        self._end_burst()
        return await read_anywhere(
            lambda: self._reader.store_timestamp(topic, queue_id, queue_offset), self._run_blocking
        )

    async def list_units(self, topic: str, queue_id: int, queue_offset: int, count: int) -> QueueListing | None:
        """Return up to ``count`` units from a queue offset on, at most to the end of the file; None without a queue."""
        self._end_burst()
        return await read_anywhere(
            lambda: self._reader.list_units(topic, queue_id, queue_offset, count), self._run_blocking
        )

    async def get_earliest_message_time(self, topic: str, queue_id: int) -> int:
        """Return the storeTimestamp of a queue's oldest message, -1 if it has none."""
        return await self.store_timestamp_of(topic, queue_id, self.min_offset_in_queue(topic, queue_id))

    async def queue_time_span(self, topic: str, queue_id: int, consumer_offset: int) -> QueueTimeSpan:
        """Return the storeTimestamps of a queue's oldest and newest message and around a group's consumer offset."""
        oldest = await self.get_earliest_message_time(topic, queue_id)
        last_offset = self.max_offset_in_queue(topic, queue_id) - 1
        newest = await self.store_timestamp_of(topic, queue_id, last_offset)
        consumed = oldest
        if consumer_offset > 0:
            consumed = await self.store_timestamp_of(topic, queue_id, consumer_offset - 1)
        following = None
        if consumer_offset <= last_offset:
            following = await self.store_timestamp_of(topic, queue_id, consumer_offset)
        return QueueTimeSpan(oldest, newest, consumed, following)

    def _nothing_found(self, topic: str, queue_id: int, queue_offset: int) -> GetMessageResult:
        self.get_count += 1
        self.miss_count += 1
        min_offset, max_offset = self.min_offset_in_queue(topic, queue_id), self.max_offset_in_queue(topic, queue_id)
        return GetMessageResult(GetMessageStatus.OFFSET_FOUND_NULL, queue_offset, min_offset, max_offset)
