"""ConsumeQueue: one queue of a topic, a unit of fixed size per message with its physical offset.

Units are collected by append in :attr:`ConsumeQueue.units` and written once per burst. Rules: unit n is at byte n * 20;
readers see only what is written (``max_offset``), append counts in ``next_offset``; the space of a unit is reserved
before its message is accepted, so that a full disk refuses messages instead of losing units, and its file is open then
and stays so until the unit is written: without descriptors messages are refused too. Files have their full length from
the beginning, but are sparse: space is reserved in small steps. An idle queue holds no descriptor, and a queue that
never had a message has no directory. What recovery does with a queue is in ``recovery/queue_recovery.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rocketpy.store import layout
from rocketpy.store.disk.interface import Disk, DiskFile, remove_directory_if_empty
from rocketpy.store.files.mapped_file import MappedFile, OpenFiles
from rocketpy.store.files.mapped_file_queue import MappedFileQueue
from rocketpy.store.files.sparse_file import add_sparse_file, reserve_step
from rocketpy.store.layout import PRE_BLANK_SIZE, UNIT, UNIT_SIZE
from rocketpy.store.queue.end import Unit, is_at_or_after
from rocketpy.store.queue.extension import ConsumeQueueExt, CqExtUnit, ExtLocation, is_ext_address
from rocketpy.store.queue.record_offsets import NamedUnits
from rocketpy.store.read.steps import Steps


class ConsumeQueue:
    """A queue. The first block of attributes is for the appender, which changes them in its fast path."""

    __slots__ = (
        "_disk",
        "_ext_location",
        "_open_files",
        "_space_end",
        "cut_offset",
        "ext",
        "file_size",
        "files",
        "flushed_offset",
        "has_new_file",
        "is_expecting",
        "max_offset",
        "min_offset",
        "named",
        "next_offset",
        "own_end",
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
        ext_location: ExtLocation | None = None,
    ) -> None:
        self.next_offset = 0  # of the next message; units of those before it are written or in ``units``
        self.reserved_offset = 0  # units before it have their space, in files that are open
        self.units: list[bytes] = []  # one or more in each
        self.tails = tails  # shared by a topic: the end of a record, by the size of its properties

        self.topic = topic
        self.queue_id = queue_id
        self.max_offset = 0  # units before it are written
        self.min_offset = 0  # the first unit whose message is still in the log
        self.flushed_offset = 0
        self.cut_offset = 0  # a flush that was begun makes units before it durable, and no others
        self.own_end = -1  # after the last unit of a record of its own topic; -1: none since the start
        self.named: NamedUnits | None = None  # of records of other topics since then
        self.has_new_file = False  # whose directory entry is not synced yet
        self.is_expecting = False  # room is made for units that come at once, of one message in several queues
        self._space_end = 0  # units before it have their space
        self.files = MappedFileQueue(path=path, disk=disk, open_files=open_files, writer=self)
        self.ext: ConsumeQueueExt | None = None  # what more it knows of its messages, once it has or gets any of it
        self._disk = disk
        self._open_files = open_files
        self.file_size = file_size  # of new files
        self._ext_location = ext_location

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
        return self._ext_location is not None and self._ext_location.is_written

    def extended_tags_code(self, tags_code: int, store_timestamp_ms: int, bit_map: bytes | None) -> int:
        """Return what goes into the tagsCode field of the next unit: an address if the queue has an extension.

        The unit at the address is written with the units. When there is no space for it, the plain tags code counts.
        """
        if not self.writes_ext:
            return tags_code
        ext = self.ext
        if ext is None or not ext.has_begun:
            ext = self.begin_ext(self.unit_at)
        address = ext.put(CqExtUnit(tags_code, store_timestamp_ms, bit_map or b""))
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

    # ---- read -----------------------------------------------------------------------------------------------------

    def locate(self, queue_offset: int, count: int) -> tuple[MappedFile, int, int]:
        """Return file, position and size of at most ``count`` units, up to the end of that file.

        The offset lies between the first file's first unit and ``max_offset``.
        """
        begin = queue_offset * UNIT_SIZE
        mapped_file = self.files.find(begin)
        assert mapped_file is not None, (self, queue_offset)
        # Two at a time, which compiled code compares without a call.
        end = min(min(begin + count * UNIT_SIZE, self.max_offset * UNIT_SIZE), mapped_file.end_offset)
        return mapped_file, begin - mapped_file.base_offset, end - begin

    def units_nowait(self, queue_offset: int, count: int) -> bytes | None:
        """Return at most ``count`` written units, up to the end of the file, if they are cached; otherwise None."""
        mapped_file, position, size = self.locate(queue_offset, count)
        return mapped_file.read_ahead_nowait(
            position, size, min(self.max_offset * UNIT_SIZE, mapped_file.end_offset) - mapped_file.base_offset
        )

    def unit_at(self, queue_offset: int) -> Unit:
        """Return (physical offset, size, tags code) of a written unit. Blocks if it is cold."""
        mapped_file, position, _ = self.locate(queue_offset, 1)
        return UNIT.unpack(mapped_file.file().read(position, UNIT_SIZE))

    def ext_unit(self, tags_code: int) -> CqExtUnit | None:
        """Return the extension that a unit's tagsCode field leads to, None for a plain one or a lost one. Blocks."""
        return self.ext.get(tags_code) if self.ext is not None and is_ext_address(tags_code) else None

    def search(self, low: int, physical_offset: int) -> Steps[tuple[int, int]]:
        """Return the first queue offset from ``low`` on whose record is at or after a physical offset, with its
        tagsCode field; or ``max_offset``. It probes ``low`` first, which mostly is the one.
        """
        high, probe, first_tags_code = self.max_offset, low, 0
        while low < high:
            mapped_file = self.files.find(probe * UNIT_SIZE)
            if mapped_file is None:
                break  # deleted with its topic meanwhile
            (unit,) = yield [(mapped_file, probe * UNIT_SIZE - mapped_file.base_offset, UNIT_SIZE)]
            found: Unit = UNIT.unpack(unit)
            if is_at_or_after(found, physical_offset):
                high, first_tags_code = probe, found[2]
            else:
                low = probe + 1
            probe = (low + high) // 2
        return low, first_tags_code

    # ---- the ends -------------------------------------------------------------------------------------------------

    def set_end(self, queue_offset: int) -> None:
        """Let the units end at an offset, and the next message go there. Nothing is written or cleared."""
        self.next_offset = self.max_offset = self.reserved_offset = self._space_end = queue_offset
        self.min_offset = min(self.min_offset, queue_offset)

    def start_at(self, queue_offset: int) -> None:
        """Let a queue without files begin past 0: the messages before are no longer in the log."""
        assert not self.files, self
        self.set_end(queue_offset)
        self.min_offset = self.flushed_offset = queue_offset

    def cut(self, queue_offset: int) -> None:
        """Drop the written units from an offset on while the store is open. Nothing is durable until the next flush.

        Units that come back with a loss of power are of records in the log; recovery meets the reason for this cut
        again, later in the log.
        """
        assert not self.units, self
        end = queue_offset * UNIT_SIZE
        self.files.remove_after(end)
        mapped_file = self.files.find(end)
        if mapped_file is not None:
            mapped_file.forget_ahead()
            mapped_file.file().truncate(end - mapped_file.base_offset)
            mapped_file.file().truncate(mapped_file.size)
        self.set_end(queue_offset)
        self.has_new_file = True
        self.flushed_offset = min(self.flushed_offset, max(0, queue_offset - 1))
        self.cut_offset = min(self.cut_offset, self.flushed_offset)
        if self.ext is not None:
            self.ext.forget_end()

    def load_ext(self) -> None:
        """Find the files of the extension."""
        self._make_ext().load()

    def begin_ext(self, unit_at: Callable[[int], Unit]) -> ConsumeQueueExt:
        """Return the extension, ready to be written. Only that of a queue without units may begin on the event loop.

        ``unit_at`` reads a unit of this queue: recovery has the last ones in memory.
        """
        ext = self.ext if self.ext is not None else self._make_ext()
        if not ext.has_begun:
            ext.begin(self.last_tags_code(unit_at))
        return ext

    def last_tags_code(self, unit_at: Callable[[int], Unit]) -> int | None:
        """Return the tagsCode field of the last unit, written or not; None if there is none."""
        if self.units:
            _, size, tags_code = UNIT.unpack(self.units[-1][-UNIT_SIZE:])
        elif self.next_offset * UNIT_SIZE <= self.files.min_offset or not self.files:
            return None
        else:
            _, size, tags_code = unit_at(self.next_offset - 1)
        return None if size == PRE_BLANK_SIZE else tags_code

    # ---- deletion -------------------------------------------------------------------------------------------------

    def find_min_offset(self, log_min_offset: int) -> Steps[tuple[int, int]]:
        """Return where ``min_offset`` belongs, and the tagsCode field of that unit: when the log has lost messages."""
        return self.search(self.min_offset, log_min_offset)

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

    def remove_files(self) -> None:
        """Delete everything: the queue is empty again. Foreign files stay, with their directory."""
        self.files.remove_all()
        remove_directory_if_empty(self._disk, self.files.path)
        if self.ext is not None:
            self.ext.remove_files()
        self.units.clear()
        self.set_end(0)
        self.min_offset = self.flushed_offset = 0

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
            base -= begin % self.file_size
            self._disk.make_directories(self.files.path)
        blank = layout.PRE_BLANK_UNIT * ((begin - base) // UNIT_SIZE)
        mapped_file = add_sparse_file(self.files, self._disk, base, self.file_size, blank)
        self.has_new_file = True
        return mapped_file

    def _make_ext(self) -> ConsumeQueueExt:
        location = self._ext_location
        assert location is not None, self
        self.ext = ConsumeQueueExt(
            path=f"{location.path}/{self.topic}/{self.queue_id}",
            disk=self._disk,
            open_files=self._open_files,
            file_size=location.file_size,
        )
        return self.ext
