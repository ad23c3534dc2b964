"""Room for records and their units: reserve it in the log, in each queue, and in the transient store pool.

A message is accepted only when its record and all its units have reserved space in open files, so that the end of a
burst opens none. Where there is no space the message is refused and nothing has changed; any other StoreError is final.
The fast path of append asks for nothing here: it compares with :meth:`Room.fast_path_end`, which each burst renews.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rocketpy.errors import DescriptorShortageError, ShortageError, StoreError
from rocketpy.protocol.stored_message import BLANK_SIZE_MIN
from rocketpy.store.append.options import AppendOptions
from rocketpy.store.append.refusals import PutRefusals
from rocketpy.store.log.commit_log import CommitLog
from rocketpy.store.queue.consume_queue import ConsumeQueue
from rocketpy.store.queue.multi_dispatch import QueueKey
from rocketpy.store.queue.table import ConsumeQueueTable
from rocketpy.store.results import PutMessageStatus

_PENDING_BYTES_MAX = 4 << 20
"""Bytes of a burst above which it is written, without waiting for the burst's end."""


class GrowingBurst(Protocol):
    """The open burst, as far as room for more may have to end it, write it or roll to the next file."""

    wrote_offset: int
    """The end of the log, what is pending included."""
    room_end: int
    """A record of the fast path must end here or before."""

    @property
    def touched_count(self) -> int:
        """Number of queues with pending units."""
        ...

    def end_burst(self) -> None:
        """Write everything that is pending; StoreError is final."""
        ...

    def write_log(self) -> None:
        """Write the pending bytes of the log; StoreError is final."""
        ...

    def add_file(self) -> None:
        """Roll to the next file of the log; nothing of the log is pending."""
        ...

    def refuse_all(self, why: str) -> None:
        """Refuse every message from now on."""
        ...


class Room:
    """Reserves space for one appender."""

    def __init__(
        self,
        *,
        burst: GrowingBurst,
        commit_log: CommitLog,
        queues: ConsumeQueueTable,
        refusals: PutRefusals,
        options: AppendOptions,
    ) -> None:
        self._burst = burst
        self._commit_log = commit_log
        self._queues = queues
        self._refusals = refusals
        self._lmq_limit = options.lmq_limit
        self._pool = options.pool
        self._has_fast_path = options.has_fast_path
        self._touched_max = queues.pending_max  # a burst of messages for more queues ends early
        self.expecting: list[ConsumeQueue] = []
        """Queues with room for the message at hand. Always the same list, which the end of a burst looks at."""

    def fast_path_end(self) -> int:
        """Return the offset up to which a record needs no look at files: -1 where nothing may take the fast path."""
        if not self._has_fast_path or not self._refusals.is_open:
            return -1
        commit_log, pool = self._commit_log, self._pool
        pending_end = commit_log.wrote_offset + _PENDING_BYTES_MAX if pool is None else pool.end_offset
        file_end = commit_log.end_of_file - BLANK_SIZE_MIN
        return min(file_end, commit_log.reserved_offset, pending_end)

    def queue_with_room(
        self, topic: str, queue_id: int, size: int, unit_count: int, queue_keys: Sequence[QueueKey] = ()
    ) -> ConsumeQueue | PutMessageStatus:
        """Return the queue with room for everything, in the queues named besides too; or why there is none."""
        if self._lmq_limit is not None and self._lmq_limit.refuses([topic, *(name for name, _ in queue_keys)]):
            return PutMessageStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED
        if size + BLANK_SIZE_MIN > self._commit_log.file_size:
            return PutMessageStatus.MESSAGE_ILLEGAL
        pool = self._pool
        if pool is not None and self._burst.wrote_offset + size > pool.end_offset:
            if pool.is_fail_fast:
                return PutMessageStatus.CREATE_MAPEDFILE_FAILED
            self._burst.end_burst()
        queue = self._queues.find(topic, queue_id)
        queues = [queue, *(self._queues.find(*key) for key in queue_keys)]
        return queue if self._make(queues, size, unit_count) else PutMessageStatus.SERVICE_NOT_AVAILABLE

    def forget_expecting(self) -> None:
        """Let the files of queues close that have room for a message which is pending now, or was refused."""
        for queue in self.expecting:
            queue.is_expecting = False
        self.expecting.clear()

    def _make(self, queues: Sequence[ConsumeQueue], size: int, unit_count: int) -> bool:
        """Make room for a record and its units in each queue; False in a shortage. Any other StoreError is final."""
        if not self._refusals.may_find_room:
            return False
        self.forget_expecting()
        if self._burst.touched_count >= self._touched_max:
            self._burst.end_burst()
        try:
            self._make_in_log(size)
            for queue in queues:
                self.expecting.append(queue)
                queue.is_expecting = True
                queue.make_room(unit_count)
        except DescriptorShortageError as error:
            # Queues whose files are open have room all the same, so the next message is tried at once.
            self._refusals.note_shortage(str(error))
            return False
        except ShortageError as error:
            self._refusals.note_no_room(str(error))
            self._burst.room_end = -1
            return False
        except StoreError as error:
            self._burst.refuse_all(f"a write failed: {error}")
            raise
        self._refusals.note_room()
        self._burst.room_end = self.fast_path_end()
        return True

    def _make_in_log(self, size: int) -> None:
        """Make room for a record, in the next file if this one is too small; write what is pending if it is much."""
        burst, commit_log = self._burst, self._commit_log
        if burst.wrote_offset + size + BLANK_SIZE_MIN > commit_log.end_of_file:
            burst.write_log()
            burst.add_file()
        elif self._pool is None and burst.wrote_offset + size > commit_log.wrote_offset + _PENDING_BYTES_MAX:
            burst.write_log()
        commit_log.make_room(burst.wrote_offset + size)
