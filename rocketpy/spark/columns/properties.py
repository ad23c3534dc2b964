"""Properties of many messages: the map, and single properties, from their texts.

A text is ``name 0x01 value 0x02 name 0x01 value`` (:mod:`rocketpy.protocol.properties`). Both separators are one byte
in UTF-8 and part of no other character, so texts are cut as bytes, all together:

    +---+------------------+---+-----------+---+--------------+
    | 2 | TAGS 1 A         | 2 | KEYS 1 k  | 2 | colour 1 red |     each text gets a 0x02 in front of it
    +---+------------------+---+-----------+---+--------------+
          ^start ^separator  ^end

Each entry begins after a 0x02. Its name ends at the next special byte, if that is a 0x01, and its value before the next
0x02. Entries without a separator, a name or a value are dropped, as in Java.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rocketpy.protocol.stored_message import Buffer
from rocketpy.spark.columns.arrow_parts import (
    Bytes,
    array_of,
    binary_parts,
    bytes_of,
    offsets_of,
    spread,
    text_of,
    values_of,
)
from rocketpy.spark.columns.layout import Bools, Int64s, read_int16, read_int32, read_int64, read_uint8

_SEPARATOR = 2
_READS: dict[int, Callable[[Any, Int64s], npt.NDArray[Any]]] = {
    8: read_int64,
    4: read_int32,
    2: read_int16,
    1: read_uint8,
}
_CODES_MAX = 48
"""Distinct names for which a bit each fits an int64, with room for the sum of a record's."""


@attrs.frozen(eq=False)
class PropertyEntries:
    """The entries of many texts that count; malformed ones are left out. A text may repeat a name."""

    content: Bytes
    """All texts, each after a 0x02."""
    firsts: Int64s
    """For each text, the number of its first entry; at last the number of all entries."""
    starts: Int64s
    separators: Int64s
    ends: Int64s

    @property
    def count(self) -> int:
        """The number of texts."""
        return len(self.firsts) - 1


def read_entries(buffer: Buffer, starts: Int64s, ends: Int64s) -> PropertyEntries:
    """Take texts apart; each has a byte of something else before its start, as the properties of a record have."""
    texts = binary_parts(buffer, starts - 1, ends)
    offsets = offsets_of(texts)
    content = bytes_of(texts).copy()
    content[offsets[:-1]] = _SEPARATOR
    specials = np.flatnonzero((content - np.uint8(1)) < _SEPARATOR)
    begins = np.flatnonzero(content[specials] == _SEPARATOR)
    marks = specials[begins]
    nexts = np.append(specials, len(content))[begins + 1]
    entry_starts, entry_ends = marks + 1, np.append(marks[1:], len(content))[: len(marks)]
    counts = (nexts > entry_starts) & (nexts + 1 < entry_ends)  # without a 0x01 the next special byte is the end
    firsts = np.searchsorted(marks, offsets)
    firsts[-1] = len(marks)
    if not counts.all():
        firsts = np.append(0, np.cumsum(counts))[firsts]
        entry_starts, nexts, entry_ends = entry_starts[counts], nexts[counts], entry_ends[counts]
    return PropertyEntries(content, firsts, entry_starts, nexts, entry_ends)


def property_column(entries: PropertyEntries, name: str) -> pa.StringArray:
    """Return the value of one property of each message, null where there is none."""
    wanted = name.encode()
    found = np.flatnonzero(entries.separators - entries.starts == len(wanted))
    at = 0
    for size in (8, 4, 2, 1):  # as many bytes at once as are left to compare
        while len(wanted) - at >= size:
            starts = entries.starts[found] + at
            found = found[_READS[size](entries.content, starts) == _READS[size](wanted, np.array([at]))]
            at += size
    last = np.full(entries.count, -1)
    last[np.searchsorted(entries.firsts, found, "right") - 1] = found  # of a repeated name the last value is kept
    rows = np.flatnonzero(last >= 0)
    chosen = last[rows]
    values = text_of(binary_parts(entries.content, entries.separators[chosen] + 1, entries.ends[chosen]))
    return values if len(rows) == entries.count else spread(values, rows, entries.count)


def properties_column(entries: PropertyEntries, map_type: pa.MapType) -> pa.MapArray:
    """Return all properties of each message, in their order."""
    names = text_of(binary_parts(entries.content, entries.starts, entries.separators))
    values = text_of(binary_parts(entries.content, entries.separators + 1, entries.ends))
    firsts = entries.firsts
    encoded = names.dictionary_encode()
    codes, code_count = values_of(encoded.indices).astype(np.int64), len(encoded.dictionary)
    rows = _rows_with_repeated_names(firsts, codes, code_count)
    if len(rows):  # every message of a batch has WAIT twice, its own and the batch's
        kept, latest, firsts = _without_repetitions(firsts, codes, code_count, rows)
        names, values = names.take(array_of(kept)), values.take(array_of(latest))
    return pa.MapArray.from_arrays(array_of(firsts.astype(np.int32)), names, values, map_type)


def _without_repetitions(
    firsts: Int64s, codes: Int64s, code_count: int, rows: npt.NDArray[np.intp]
) -> tuple[Int64s, Int64s, Int64s]:
    """Return which names stay, the entry that has the value of each, and the firsts of the texts then.

    Each name is one of ``code_count`` codes. ``rows`` are the texts that have a name twice. It stays where it is first,
    with its last value.
    """
    counts = np.diff(firsts)
    owners = np.repeat(np.arange(len(counts)), counts)
    among = np.flatnonzero(np.isin(owners, rows))
    named = owners[among] * code_count + codes[among]
    order = np.argsort(named, kind="stable")  # a text's entries of one name follow each other
    is_first = np.append(True, np.diff(named[order]) != 0)
    is_last = np.append(is_first[1:], True)
    order = among[order]
    latest = np.arange(len(codes))
    latest[order[is_first]] = order[is_last]
    stays = np.ones(len(codes), np.bool_)
    stays[order[~is_first]] = False
    kept = np.flatnonzero(stays)
    return kept, latest[kept], np.append(0, np.cumsum(stays))[firsts]


def _rows_with_repeated_names(firsts: Int64s, codes: Int64s, code_count: int) -> npt.NDArray[np.intp]:
    """Return the numbers of the texts that have a name twice.

    With one bit for each distinct name, the bits of a text add up to their union unless one is there twice.
    """
    counts = np.diff(firsts)
    filled = np.flatnonzero(counts)
    if code_count <= _CODES_MAX:
        if not len(filled):
            return filled
        bits, begins = np.int64(1) << codes, firsts[filled]
        is_repeated: Bools = np.add.reduceat(bits, begins) != np.bitwise_or.reduceat(bits, begins)
        return filled[is_repeated]
    owners = np.repeat(np.arange(len(counts)), counts)
    named = np.sort(owners * code_count + codes)
    return np.unique(named[1:][named[1:] == named[:-1]] // code_count)
