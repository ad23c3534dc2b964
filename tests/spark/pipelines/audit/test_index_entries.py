"""Entries of index files, and which of them a query reaches: in whole chains, broken ones, and loops."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.spark.pipelines.audit.index_entries import entry_batches, reachable_entries
from rocketpy.store.index.file import ENTRY, HEADER_SIZE
from tests.store.golden_store import unpack_store

ENTRY_TYPE = np.dtype([("key_hash", ">i4"), ("physical_offset", ">i8"), ("seconds", ">i4"), ("previous", ">i4")])


def file_of(hashes: list[int], slot_count: int) -> tuple[list[int], list[tuple[int, int, int, int]]]:
    """Return slots and entries as an index puts them; entry 0 is never used."""
    slots, entries = [0] * slot_count, [(0, 0, 0, 0)]
    for number, key_hash in enumerate(hashes, 1):
        entries.append((key_hash, number * 100, number, slots[key_hash % slot_count]))
        slots[key_hash % slot_count] = number
    return slots, entries


def reached(slots: list[int], entries: list[tuple[int, int, int, int]], range_entries: int) -> list[bool]:
    found = reachable_entries(np.array(slots, ">i4"), np.array(entries, ENTRY_TYPE), range_entries=range_entries)
    return [bool(each) for each in found]


def by_queries(slots: list[int], entries: list[tuple[int, int, int, int]]) -> list[bool]:
    """Return what a query of each entry's key finds, one after the other."""
    found = []
    for number, (key_hash, _, _, _) in enumerate(entries):
        at, seen = slots[key_hash % len(slots)], set()
        while 0 < at < len(entries) and at not in seen:
            seen.add(at)
            at = entries[at][3]
        found.append(number > 0 and number in seen)
    return found


@given(
    st.lists(st.integers(0, 40), max_size=30),
    st.integers(1, 8),
    st.lists(st.tuples(st.booleans(), st.integers(0, 40), st.integers(-2, 40)), max_size=4),
    st.integers(1, 40),
)
def test_what_is_reached_is_what_queries_find(
    hashes: list[int], slot_count: int, damages: list[tuple[bool, int, int]], range_entries: int
) -> None:
    slots, entries = file_of(hashes, slot_count)
    for is_slot, at, value in damages:
        if is_slot:
            slots[at % slot_count] = value
        elif len(entries) > 1:
            number = 1 + at % (len(entries) - 1)
            entries[number] = (*entries[number][:3], value)
    assert reached(slots, entries, range_entries) == by_queries(slots, entries)


def test_every_entry_of_a_java_brokers_index_is_reached(tmp_path: Path) -> None:
    [path] = (unpack_store("store-ext", tmp_path) / "index").iterdir()
    content = path.read_bytes()
    (begin_timestamp_ms,) = struct.unpack_from(">q", content)
    task = pa.RecordBatch.from_pylist(
        [{"path": str(path), "slot_count": 500, "index_count": 421, "begin_timestamp_ms": begin_timestamp_ms}]
    )
    rows = [row for batch in entry_batches(iter([task])) for row in batch.to_pylist()]
    assert len(rows) == 420
    assert all(row["is_reachable"] for row in rows)
    key_hash, physical_offset, seconds, previous = ENTRY.unpack_from(content, HEADER_SIZE + 500 * 4 + 420 * 20)
    assert rows[-1] == {
        "file": str(path),
        "entry": 420,
        "key_hash": key_hash,
        "physical_offset": physical_offset,
        "store_timestamp_s": begin_timestamp_ms // 1000 + seconds,
        "previous": previous,
        "is_reachable": True,
    }


def test_a_file_that_a_broker_deletes_meanwhile_has_no_entries(tmp_path: Path) -> None:
    task = pa.RecordBatch.from_pylist(
        [{"path": str(tmp_path / "none"), "slot_count": 5, "index_count": 2, "begin_timestamp_ms": 0}]
    )
    assert list(entry_batches(iter([task]))) == []
