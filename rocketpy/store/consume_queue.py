"""One queue of a topic: a fixed-size unit per message that says where in the log it is.

Units are collected by append in :attr:`ConsumeQueue.units` and written once per burst. Rules: unit n is at byte n * 20;
readers see only what is written (``max_offset``), append counts in ``next_offset``; the space of a unit is reserved
before its message is accepted, so that a full disk refuses messages instead of losing units. Files have their full
length from the beginning, but are sparse: space is reserved in small steps. An idle queue holds no descriptor, and a
queue that never had a message has no directory.
"""

from __future__ import annotations

from collections.abc import Iterator

from rocketpy.store import layout
from rocketpy.store.disk import Disk, DiskFile
from rocketpy.store.layout import PRE_BLANK_SIZE, UNIT, UNIT_SIZE
from rocketpy.store.mapped_file import MappedFile, OpenFiles
from rocketpy.store.mapped_file_queue import MappedFileQueue

_STEP_MIN = 4096
_STEP_MAX = 65_536
"""A step of reservation is as long as what the file holds already, within these bounds, and ends on a page."""

_CHUNK_SIZE = 800 * UNIT_SIZE * 16


class ConsumeQueue:
    """A queue. The first block of attributes is for the appender, which changes them in its hot call."""

    __slots__ = (
        "_disk",
        "_file_size",
        "files",
        "flushed_offset",
        "has_new_file",
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
    ) -> None:
        self.next_offset = 0  # of the next message; units of those before it are written or in ``units``
        self.reserved_offset = 0  # units before it have their space
        self.units: list[bytes] = []
        self.tails = tails  # shared by a topic: the end of a record, by the size of its properties

        self.topic = topic
        self.queue_id = queue_id
        self.max_offset = 0  # units before it are written
        self.min_offset = 0  # the first unit whose message is still in the log
        self.flushed_offset = 0
        self.has_new_file = False  # whose directory entry is not synced yet
        self.files = MappedFileQueue(path=path, disk=disk, open_files=open_files)
        self._disk = disk
        self._file_size = file_size

    def __repr__(self) -> str:
        return f"ConsumeQueue({self.topic!r}, {self.queue_id}, {self.min_offset}..{self.max_offset})"

    # ---- append ---------------------------------------------------------------------------------------------------

    def make_room(self, count: int) -> None:
        """Reserve space for the next units, in new files where it must be. DiskFullError loses nothing."""
        while self.reserved_offset < self.next_offset + count:
            begin = self.reserved_offset * UNIT_SIZE
            mapped_file = self.files.find(begin) or self._add_file(begin)
            position = begin - mapped_file.base_offset
            end = position + min(max(position, _STEP_MIN), _STEP_MAX)
            end = min(-(-end // _STEP_MIN) * _STEP_MIN, mapped_file.size)
            mapped_file.file().reserve(position, end - position)
            self.reserved_offset = (mapped_file.base_offset + end) // UNIT_SIZE

    def write_units(self) -> None:
        """Write the collected units: then readers see them. StoreError is final."""
        units = self.units
        content = b"".join(units)
        units.clear()
        self._write(self.max_offset * UNIT_SIZE, content)
        self.max_offset += len(content) // UNIT_SIZE

    def start_at(self, queue_offset: int) -> None:
        """Let a queue without files begin behind 0: its messages before are no longer in the log."""
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
        mapped_file, position, _ = self.locate(queue_offset, 1)
        return UNIT.unpack(mapped_file.file().read(position, UNIT_SIZE))

    # ---- recovery: blocks, before the store is open ---------------------------------------------------------------

    def recover(self, *, is_clean: bool, file_size: int) -> None:
        """Find the end: behind the last valid unit. ``file_size`` is what files of this store usually have.

        After an orderly stop everything before the end is valid, so bisection finds it. After a crash any page may be
        missing: the last three files are walked up to the first unit that is not valid.
        """
        self.min_offset = self.files.min_offset // UNIT_SIZE
        end = self.files.min_offset
        for mapped_file in list(self.files)[-3:]:
            count = _bisect_end(mapped_file) if is_clean else _walk_end(mapped_file)
            end = mapped_file.base_offset + count * UNIT_SIZE
            if end < mapped_file.end_offset:
                break
        if not is_clean and self.files:
            # The last file may be short: a recovery died between cutting the tail and extending it again.
            last = self.files[len(self.files) - 1]
            if len(self.files) > 1:
                file_size = self.files[len(self.files) - 2].size
            elif end == last.end_offset:
                file_size = self._file_size
            last.size = max(last.size, file_size)
        self._set_end(end // UNIT_SIZE)
        self.flushed_offset = self.max_offset

    def first_at_or_behind(self, physical_offset: int) -> int:
        """Return the first queue offset whose message lies at or behind a place in the log, or ``max_offset``."""
        low, high = self.files.min_offset // UNIT_SIZE, self.max_offset
        while low < high:
            middle = (low + high) // 2
            found, size, _ = self.unit_at(middle)
            if found >= physical_offset and size != PRE_BLANK_SIZE:
                high = middle
            else:
                low = middle + 1
        return low

    def rewind(self, queue_offset: int) -> None:
        """Go back to an offset to write the units behind it again; until then :meth:`stale_units` has the old ones.

        Nothing behind it counts as durable, whatever is there: after a kill it may be in memory only.
        """
        self._set_end(queue_offset)
        self.flushed_offset = queue_offset

    def stale_units(self, queue_offset: int, count: int) -> bytes:
        """Return what stands in the place of units, written in another life; fewer at the end of a file."""
        mapped_file = self.files.find(queue_offset * UNIT_SIZE)
        if mapped_file is None:
            return b""
        position = queue_offset * UNIT_SIZE - mapped_file.base_offset
        return mapped_file.file().read(position, min(count * UNIT_SIZE, mapped_file.size - position))

    def truncate(self, queue_offset: int) -> None:
        """Forget the units at and behind an offset, and clear their bytes: a later recovery must not find them."""
        end = queue_offset * UNIT_SIZE
        self.files.remove_behind(end)
        mapped_file = self.files.find(end)
        if mapped_file is not None:
            mapped_file.file().truncate(end - mapped_file.base_offset)
            mapped_file.file().truncate(mapped_file.size)
        self.has_new_file = True
        self._set_end(queue_offset)
        self.flushed_offset = min(self.flushed_offset, max(0, queue_offset - 1))

    def correct_min_offset(self, log_min_offset: int) -> None:
        """Move ``min_offset`` to the first unit whose message is still in the log."""
        if self.max_offset > self.min_offset:
            self.min_offset = self.first_at_or_behind(log_min_offset)

    def delete_expired_files(self, log_min_offset: int) -> int:
        """Delete leading files all of whose messages lay in front of a place in the log; return how many.

        Never the last file, and none with units that are not written yet. Each is gone for good before the next one
        goes, because power that is lost in between must not leave a gap: blocks for a sync of the directory, once for
        each 300,000 messages.
        """
        count = 0
        while len(self.files) > 1 and self.files[0].end_offset <= self.max_offset * UNIT_SIZE:
            physical_offset, _, _ = self.unit_at(self.files[0].end_offset // UNIT_SIZE - 1)
            if physical_offset >= log_min_offset:
                break
            self.files.remove_first()
            self._disk.sync_directory(self.files.path)
            count += 1
        self.correct_min_offset(log_min_offset)
        return count

    def remove_files(self) -> None:
        """Delete everything: the queue is as if it had never been. Foreign files stay, with their directory."""
        self.files.remove_all()
        if self._disk.is_directory(self.files.path) and not self._disk.list_directory(self.files.path):
            self._disk.remove_directory(self.files.path)
        self.units.clear()
        self._set_end(0)
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

    def _set_end(self, queue_offset: int) -> None:
        self.next_offset = self.max_offset = self.reserved_offset = queue_offset
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
        """Make the file for the unit at ``begin``: sparse, staged under another name so that it appears whole."""
        base = begin
        if not self.files:
            base -= begin % self._file_size
            self._disk.make_directories(self.files.path)
        staging_path = f"{self.files.path}.staged"  # beside the queue's directory, where no number is no queue
        file = self._disk.open(staging_path, create=True)
        try:
            file.truncate(0)
            file.truncate(self._file_size)
            if base < begin:
                file.reserve(0, begin - base)
                file.write(0, layout.PRE_BLANK_UNIT * ((begin - base) // UNIT_SIZE))
        finally:
            file.close()
        self._disk.rename(staging_path, f"{self.files.path}/{layout.file_name(base)}")
        self.has_new_file = True
        return self.files.append(base, self._file_size)


def _walk_end(mapped_file: MappedFile) -> int:
    """Return how many units at the beginning of a file are valid, looking at each."""
    file = mapped_file.file()
    count = 0
    for position in range(0, mapped_file.size, _CHUNK_SIZE):
        content = file.read(position, min(_CHUNK_SIZE, mapped_file.size - position))
        for physical_offset, size, _ in UNIT.iter_unpack(content[: len(content) // UNIT_SIZE * UNIT_SIZE]):
            if physical_offset < 0 or size <= 0:
                return count
            count += 1
    return count


def _bisect_end(mapped_file: MappedFile) -> int:
    """Return how many units at the beginning of a file are valid, given that no valid one follows an invalid one."""
    file = mapped_file.file()
    low, high = 0, mapped_file.size // UNIT_SIZE
    while low < high:
        middle = (low + high) // 2
        content = file.read(middle * UNIT_SIZE, UNIT_SIZE)
        physical_offset, size, _ = UNIT.unpack(content) if len(content) == UNIT_SIZE else (0, 0, 0)
        if physical_offset >= 0 and size > 0:
            low = middle + 1
        else:
            high = middle
    return low
