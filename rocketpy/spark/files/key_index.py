"""What the index files of a store say of keys: where messages that may have one lie, and of which part of the log.

::

    log     |.....[======================).[=============)....[==========)..........|
                   file 1                   file 2   gap        (file 3)   newest: not in the index yet

A span is a part of the log of which every key is in one file. Outside of spans nothing is known, and the log itself
must be read: before the first file, between files, where a file is missing, damaged or has a gap, after the last one.
The first and the last message of a file may have keys in the neighbour, or none yet; they are in no span.

Entries are read one after the other, not along the chains: a file of a running broker, whose slots change meanwhile, is
read so, and one that lost pages in a crash is found out. Its entries are as long as its header says, their offsets
ascend from the header's first to its last one, and each names an older one.

Rule: an entry is a hint, because keys share hashes. The reader of the record compares the key.

What a broker has not indexed is not found: messages that came while ``messageIndexEnable`` was off are noticed only by
a gap of more than ``GAP_BYTES_MAX``, and keys of a message beyond the 128th are indexed by Java's brokers alone.

Compatibility: ``IndexFile`` (4.9.8).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import attrs
import numpy as np
import numpy.typing as npt

from rocketpy.errors import StoreError
from rocketpy.spark.columns.layout import ENTRY_TYPE, Int64s
from rocketpy.store.index.file import HEADER_SIZE, IndexHeader, unpack_index_header
from rocketpy.store.inspection.plain_files_disk import PlainFilesDisk
from rocketpy.store.inspection.verify.index_inspection import layout_of
from rocketpy.store.inspection.verify.read_only_files import ReadOnlyFiles
from rocketpy.store.layout import INDEX_DIRECTORY, is_index_file_name

GAP_BYTES_MAX = 2**20
"""Between two messages in the index; what lies between others is read from the log."""

CHUNK_ENTRIES = 2**18


@attrs.frozen(eq=False)
class IndexedSpan:
    """Physical offsets from ``start`` on, before ``end``; ``found`` are those of messages that may have a key."""

    start: int
    end: int
    found: Int64s


def read_spans(root: str, key_hashes: Sequence[int]) -> tuple[list[IndexedSpan], int]:
    """Return the spans of a store's index files for some hashes, and the bytes that were read.

    Files that are unsound, not to be read, or gone meanwhile have no span.
    """
    hashes = np.array(sorted(set(key_hashes)), np.int32)
    disk = PlainFilesDisk()
    spans: list[IndexedSpan] = []
    size = 0
    for path in _index_files(root):
        opened = ReadOnlyFiles(disk)
        try:
            header = unpack_index_header(opened.read(path, 0, HEADER_SIZE))
            layout = layout_of(opened, path, os.path.getsize(path))
            if layout is None or not 1 < header.index_count <= layout.entry_count:
                continue
            content = np.memmap(path, ENTRY_TYPE, "r", layout.entries_position, (header.index_count,))
        except (OSError, StoreError, ValueError):
            continue
        finally:
            opened.close()
        spans += _spans_of(content, header, hashes)
        size += content.nbytes
    return spans, size


def _index_files(root: str) -> list[str]:
    directory = os.path.join(root, INDEX_DIRECTORY)
    try:
        names = sorted(filter(is_index_file_name, os.listdir(directory)))
    except OSError:
        return []
    return [os.path.join(directory, name) for name in names]


def _spans_of(entries: npt.NDArray[np.void], header: IndexHeader, hashes: npt.NDArray[np.int32]) -> list[IndexedSpan]:
    """Return the spans of a file, none if it is unsound. Entry 0 is never used."""
    last = header.begin_physical_offset
    gaps: list[tuple[int, int]] = []
    found: list[Int64s] = []
    for first, chunk in _chunks(entries):
        offsets = chunk["physical_offset"].astype(np.int64)
        numbers = np.arange(first, first + len(chunk))
        steps = np.diff(offsets, prepend=last)
        is_older = (chunk["previous"] >= 0) & (chunk["previous"] < numbers)
        if (steps < 0).any() or not is_older.all() or (first == 1 and steps[0]):
            return []
        wide = np.flatnonzero(steps > GAP_BYTES_MAX)
        gaps += zip((offsets[wide] - steps[wide]).tolist(), offsets[wide].tolist(), strict=True)
        found.append(offsets[np.isin(chunk["key_hash"], hashes)])
        last = int(offsets[-1])
    if last != header.end_physical_offset:
        return []
    return _cut(_second(entries), last, gaps, np.unique(np.concatenate(found)))


def _chunks(entries: npt.NDArray[np.void]) -> Iterator[tuple[int, npt.NDArray[np.void]]]:
    for first in range(1, len(entries), CHUNK_ENTRIES):
        yield first, np.array(entries[first : first + CHUNK_ENTRIES])


def _second(entries: npt.NDArray[np.void]) -> int:
    """Return the physical offset of the second message of a file; of the first one if there is no other."""
    begin = int(entries[1]["physical_offset"])
    for _, chunk in _chunks(entries):
        later = np.flatnonzero(chunk["physical_offset"] > begin)
        if len(later):
            return int(chunk["physical_offset"][later[0]])
    return begin


def _cut(start: int, end: int, gaps: Sequence[tuple[int, int]], found: Int64s) -> list[IndexedSpan]:
    spans = []
    for before, after in [*gaps, (end, end)]:
        if start < before:
            spans.append(IndexedSpan(start, before, found[(found >= start) & (found < before)]))
        start = max(start, after)
    return spans
