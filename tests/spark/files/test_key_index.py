"""What index files say of keys, and which of them are not believed."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from rocketpy.spark.files import key_index
from rocketpy.spark.files.key_index import read_spans
from rocketpy.store.index.hash import hash_index_key
from tests.spark.files.built_store import INDEX_LAYOUT, BuiltStore, Spec, build_store, write_index

ENTRIES = INDEX_LAYOUT.entries_position


@pytest.fixture
def store(tmp_path: Path) -> BuiltStore:
    return build_store(tmp_path / "store", [Spec(keys=f"k{number % 5}") for number in range(60)])


def spans(store: BuiltStore, *keys: str) -> list[tuple[int, int, list[int]]]:
    found, _ = read_spans(str(store.root), [hash_index_key("T", key) for key in keys])
    return [(each.start, each.end, each.found.tolist()) for each in found]


def test_spans_are_the_log_between_the_first_and_the_last_message_of_each_file(store: BuiltStore) -> None:
    offsets = store.offsets
    write_index(store, slice(10, 30))
    write_index(store, slice(30, 45))
    wanted = [number for number in range(60) if number % 5 in (2, 4)]
    assert spans(store, "k2", "k4") == [
        (offsets[11], offsets[29], [offsets[each] for each in wanted if 11 <= each < 29]),
        (offsets[31], offsets[44], [offsets[each] for each in wanted if 31 <= each < 44]),
    ]
    assert spans(store, "absent") == [(offsets[11], offsets[29], []), (offsets[31], offsets[44], [])]


def test_a_store_without_an_index_has_no_span(store: BuiltStore) -> None:
    assert read_spans(str(store.root), [1]) == ([], 0)


def test_where_a_file_knows_nothing_for_long_is_between_two_spans(
    store: BuiltStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker may have been told not to index for a while."""
    offsets = store.offsets
    kept = store.records.copy()
    del store.records[20:40]
    write_index(store, slice(10, 30))
    store.records[:] = kept
    assert len(spans(store, "k0")) == 1, "a small gap may be messages without a key"
    monkeypatch.setattr(key_index, "GAP_BYTES_MAX", offsets[40] - offsets[19] - 1)
    assert [(start, end) for start, end, _ in spans(store, "k0")] == [
        (offsets[11], offsets[19]),
        (offsets[40], offsets[49]),
    ]


@pytest.mark.parametrize(
    ("position", "content"),
    [
        (24, struct.pack(">q", 5)),  # the end in the header
        (16, struct.pack(">q", 5)),  # its begin
        (36, struct.pack(">i", 1 << 30)),  # its count
        (36, struct.pack(">i", 9)),
        (ENTRIES + 20 * 20, bytes(20)),  # a page that never reached the disk
        (ENTRIES + 20 * 20 + 4, struct.pack(">q", 1)),  # an offset that is out of order
        (ENTRIES + 20 * 20 + 16, struct.pack(">i", 20)),  # an entry that names a later one as older
    ],
)
def test_a_file_that_is_not_sound_has_no_span(
    store: BuiltStore, monkeypatch: pytest.MonkeyPatch, position: int, content: bytes
) -> None:
    monkeypatch.setattr(key_index, "CHUNK_ENTRIES", 7)
    write_index(store, slice(30, 45))
    path = write_index(store, slice(10, 30))
    assert [start for start, _, _ in spans(store, "k0")] == [store.offsets[11], store.offsets[31]]
    with path.open("r+b") as file:
        file.seek(position)
        file.write(content)
    assert [start for start, _, _ in spans(store, "k0")] == [store.offsets[31]]


@pytest.mark.parametrize("size", [0, 10, 500])
def test_a_torn_file_has_no_span(store: BuiltStore, size: int) -> None:
    path = write_index(store, slice(0, 20))
    with path.open("r+b") as file:
        file.truncate(size)
    (path.parent / "20260101000000000.tmp").write_bytes(b"of no interest")
    assert spans(store, "k0") == []


def test_an_empty_file_and_one_of_a_single_message_have_no_span(store: BuiltStore) -> None:
    write_index(store, slice(0, 0))
    write_index(store, slice(1, 2))
    assert spans(store, "k0") == []
