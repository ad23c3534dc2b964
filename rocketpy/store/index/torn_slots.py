"""Repair of the slots of an index file whose broker was killed in the middle of a burst.

A burst of keys exchanges their slots first, then writes the entries, then the header. A kill in between leaves slots
with numbers of entries that the header does not count: the chains that began there are cut off. Their heads are still
in the file, as the newest counted entry of each of these slots. So the slots are searched for such numbers, and, if
there are any, the entries for the heads, from the newest on.

Only after a kill: then everything that was written is there. After a loss of power any page may be an old one.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterator

from rocketpy.store.disk.interface import Disk, DiskFile
from rocketpy.store.index.file import ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE, IndexFile

SLOTS_PER_SLICE = 1 << 18
ENTRIES_PER_SLICE = 1 << 16
_IS_LITTLE = sys.byteorder == "little"


def repair_slots(index_file: IndexFile, disk: Disk) -> Iterator[None]:
    """Point slots that name entries past the last one at the newest entry that is theirs, 0 without one.

    Blocks; yields about every 10 ms.
    """
    file = disk.open(index_file.path)
    try:
        torn: set[int] = set()
        for found in _torn_slots(file, index_file):
            torn |= found
            yield
        if torn:
            heads = dict.fromkeys(torn, 0)
            yield from _find_heads(file, index_file, heads)
            file.reserve(0, index_file.layout.entries_position)  # it is: for what a mapping may be written to
            file.exchange_words([HEADER_SIZE + slot * SLOT_SIZE for slot in heads], list(heads.values()))
    finally:
        file.close()


def _torn_slots(file: DiskFile, index_file: IndexFile) -> Iterator[set[int]]:
    """Yield, for a part of the slots at a time, those that name an entry that the header does not count."""
    slot_count, index_count = index_file.layout.slot_count, index_file.header.index_count
    for first in range(0, slot_count, SLOTS_PER_SLICE):
        count = min(SLOTS_PER_SLICE, slot_count - first)
        words = array("i")
        words.frombytes(file.read(HEADER_SIZE + first * SLOT_SIZE, count * SLOT_SIZE))
        if _IS_LITTLE:
            words.byteswap()
        is_torn = max(words, default=0) >= index_count
        yield {slot for slot, entry in enumerate(words, first) if entry >= index_count} if is_torn else set()


def _find_heads(file: DiskFile, index_file: IndexFile, heads: dict[int, int]) -> Iterator[None]:
    """Set the number of the newest counted entry of each slot; slots without one stay 0."""
    layout, missing = index_file.layout, set(heads)
    end = index_file.header.index_count
    while end > 1 and missing:
        first = max(1, end - ENTRIES_PER_SLICE)
        content = file.read(layout.entries_position + first * ENTRY_SIZE, (end - first) * ENTRY_SIZE)
        hashes = struct.unpack(">" + "i16x" * (end - first), content)
        for number in range(end - 1, first - 1, -1):
            slot = hashes[number - first] % layout.slot_count
            if slot in missing:
                heads[slot] = number
                missing.discard(slot)
        end = first
        yield
