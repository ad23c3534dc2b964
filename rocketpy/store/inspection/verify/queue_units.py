"""Read-only access to the units of a queue for an inspection: by queue offset, in chunks."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

import attrs

from rocketpy.store.inspection.verify.inventory import QueueFiles, StoreFile
from rocketpy.store.inspection.verify.read_only_files import ReadOnlyFiles
from rocketpy.store.layout import EXT_ADDRESS_SIGN, EXT_UNIT, EXT_UNIT_SIZE_MAX, PRE_BLANK_SIZE, UNIT, UNIT_SIZE
from rocketpy.store.queue.end import Unit
from rocketpy.store.queue.extension import CqExtUnit, read_ext_unit

CHUNK_UNITS = 4096


@attrs.frozen
class ListedUnitFile:
    """A queue file of an inventory, for :func:`rocketpy.store.queue.end.find_end`."""

    base_offset: int
    size: int
    end_offset: int
    _path: str
    _opened: ReadOnlyFiles

    def file(self) -> ListedUnitFile:
        """Return the contents: itself, since files are opened when they are read."""
        return self

    def read(self, position: int, size: int) -> bytes:
        """Return up to ``size`` bytes; fewer only at the end of the file."""
        return self._opened.read(self._path, position, size)

    def reads_zero_from(self, position: int) -> bool:
        """Return False: an inspection clears nothing, and does not look."""
        return False


def unit_files(opened: ReadOnlyFiles, queue: QueueFiles) -> list[ListedUnitFile]:
    """Return the files of a queue, to find the end of its units."""
    return [ListedUnitFile(file.base_offset, file.size, file.end_offset, file.path, opened) for file in queue.files]


def is_pre_blank(unit: Unit) -> bool:
    """Whether a unit only fills the space before a queue's first message."""
    return unit == (0, PRE_BLANK_SIZE, 0)


def file_of_unit(queue: QueueFiles, queue_offset: int) -> StoreFile | None:
    """Return the file that has room for a unit, None if there is none."""
    position = queue_offset * UNIT_SIZE
    index = bisect_right(queue.files, position, key=lambda file: file.base_offset) - 1
    if index < 0 or position >= queue.files[index].end_offset:
        return None
    return queue.files[index]


def read_units(opened: ReadOnlyFiles, queue: QueueFiles, queue_offset: int, count: int) -> bytes:
    """Return whole units from one on, at most ``count`` and at most to the end of its file."""
    file = file_of_unit(queue, queue_offset)
    if file is None:
        return b""
    position = queue_offset * UNIT_SIZE - file.base_offset
    content = opened.read(file.path, position, min(count * UNIT_SIZE, file.size - position))
    return content[: len(content) // UNIT_SIZE * UNIT_SIZE]


def units_between(
    opened: ReadOnlyFiles, queue: QueueFiles, begin: int, end: int, *, chunk_units: int = CHUNK_UNITS
) -> Iterator[tuple[int, Unit]]:
    """Yield queue offsets and units; what cannot be read comes as (0, 0, 0). Reads ``chunk_units`` at a time."""
    while begin < end:
        content = read_units(opened, queue, begin, min(chunk_units, end - begin))
        if not content:
            file = file_of_unit(queue, begin)
            missing_end = end if file is None else min(end, file.end_offset // UNIT_SIZE)
            if file is None:
                following = [
                    each.base_offset // UNIT_SIZE for each in queue.files if each.base_offset > begin * UNIT_SIZE
                ]
                missing_end = min([end, *following])
            for queue_offset in range(begin, missing_end):
                yield queue_offset, (0, 0, 0)
            begin = max(missing_end, begin + 1)
            continue
        yield from enumerate(UNIT.iter_unpack(content), begin)
        begin += len(content) // UNIT_SIZE


def ext_unit_at(opened: ReadOnlyFiles, extension: QueueFiles | None, address: int) -> CqExtUnit | None:
    """Return the ConsumeQueueExt unit at an address, None if there is no valid one."""
    if extension is None:
        return None
    offset = address + EXT_ADDRESS_SIGN
    for file in extension.files:
        if file.base_offset <= offset < file.end_offset:
            position = offset - file.base_offset
            head = opened.read(file.path, position, EXT_UNIT.size)
            size = int.from_bytes(head[:2], "big")
            return read_ext_unit(opened.read(file.path, position, min(size, EXT_UNIT_SIZE_MAX)))
    return None
