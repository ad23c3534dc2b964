"""ConsumeQueue: one queue of a topic, a unit of fixed size per message with its physical offset.

Units are collected by append in :attr:`ConsumeQueue.units` and written once per burst. Rules: unit n is at byte n * 20;
readers see only what is written (``max_offset``), append counts in ``next_offset``; the space of a unit is reserved
before its message is accepted, so that a full disk refuses messages instead of losing units, and its file is open then
and stays so until the unit is written: without descriptors messages are refused too. Files have their full length from
the beginning, but are sparse: space is reserved in small steps. An idle queue holds no descriptor, and a queue that
never had a message has no directory.
"""

from __future__ import annotations

import os.path
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from rocketpy.store import layout
from rocketpy.store.disk.interface import Disk, DiskFile, remove_directory_if_empty
from rocketpy.store.files.mapped_file import MappedFile, OpenFiles
from rocketpy.store.files.mapped_file_queue import MappedFileQueue
from rocketpy.store.files.sparse_file import add_sparse_file, reserve_step
from rocketpy.store.layout import PRE_BLANK_SIZE, UNIT, UNIT_SIZE
from rocketpy.store.queue.end import FoundUnits, columns, find_end, first_torn, may_be_torn
from rocketpy.store.queue.extension import ConsumeQueueExt, CqExtUnit, ExtPlace, is_ext_address
from rocketpy.store.read.steps import Steps, read_now


class ConsumeQueue:
    """A queue. The first block of attributes is for the appender, which changes them in its fast path."""

    __slots__ = (
        "_before_clearing",
        "_disk",
        "_ext_place",
        "_file_size",
        "_found",
        "_open_files",
        "_space_end",
        "ext",
        "files",
        "flushed_offset",
        "has_new_file",
        "is_expecting",
        "max_offset",
        "min_offset",
        "next_offset",
        "queue_id",
        "reserved_offset",
        "tails",
        "topic",
        "units",
    )

    def __init__(
        self,
        topic: str,
        queue_id: int,
        *,
        tails: dict[int, bytes],
        path: str,
        disk: Disk,
        open_files: OpenFiles,
        file_size: int,
        ext_place: ExtPlace | None = None,
        before_clearing: Callable[[], None] | None = None,
    ) -> None:
        self.next_offset = 0  # of the next message; units of those before it are written or in ``units``
        self.reserved_offset = 0  # units before it have their space, in files that are open
        self.units: list[bytes] = []
        self.tails = tails  # shared by a topic: the end of a record, by the size of its properties

        self.topic = topic
        self.queue_id = queue_id
        self.max_offset = 0  # units before it are written
        self.min_offset = 0  # the first unit whose message is still in the log
        self.flushed_offset = 0
        self.has_new_file = False  # whose directory entry is not synced yet
        self.is_expecting = False  # room is made for units that come at once, of one message in several queues
        self._space_end = 0  # units before it have their space
        self.files = MappedFileQueue(path=path, disk=disk, open_files=open_files, writer=self)
        self.ext: ConsumeQueueExt | None = None  # what more it knows of its messages, once it has or gets any of it
        self._disk = disk
        self._open_files = open_files
        self._file_size = file_size
        self._ext_place = ext_place
        self._before_clearing = before_clearing
        self._found: FoundUnits | None = None  # during recovery: what it read

    def __repr__(self) -> str:
        return f"ConsumeQueue({self.topic!r}, {self.queue_id}, {self.min_offset}..{self.max_offset})"

    # ---- append ---------------------------------------------------------------------------------------------------

    def make_room(self, count: int) -> None:
        """Reserve space for the next units, in new files where it must be, and open the files.

        They stay open until the units are written, and until then while ``is_expecting``. ShortageError loses nothing.
        """
        while self.reserved_offset < self.next_offset + count:
            begin = self.reserved_offset * UNIT_SIZE
            mapped_file = self.files.find(begin) or self._add_file(begin)
            mapped_file.file()
            if self.reserved_offset >= self._space_end:
                end = reserve_step(mapped_file, begin - mapped_file.base_offset)
                self._space_end = (mapped_file.base_offset + end) // UNIT_SIZE
            self.reserved_offset = min(self._space_end, mapped_file.end_offset // UNIT_SIZE)

    @property
    def has_pending(self) -> bool:
        """Whether units are accepted, or about to be, that are not written yet."""
        return bool(self.units) or self.is_expecting

    def file_closed(self, mapped_file: MappedFile) -> None:
        """Make room again before the next unit, if the file is one that it goes to."""
        if mapped_file.end_offset > self.next_offset * UNIT_SIZE:
            self.reserved_offset = min(self.reserved_offset, self.next_offset)

    @property
    def writes_ext(self) -> bool:
        """Whether new units get an extension."""
        return self._ext_place is not None and self._ext_place.is_written

    def extended_tags_code(self, tags_code: int, store_timestamp_ms: int, bit_map: bytes | None) -> int:
        """Return what goes into the tagsCode field of the next unit: an address if the queue has an extension.

        The unit at the address is written with the units. When there is no space for it, the plain tags code counts.
        """
        if not self.writes_ext:
            return tags_code
        address = self._begun_ext().put(CqExtUnit(tags_code, store_timestamp_ms, bit_map or b""))
        return tags_code if address is None else address

    def write_units(self) -> None:
        """Write the collected units: then readers see them. StoreError is final."""
        if self.ext is not None:
            self.ext.write_units()
        units = self.units
        content = b"".join(units)
        units.clear()
        self._write(self.max_offset * UNIT_SIZE, content)
        self.max_offset += len(content) // UNIT_SIZE

    def start_at(self, queue_offset: int) -> None:
        """Let a queue without files begin past 0: the messages before are no longer in the log."""
        assert not self.files, self
        self._set_end(queue_offset)
        self.min_offset = self.flushed_offset = queue_offset

    # ---- read -----------------------------------------------------------------------------------------------------

    def locate(self, queue_offset: int, count: int) -> tuple[MappedFile, int, int]:
        """Return file, position and size of at most ``count`` units, up to the end of that file.

        The offset lies between the first file's first unit and ``max_offset``.
        """
        begin = queue_offset * UNIT_SIZE
        mapped_file = self.files.find(begin)
        assert mapped_file is not None, (self, queue_offset)
        end = min(begin + count * UNIT_SIZE, self.max_offset * UNIT_SIZE, mapped_file.end_offset)
        return mapped_file, begin - mapped_file.base_offset, end - begin

    def unit_at(self, queue_offset: int) -> tuple[int, int, int]:
        """Return (physical offset, size, tags code) of a written unit. Blocks if it is cold."""
        unit = None if self._found is None else self._found.unit_at(queue_offset)
        if unit is not None:
            return unit
        mapped_file, position, _ = self.locate(queue_offset, 1)
        return UNIT.unpack(mapped_file.file().read(position, UNIT_SIZE))

    def ext_unit(self, tags_code: int) -> CqExtUnit | None:
        """Return the extension that a unit's tagsCode field leads to, None for a plain one or a lost one. Blocks."""
        return self.ext.get(tags_code) if self.ext is not None and is_ext_address(tags_code) else None

    # ---- recovery: blocks, before the store is open ---------------------------------------------------------------

    def recover(self, *, is_clean: bool, file_size: int) -> None:
        """Find the end: after the last valid unit. ``file_size`` is what files of this store usually have.

        After a clean shutdown everything before the end is valid, so bisection finds it. After a crash any page may be
        missing: the last three files are walked up to the first unit that is not valid.
        """
        self.min_offset = self.files.min_offset // UNIT_SIZE
        end, units, is_clear = find_end(self.files, is_clean=is_clean)
        if self.files:
            # The last file may be short: a recovery was killed between the two truncates of _clear_from. After a
            # clean shutdown no crash of ours can have cut it, so a short single file keeps its length.
            last = self.files[-1]
            if len(self.files) > 1:
                file_size = self.files[-2].size
            elif end == last.end_offset:
                file_size = self._file_size
            odd = last.size % UNIT_SIZE
            if (last.size < file_size and (not is_clean or len(self.files) > 1)) or odd:
                last.size, is_clear = max(last.size - odd, file_size), False
        self._set_end(end // UNIT_SIZE)
        self.flushed_offset = self.max_offset
        first = self.max_offset - len(units) // UNIT_SIZE
        self._found = FoundUnits(first, units, self.max_offset, self.max_offset if is_clear else None)

    def first_at_or_behind(self, physical_offset: int) -> int:
        """Return the first queue offset whose record is at or after a physical offset, or ``max_offset``."""
        low, high = self.files.min_offset // UNIT_SIZE, self.max_offset
        found = self._found
        if found is not None and found.end >= high > found.first:
            first = found.unit_at(found.first)
            if found.first == low or (first is not None and first[0] < physical_offset):
                return bisect_left(range(high), True, found.first, key=partial(self._lies_at, physical_offset))
        return read_now(self._search(low, physical_offset))[0]

    def rewind(self, queue_offset: int) -> None:
        """Go back to an offset, to write units from there on again; until then :meth:`stale_units` has the old ones.

        Nothing from there on counts as durable, whatever the files have: after a kill it may be in memory only.
        """
        found = self._found
        if found is not None:
            if self.max_offset > found.end:
                self._found = None  # units were written since
            else:
                found.end = queue_offset
        if queue_offset < self.max_offset or queue_offset * UNIT_SIZE <= self.files.min_offset:
            self.has_new_file = True  # perhaps
        self._set_end(queue_offset)
        self.flushed_offset = queue_offset
        if self.ext is not None:
            self.ext.distrust(self._last_tags_code())

    def believes(self, queue_offset: int, tags_code: int, store_timestamp_ms: int) -> bool:
        """Whether the tagsCode field of a unit found after a crash surely says what it said of its record.

        It may be the address of an extension that is lost, or torn.
        """
        position = queue_offset * UNIT_SIZE
        mapped_file = self.files.find(position)
        if may_be_torn(position - (0 if mapped_file is None else mapped_file.base_offset), tags_code):
            return False
        if not is_ext_address(tags_code):
            return True
        return self.ext is not None and self.ext.holds(tags_code, store_timestamp_ms)

    def stale_units(self, queue_offset: int, count: int) -> bytes:
        """Return the bytes at the position of units, as an earlier run left them; fewer at the end of a file."""
        stale = None if self._found is None else self._found.stale(queue_offset, count)
        if stale is not None:
            return stale
        mapped_file = self.files.find(queue_offset * UNIT_SIZE)
        if mapped_file is None:
            return b""
        position = queue_offset * UNIT_SIZE - mapped_file.base_offset
        return mapped_file.file().read(position, min(count * UNIT_SIZE, mapped_file.size - position))

    def adopt_units(self, physical_offsets: Sequence[int], sizes: Sequence[int]) -> int:
        """Take the units at the end, as they stand in the files, for those of these records; return for how many they
        are. They do not count as durable. It stops where a record must be looked at: see :meth:`believes`.
        """
        adopted = 0
        while adopted < len(sizes):
            fields = columns(self.stale_units(self.next_offset, len(sizes) - adopted))
            count = len(fields) // 3
            expected = slice(adopted, adopted + count)
            places_match = fields[::3] == tuple(physical_offsets[expected])
            if not count or not places_match or fields[1::3] != tuple(sizes[expected]):
                break
            tags_codes = fields[2::3]
            if is_ext_address(min(tags_codes)):
                break
            mapped_file = self.files.find(self.next_offset * UNIT_SIZE)
            assert mapped_file is not None, self
            taken = first_torn(self.next_offset * UNIT_SIZE - mapped_file.base_offset, tags_codes)
            adopted += taken
            if self._found is not None:
                self._found.adopt(self.next_offset, self.next_offset + taken)
            self._set_end(self.next_offset + taken)
            if taken < count:
                break
        return adopted

    def truncate(self, queue_offset: int, *, trusts_clear: bool = True) -> None:
        """Drop the units from an offset on, and clear their bytes: a later recovery must not find them.

        Bytes that read as zero are left alone, unless they may be zero in the page cache only.
        """
        if not (trusts_clear and self._is_clear_from(queue_offset)):
            self._clear_from(queue_offset)
        self._set_end(queue_offset)
        if self.ext is not None:
            self.ext.forget_end()
            if self.ext.files:
                self._clears()
                self.ext.begin(self._last_tags_code(), trusts_clear=trusts_clear)

    def correct_min_offset(self, log_min_offset: int) -> None:
        """Move ``min_offset`` to the first unit whose message is still in the log: what ends a queue's recovery."""
        if self.max_offset > self.min_offset:
            physical_offset, size, _ = self.unit_at(self.min_offset)
            if size == PRE_BLANK_SIZE or 0 <= physical_offset < log_min_offset:  # else it begins where it did
                self.min_offset = self.first_at_or_behind(log_min_offset)
        if self.writes_ext and self.files:
            self._begun_ext()  # which may read, clear and sync: here, and not with the first message
        self._found = None

    def remove_files(self) -> None:
        """Delete everything: the queue is empty again. Foreign files stay, with their directory."""
        self.files.remove_all()
        remove_directory_if_empty(self._disk, self.files.path)
        if self.ext is not None:
            self.ext.remove_files()
        self.units.clear()
        self._found = None
        self._set_end(0)
        self.min_offset = self.flushed_offset = 0

    def remove_files_durably(self) -> None:
        """Delete everything, durable on return: for recovery. Blocks.

        Units that came back with the next loss of power could match physical offset and size of records written since,
        and would give those a foreign tags code.
        """
        self._clears()  # first: a kill from here on leaves the mark, so that the next recovery syncs what we did not
        self.files.remove_all()
        directories = [self.files.path]
        if self.ext is not None:
            self.ext.files.remove_all()
            directories.append(self.ext.files.path)
        for directory in directories:
            if self._disk.is_directory(directory):
                self._disk.sync_directory(directory)
        # The directories were synced while they were there: no file comes back. Now they go themselves, and the syncs
        # of their parents make that durable too.
        self.remove_files()
        for directory in map(os.path.dirname, directories):
            if self._disk.is_directory(directory):
                self._disk.sync_directory(directory)

    def load_ext(self) -> None:
        """Find the files of the extension."""
        self._make_ext().load()

    # ---- deletion -------------------------------------------------------------------------------------------------

    def find_min_offset(self, log_min_offset: int) -> Steps[tuple[int, int]]:
        """Return where ``min_offset`` belongs, and the tagsCode field of that unit: when the log has lost messages."""
        return self._search(self.min_offset, log_min_offset)

    def begin_at(self, min_offset: int) -> None:
        """Move ``min_offset``, never back: readers find nothing before it from now on."""
        self.min_offset = max(self.min_offset, min(min_offset, self.max_offset))

    def delete_expired_file(self, tags_code: int, close: Callable[[DiskFile], None]) -> str | None:
        """Delete the first file of queue or extension if it ends before ``min_offset``; never the last file.

        ``tags_code`` is the tagsCode field of that unit. Return the directory, None if there is no such file. It must
        be synced before the next one goes, because power that is lost in between must not leave a gap. ``close`` gets
        the descriptor, see :meth:`MappedFile.retire`.
        """
        if len(self.files) > 1 and self.files[0].end_offset <= self.min_offset * UNIT_SIZE:
            return self.files.remove_first(close).directory
        if self.ext is not None and is_ext_address(tags_code):
            return self.ext.delete_expired_file(tags_code, close)
        return None

    # ---- flush ----------------------------------------------------------------------------------------------------

    def hold_unflushed(self) -> Iterator[tuple[MappedFile, DiskFile]]:
        """Yield and hold the files with units that are not synced."""
        begin, end = self.flushed_offset * UNIT_SIZE, self.max_offset * UNIT_SIZE
        for index in range(len(self.files) - 1, -1, -1):
            mapped_file = self.files[index]
            if mapped_file.end_offset <= begin:
                return
            if mapped_file.base_offset < end or self.has_new_file:
                yield mapped_file, mapped_file.hold()

    # ---- private --------------------------------------------------------------------------------------------------

    def _is_clear_from(self, queue_offset: int) -> bool:
        """Whether all bytes from a queue offset on are known to be zero."""
        clear_from = None if self._found is None else self._found.clear_from
        return clear_from is not None and queue_offset >= max(clear_from, self.max_offset)

    def _clear_from(self, queue_offset: int) -> None:
        """Make all bytes from a queue offset on zero, durably.

        Records of the same sizes may soon have the physical offsets of those whose units are dropped here. A unit that
        came back then would match one of them, and its tags code would be served for it.
        """
        # The order matters. The mark comes first: killed before the syncs below, the page cache has zeros and the disk
        # the old units, and only the mark makes the next recovery sync. Between the two truncates the file is short,
        # which recover() repairs. The directory is synced last, because that covers every file that was removed.
        self._clears()
        end = queue_offset * UNIT_SIZE
        self.files.remove_after(end)
        mapped_file = self.files.find(end)
        if mapped_file is not None:
            file = mapped_file.file()
            file.truncate(end - mapped_file.base_offset)
            file.truncate(mapped_file.size)
            file.sync()
        if self._disk.is_directory(self.files.path):
            self._disk.sync_directory(self.files.path)
        # The file that holds the end counts as unflushed, so that the next flush syncs it with its directory.
        self.has_new_file = True
        self.flushed_offset = min(self.flushed_offset, max(0, queue_offset - 1))
        if self._found is not None:
            self._found.cut(queue_offset)

    def _clears(self) -> None:
        if self._before_clearing is not None:
            self._before_clearing()

    def _lies_at(self, physical_offset: int, queue_offset: int) -> bool:
        """Whether the record of a unit is at or after a physical offset."""
        found, size, _ = self.unit_at(queue_offset)
        return found >= physical_offset and size != PRE_BLANK_SIZE

    def _search(self, low: int, physical_offset: int) -> Steps[tuple[int, int]]:
        """Return the first queue offset from ``low`` on whose record is at or after a physical offset, with its
        tagsCode field; or ``max_offset``. It probes ``low`` first, which mostly is the one.
        """
        high, probe, first_tags_code = self.max_offset, low, 0
        while low < high:
            mapped_file = self.files.find(probe * UNIT_SIZE)
            if mapped_file is None:
                break  # deleted with its topic meanwhile
            (unit,) = yield [(mapped_file, probe * UNIT_SIZE - mapped_file.base_offset, UNIT_SIZE)]
            found, size, tags_code = UNIT.unpack(unit)
            if found >= physical_offset and size != PRE_BLANK_SIZE:
                high, first_tags_code = probe, tags_code
            else:
                low = probe + 1
            probe = (low + high) // 2
        return low, first_tags_code

    def _set_end(self, queue_offset: int) -> None:
        self.next_offset = self.max_offset = self.reserved_offset = self._space_end = queue_offset
        self.min_offset = min(self.min_offset, queue_offset)

    def _write(self, begin: int, content: bytes) -> None:
        written = 0
        while written < len(content):
            mapped_file = self.files.find(begin + written)
            assert mapped_file is not None, self
            size = min(len(content) - written, mapped_file.end_offset - begin - written)
            part = content if size == len(content) else content[written : written + size]
            mapped_file.file().write(begin + written - mapped_file.base_offset, part)
            written += size

    def _add_file(self, begin: int) -> MappedFile:
        """Make the file for the unit at ``begin``."""
        base = begin
        if not self.files:
            base -= begin % self._file_size
            self._disk.make_directories(self.files.path)
        blank = layout.PRE_BLANK_UNIT * ((begin - base) // UNIT_SIZE)
        mapped_file = add_sparse_file(self.files, self._disk, base, self._file_size, blank)
        self.has_new_file = True
        return mapped_file

    def _begun_ext(self) -> ConsumeQueueExt:
        """Return the extension, ready to be written. Only that of a queue without units may begin on the event loop."""
        ext = self.ext if self.ext is not None else self._make_ext()
        if not ext.has_begun:
            ext.begin(self._last_tags_code())
        return ext

    def _make_ext(self) -> ConsumeQueueExt:
        place = self._ext_place
        assert place is not None, self
        self.ext = ConsumeQueueExt(
            path=f"{place.path}/{self.topic}/{self.queue_id}",
            disk=self._disk,
            open_files=self._open_files,
            file_size=place.file_size,
        )
        return self.ext

    def _last_tags_code(self) -> int | None:
        """Return the tagsCode field of the last unit, written or not; None if there is none."""
        if self.units:
            _, size, tags_code = UNIT.unpack(self.units[-1])
        elif self.next_offset * UNIT_SIZE <= self.files.min_offset or not self.files:
            return None
        else:
            _, size, tags_code = self.unit_at(self.next_offset - 1)
        return None if size == PRE_BLANK_SIZE else tags_code
