"""Records read through units: any queue in any pieces, what is wrong with units, and with records."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from rocketpy.errors import StoreError
from rocketpy.spark.files import unit_ranges
from rocketpy.spark.files.byte_ranges import RangeReader
from rocketpy.spark.files.log_files import CommitLogFile, list_log_files
from rocketpy.spark.files.problems import Problem, ReadMode, raise_problem
from rocketpy.spark.files.queue_units import list_queues
from rocketpy.spark.files.unit_ranges import UnitRange, UnitReader
from rocketpy.store.layout import UNIT, UNIT_SIZE
from tests.spark.files.built_store import BuiltStore, Spec, build_store

SPECS = [Spec(20 + 100 * (number % 7), topic="TTU"[number % 3], ipv6=number % 4 == 0) for number in range(80)]


def no_record(file: CommitLogFile, position: int) -> None:
    return None


def offsets(part: UnitRange, **changes: object) -> list[int]:
    rules = attrs.evolve(RangeReader(report=raise_problem, next_record=no_record), **changes)  # type: ignore[arg-type]
    return [
        int.from_bytes(bytes(block.buffer[start + 28 : start + 36]), "big")
        for block in UnitReader(rules).read(part)
        for start in block.starts.tolist()
    ]


@pytest.fixture
def store(tmp_path: Path) -> BuiltStore:
    return build_store(tmp_path / "store", SPECS)


def whole(store: BuiltStore, topic: str = "U") -> UnitRange:
    files = tuple(list_log_files(str(store.root), lambda problem: None))
    [queue] = [queue for queue in list_queues(str(store.root / "consumequeue")) if queue.topic == topic]
    return UnitRange(queue, queue.first, queue.limit, files, 1 << 62)


def own(store: BuiltStore, topic: str = "U") -> list[int]:
    return [offset for offset, spec in zip(store.offsets, SPECS, strict=True) if spec.topic == topic]


@pytest.mark.parametrize("topic", ["T", "U"])
@pytest.mark.parametrize("piece_size", [1, 700, 1 << 22])
@pytest.mark.parametrize("gap", [0, 300, 1 << 14])
def test_a_queue_s_records_are_read_in_any_pieces(
    topic: str, piece_size: int, gap: int, store: BuiltStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit_ranges, "GAP_MAX", gap)
    assert offsets(whole(store, topic), piece_size=piece_size) == own(store, topic)


def test_ranges_of_a_queue_share_its_records(store: BuiltStore) -> None:
    part = whole(store)
    for cut in range(0, 30, 7):
        both = attrs.evolve(part, end=cut), attrs.evolve(part, start=cut)
        assert [offset for each in both for offset in offsets(each)] == own(store)


def test_a_piece_is_bounded_with_the_gaps_that_are_read(store: BuiltStore) -> None:
    rules = RangeReader(report=raise_problem, next_record=no_record, piece_size=1000)
    assert max(len(block.buffer) for block in UnitReader(rules).read(whole(store))) <= 1000


def test_records_from_the_limit_on_and_before_the_log_are_not_read(store: BuiltStore) -> None:
    part = whole(store)
    assert offsets(attrs.evolve(part, limit=own(store)[5])) == own(store)[:5]
    later = part.files[1:]
    assert offsets(attrs.evolve(part, files=later)) == [at for at in own(store) if at >= later[0].base_offset]


@pytest.mark.parametrize("mode", list(ReadMode))
def test_damage_follows_the_mode(mode: ReadMode, store: BuiltStore) -> None:
    body, head = own(store)[2], own(store)[4]
    store.spoil(body + 112, b"\xff\xff")
    store.spoil(head + 4, b"\0")
    problems: list[Problem] = []
    if mode is ReadMode.FAIL_FAST:
        with pytest.raises(StoreError, match=r"damaged.*CRC") as caught:
            offsets(whole(store))
        assert caught.value.position == body
        return
    found = offsets(whole(store), mode=mode, report=problems.append)
    kept = [head] if mode is ReadMode.PERMISSIVE else [head, body]
    assert found == [offset for offset in own(store) if offset not in kept]
    assert [each.position + int(Path(each.path).name) for each in problems] == [body, head]


def test_units_twice_backwards_or_out_of_the_file_are_not_read_twice(store: BuiltStore) -> None:
    path = store.root / "consumequeue" / "U" / "0" / f"{0:020d}"
    units = bytearray(path.read_bytes())
    size = len(store.records[0][1])
    units[UNIT_SIZE : 2 * UNIT_SIZE] = units[:UNIT_SIZE]
    units[5 * UNIT_SIZE : 6 * UNIT_SIZE] = UNIT.pack(0, size, 0)
    units[9 * UNIT_SIZE : 10 * UNIT_SIZE] = UNIT.pack(own(store)[9], 1 << 20, 0)
    path.write_bytes(units)
    problems: list[Problem] = []
    found = offsets(whole(store), mode=ReadMode.PERMISSIVE, report=problems.append)
    assert found == [offset for number, offset in enumerate(own(store)) if number not in (1, 5, 9)]
    assert [each.what for each in problems] == ["a ConsumeQueue has a record that leaves the file"]
