"""Recovery of one ConsumeQueue: where its units end, which of them to keep, and what to clear.

A :class:`QueueRecovery` exists only until the store is open; the queue itself keeps no state of its recovery. It holds
what was read of the queue's last file, because a store may have tens of thousands of queues and descriptors for a few
hundred. Rule: what is dropped is cleared durably before other units are written there, and the mark of a running
recovery is on the disk before anything is cleared. Which units are right is for the dispatcher, which has the records.
Everything here blocks.

Compatibility: ``ConsumeQueue.recover``, ``truncateDirtyLogicFiles`` and ``correctMinOffset`` (4.9.8), which move
positions and clear nothing.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterator, Sequence

from rocketpy.store.disk.interface import Disk
from rocketpy.store.layout import PRE_BLANK_SIZE, UNIT, UNIT_SIZE
from rocketpy.store.queue.consume_queue import ConsumeQueue
from rocketpy.store.queue.end import (
    FoundUnits,
    Unit,
    columns,
    find_end,
    first_at_or_after,
    first_torn,
    may_be_torn,
    physical_end,
)
from rocketpy.store.queue.extension import is_ext_address
from rocketpy.store.queue.table import ConsumeQueueTable
from rocketpy.store.read.steps import read_now
from rocketpy.store.recovery.last_stop import QueueEnd

_STALE_UNITS = 64  # read at once, and kept for every queue with records in the walk


class QueueRecovery:
    """The recovery of one queue."""

    __slots__ = ("_before_clearing", "_disk", "_found", "_maybe_torn_from", "_stale", "built_end", "queue")

    def __init__(self, queue: ConsumeQueue, *, disk: Disk, before_clearing: Callable[[], None]) -> None:
        self.queue = queue
        self.built_end = 0  # records up to this physical offset have their units
        self._disk = disk
        self._before_clearing = before_clearing
        self._found: FoundUnits | None = None  # the units that recover() has read, as far as they are unchanged
        self._maybe_torn_from = 0  # units before this queue offset are whole, whatever their tags codes are
        self._stale = (0, b"")  # some units as an earlier run left them, from a queue offset on

    def __repr__(self) -> str:
        return f"QueueRecovery({self.queue!r})"

    # ---- what is there --------------------------------------------------------------------------------------------

    def recover(
        self, *, is_clean: bool, file_size: int, was_only_killed: bool = False, trusts_clear: bool = True
    ) -> None:
        """Find the end: after the last valid unit. ``file_size`` is what files of this store usually have.

        After a clean shutdown everything before the end is valid, so bisection finds it; after a kill too, but a part
        of the next unit may be there. After a loss of power any page may be missing: the last three files are walked up
        to the first unit that is not valid.
        """
        queue, files = self.queue, self.queue.files
        queue.min_offset = files.min_offset // UNIT_SIZE
        end, units, is_clear = find_end(list(files), is_clean=is_clean or was_only_killed)
        if was_only_killed and not is_clean:
            is_clear = is_clear and self._is_no_unit_begun(end)
        if files:
            # The last file may be short: a recovery was killed between the two truncates of _clear_from. After a
            # clean shutdown a short single file keeps its length, unless a recovery since then was killed.
            last = files[-1]
            if len(files) > 1:
                file_size = files[-2].size
            elif end == last.end_offset:
                file_size = queue.file_size
            odd = last.size % UNIT_SIZE
            may_be_cut = not is_clean or not trusts_clear or len(files) > 1
            if (last.size < file_size and may_be_cut) or odd:
                # Not clear: bytes past the short end may be on the disk still, and must be cleared with a sync.
                last.size, is_clear = max(last.size - odd, file_size), False
        queue.set_end(end // UNIT_SIZE)
        # Preliminary: after a crash rewind() takes back what the checkpoint does not know to be durable.
        queue.flushed_offset = queue.max_offset
        # A kill may have ended the write of the last unit within it, and no sector is older than what was written: so
        # of a queue without tags not every 25th unit is taken for a torn one, and made again of its record.
        self._maybe_torn_from = queue.max_offset - 1 if was_only_killed else 0
        first = queue.max_offset - len(units) // UNIT_SIZE
        self._found = FoundUnits(first, units, queue.max_offset, queue.max_offset if is_clear else None)

    def _is_no_unit_begun(self, position: int) -> bool:
        """Whether no byte of a unit is there at the end of the queue: a kill may have ended the write of one."""
        mapped_file = self.queue.files.find(position)
        if mapped_file is None:
            return True
        return not any(mapped_file.file().read(position - mapped_file.base_offset, UNIT_SIZE))

    def unit_at(self, queue_offset: int) -> Unit:
        """Return (physical offset, size, tags code) of a unit, from memory if it is one of the last."""
        unit = None if self._found is None else self._found.unit_at(queue_offset)
        return self.queue.unit_at(queue_offset) if unit is None else unit

    def physical_end(self) -> int:
        """Return where the record of the last unit ends, 0 without one."""
        return physical_end(self.queue.files.min_offset, self.queue.max_offset, self.unit_at)

    def ends_before(self, physical_offset: int) -> int:
        """Return where the last record ends that begins before an offset, 0 without one."""
        queue_offset = self.first_at_or_after(physical_offset)
        return physical_end(self.queue.files.min_offset, queue_offset, self.unit_at)

    def end(self) -> QueueEnd:
        """Return begin and end of the queue, for the rules of :mod:`~rocketpy.store.recovery.last_stop`."""
        queue = self.queue
        return QueueEnd(queue.topic, queue.queue_id, queue.files.min_offset, queue.max_offset, self.physical_end)

    def first_at_or_after(self, physical_offset: int) -> int:
        """Return the first queue offset whose record is at or after a physical offset, or ``max_offset``."""
        low, high = self.queue.files.min_offset // UNIT_SIZE, self.queue.max_offset
        found = self._found
        # The answer is mostly among the last units, which are in memory: with tens of thousands of queues no file is
        # opened a second time for it.
        if found is not None and found.end >= high > found.first:
            first = found.unit_at(found.first)
            if found.first == low or (first is not None and first[0] < physical_offset):
                return first_at_or_after(physical_offset, found.first, high, self.unit_at)
        return read_now(self.queue.search(low, physical_offset))[0]

    # ---- what is kept ---------------------------------------------------------------------------------------------

    def rewind(self, queue_offset: int) -> None:
        """Go back to an offset, to write units from there on again; until then :meth:`stale_units` has the old ones.

        Nothing from there on counts as durable, whatever the files have: after a kill it may be in memory only.
        """
        queue, found = self.queue, self._found
        if found is not None:
            if queue.max_offset > found.end:
                self._found = None  # units were written since
            else:
                found.end = queue_offset
        if queue_offset < queue.max_offset or queue_offset * UNIT_SIZE <= queue.files.min_offset:
            queue.has_new_file = True  # its directory entry may never have been synced: the next flush does it
        queue.set_end(queue_offset)
        queue.flushed_offset = queue_offset
        if queue.ext is not None:
            queue.ext.reset_flushed_offset(queue.last_tags_code(self.unit_at))

    def stale_units(self, queue_offset: int, count: int) -> bytes:
        """Return the bytes at the position of units, as an earlier run left them; fewer at the end of a file."""
        stale = None if self._found is None else self._found.stale(queue_offset, count)
        if stale is not None:
            return stale
        mapped_file = self.queue.files.find(queue_offset * UNIT_SIZE)
        if mapped_file is None:
            return b""
        position = queue_offset * UNIT_SIZE - mapped_file.base_offset
        return mapped_file.file().read(position, min(count * UNIT_SIZE, mapped_file.size - position))

    def stale_tags_code(
        self, queue_offset: int, physical_offset: int, size: int, store_timestamp_ms: int
    ) -> int | None:
        """Return the tagsCode field that an earlier run left for a record; None if it is not surely that record's.

        Its writer knew it best: the time of delivery of a delayed message, the address of an extension.
        """
        first, stale = self._stale
        position = (queue_offset - first) * UNIT_SIZE
        if not 0 <= position < len(stale):
            first, position = queue_offset, 0
            stale = self.stale_units(queue_offset, _STALE_UNITS)
            self._stale = first, stale
        if position + UNIT_SIZE > len(stale):
            return None
        found_offset, found_size, tags_code = UNIT.unpack_from(stale, position)
        is_its_own = found_offset == physical_offset and found_size == size
        return tags_code if is_its_own and self._is_whole(queue_offset, tags_code, store_timestamp_ms) else None

    def adopt_units(self, physical_offsets: Sequence[int], sizes: Sequence[int]) -> int:
        """Keep the units that an earlier run left for these records; return the number of records that have theirs.

        They do not count as durable. It stops at a record that must be checked alone: see :meth:`stale_tags_code`.
        """
        queue, adopted = self.queue, 0
        while adopted < len(sizes):
            fields = columns(self.stale_units(queue.next_offset, len(sizes) - adopted))
            count = len(fields) // 3
            expected = slice(adopted, adopted + count)
            offsets_match = fields[::3] == tuple(physical_offsets[expected])
            if not count or not offsets_match or fields[1::3] != tuple(sizes[expected]):
                break
            tags_codes = fields[2::3]
            if is_ext_address(min(tags_codes)):
                break  # the address may lead to a lost or torn extension: only the record's own time can tell
            mapped_file = queue.files.find(queue.next_offset * UNIT_SIZE)
            assert mapped_file is not None, queue
            position = queue.next_offset * UNIT_SIZE - mapped_file.base_offset
            whole = min(max(0, self._maybe_torn_from - queue.next_offset), count)
            taken = whole + first_torn(position + whole * UNIT_SIZE, tags_codes[whole:])
            adopted += taken
            if self._found is not None:
                self._found.adopt(queue.next_offset, queue.next_offset + taken)
            queue.set_end(queue.next_offset + taken)
            if taken < count:
                break
        return adopted

    def _is_whole(self, queue_offset: int, tags_code: int, store_timestamp_ms: int) -> bool:
        """Whether the tagsCode field of a unit found after a crash is surely intact.

        It may be torn itself, or the address of an extension that is lost or torn.
        """
        position = queue_offset * UNIT_SIZE
        mapped_file = self.queue.files.find(position)
        is_suspect = queue_offset >= self._maybe_torn_from
        if is_suspect and may_be_torn(position - (0 if mapped_file is None else mapped_file.base_offset), tags_code):
            return False
        if not is_ext_address(tags_code):
            return True
        return self.queue.ext is not None and self.queue.ext.holds(tags_code, store_timestamp_ms)

    # ---- what is dropped ------------------------------------------------------------------------------------------

    def truncate(self, queue_offset: int, *, trusts_clear: bool = True) -> None:
        """Drop the units from an offset on, and clear their bytes: a later recovery must not find them.

        Bytes that read as zero are left alone, unless they may be zero in the page cache only.
        """
        queue = self.queue
        if not (trusts_clear and self._is_clear_from(queue_offset)):
            self._clear_from(queue_offset)
        queue.set_end(queue_offset)
        if queue.ext is not None:
            queue.ext.forget_end()
            if queue.ext.files:
                self._before_clearing()
                queue.ext.begin(queue.last_tags_code(self.unit_at), trusts_clear=trusts_clear)

    def remove_files(self) -> None:
        """Delete everything, durable on return.

        Units that came back with the next loss of power could match physical offset and size of records written since,
        and would give those a foreign tags code.
        """
        queue = self.queue
        self._before_clearing()  # first: a kill from here on leaves the mark, so that the next recovery syncs the rest
        queue.files.remove_all()
        directories = [queue.files.path]
        if queue.ext is not None:
            queue.ext.files.remove_all()
            directories.append(queue.ext.files.path)
        for directory in directories:
            if self._disk.is_directory(directory):
                self._disk.sync_directory(directory)
        # The directories were synced before they are removed themselves, so no file comes back. The syncs of their
        # parents make the removal of the directories durable too.
        queue.remove_files()
        self._found = None
        for directory in map(os.path.dirname, directories):
            if self._disk.is_directory(directory):
                self._disk.sync_directory(directory)

    def correct_min_offset(self, log_min_offset: int) -> None:
        """Move ``min_offset`` to the first unit whose message is still in the log: what ends a queue's recovery."""
        queue = self.queue
        if queue.max_offset > queue.min_offset:
            physical_offset, size, _ = self.unit_at(queue.min_offset)
            # Only if the first unit's message is gone: usually it is not, and the search would read several pages.
            if size == PRE_BLANK_SIZE or 0 <= physical_offset < log_min_offset:
                queue.min_offset = self.first_at_or_after(log_min_offset)
        if queue.writes_ext and queue.files:
            queue.begin_ext(self.unit_at)  # it may read, clear and sync: better here than with the first message
        self._found = None

    def _is_clear_from(self, queue_offset: int) -> bool:
        """Whether all bytes from a queue offset on are known to be zero."""
        clear_from = None if self._found is None else self._found.clear_from
        return clear_from is not None and queue_offset >= max(clear_from, self.queue.max_offset)

    def _clear_from(self, queue_offset: int) -> None:
        """Make all bytes from a queue offset on zero, durably.

        Records of the same sizes may soon have the physical offsets of those whose units are dropped here. A unit that
        came back then would match one of them, and its tags code would be served for it.
        """
        # The order matters. The mark comes first: after a kill before the syncs below, the page cache has zeros and the
        # disk has the old units, and only the mark makes the next recovery sync. Between the two truncates the file is
        # short, which recover() repairs. The directory is synced last, because that covers every file that was removed.
        self._before_clearing()
        queue, end = self.queue, queue_offset * UNIT_SIZE
        queue.files.remove_after(end)
        mapped_file = queue.files.find(end)
        if mapped_file is not None:
            file = mapped_file.file()
            file.truncate(end - mapped_file.base_offset)
            file.truncate(mapped_file.size)
            file.sync()
        if self._disk.is_directory(queue.files.path):
            self._disk.sync_directory(queue.files.path)
        # The file that holds the end counts as unflushed, so that the next flush syncs it with its directory.
        queue.has_new_file = True
        queue.flushed_offset = min(queue.flushed_offset, max(0, queue_offset - 1))
        if self._found is not None:
            self._found.cut(queue_offset)


class QueueRecoveries:
    """The recovery of every queue of a store, each made when it is first asked for."""

    def __init__(self, queues: ConsumeQueueTable, *, disk: Disk, before_clearing: Callable[[], None]) -> None:
        self._queues = queues
        self._disk = disk
        self._before_clearing = before_clearing
        self._by_queue: dict[ConsumeQueue, QueueRecovery] = {}

    def find(self, topic: str, queue_id: int) -> QueueRecovery:
        """Return the recovery of a queue; both are made if they are new."""
        return self._of(self._queues.find(topic, queue_id))

    def __iter__(self) -> Iterator[QueueRecovery]:
        return map(self._of, self._queues)

    def _of(self, queue: ConsumeQueue) -> QueueRecovery:
        recovery = self._by_queue.get(queue)
        if recovery is None:
            recovery = QueueRecovery(queue, disk=self._disk, before_clearing=self._before_clearing)
            self._by_queue[queue] = recovery
        return recovery
