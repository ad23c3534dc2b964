"""Ranges read piece by piece: whole files, damaged places in each mode, and ends that cannot be right."""

from __future__ import annotations

import os
import struct
import tracemalloc
from pathlib import Path

import attrs
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from rocketpy.errors import StoreError
from rocketpy.protocol.stored_message import MESSAGE_MAGIC_CODE
from rocketpy.spark.files.byte_ranges import PIECE_SIZE, ByteRange, RangeReader
from rocketpy.spark.files.log_files import CommitLogFile, list_log_files
from rocketpy.spark.files.problems import Problem, ReadMode, raise_problem
from rocketpy.spark.files.queue_units import KnownRecords, list_queues
from tests.spark.files.built_store import FILE_SIZE, BuiltStore, Spec, build_store, record

SPECS = [Spec(size, ipv6=size == 200, decoy=size == 50) for size in (0, 20, 200, 50, 900, 20, 20)] * 2
HEAD = 88


def no_record(file: CommitLogFile, position: int) -> None:
    return None


def reader(store: BuiltStore, **changes: object) -> RangeReader:
    known = KnownRecords(list_queues(str(store.root / "consumequeue")))
    return attrs.evolve(RangeReader(report=raise_problem, next_record=known.next_record), **changes)  # type: ignore[arg-type]


def offsets(reader: RangeReader, *parts: ByteRange) -> list[int]:
    return [
        int.from_bytes(bytes(block.buffer[start + 28 : start + 36]), "big")
        for part in parts
        for block in reader.read(part)
        for start in block.starts.tolist()
    ]


def whole(store: BuiltStore, number: int = 0) -> ByteRange:
    file = list_log_files(str(store.root), lambda problem: None)[number]
    own = [offset + len(content) for offset, content in store.records if offset < file.end_offset]
    return ByteRange(file, 0, own[-1] - file.base_offset if file.is_last else file.size)


def test_a_piece_holds_whole_records_and_no_more_bytes_than_asked_for(tmp_path: Path) -> None:
    store = build_store(tmp_path / "store", SPECS)
    sizes = {len(content) for _, content in store.records}
    blocks = list(reader(store, piece_size=600).read(whole(store)))
    assert len(blocks) > 3
    assert all(len(block.buffer) <= max(600, *sizes) for block in blocks)
    assert {block.path for block in blocks} == {str(store.log_file(0))}


def test_a_record_that_claims_more_than_there_can_be_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sparse file of 8 KB may claim 2 GiB: read whole it would be 2 GiB of memory."""
    claim, path, pread = 79 << 20, tmp_path / f"{65536:020}", os.pread
    with path.open("wb") as file:
        file.write(struct.pack(">iiiiiqq", claim, MESSAGE_MAGIC_CODE, 0, 0, 0, 0, 65536))
        file.truncate(80 << 20)

    def bounded(descriptor: int, size: int, position: int) -> bytes:
        assert size <= PIECE_SIZE, size
        return pread(descriptor, size, position)

    monkeypatch.setattr(os, "pread", bounded)
    part = ByteRange(CommitLogFile(str(path), 65536, 80 << 20, is_last=False), 0, 80 << 20)
    with pytest.raises(StoreError, match=f"expected a record of 91 to 67108864 bytes, found {claim}"):
        list(RangeReader(report=raise_problem, next_record=no_record).read(part))


@pytest.mark.parametrize("position", [0, 1, 2, 3, 4, 7, 30, 39, HEAD - 4, HEAD - 1])
@pytest.mark.parametrize("uses_queues", [True, False])
def test_a_damaged_head_costs_one_record_where_something_knows_the_next(
    position: int, uses_queues: bool, tmp_path: Path
) -> None:
    """Its size is still right, or a ConsumeQueue knows the next record; else the rest of the range is skipped."""
    store = build_store(tmp_path / "store", SPECS)
    store.spoil(store.offsets[1] + position, bytes([store.records[1][1][position] ^ 0x11]))
    problems: list[Problem] = []
    changes = {} if uses_queues else {"next_record": no_record}
    part = whole(store)
    found = offsets(reader(store, report=problems.append, mode=ReadMode.PERMISSIVE, **changes), part)
    own = [offset for offset in store.offsets if offset < FILE_SIZE]
    if uses_queues or position >= 4:
        assert found == [offset for offset in own if offset != store.offsets[1]]
        assert [(each.position, each.size) for each in problems] == [(store.offsets[1], len(store.records[1][1]))]
    else:
        assert found == own[:1]
        assert [(each.position, each.size) for each in problems] == [(own[1], part.end - own[1])]


def test_a_decoy_in_a_body_is_not_read_after_damage(tmp_path: Path) -> None:
    """It has the right physical offset and checksum: a search for the next magic number would find it."""
    store = build_store(tmp_path / "store", [Spec(), Spec(decoy=True), Spec()])
    store.spoil(store.offsets[1], b"\0\0\0\0")
    permissive = reader(store, report=lambda problem: None, mode=ReadMode.PERMISSIVE)
    assert offsets(permissive, whole(store)) == [store.offsets[0], store.offsets[2]]
    assert offsets(attrs.evolve(permissive, next_record=no_record), whole(store)) == [store.offsets[0]]


def test_a_whole_file_of_damage_is_not_read_over_and_over(tmp_path: Path) -> None:
    """After a damaged place the next piece is a small one."""
    store = build_store(tmp_path / "store", [Spec(10)] * 20)
    for offset in store.offsets:
        store.spoil(offset + HEAD, b"\xff")
    problems: list[Problem] = []
    found = offsets(reader(store, report=problems.append, mode=ReadMode.DROP_MALFORMED), whole(store))
    assert found == []
    assert [each.position for each in problems] == store.offsets


@pytest.mark.parametrize("mode", list(ReadMode))
def test_a_range_that_ends_in_a_record_is_refused_in_every_mode(mode: ReadMode, tmp_path: Path) -> None:
    store = build_store(tmp_path / "store", [Spec(), Spec(decoy=True), Spec()])
    part = attrs.evolve(whole(store), end=store.offsets[1] + HEAD)
    with pytest.raises(StoreError, match=r"reaches over .*readUnits=never"):
        offsets(reader(store, mode=mode, report=lambda problem: None), part)


def test_a_range_that_ends_after_blank_is_refused(tmp_path: Path) -> None:
    store = build_store(tmp_path / "store", SPECS)
    part = attrs.evolve(whole(store), end=FILE_SIZE - 1)
    with pytest.raises(StoreError, match="the file is closed here"):
        offsets(reader(store), part)


def test_a_file_that_ends_in_a_record_is_damaged(tmp_path: Path) -> None:
    """Cut by an interrupted copy."""
    store = build_store(tmp_path / "store", SPECS)
    last = [offset for offset in store.offsets if offset < FILE_SIZE][-1]
    os.truncate(store.log_file(0), last + 50)
    with pytest.raises(StoreError, match="expected a record that ends in the file") as caught:
        offsets(reader(store), whole(store))
    assert caught.value.position == last


def test_a_file_that_is_cleaned_away_while_it_is_read_is_read_to_its_end(tmp_path: Path) -> None:
    store = build_store(tmp_path / "store", SPECS)
    blocks = reader(store, piece_size=500).read(whole(store))
    next(blocks)
    os.unlink(store.log_file(0))
    assert sum(len(block) for block in blocks) > 3


def test_memory_is_bounded_by_the_piece_not_by_the_file(tmp_path: Path) -> None:
    """256 MiB of records of 64 KiB, in a sparse file of equal records."""
    size = 256 * 2**20
    content = record(0, Spec(64 * 1024))
    path = tmp_path / f"{0:020d}"
    count = size // len(content) - 1
    with path.open("wb") as file:
        for number in range(count):
            file.write(content[:28] + (number * len(content)).to_bytes(8, "big") + content[36:])
    part = ByteRange(CommitLogFile(str(path), 0, size, True), 0, count * len(content))
    tracemalloc.start()
    try:
        records = sum(len(block) for block in RangeReader(report=raise_problem, next_record=no_record).read(part))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert records == count
    assert peak < 32 * 2**20
