"""Catch-up of the index after a restart, while the store already serves: the log is read again, a step at a time.

Queues are complete when a store opens, because recovery completes them; while it is open, append hands every key to the
index. Missing are the keys that the index lost in a crash, or never had. They are read from the log, from the end of
the index on. Messages that are appended meanwhile are in the log too and are read like the others. When nothing is
left, append hands its keys over directly, between two bursts, and the service ends. So the index gets every message
once and in order.

Compatibility: ``ReputMessageService`` (4.9.8) reads every message back from the log, forever, a millisecond after it
was stored.
"""

from __future__ import annotations

import struct
from typing import Protocol

import trio

from rocketpy.errors import ShortageError
from rocketpy.protocol.property_columns import PropertyColumns
from rocketpy.protocol.stored_message import MESSAGE_MAGIC_CODE, RecordStatus, check_message
from rocketpy.protocol.sysflag import NO_QUEUE_FLAG
from rocketpy.runner import RunBlocking
from rocketpy.store.append.appender import MessageAppender
from rocketpy.store.index.feed import Index, IndexWork
from rocketpy.store.index.hash import hash_before_key, hash_of_key
from rocketpy.store.index.kernels import KERNELS, KEY_SIZE, IndexKernels
from rocketpy.store.log.commit_log import CommitLog
from rocketpy.store.log.plain_records import PlainRecords, QueueRun, continued_run
from rocketpy.store.log.record_reader import log_bytes
from rocketpy.store.read.steps import read_anywhere

_PAUSE_SECONDS = 1.0
WINDOW_SIZE = 64 << 10
"""Bytes that are read at a time, indexed in about a millisecond."""
KERNEL_WINDOW_SIZE = 8 * WINDOW_SIZE
"""The same by the kernels."""
_KEYS_PER_STEP = 4096
"""A step by the kernels ends when it has so many keys: of messages that have many, a window would be long work."""
_HEAD = struct.Struct(">ii")  # totalSize and magic


class IndexCatchUp:
    """One pass over the log, from an offset to its end. ``begin_offset`` is IndexService's ``end_physical_offset``."""

    def __init__(
        self,
        *,
        commit_log: CommitLog,
        appender: MessageAppender,
        index: Index,
        begin_offset: int,
        run_blocking: RunBlocking,
        window_size: int | None = None,
        kernels: IndexKernels | None = KERNELS,
    ) -> None:
        self._commit_log = commit_log
        self._appender = appender
        self._index = index
        self._run_blocking = run_blocking
        self._window_size = window_size or (WINDOW_SIZE if kernels is None else KERNEL_WINDOW_SIZE)
        self._next_offset = max(begin_offset, commit_log.min_offset)
        self._is_over = False
        self._known: PlainRecords[QueueRun] = PlainRecords()
        self._kernels = kernels
        self._read_log_keys = None if kernels is None else kernels.log_key_reader()
        self._packed: list[bytes] = []  # keys of a window, from the kernel
        self._progress = trio.lowlevel.ParkingLot()

    @property
    def behind_bytes(self) -> int:
        """Bytes of the log that are left to read; 0 once append supplies the messages."""
        return self.missing_bytes(self._commit_log.wrote_offset)

    def missing_bytes(self, physical_offset: int) -> int:
        """Return how many bytes of the log before an offset are left to read."""
        return 0 if self._is_over else max(0, physical_offset - self._next_offset)

    async def wait_read(self, physical_offset: int) -> None:
        """Return when the log is read up to an offset, or while there is no space for its keys."""
        while self.missing_bytes(physical_offset) and self._index.writable_or_why() is None:
            await self._progress.park()

    async def step(self) -> bool:
        """Read and index about a millisecond's worth; False when append has taken over.

        Nothing is read while the index has no space, or while there is no descriptor.
        """
        if self._is_over:
            return False
        try:
            return await self._step()
        except ShortageError:
            return True
        finally:
            self._progress.unpark_all()

    async def _step(self) -> bool:
        if self._index.writable_or_why() is not None:
            return True
        if self._next_offset >= self._commit_log.wrote_offset:
            self._appender.end_burst()
            if self._next_offset >= self._commit_log.wrote_offset:
                self._appender.hand_over_to_index()
                self._is_over = True
                return False
        if not self._take(await self._read(self._window_size)):
            head = await self._read(_HEAD.size)
            size, magic = _HEAD.unpack(head) if len(head) == _HEAD.size else (0, 0)
            if magic != MESSAGE_MAGIC_CODE or not self._take(await self._read(size)):
                self._next_offset = self._commit_log.next_file_offset(self._next_offset)
        self._index.end_burst()
        return True

    async def _read(self, size: int) -> bytes:
        """Return bytes of the log from the next offset on, at most to the end of its file; none if that was deleted."""
        return await read_anywhere(lambda: log_bytes(self._commit_log, self._next_offset, size), self._run_blocking)

    def _take(self, window: bytes) -> bool:
        """Give the index the whole records at the beginning of a window; False if there is not one."""
        position = 0
        while True:
            position, is_enough = self._take_plain(window, position)
            if is_enough:
                break
            record = check_message(window, position, len(window) - position, check_crc=False, read_body=False)
            if record.status is RecordStatus.BLANK:
                position += record.size
                break
            if record.status is not RecordStatus.MESSAGE:
                break
            if self._kernels is None and not record.sys_flag & NO_QUEUE_FLAG:
                continued_run(self._known, record)
            keys = record.index_keys()
            if keys:
                self._add((record.topic, keys, record.physical_offset, record.store_timestamp))
            position += record.size
        if self._packed and self._kernels is not None:
            self._index.build_packed(b"".join(self._packed), self._kernels)
            self._packed.clear()
        self._next_offset += position
        return position > 0

    def _add(self, work: IndexWork) -> None:
        """Take the keys of one record, after those before it."""
        if self._kernels is None:
            self._index.pending.append(work)
        else:
            self._packed.append(self._kernels.hash_work([work], 1, hash_before_key, hash_of_key)[0])

    def _take_plain(self, window: bytes, begin: int) -> tuple[int, bool]:
        """Fast path: take the plain records from a position on, up to any other.

        Return the end of the last one, and whether these are enough for a step.
        """
        offset = self._next_offset + begin
        if self._read_log_keys is not None:
            keys, end = self._read_log_keys(window, begin, offset, _KEYS_PER_STEP)
            if keys:
                self._packed.append(keys)
            return end, len(keys) >= _KEYS_PER_STEP * KEY_SIZE
        records = self._known.take(window, begin, len(window), offset, count_max=len(window), check_crc=False)
        if not records:
            return begin, False
        runs, _, physical_offsets, sizes, timestamps_ms, texts = zip(*records, strict=True)
        all_keys = PropertyColumns(texts).index_keys()
        work = zip([run.topic for run in runs], all_keys, physical_offsets, timestamps_ms, strict=True)
        self._index.pending += work if all(all_keys) else [each for each in work if each[1]]
        return physical_offsets[-1] + sizes[-1] - self._next_offset, False


class CatchUp(Protocol):
    """A pass over the log in steps, as the service drives it."""

    @property
    def behind_bytes(self) -> int:
        """Bytes of the log that are left to read."""
        ...

    async def step(self) -> bool:
        """Read on for about a millisecond; False at the end. A step that is blocked by a shortage changes nothing."""
        ...


class ReputMessageService:
    """Runs one catch-up to its end."""

    def __init__(self, *, catch_up: CatchUp) -> None:
        self._catch_up = catch_up

    @property
    def behind_bytes(self) -> int:
        """Bytes of the log that are left to read."""
        return self._catch_up.behind_bytes

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run until the index has everything. StoreError ends it; during a shortage it waits."""
        task_status.started()
        behind_bytes = self._catch_up.behind_bytes
        while await self._catch_up.step():
            # Every step ends with a checkpoint, so that requests are served in between. If as much is left as before,
            # the step found no space; or as much was appended meanwhile, and then a pause does no harm.
            left = self._catch_up.behind_bytes
            await trio.sleep(0 if left != behind_bytes else _PAUSE_SECONDS)
            behind_bytes = left
