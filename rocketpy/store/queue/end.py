"""Search for the end of a queue's units in its last files. Recovery and inspection call it.

A store may have tens of thousands of queues, most of them short and idle, and descriptors for a few hundred. So a file
is opened once, a short queue is read in one go, and what was read is kept until recovery is over.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import attrs

from rocketpy.store.layout import PRE_BLANK_SIZE, UNIT, UNIT_SIZE

Unit: TypeAlias = tuple[int, int, int]
"""Physical offset, size and tags code."""

_KEPT_UNITS_MAX = 204
_FIRST_READ_SIZE = _KEPT_UNITS_MAX * UNIT_SIZE
"""A page: more than most queues of a large store have. A read that does not show the end is followed by larger ones."""

_READ_SIZE_MAX = 64 * _FIRST_READ_SIZE

_TAGS_CODE_AT = 12  # in a unit
_TAGS_CODE_SIZE = UNIT_SIZE - _TAGS_CODE_AT
_SECTOR_SIZE = 512  # the smallest unit that a disk writes atomically
_LOW_HALF = 0xFFFF_FFFF


class UnitContent(Protocol):
    """The contents of a file of units. Positions are in the file."""

    def read(self, position: int, size: int) -> bytes:
        """Return up to ``size`` bytes; fewer only at the end of the file."""
        ...

    def reads_zero_from(self, position: int) -> bool:
        """Whether the file is known to hold only zeros from a position on."""
        ...


class UnitFile(Protocol):
    """A file of a queue. It begins and ends at a byte offset in the queue."""

    @property
    def base_offset(self) -> int:
        """Where it begins."""
        ...

    @property
    def size(self) -> int:
        """How many bytes it has room for."""
        ...

    @property
    def end_offset(self) -> int:
        """Where it ends."""
        ...

    def file(self) -> UnitContent:
        """Return the contents, opened."""
        ...


@attrs.define(eq=False, slots=True)
class FoundUnits:
    """The last units of a queue, as they were in the files when recovery began."""

    first: int  # the queue offset of the first of them
    content: bytes
    end: int  # units before it are still the queue's
    clear_from: int | None  # all bytes from this queue offset on, past the queue's end, are zero; None: unknown

    def unit_at(self, queue_offset: int) -> Unit | None:
        """Return a unit of the queue, None if it is not here."""
        if self.first <= queue_offset < self.end:
            return UNIT.unpack_from(self.content, (queue_offset - self.first) * UNIT_SIZE)
        return None

    def stale(self, queue_offset: int, count: int) -> bytes | None:
        """Return the old bytes at the position of units; None if they must be read."""
        position = (queue_offset - self.first) * UNIT_SIZE
        if 0 <= position < len(self.content):
            return self.content[position : position + count * UNIT_SIZE]
        return b"" if self.clear_from is not None and queue_offset >= self.clear_from else None

    def adopt(self, begin: int, end: int) -> None:
        """Note that the units of a range were kept as they were found."""
        if self.end == begin:
            self.end = min(end, self.first + len(self.content) // UNIT_SIZE)

    def cut(self, queue_offset: int) -> None:
        """Note that everything from a queue offset on was cleared."""
        self.content = self.content[: max(0, queue_offset - self.first) * UNIT_SIZE]
        self.end = min(self.end, queue_offset)
        self.clear_from = queue_offset


@attrs.frozen
class FileEnd:
    """Valid units at the beginning of one file: their number, the last one, and whether zeros follow."""

    count: int
    last_units: bytes
    is_clear: bool


def columns(units: bytes) -> tuple[int, ...]:
    """Return the fields of whole units, one after another: physical offset, size and tags code of each."""
    count = len(units) // UNIT_SIZE
    return struct.unpack_from(">" + "qiq" * count, units)


def is_unit(unit: Unit) -> bool:
    """Whether a unit is well-formed: neither free space nor garbage. Pre-blank units are."""
    return unit[0] >= 0 and unit[1] > 0


def physical_end(begin_position: int, max_offset: int, unit_at: Callable[[int], Unit]) -> int:
    """Return where the record of a queue's last unit ends, 0 without one.

    The queue begins with a byte and ends before a queue offset; ``unit_at`` reads a unit of it.
    """
    if max_offset * UNIT_SIZE <= begin_position:
        return 0
    physical_offset, size, _ = unit_at(max_offset - 1)
    return 0 if size == PRE_BLANK_SIZE else physical_offset + size


def is_at_or_after(unit: Unit, physical_offset: int) -> bool:
    """Whether the record of a unit is at or after a physical offset; a pre-blank unit has no record."""
    return unit[0] >= physical_offset and unit[1] != PRE_BLANK_SIZE


def first_at_or_after(physical_offset: int, low: int, high: int, unit_at: Callable[[int], Unit]) -> int:
    """Return the first queue offset of a range whose record is at or after a physical offset, or ``high``."""
    return bisect_left(range(high), True, low, key=lambda number: is_at_or_after(unit_at(number), physical_offset))


def find_end(files: Sequence[UnitFile], *, is_clean: bool) -> tuple[int, bytes, bool]:
    """Return where the units of a queue end (in bytes), the last of them, and whether zeros are all that follows.

    After a clean shutdown every unit before the end is valid. After a crash the end is in the last three files, or in
    one before them if those have no valid unit.
    """
    end, units, is_clear = files[0].base_offset if files else 0, b"", False
    first_file = max(0, len(files) - 3)
    while first_file and not begins_with_unit(files[first_file]):
        first_file -= 1  # a burst that was killed had reserved files far past the last unit
    for mapped_file in files[first_file:]:
        found = bisect_end(mapped_file) if is_clean else walk_end(mapped_file)
        end = mapped_file.base_offset + found.count * UNIT_SIZE
        units, is_clear = found.last_units, found.is_clear and mapped_file is files[-1]
        if end < mapped_file.end_offset:
            break
    return end, units, is_clear


def begins_with_unit(mapped_file: UnitFile) -> bool:
    """Whether a file has at least one valid unit, the first one."""
    return _valid_count(mapped_file.file().read(0, UNIT_SIZE)) == 1


def walk_end(mapped_file: UnitFile) -> FileEnd:
    """Check each unit of a file up to the first invalid one: after a crash any page may be missing."""
    file = mapped_file.file()
    position, size, before = 0, _FIRST_READ_SIZE, b""
    while position < mapped_file.size:
        content = file.read(position, min(size, mapped_file.size - position))
        count = _valid_count(content)
        valid_size = count * UNIT_SIZE
        if valid_size < len(content) or not content:
            end = position + valid_size
            is_clear = content.count(0, valid_size) == len(content) - valid_size
            is_clear = is_clear and file.reads_zero_from(position + len(content))
            last_units = content[:valid_size] if valid_size >= _FIRST_READ_SIZE else before + content[:valid_size]
            return FileEnd(end // UNIT_SIZE, last_units[-_FIRST_READ_SIZE:], is_clear)
        before = content[-_FIRST_READ_SIZE:]
        position, size = position + len(content), min(4 * size, _READ_SIZE_MAX)
    return FileEnd(position // UNIT_SIZE, before, is_clear=True)


def bisect_end(mapped_file: UnitFile) -> FileEnd:
    """Find the end given that no valid unit follows an invalid one: after a clean shutdown."""
    file = mapped_file.file()
    content = file.read(0, min(_FIRST_READ_SIZE, mapped_file.size))
    low, high = _valid_count(content), mapped_file.size // UNIT_SIZE
    if low * UNIT_SIZE < len(content):
        return FileEnd(low, content[: low * UNIT_SIZE], is_clear=True)
    while low < high:
        middle = (low + high) // 2
        if _valid_count(file.read(middle * UNIT_SIZE, UNIT_SIZE)):
            low = middle + 1
        else:
            high = middle
    return FileEnd(low, _units_before(file, low), is_clear=True)


def may_be_torn(position: int, tags_code: int) -> bool:
    """Whether a loss of power may have torn the tagsCode field of a unit. ``position`` is the unit's, in its file.

    Of the two sectors in which a unit lies, the disk may have written the first only. Physical offset and size can be
    whole then, while the tagsCode field, or its low half, still has the zeros from before. So a tags code whose low
    half is zero is not trusted where a sector ends within the field or just before it.
    """
    is_cut = -(position + _TAGS_CODE_AT) % _SECTOR_SIZE < _TAGS_CODE_SIZE
    return is_cut and not tags_code & _LOW_HALF


def first_torn(position: int, tags_codes: Sequence[int]) -> int:
    """Return the index of the first of consecutive units that may be torn, or their count if none may be.

    The first unit is at ``position`` in the file. Only units on a sector's border are checked, so this is cheap.
    """
    begin = position + _TAGS_CODE_AT
    end = begin + len(tags_codes) * UNIT_SIZE
    for sector in range(-(-begin // _SECTOR_SIZE) * _SECTOR_SIZE, end, _SECTOR_SIZE):
        number, inside = divmod(sector - begin, UNIT_SIZE)
        if inside < _TAGS_CODE_SIZE and not tags_codes[number] & _LOW_HALF:
            return number
    return len(tags_codes)


def _units_before(file: UnitContent, count: int) -> bytes:
    first = max(0, count - _KEPT_UNITS_MAX)
    return file.read(first * UNIT_SIZE, (count - first) * UNIT_SIZE)


def _valid_count(content: bytes) -> int:
    """Return how many units at the beginning are valid; an incomplete one is not."""
    fields = columns(content)
    if fields and fields[-2] > 0 and min(fields[::3]) >= 0 and min(fields[1::3]) > 0:
        return len(fields) // 3
    for count, (physical_offset, size) in enumerate(zip(fields[::3], fields[1::3], strict=True)):
        if physical_offset < 0 or size <= 0:  # is_unit without its call, for thousands of units of each queue
            return count
    return 0
