"""One file of the index: finds the log offsets of a key through a hash table with chains.

All numbers big-endian and signed. With s slots and room for n entries::

     0 +--------------------+--------------------+
       | beginTimestamp i64 | endTimestamp i64   |
    16 +--------------------+--------------------+
       | beginPhyOffset i64 | endPhyOffset i64   |
    32 +--------------------+--------------------+
       | hashSlotCount i32  | indexCount i32     |   indexCount is 1 in an empty file: entry 0 is never used
    40 +--------------------+--------------------+
       | s slots, i32: number of the newest entry |   0 (or nonsense) where there is none
       +------------------------------------------+
       | n entries of 20 bytes:                   |
       |   key hash i32 | physical offset i64     |
       |   seconds since beginTimestamp i32       |
       |   number of the next older entry i32     |
       +------------------------------------------+

A burst of keys costs one exchange of slots, one write of entries and one of the header. Rules: entries are only added;
an old slot value counts only if it is the number of an entry that was there before; space is reserved before anything
is written, so a full disk changes nothing. What survives a crash is not known: files that were not full and synced are
built again from the log.

Compatibility: ``IndexFile`` and ``IndexHeader`` (4.9.8), byte for byte. A file made after another begins with the other
one's end as its begin; its first entry's time difference is against that, and only then begin becomes its own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from itertools import repeat

import attrs

from rocketpy.errors import ShortageError
from rocketpy.store.disk.interface import Disk, DiskFile
from rocketpy.store.index.kernels import KEY_SIZE, IndexKernels

HEADER_SIZE = 40
SLOT_SIZE = 4
ENTRY_SIZE = 20

INDEX_HEADER = struct.Struct(">qqqqii")
SLOT = struct.Struct(">i")
_KEY = struct.Struct(">4xqq")  # physical offset and timestamp of a key as the kernels have it
ENTRY = struct.Struct(">iqii")
"""Key hash, physical offset, seconds since the file's begin, number of the next older entry."""
assert INDEX_HEADER.size == HEADER_SIZE
assert ENTRY.size == ENTRY_SIZE
assert _KEY.size == KEY_SIZE

QUERY_STEPS_MAX = 500_000
"""Entries that one query looks at, over all files: less than a second of a worker thread. A query that finds its
messages needs a few, one for an old period of a file as many as the key and its slot have newer entries there."""

_RESERVE_STEP = 1 << 18
_ZEROS_SIZE = 1 << 20
_INT_MAX = 0x7FFF_FFFF
_BLOCK_ENTRIES = 3276
"""64 KiB of entries, the most that is read at a time."""
_NEAR_ENTRIES = 64
"""A chain whose entries are so close together is read in blocks: each serves dozens of steps."""
_NO_ENTRY = (0, 0, -1, 0)


@attrs.frozen
class IndexLayout:
    """Numbers of slots and entries (entry 0 included) of a file. The file does not record them."""

    slot_count: int
    entry_count: int

    @property
    def entries_position(self) -> int:
        """Position of entry 0, which is never used."""
        return HEADER_SIZE + self.slot_count * SLOT_SIZE

    @property
    def file_size(self) -> int:
        """The length of a file."""
        return self.entries_position + self.entry_count * ENTRY_SIZE


@attrs.frozen
class IndexHeader:
    """The first 40 bytes of a file."""

    begin_timestamp_ms: int = 0
    end_timestamp_ms: int = 0
    begin_physical_offset: int = 0
    end_physical_offset: int = 0
    hash_slot_count: int = 0
    index_count: int = 1

    def is_time_matched(self, begin_timestamp_ms: int, end_timestamp_ms: int) -> bool:
        """Whether the file may hold messages stored in a period, both ends included."""
        return begin_timestamp_ms <= self.end_timestamp_ms and end_timestamp_ms >= self.begin_timestamp_ms


def read_index_header(file: DiskFile) -> IndexHeader:
    """Return a file's header; what is missing reads as zeros."""
    return unpack_index_header(file.read(0, HEADER_SIZE))


def unpack_index_header(content: bytes) -> IndexHeader:
    """Return the header that a file begins with; what is missing counts as zeros."""
    header = IndexHeader(*INDEX_HEADER.unpack(content[:HEADER_SIZE].ljust(HEADER_SIZE, b"\0")))
    return header if header.index_count > 0 else attrs.evolve(header, index_count=1)


class IndexFile:
    """A file that can be added to while it is not full. It holds a descriptor from its first addition to ``close``."""

    def __init__(self, *, path: str, disk: Disk, layout: IndexLayout, header: IndexHeader) -> None:
        self.path = path
        self.layout = layout
        self.header = header
        self._disk = disk
        self._file: DiskFile | None = None
        self._reserved_end = 0  # the space before it is reserved

    def __repr__(self) -> str:
        return f"IndexFile({self.path!r}, {self.header})"

    @property
    def room(self) -> int:
        """Number of further keys that fit."""
        return self.layout.entry_count - self.header.index_count

    def put(self, hashes: Sequence[int], physical_offsets: Sequence[int], timestamps_ms: Sequence[int]) -> None:
        """Add keys in order, at most ``room``. ShortageError changes nothing; any other StoreError is final."""
        assert 0 < len(hashes) <= self.room, (self, len(hashes))
        if self.header.index_count <= 1:
            self._put(hashes[:1], physical_offsets[:1], timestamps_ms[:1])
            hashes, physical_offsets, timestamps_ms = hashes[1:], physical_offsets[1:], timestamps_ms[1:]
            if not hashes:
                return
        self._put(hashes, physical_offsets, timestamps_ms)

    def put_packed(self, keys: bytes, kernels: IndexKernels) -> None:
        """Add keys as the kernel ``hash_work`` returns them, like ``put``."""
        assert 0 < len(keys) <= self.room * KEY_SIZE, (self, len(keys))
        if self.header.index_count <= 1:
            self._put_packed(keys[:KEY_SIZE], kernels)
            keys = keys[KEY_SIZE:]
        if keys:
            self._put_packed(keys, kernels)

    def sync(self) -> None:
        """Make the file durable. Blocks: for a worker thread. StoreError is final."""
        self._opened().sync()

    def close(self) -> None:
        """Give the descriptor back."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _put(self, hashes: Sequence[int], physical_offsets: Sequence[int], timestamps_ms: Sequence[int]) -> None:
        file, layout, first, end = self._reserved(len(hashes))
        slot_count = layout.slot_count
        positions = [HEADER_SIZE + hashed % slot_count * SLOT_SIZE for hashed in hashes]
        older = file.exchange_words(positions, range(first, end))
        if max(older) >= first:
            # Keys of this burst that share a slot; or what a crash has left in the slots, which counts as nothing.
            older = [entry if entry <= number else 0 for number, entry in enumerate(older, first)]
        times = _time_differences(self.header.begin_timestamp_ms, timestamps_ms)
        entries = b"".join(map(ENTRY.pack, hashes, physical_offsets, times, older))
        file.write(layout.entries_position + first * ENTRY_SIZE, entries)
        self._extend_header(
            end,
            older.count(0),
            (physical_offsets[0], timestamps_ms[0]),
            (physical_offsets[-1], timestamps_ms[-1]),
        )

    def _put_packed(self, keys: bytes, kernels: IndexKernels) -> None:
        file, layout, first, end = self._reserved(len(keys) // KEY_SIZE)
        older = file.exchange_packed(kernels.slot_positions(keys, HEADER_SIZE, layout.slot_count), first)
        entries, empty_count = kernels.pack_entries(keys, older, first, self.header.begin_timestamp_ms)
        file.write(layout.entries_position + first * ENTRY_SIZE, entries)
        self._extend_header(end, empty_count, _KEY.unpack_from(keys), _KEY.unpack_from(keys, len(keys) - KEY_SIZE))

    def _reserved(self, count: int) -> tuple[DiskFile, IndexLayout, int, int]:
        """Return the file, with space for so many entries: the first one's number, and that after the last one."""
        file, layout, first = self._opened(), self.layout, self.header.index_count
        end = first + count
        self._reserve(layout.entries_position + end * ENTRY_SIZE)
        return file, layout, first, end

    def _extend_header(
        self, end: int, empty_count: int, first_message: tuple[int, int], last_message: tuple[int, int]
    ) -> None:
        """Write the header of the file with its new entries; of messages there are physical offset and timestamp."""
        header = self.header
        is_first = header.index_count <= 1
        physical_offset, timestamp_ms = first_message
        end_physical_offset, end_timestamp_ms = last_message
        self.header = header = IndexHeader(
            timestamp_ms if is_first else header.begin_timestamp_ms,
            end_timestamp_ms,
            physical_offset if is_first else header.begin_physical_offset,
            end_physical_offset,
            header.hash_slot_count + empty_count,
            end,
        )
        self._opened().write(0, _pack_header(header))

    def _reserve(self, end: int) -> None:
        if end > self._reserved_end:
            begin = max(self._reserved_end, HEADER_SIZE)
            reserved_end = min(max(end, begin + _RESERVE_STEP), self.layout.file_size)
            self._opened().reserve(begin, reserved_end - begin)
            self._reserved_end = reserved_end

    def _opened(self) -> DiskFile:
        if self._file is None:
            self._file = file = self._disk.open(self.path)
            # The slots are written through a mapping, which must not meet a full disk.
            slots_end = self.layout.entries_position
            file.reserve(0, slots_end)
            self._reserved_end = slots_end
        return self._file


def create_index_file(
    disk: Disk, path: str, staging_path: str, layout: IndexLayout, previous: IndexHeader | None
) -> IndexFile:
    """Make an empty file after ``previous``. It appears whole, and is durable once its directory is synced.

    ShortageError leaves none.
    """
    header = IndexHeader()
    if previous is not None:
        if previous.end_timestamp_ms > 0:
            timestamp_ms = previous.end_timestamp_ms
            header = attrs.evolve(header, begin_timestamp_ms=timestamp_ms, end_timestamp_ms=timestamp_ms)
        if previous.end_physical_offset > 0:
            offset = previous.end_physical_offset
            header = attrs.evolve(header, begin_physical_offset=offset, end_physical_offset=offset)
    file = disk.open(staging_path, create=True)
    try:
        file.truncate(0)
        file.truncate(layout.file_size)
        try:
            file.reserve(0, min(layout.entries_position + _RESERVE_STEP, layout.file_size))
        except ShortageError:
            file.truncate(0)
            raise
        # Slots are touched at random, and the first touch of a page costs ten times more if it was only reserved.
        for position in range(0, layout.entries_position, _ZEROS_SIZE):
            file.write(position, bytes(min(_ZEROS_SIZE, layout.entries_position - position)))
        file.write(0, _pack_header(header))
    finally:
        file.close()
    disk.rename(staging_path, path)
    return IndexFile(path=path, disk=disk, layout=layout, header=header)


@attrs.define(eq=False)
class ChainSteps:
    """The entries that one query may still look at, over all files and rounds."""

    left: int = QUERY_STEPS_MAX
    is_short: bool = False
    """A chain was left before its end, because no step was left: there may be more in the index than was found."""

    def take(self) -> bool:
        """Count one entry; False if no step is left."""
        if self.left <= 0:
            self.is_short = True
            return False
        self.left -= 1
        return True


def select_physical_offsets(
    disk: Disk,
    index_file: IndexFile,
    header: IndexHeader,
    key_hash: int,
    count_max: int,
    begin_timestamp_ms: int,
    end_timestamp_ms: int,
    steps: ChainSteps,
) -> list[int]:
    """Return log offsets of keys with a hash, newest first, as far as ``steps`` allow. Blocks: for a worker thread.

    ``header`` is the file's at the time of the question. Times are compared in whole seconds after the file's begin, as
    in RocketMQ: a message of the same second as the begin of the period may be missed.

    Compatibility: ``IndexFile.selectPhyOffset`` (4.9.8) walks a chain to its end, however long it is.
    """
    if header.index_count <= 1 or count_max <= 0:
        return []
    layout = index_file.layout
    file = disk.open(index_file.path, read_only=True)
    try:
        (entry,) = SLOT.unpack(file.read(HEADER_SIZE + key_hash % layout.slot_count * SLOT_SIZE, SLOT_SIZE))
        entries = _ChainEntries(file, layout.entries_position)
        found: list[int] = []
        newest_allowed = min(header.index_count, layout.entry_count) - 1  # a damaged header may say anything
        while 0 < entry <= newest_allowed and len(found) < count_max and steps.take():
            hashed, physical_offset, seconds, older = entries.entry(entry)
            if seconds < 0:
                break
            timestamp_ms = header.begin_timestamp_ms + seconds * 1000
            if hashed == key_hash and begin_timestamp_ms <= timestamp_ms <= end_timestamp_ms:
                found.append(physical_offset)
            if timestamp_ms < begin_timestamp_ms:
                break
            newest_allowed = entry - 1  # chains lead backwards; one that does not is damaged
            entry = older
        return found
    finally:
        file.close()


class _ChainEntries:
    """Entries of one file, read in falling order. Those that lie close together take one read for many."""

    def __init__(self, file: DiskFile, entries_position: int) -> None:
        self._file = file
        self._entries_position = entries_position
        self._block = b""
        self._first = 0  # number of the first entry in the block
        self._count = 1  # entries of the next block, the one asked for as the last one
        self._last = 0  # the number that was asked for last

    def entry(self, number: int) -> tuple[int, int, int, int]:
        """Return the entry with a number; a damaged one, which ends a chain, where the file has ended."""
        if number < self._first or not self._block:
            is_near = self._last - number <= _NEAR_ENTRIES and self._last > 0
            self._count = min(self._count * 4, _BLOCK_ENTRIES, number) if is_near else 1
            self._first = number + 1 - self._count
            position = self._entries_position + self._first * ENTRY_SIZE
            self._block = self._file.read(position, self._count * ENTRY_SIZE)
        self._last = number
        at = (number - self._first) * ENTRY_SIZE
        if at + ENTRY_SIZE > len(self._block):
            return _NO_ENTRY
        return ENTRY.unpack_from(self._block, at)


def _pack_header(header: IndexHeader) -> bytes:
    return INDEX_HEADER.pack(
        header.begin_timestamp_ms,
        header.end_timestamp_ms,
        header.begin_physical_offset,
        header.end_physical_offset,
        header.hash_slot_count,
        header.index_count,
    )


def _time_differences(begin_timestamp_ms: int, timestamps_ms: Sequence[int]) -> Iterable[int]:
    if begin_timestamp_ms <= 0:
        return repeat(0)
    # Messages of a burst have few different times.
    seconds = {each: min(max((each - begin_timestamp_ms) // 1000, 0), _INT_MAX) for each in set(timestamps_ms)}
    if len(set(seconds.values())) == 1:
        return repeat(seconds[timestamps_ms[0]])
    return map(seconds.__getitem__, timestamps_ms)
