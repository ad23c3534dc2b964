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
from collections.abc import Callable, Iterator

from rocketpy import BUILD
from rocketpy.store.disk.interface import Disk, DiskFile
from rocketpy.store.index.file import ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE, IndexFile

SLOTS_PER_SLICE = 1 << 18
ENTRIES_PER_SLICE = 1 << 16
_WORD = struct.Struct(">i")
_IS_LITTLE = sys.byteorder == "little"


def repair_slots(index_file: IndexFile, disk: Disk, *, has_kernels: bool = BUILD.has_kernels) -> Iterator[None]:
    """Point slots that name entries past the last one at the newest entry that is theirs, 0 without one.

    Blocks; yields about every 10 ms. ``has_kernels``: slots are searched by the kernel.
    """
    highest_of = _kernel_highest_word() if has_kernels else highest_word
    file = disk.open(index_file.path)
    try:
        torn: set[int] = set()
        for found in _torn_slots(file, index_file, highest_of):
            torn |= found
            yield
        if torn:
            heads = dict.fromkeys(torn, 0)
            yield from _find_heads(file, index_file, heads)
            file.reserve(0, index_file.layout.entries_position)  # it is: for what a mapping may be written to
            file.exchange_words([HEADER_SIZE + slot * SLOT_SIZE for slot in heads], list(heads.values()))
    finally:
        file.close()


def highest_word(words: bytes) -> int:
    """Return the highest of packed big-endian words, which are signed; -1 if none is higher."""
    numbers = array("i")
    numbers.frombytes(words)
    if _IS_LITTLE:
        numbers.byteswap()
    return max(-1, max(numbers, default=-1))


def _kernel_highest_word() -> Callable[[bytes], int]:
    """Return the kernel of :func:`highest_word`: a file of Java's size has five million slots."""
    from rocketpy.protocol.kernels import mapped_words

    return mapped_words.highest_word


def _torn_slots(file: DiskFile, index_file: IndexFile, highest_of: Callable[[bytes], int]) -> Iterator[set[int]]:
    """Yield, for a part of the slots at a time, those that name an entry that the header does not count."""
    slot_count, index_count = index_file.layout.slot_count, index_file.header.index_count
    for first in range(0, slot_count, SLOTS_PER_SLICE):
        count = min(SLOTS_PER_SLICE, slot_count - first)
        words = file.read(HEADER_SIZE + first * SLOT_SIZE, count * SLOT_SIZE)
        if highest_of(words) < index_count:
            yield set()
        else:
            yield {slot for slot, (entry,) in enumerate(_WORD.iter_unpack(words), first) if entry >= index_count}


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
