"""The index of a store: keys of messages come in as they are appended, and are built into files a little later.

Append only adds tuples to :attr:`IndexService.pending`. ``end_burst`` builds a slice of them when there is one, which
costs less than to wake a task for it; the service builds the rest, some milliseconds after it came. So the index lags,
and ``behind`` is the lag in messages; a query builds what is pending before it searches. When more than ``PENDING_MAX``
keys wait, ``end_burst`` builds more before it returns: backpressure on appends that are faster than the index. A batch
may bring more keys than that, so it is put only while not too many wait (:attr:`IndexService.is_full`), and memory
stays bounded.

A file that is full is synced in a worker thread, and then the checkpoint says so. After a crash only files that it
covers are kept; :attr:`IndexService.end_physical_offset` says where in the log the rest begins, for
ReputMessageService to read again. A shortage of space or descriptors stops building, not the store:
:meth:`IndexService.writable_or_why` has the reason, appending must be refused while it has one, and building goes on
when the shortage is over.

Compatibility: ``IndexService`` (4.9.8), the same bytes for the same messages. RocketMQ loses what was in the unfinished
file unless it was dispatched by recovery; here it is rebuilt. It deletes files of other sizes only by hand; here they
are left alone, and a new file begins.

Compose::

    index = IndexService(files=IndexFileList(...), ...)
    index.load(is_clean=...)                    before recovery; blocks
    MessageAppender(index_work=index.pending)   and index.end_burst() at the end of each burst
    await nursery.start(index.run)
    await run_blocking(index.flush)             at a clean shutdown, when run is cancelled and nothing is appended
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import attrs
import trio

from rocketpy.errors import ShortageError
from rocketpy.protocol.properties import INDEX_KEYS_MAX
from rocketpy.runner import RunBlocking
from rocketpy.store.disk.interface import Disk
from rocketpy.store.index.feed import IndexWork
from rocketpy.store.index.file import ChainSteps, IndexFile, IndexHeader, select_physical_offsets
from rocketpy.store.index.file_list import IndexFileList, LeadsTo, NotedIndexFile, leads_anywhere
from rocketpy.store.index.hash import hash_index_key
from rocketpy.store.index.hashed_keys import Keys, PackedKeys, count_keys, hashed_keys
from rocketpy.store.index.kernels import KERNELS, KEY_SIZE, IndexKernels

PENDING_MAX = 16_384
"""Limit of pending keys before a batch is put, about 4 MB."""

_SLICES_PER_BURST = 16
"""So many slices a burst builds when too many keys wait: as many keys as single messages bring in a burst. The burst
that has brought them builds one: if it was of a batch, that has taken long enough."""

_SLICE = 512
"""So many keys, of whole messages, are built between two looks at other tasks: 0.3 ms (0.05 ms by the kernels), or 2 ms
where the disk has to catch up."""

_SURELY_NOT_FULL = PENDING_MAX // INDEX_KEYS_MAX
"""Messages whose keys need not be counted, because a message has INDEX_KEYS_MAX keys at most."""

_COLLECT_SECONDS = 0.01
_NO_SPACE_SECONDS = 1.0
_FOREVER = 1 << 62


@attrs.frozen
class QueryOffsetResult:
    """Offsets that the index has for a key, newest first, and up to where the index is built."""

    physical_offsets: list[int]
    index_last_update_timestamp_ms: int
    index_last_update_physical_offset: int


@attrs.frozen
class IndexStatistics:
    """Counters since the start."""

    file_count: int
    key_count: int
    behind: int
    slice_count: int


class IndexService:
    """All index files of one store."""

    def __init__(
        self,
        *,
        files: IndexFileList,
        disk: Disk,
        run_blocking: RunBlocking,
        query_count_max: int,
        kernels: IndexKernels | None = KERNELS,
    ) -> None:
        self.pending: list[IndexWork] = []
        """Messages from append, in log order. The list stays the same one; only this service removes."""
        self._counted = 0  # messages of ``pending`` that are counted in _pending_keys
        self._pending_keys = 0
        self._taken_count = 0  # messages taken from ``pending``, ever
        self._files = files
        self._disk = disk
        self._run_blocking = run_blocking
        self._query_count_max = query_count_max
        self._kernels = kernels
        self._left_over: Keys | None = None  # hashed, and not in a file because the disk was full
        self._no_space: str | None = None
        self._complete_to = -1  # messages up to here are in the files with all their keys, and not added again
        self._idle = trio.lowlevel.ParkingLot()
        self._readers: Counter[IndexFile] = Counter()  # files that queries look into
        self._readers_gone = trio.lowlevel.ParkingLot()
        self._key_count = 0
        self._slice_count = 0

    # ---- for the appender -----------------------------------------------------------------------------------------

    def end_burst(self, *, has_packed: bool = False) -> None:
        """Take notice of what was added to ``pending``. Builds a slice if there is one, more when too much waits."""
        count = len(self.pending)
        if count:
            if self._idle:
                self._idle.unpark()
            if has_packed or count > _SURELY_NOT_FULL or self.is_full:
                self._build_some()

    @property
    def is_full(self) -> bool:
        """Whether too many keys are pending for a batch to add more."""
        return self._pending_keys > PENDING_MAX

    async def wait_room(self) -> None:
        """Build until :attr:`is_full` is False, or there is no space."""
        while self.is_full and self._no_space is None:
            self.build_slice()
            await trio.lowlevel.checkpoint()

    def writable_or_why(self) -> str | None:
        """Return None, or why no message may be appended: there is no space for its keys."""
        return self._no_space

    @property
    def behind(self) -> int:
        """Lag of the index: messages whose keys are not built yet; a batch may count as one."""
        return len(self.pending) + (self._left_over is not None)

    @property
    def end_physical_offset(self) -> int:
        """Physical offset of the last message in the files: to catch up, read the log from there on; 0 without files.

        That message itself may lack keys after a crash, and is indexed again then; after a clean shutdown it is not.
        """
        return self._files.end_physical_offset

    # ---- start and end --------------------------------------------------------------------------------------------

    @property
    def noted_file(self) -> NotedIndexFile | None:
        """The last file, as :attr:`IndexFileList.noted_file` names it."""
        return self._files.noted_file

    def load(
        self,
        *,
        is_clean: bool,
        log_end_offset: int = _FOREVER,
        noted: NotedIndexFile | None = None,
        leads_to: LeadsTo = leads_anywhere,
    ) -> str:
        """Find the files, and delete those that may be wrong: see :meth:`IndexFileList.load`. Blocks."""
        why = self._files.load(is_clean=is_clean, log_end_offset=log_end_offset, noted=noted, leads_to=leads_to)
        if is_clean and self._files:
            self._complete_to = self.end_physical_offset
        return why

    def repair(self) -> Iterator[None]:
        """Repair what a kill has left, when a note was believed; yields about every 10 ms. Blocks."""
        yield from self._files.repair()

    def flush(self) -> None:
        """Build everything and make it durable: for a clean shutdown. Blocks. A shortage leaves keys unbuilt."""
        self.build()
        if self._no_space is not None:
            return
        try:
            self._files.sync_all()
        except ShortageError as error:
            self._no_space = f"the index cannot be synced: {error}"

    def close(self) -> None:
        """Give all descriptors back."""
        self._files.close()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Build what comes until cancelled; StoreError ends it, a shortage does not."""
        task_status.started()
        is_short = False
        while True:
            while not self.behind and not self._files.unsynced:
                await self._idle.park()
            await trio.sleep(_NO_SPACE_SECONDS if self._no_space is not None or is_short else _COLLECT_SECONDS)
            self._no_space = None
            while self._can_build():
                self.build_slice()
                await trio.lowlevel.checkpoint()
            try:
                await self._files.sync_full_files(self._run_blocking)
                is_short = False
            except ShortageError:
                is_short = True

    # ---- building -------------------------------------------------------------------------------------------------

    def build(self) -> None:
        """Build everything that is pending, as far as there is space."""
        self._no_space = None
        while self._can_build():
            self.build_slice()

    def _can_build(self) -> bool:
        """Return whether something is pending and the last slice found space."""
        return bool(self.behind) and self._no_space is None

    def build_slice(self) -> None:
        """Build some pending messages. StoreError is final."""
        self._slice_count += 1
        try:
            keys, self._left_over = self._left_over or self._take_keys(), None
            if keys is not None:
                self._put(keys)
        except ShortageError as error:
            self._no_space = f"the index has no space: {error}"

    def build_packed(self, keys: bytes, kernels: IndexKernels) -> None:
        """Build keys that the kernels have read from the log, while append gives none. StoreError is final.

        What a shortage leaves unbuilt is kept; give no more while there is one.
        """
        self._idle.unpark()
        while self._can_build():
            self.build_slice()
        while keys and int.from_bytes(keys[4:12]) <= self._complete_to:
            keys = keys[KEY_SIZE:]
        if self._left_over is not None:
            self._left_over = PackedKeys(self._left_over.packed() + keys, kernels)
            return
        try:
            self._put(PackedKeys(keys, kernels))
        except ShortageError as error:
            self._no_space = f"the index has no space: {error}"

    def _build_some(self) -> None:
        slices_max = _SLICES_PER_BURST if self.is_full else 1
        self._count_keys()
        if self._pending_keys >= _SLICE:
            for _ in range(slices_max):
                if self._no_space is not None:
                    break
                self.build_slice()
                if not self.is_full:
                    break

    def _count_keys(self) -> None:
        """Count the keys of what was added since the last time; once for each message, because it is for each burst."""
        if self._counted < len(self.pending):
            self._pending_keys += count_keys(self.pending, self._counted, self._kernels)
            self._counted = len(self.pending)

    def _take_keys(self) -> Keys | None:
        """Take messages with about _SLICE keys from ``pending``, at least one message; None if none is left."""
        pending = self.pending
        if pending and pending[0][2] <= self._complete_to:
            known = next((number for number, work in enumerate(pending) if work[2] > self._complete_to), len(pending))
            self._drop(known, count_keys(pending[:known], 0, self._kernels))
        if not pending:
            return None
        keys, message_count = hashed_keys(pending, _SLICE, self._kernels)
        self._drop(message_count, keys.key_count)
        return keys

    def _drop(self, message_count: int, key_count: int) -> None:
        """Remove the first messages from ``pending``; most of them were never counted."""
        del self.pending[:message_count]
        self._taken_count += message_count
        self._counted = max(0, self._counted - message_count)
        self._pending_keys = self._pending_keys - key_count if self._counted else 0

    def _put(self, keys: Keys) -> None:
        keys = keys.distinct()
        done, count = 0, keys.key_count
        try:
            while done < count:
                index_file = self._files.writable_file()
                end = min(count, done + index_file.room)
                keys.put(index_file, done, end)
                self._key_count += end - done
                done = end
        except ShortageError:
            self._left_over = keys.after(done)
            raise

    # ---- queries --------------------------------------------------------------------------------------------------

    async def query_offset(
        self,
        topic: str,
        key: str,
        count_max: int,
        begin_timestamp_ms: int,
        end_timestamp_ms: int,
        steps: ChainSteps | None = None,
    ) -> QueryOffsetResult:
        """Return log offsets of messages with a key, stored in a period; newest first.

        Different keys may share a hash, so what is found is to be checked, or left to the client as in RocketMQ.
        ``steps`` are those that the query has left, all by default; if they are used up, there may be more.
        """
        asked_at = self._taken_count + len(self.pending)
        while (self._taken_count < asked_at or self._left_over is not None) and self._no_space is None:
            self.build_slice()
            await trio.lowlevel.checkpoint()
        snapshot = [(index_file, index_file.header) for index_file in reversed(self._files)]
        if not snapshot:
            return QueryOffsetResult([], 0, 0)
        last = snapshot[0][1]
        files = [index_file for index_file, _ in snapshot]
        self._readers.update(files)
        try:
            found = await self._run_blocking(
                self._select,
                snapshot,
                hash_index_key(topic, key),
                min(count_max, self._query_count_max),
                begin_timestamp_ms,
                end_timestamp_ms,
                steps or ChainSteps(),
            )
        finally:
            self._readers -= Counter(files)
            self._readers_gone.unpark_all()
        return QueryOffsetResult(found, last.end_timestamp_ms, last.end_physical_offset)

    # ---- deletion -------------------------------------------------------------------------------------------------

    async def delete_expired_files(self, log_min_offset: int) -> int:
        """Delete leading files all of whose messages are before a physical offset; return how many.

        Never the last one, nor one that is still to be synced. Queries find nothing in them at once; a running one goes
        on. A loss of power may bring some back, which is harmless: their records are no longer in the log.
        """
        count = 0
        while (index_file := self._files.take_expired(log_min_offset)) is not None:
            while self._readers[index_file]:
                await self._readers_gone.park()
            index_file.close()
            await self._run_blocking(self._disk.unlink, index_file.path)
            count += 1
        return count

    def statistics(self) -> IndexStatistics:
        """Return the counters."""
        return IndexStatistics(len(self._files), self._key_count, self.behind, self._slice_count)

    def _select(
        self,
        newest_first: list[tuple[IndexFile, IndexHeader]],
        key_hash: int,
        count_max: int,
        begin_timestamp_ms: int,
        end_timestamp_ms: int,
        steps: ChainSteps,
    ) -> list[int]:
        found: list[int] = []
        for index_file, header in newest_first:
            if header.is_time_matched(begin_timestamp_ms, end_timestamp_ms):
                found += select_physical_offsets(
                    self._disk,
                    index_file,
                    header,
                    key_hash,
                    count_max - len(found),
                    begin_timestamp_ms,
                    end_timestamp_ms,
                    steps,
                )
            if header.begin_timestamp_ms < begin_timestamp_ms or len(found) >= count_max or steps.is_short:
                break
        return found
