"""ConsumeQueues without a broker: searches, and which units are believed."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from rocketpy.spark.files.log_files import list_log_files
from rocketpy.spark.files.problems import raise_problem
from rocketpy.spark.files.queue_units import NO_UNIT, KnownRecords, OpenQueue, list_queues, read_units
from rocketpy.store.layout import PRE_BLANK_UNIT, UNIT, UNIT_SIZE
from tests.spark.files.built_store import FILE_SIZE, QUEUE_FILE_SIZE, BuiltStore, Spec, build_store, record, write_queue

SPECS = [Spec(topic="T" if number % 3 else "U", queue_id=number % 2) for number in range(60)]


@pytest.fixture
def store(tmp_path: Path) -> BuiltStore:
    return build_store(tmp_path / "store", SPECS)


def known(store: BuiltStore) -> KnownRecords:
    return KnownRecords(list_queues(str(store.root / "consumequeue")))


def test_queues_are_listed_with_their_files(store: BuiltStore) -> None:
    queues = list_queues(str(store.root / "consumequeue"))
    assert [(queue.topic, queue.queue_id) for queue in queues] == [("T", 0), ("T", 1), ("U", 0), ("U", 1)]
    assert [(first, count) for first, count, _ in queues[0].files] == [(0, 10), (10, 10), (20, 10)]
    assert (queues[0].first, queues[0].limit) == (0, 30)
    assert list_queues(str(store.root / "nothing")) == []


def test_directories_that_are_no_queues_are_skipped(store: BuiltStore) -> None:
    (store.root / "consumequeue" / "T" / "x").mkdir()
    (store.root / "consumequeue" / "T" / "7").mkdir()
    (store.root / "consumequeue" / "T" / "0" / "notes").write_text("hello")
    (store.root / "consumequeue" / "file").write_text("hello")
    assert len(list_queues(str(store.root / "consumequeue"))) == 4


def test_a_unit_is_found_by_its_physical_offset(store: BuiltStore) -> None:
    for queue in list_queues(str(store.root / "consumequeue")):
        own = [
            offset
            for (offset, _), spec in zip(store.records, SPECS, strict=True)
            if (spec.topic, spec.queue_id) == (queue.topic, queue.queue_id)
        ]
        with OpenQueue(queue) as units:
            assert [units.unit(at)[0] for at in range(len(own))] == own
            assert units.unit(len(own)) == units.unit(queue.limit) == NO_UNIT
            assert [units.first_from(offset) for offset in own] == list(range(len(own)))
            assert units.first_from(own[3] + 1) == 4
            assert units.first_from(own[-1] + 1) == len(own)


def test_a_queue_whose_first_files_are_gone_begins_later(store: BuiltStore) -> None:
    directory = store.root / "consumequeue" / "T" / "0"
    (directory / f"{0:020d}").unlink()
    queue = next(each for each in list_queues(str(store.root / "consumequeue")) if each.topic == "T")
    with OpenQueue(queue) as units:
        assert units.unit(3) == NO_UNIT
        assert units.first_from(0) == 10


def test_every_position_leads_to_the_next_record_that_a_queue_knows(store: BuiltStore) -> None:
    files = list_log_files(str(store.root), raise_problem)
    for file in files:
        own = [offset - file.base_offset for offset in store.offsets if file.base_offset <= offset < file.end_offset]
        for position in range(0, FILE_SIZE, 37):
            later = [each for each in own if each >= position]
            assert known(store).next_record(file, position) == (later[0] if later else None)
        assert known(store).last_record(file) == own[-1]


def test_a_unit_into_a_body_that_looks_like_a_record_is_not_believed(tmp_path: Path) -> None:
    """The decoy has the right topic, queue, physical offset and checksum; only its queue offset is another's."""
    store = build_store(tmp_path / "store", [Spec(decoy=True)] * 3)
    [file] = list_log_files(str(store.root), raise_problem)
    decoy = store.offsets[1] + 88
    path = store.root / "consumequeue" / "T" / "0" / f"{0:020d}"
    units = bytearray(path.read_bytes())
    units[2 * UNIT_SIZE : 3 * UNIT_SIZE] = UNIT.pack(decoy, len(record(0)), 0)
    path.write_bytes(units)
    assert known(store).next_record(file, store.offsets[1] + 1) is None
    assert known(store).last_record(file) == store.offsets[1]


@pytest.mark.parametrize("position", [0, 4, 14, 22, 30, 89])
def test_a_unit_of_a_damaged_record_leads_to_the_record_after_it(position: int, store: BuiltStore) -> None:
    damaged = bytearray(store.records[4][1])
    damaged[position] ^= 1
    store.spoil(store.offsets[4], bytes(damaged))
    file = list_log_files(str(store.root), raise_problem)[0]
    assert known(store).next_record(file, store.offsets[4]) == store.offsets[5]


@pytest.mark.parametrize("unit", [(0, 0), (10, 100), (1 << 40, 100), (-5, 100), (0, 1 << 30), (300, 50)])
def test_units_that_do_not_fit_the_log_lead_nowhere(unit: tuple[int, int], tmp_path: Path) -> None:
    store = build_store(tmp_path / "store", [Spec()] * 3, with_queues=False)
    write_queue(store.root / "consumequeue" / "T" / "0", UNIT.pack(*unit, 0) * 3)
    file = list_log_files(str(store.root), raise_problem)[0]
    assert known(store).next_record(file, 0) is None
    assert known(store).last_record(file) is None


def test_units_are_read_by_files_without_fillers(tmp_path: Path) -> None:
    units = PRE_BLANK_UNIT * 3 + b"".join(UNIT.pack(100 * number, 100, 7) for number in range(12))
    write_queue(tmp_path / "T" / "0", units)
    [queue] = list_queues(str(tmp_path))
    assert queue.limit == 2 * QUEUE_FILE_SIZE // UNIT_SIZE
    parts = list(read_units(queue, 0, queue.limit))
    assert [list(part["physical_offset"]) for part in parts] == [
        [100 * number for number in range(7)],
        [100 * number for number in range(7, 12)],
    ]
    assert [list(part["physical_offset"]) for part in read_units(queue, 9, 11)] == [[600], [700]]
