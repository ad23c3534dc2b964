"""ConsumeQueueExt: tags code, storeTimestamp and the bit map of SQL filters, for each unit of a queue.

With ``enableConsumeQueueExt`` a unit's tagsCode field holds an address in these files, where the real tags code is. An
address is an offset with the sign bit set: a tags code up to :data:`~rocketpy.store.layout.EXT_ADDRESS_MAX` is one.

Rules: nothing here is needed to find a message. What cannot be stored is left out, and the unit holds its plain tags
code; an address that leads nowhere means that the message may be wanted. But no address ever leads to another message's
unit: an address is never reused while a unit of the queue has it, and after a crash an address counts only if the
storeTimestamp at it is the record's. The format has no checksum.

Compatibility: ``ConsumeQueueExt`` (4.9.8), byte for byte; RocketMQ gives an address twice when the file lost its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

import attrs

from rocketpy.errors import ShortageError
from rocketpy.store.disk.interface import Disk, DiskFile, remove_directory_if_empty
from rocketpy.store.files.mapped_file import MappedFile, OpenFiles
from rocketpy.store.files.mapped_file_queue import MappedFileQueue
from rocketpy.store.files.sparse_file import add_sparse_file, reserve_step
from rocketpy.store.layout import EXT_ADDRESS_MAX, EXT_ADDRESS_SIGN, EXT_UNIT, EXT_UNIT_END, EXT_UNIT_SIZE_MAX

BitMapOf: TypeAlias = Callable[[str, Mapping[str, str]], bytes | None]
"""The bit map of the filters that a message passes, from topic and properties; None without any."""

END_BLANK_SIZE = 4
"""Bytes that stay free at the end of a file, for the mark of the end."""

_REAL_OFFSET_MAX = EXT_ADDRESS_MAX + EXT_ADDRESS_SIGN
_TRIES = 3
_SECTOR_SIZE = 512
_LOST_FILES_END = 1 << 44
"""Past every address of a queue whose files were all deleted by hand."""


@attrs.frozen(slots=True)
class CqExtUnit:
    """The unit at an address."""

    tags_code: int
    store_timestamp_ms: int
    bit_map: bytes = b""

    @property
    def size(self) -> int:
        """Its bytes in the file."""
        return EXT_UNIT.size + len(self.bit_map)

    def packed(self) -> bytes:
        """Return its bytes."""
        bit_map_size = len(self.bit_map)
        size = EXT_UNIT.size + bit_map_size
        return EXT_UNIT.pack(size, self.tags_code, self.store_timestamp_ms, bit_map_size) + self.bit_map


def read_ext_unit(content: bytes, position: int = 0) -> CqExtUnit | None:
    """Return the unit that begins at a position, None if no whole one does.

    >>> read_ext_unit(CqExtUnit(2598919, 1700000000123, b"bits").packed())
    CqExtUnit(tags_code=2598919, store_timestamp_ms=1700000000123, bit_map=b'bits')
    """
    begin = position + EXT_UNIT.size
    if begin > len(content):
        return None
    size, tags_code, store_timestamp_ms, bit_map_size = EXT_UNIT.unpack_from(content, position)
    if size < EXT_UNIT.size or size != EXT_UNIT.size + bit_map_size or position + size > len(content):
        return None
    return CqExtUnit(tags_code, store_timestamp_ms, content[begin : begin + bit_map_size])


def is_ext_address(tags_code: int) -> bool:
    """Whether a unit's tagsCode field is an address."""
    return tags_code <= EXT_ADDRESS_MAX


@attrs.frozen
class ExtLocation:
    """Directory and file size of a store's extensions; ``is_written``: new units get one."""

    path: str
    file_size: int
    is_written: bool


class ConsumeQueueExt:
    """The extension of one queue."""

    __slots__ = (
        "_disk",
        "_file_size",
        "_is_as_loaded",
        "_next_offset",
        "_parts",
        "_reserved_offset",
        "files",
        "flushed_offset",
        "has_new_file",
        "wrote_offset",
    )

    def __init__(self, *, path: str, disk: Disk, open_files: OpenFiles, file_size: int) -> None:
        self.files = MappedFileQueue(path=path, disk=disk, open_files=open_files, writer=self)
        self.wrote_offset = 0  # units before it are written
        self.flushed_offset = 0
        self.has_new_file = False  # whose directory entry is not synced yet
        self._disk = disk
        self._file_size = file_size
        self._next_offset = -1  # of the next unit; -1: not known yet, see begin
        self._reserved_offset = 0
        self._parts: list[bytes] = []  # units from wrote_offset up to _next_offset
        self._is_as_loaded = True  # nothing was written or cleared since the files were found

    # ---- write ----------------------------------------------------------------------------------------------------

    @property
    def has_begun(self) -> bool:
        """Whether :meth:`put` knows where the next unit goes."""
        return self._next_offset >= 0

    def begin(self, last_tags_code: int | None, *, trusts_clear: bool = True) -> None:
        """Find the offset of the next unit: past everything to which a unit of the queue leads.

        ``last_tags_code`` is that of the queue's last unit, None if it has no units. Bytes past the unit at that
        address belong to no unit of the queue and are cleared. Bytes that read as zero are left alone, unless they may
        be zero in the page cache only.
        """
        offset, file_count = self.files.end_offset, len(self.files)
        if last_tags_code is not None and is_ext_address(last_tags_code):
            last_offset = last_tags_code + EXT_ADDRESS_SIGN
            unit = self.get(last_tags_code)
            self.files.remove_after(last_offset)
            mapped_file = self.files.find(last_offset)
            if mapped_file is None:  # its file was lost
                self.files.remove_all()
                offset = self._base_after(last_offset)
            elif unit is None:
                offset = mapped_file.end_offset
            else:
                offset = last_offset + unit.size
                file, position = mapped_file.file(), offset - mapped_file.base_offset
                is_clear = trusts_clear and file.size() >= mapped_file.size and file.reads_zero_from(position)
                if not is_clear:
                    # Left by a crash. Synced, or the old unit could come back with a loss of power, at the address
                    # of the next one, and be taken for it.
                    file.truncate(position)
                    file.truncate(mapped_file.size)
                    file.sync()
        elif last_tags_code is not None and not self.files:
            offset = self._base_after(_LOST_FILES_END)
        if len(self.files) < file_count or (self.files and not trusts_clear):
            self._disk.sync_directory(self.files.path)
        self._is_as_loaded = False
        self._next_offset = self.wrote_offset = self._reserved_offset = offset
        self.flushed_offset = min(self.flushed_offset, offset)

    def put(self, unit: CqExtUnit) -> int | None:
        """Collect a unit that :meth:`write_units` will write; return its address.

        None if it cannot be stored: too long, no addresses left, no space or no descriptor. Then nothing is lost but
        what it says.
        """
        content = unit.packed() if unit.size <= EXT_UNIT_SIZE_MAX else b""
        if not content or self._next_offset + len(content) > _REAL_OFFSET_MAX:
            return None
        try:
            for _ in range(_TRIES):
                mapped_file = self.files.find(self._next_offset) or self._add_file()
                if self._next_offset + len(content) + END_BLANK_SIZE <= mapped_file.end_offset:
                    break
                self._fill_to_end(mapped_file)
            else:
                return None
            self._reserve(mapped_file, len(content))
        except ShortageError:
            return None
        self._parts.append(content)
        address = self._next_offset - EXT_ADDRESS_SIGN
        self._next_offset += len(content)
        return address

    def write_units(self) -> None:
        """Write what was collected, before the units that lead there. StoreError is final."""
        if not self._parts:
            return
        content = b"".join(self._parts)
        self._parts.clear()
        mapped_file = self.files.find(self.wrote_offset)
        assert mapped_file is not None, self.files.path
        mapped_file.file().write(self.wrote_offset - mapped_file.base_offset, content)
        self.wrote_offset += len(content)

    @property
    def has_pending(self) -> bool:
        """Whether units are collected that are not written yet."""
        return bool(self._parts)

    def file_closed(self, mapped_file: MappedFile) -> None:
        """Do nothing: :meth:`put` opens the file each time."""

    # ---- read -----------------------------------------------------------------------------------------------------

    def get(self, address: int) -> CqExtUnit | None:
        """Return the unit at an address, None if there is none. Blocks if it is cold."""
        located = self._locate(address + EXT_ADDRESS_SIGN, EXT_UNIT_SIZE_MAX)
        return None if located is None else read_ext_unit(located[0].file().read(located[1], located[2]))

    def groups(self, addresses: Iterable[int]) -> list[tuple[list[int], tuple[MappedFile, int, int]]]:
        """Return what to read for addresses in rising order: those that one read brings, and its file, position, size.

        The read begins with the first one's unit; an address that leads nowhere is in no group.
        """
        groups: list[tuple[list[int], tuple[MappedFile, int, int]]] = []
        read_end = -1
        for address in addresses:
            offset = address + EXT_ADDRESS_SIGN
            located = self._locate(offset, EXT_UNIT_SIZE_MAX)
            if located is None:
                continue
            mapped_file, position, size = located
            if groups and groups[-1][1][0] is mapped_file and offset <= read_end:
                members, (_, begin, _) = groups[-1]
                members.append(address)
                groups[-1] = members, (mapped_file, begin, position + size - begin)
            else:
                groups.append(([address], located))
            read_end = offset + size
        return groups

    def holds(self, address: int, store_timestamp_ms: int) -> bool:
        """Whether an address, found after a crash, surely leads to the unit of a record stored at a time.

        Not for a bit map that may be torn between sectors, and never once something was written: that may be at
        the address of the unit that is meant.
        """
        unit = self.get(address) if self._is_as_loaded else None
        if unit is None or unit.store_timestamp_ms != store_timestamp_ms:
            return False
        offset = address + EXT_ADDRESS_SIGN
        return not unit.bit_map or offset // _SECTOR_SIZE == (offset + unit.size - 1) // _SECTOR_SIZE

    # ---- the ends -------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Find the files."""
        self.files.load(drop_after_gap=True)
        self.flushed_offset = self.wrote_offset = self.files.end_offset

    def reset_flushed_offset(self, last_tags_code: int | None) -> None:
        """Count nothing past the unit with this address as durable: after a kill it may be in memory only."""
        if last_tags_code is not None and is_ext_address(last_tags_code):
            self.flushed_offset = last_tags_code + EXT_ADDRESS_SIGN
        else:
            self.flushed_offset = 0
        self.has_new_file = True  # perhaps

    def forget_end(self) -> None:
        """The queue was cut: where the next unit goes must be found again."""
        self._parts.clear()
        self._next_offset = -1

    def delete_expired_file(self, min_tags_code: int, close: Callable[[DiskFile], None]) -> str | None:
        """Delete the first file if it ends before the address of the queue's first unit; never the last one.

        Return the directory, to be synced before the next one goes; None if there is no such file.
        """
        if len(self.files) > 1 and self.files[0].end_offset < min_tags_code + EXT_ADDRESS_SIGN:
            return self.files.remove_first(close).directory
        return None

    def remove_files(self) -> None:
        """Delete everything, with the directory unless something foreign is in it."""
        self.files.remove_all()
        remove_directory_if_empty(self._disk, self.files.path)
        self.forget_end()
        self.wrote_offset = self.flushed_offset = 0
        self._is_as_loaded = True

    def hold_unflushed(self) -> Iterator[tuple[MappedFile, DiskFile]]:
        """Yield and hold the files with units that are not synced."""
        for index in range(len(self.files) - 1, -1, -1):
            mapped_file = self.files[index]
            if mapped_file.end_offset <= self.flushed_offset:
                return
            yield mapped_file, mapped_file.hold()

    # ---- private --------------------------------------------------------------------------------------------------

    def _locate(self, offset: int, size: int) -> tuple[MappedFile, int, int] | None:
        mapped_file = self.files.find(offset)
        if mapped_file is None:
            return None
        size = min(size, mapped_file.end_offset - offset, self.wrote_offset - offset)
        return (mapped_file, offset - mapped_file.base_offset, size) if size > 0 else None

    def _base_after(self, offset: int) -> int:
        return (offset // self._file_size + 1) * self._file_size

    def _add_file(self) -> MappedFile:
        if not self.files:
            self._disk.make_directories(self.files.path)
        mapped_file = add_sparse_file(self.files, self._disk, self._next_offset, self._file_size)
        self.has_new_file = True
        return mapped_file

    def _reserve(self, mapped_file: MappedFile, size: int) -> None:
        mapped_file.file()  # open from here on, until the units are written
        while self._reserved_offset < self._next_offset + size:
            begin = max(self._reserved_offset, mapped_file.base_offset)
            self._reserved_offset = mapped_file.base_offset + reserve_step(mapped_file, begin - mapped_file.base_offset)

    def _fill_to_end(self, mapped_file: MappedFile) -> None:
        """Mark where the units of a file end, and continue in the next one."""
        if self._next_offset + len(EXT_UNIT_END) <= mapped_file.end_offset:
            self._reserve(mapped_file, len(EXT_UNIT_END))
            self._parts.append(EXT_UNIT_END)
        self.write_units()
        self._next_offset = self.wrote_offset = mapped_file.end_offset
