"""The entries of the key index as a DataFrame, each with whether a query reaches it.

A query follows one chain: from the slot of the key's hash to the newest entry, and from there by the number of the next
older one. All entries of a slot should be on its chain, so the check needs no walk where it holds: with the entries
sorted by slot, the newest of each must be in the slot, and each must name its predecessor. Only chains that do not fit
are walked as a query does it.

A task reads one file through a memory map. Its entries are taken by ranges of slots, so that memory is bounded by the
range, a hash per entry apart: 80 MB for the 20 million entries of a full file.

Rule: the functions that executors run know paths and numbers only, and import nothing of the broker.

Compatibility: ``IndexFile`` (4.9.8).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rocketpy.spark.columns.layout import ENTRY_TYPE
from rocketpy.spark.pipelines.local_rows import local_frame, spread
from rocketpy.store.index.file import ENTRY_SIZE, HEADER_SIZE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rocketpy.spark.pipelines.audit.store_files import StoreFiles

ENTRY_SCHEMA = (
    "file string, entry int, key_hash int, physical_offset bigint, store_timestamp_s bigint, previous int, "
    "is_reachable boolean"
)
"""``store_timestamp_s``: the second in which the message was stored; ``previous``: number of the next older entry."""

_FILE_SCHEMA = "path string, slot_count int, index_count int, begin_timestamp_ms bigint"
_BATCH_ROWS = 1 << 16
_RANGE_ENTRIES = 1 << 21


def index_entries(spark: SparkSession, files: StoreFiles) -> DataFrame:
    """Return every entry of the files whose layout is known, a task for each large file; columns: ``ENTRY_SCHEMA``."""
    rows = [
        (each.path, each.layout.slot_count, each.header.index_count, each.header.begin_timestamp_ms)
        for each in files.index_files
        if each.layout is not None
    ]
    entries = sum(row[2] for row in rows)
    tasks = min(len(rows), entries // _RANGE_ENTRIES)
    return spread(local_frame(spark, rows, _FILE_SCHEMA), tasks).mapInArrow(entry_batches, ENTRY_SCHEMA)


# ---- on executors ---------------------------------------------------------------------------------------------------


def entry_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the entries of files, with the columns of ``ENTRY_SCHEMA``."""
    for batch in batches:
        for row in batch.to_pylist():
            yield from _entries_of(row["path"], row["slot_count"], row["index_count"], row["begin_timestamp_ms"])


def _entries_of(path: str, slot_count: int, index_count: int, begin_timestamp_ms: int) -> Iterator[pa.RecordBatch]:
    try:
        content = np.memmap(path, np.uint8, mode="r")
    except (FileNotFoundError, ValueError):  # deleted by a live broker meanwhile, or empty
        return
    slots = content[HEADER_SIZE : HEADER_SIZE + slot_count * 4].view(">i4")
    begin = HEADER_SIZE + slot_count * 4
    entries = content[begin : begin + index_count * ENTRY_SIZE].view(ENTRY_TYPE)
    reachable = reachable_entries(slots, entries)
    for first in range(1, len(entries), _BATCH_ROWS):
        part = entries[first : first + _BATCH_ROWS]
        seconds = begin_timestamp_ms // 1000 + part["seconds"].astype(np.int64)
        yield pa.record_batch(
            {
                "file": pa.repeat(pa.scalar(path, pa.string()), len(part)),
                "entry": pa.array(np.arange(first, first + len(part), dtype=np.int32)),
                "key_hash": pa.array(part["key_hash"].astype(np.int32)),
                "physical_offset": pa.array(part["physical_offset"].astype(np.int64)),
                "store_timestamp_s": pa.array(seconds),
                "previous": pa.array(part["previous"].astype(np.int32)),
                "is_reachable": pa.array(reachable[first : first + len(part)]),
            }
        )


def reachable_entries(
    slots: npt.NDArray[np.int32], entries: npt.NDArray[np.void], *, range_entries: int = _RANGE_ENTRIES
) -> npt.NDArray[np.bool_]:
    """Return for each entry of a file, by its number, whether the chain of its slot leads to it. Entry 0 is none."""
    reachable = np.zeros(len(entries), np.bool_)
    if len(entries) <= 1 or not len(slots):
        return reachable
    slot_of = entries["key_hash"].astype(np.int32) % np.int32(len(slots))
    slot_of[0] = -1
    range_count = -(-len(entries) // range_entries)
    bounds = np.linspace(0, len(slots), range_count + 1).astype(np.int64)
    for begin, end in pairwise(bounds):
        numbers = np.flatnonzero((slot_of >= begin) & (slot_of < end))
        _mark(reachable, slots, entries, slot_of, numbers[np.argsort(slot_of[numbers], kind="stable")])
    return reachable


def _mark(
    reachable: npt.NDArray[np.bool_],
    slots: npt.NDArray[np.int32],
    entries: npt.NDArray[np.void],
    slot_of: npt.NDArray[np.int32],
    numbers: npt.NDArray[np.int64],
) -> None:
    """Mark the reachable ones of entries that are sorted by slot, and by number within a slot."""
    if not len(numbers):
        return
    slot = slot_of[numbers]
    is_first = np.concatenate([[True], slot[1:] != slot[:-1]])
    is_last = np.concatenate([is_first[1:], [True]])
    predecessor = np.concatenate([[0], numbers[:-1]])
    is_linked = is_first | (entries["previous"][numbers] == predecessor)
    is_linked &= ~is_last | (slots[slot] == numbers)
    chain = np.cumsum(is_first) - 1
    broken = np.unique(chain[~is_linked])
    is_whole = np.ones(int(chain[-1]) + 1, np.bool_)
    is_whole[broken] = False
    reachable[numbers[is_whole[chain]]] = True
    for each in slot[is_first][broken]:
        for number in _walk(slots, entries, int(each)):
            reachable[number] |= slot_of[number] == each


def _walk(slots: npt.NDArray[np.int32], entries: npt.NDArray[np.void], slot: int) -> Iterator[int]:
    """Yield the entries that a query of a slot meets. As in Java it ends at a number that cannot be one."""
    number, seen = int(slots[slot]), set()
    while 0 < number < len(entries) and number not in seen:
        yield number
        seen.add(number)
        number = int(entries["previous"][number])
