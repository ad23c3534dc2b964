"""Units and gaps of queue files, read as executors read them; equal to what Java's store says of its queues."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

import pyarrow as pa

from rocketpy.spark.pipelines.audit.queue_units import gap_batches, unit_batches
from rocketpy.store.layout import PRE_BLANK_UNIT, UNIT
from rocketpy.store.queue.extension import CqExtUnit
from tests.loaded_modules import loaded_after
from tests.store.golden_store import expected, unpack_store

Rows = list[dict[str, object]]


def queue(paths: list[Path], ext_paths: list[Path] | None = None) -> pa.RecordBatch:
    """Return the row of a queue as a task gets it."""
    return pa.RecordBatch.from_pylist(
        [{"topic": "T", "queue_id": 3, "paths": [*map(str, paths)], "ext_paths": [*map(str, ext_paths or [])]}],
        schema=pa.schema(
            [
                ("topic", pa.string()),
                ("queue_id", pa.int32()),
                ("paths", pa.list_(pa.string())),
                ("ext_paths", pa.list_(pa.string())),
            ]
        ),
    )


def units_of(*arguments: list[Path]) -> Rows:
    return [row for batch in unit_batches(iter([queue(*arguments)])) for row in batch.to_pylist()]


def gaps_of(*paths: Path) -> list[tuple[object, object]]:
    batches = gap_batches(iter([queue(list(paths))]))
    return [(row["first_queue_offset"], row["last_queue_offset"]) for batch in batches for row in batch.to_pylist()]


def queue_file(directory: Path, base_offset: int, units: list[bytes | None], room: int = 10) -> Path:
    """Write a queue file; None is a unit of zeros."""
    path = directory / f"{base_offset:020d}"
    path.write_bytes(b"".join(unit or bytes(20) for unit in units).ljust(room * 20, b"\0"))
    return path


@pytest.mark.parametrize("name", ["store-clean", "store-multi"])
def test_the_units_are_those_that_java_read(tmp_path: Path, name: str) -> None:
    root = unpack_store(name, tmp_path)
    java = expected(name)["units"]
    assert java
    for each in java:
        if each["topic"] == "SCHEDULE_TOPIC_XXXX":
            continue
        directory = root / "consumequeue" / each["topic"] / str(each["queueId"])
        rows = units_of(sorted(directory.iterdir()))
        first = each["first"]
        numbered = {row["queue_offset"]: [row["physical_offset"], row["size"], row["tags_code"]] for row in rows}
        for number, unit in enumerate(each["units"], first):
            assert numbered[number] == unit


def test_pre_blank_and_empty_units_are_none_and_offsets_follow_from_the_file_name(tmp_path: Path) -> None:
    path = queue_file(tmp_path, 200, [PRE_BLANK_UNIT, PRE_BLANK_UNIT, UNIT.pack(5, 100, 7), None, UNIT.pack(-1, 9, 0)])
    assert units_of([path]) == [
        {
            "topic": "T",
            "queue_id": 3,
            "queue_offset": 12,
            "physical_offset": 5,
            "size": 100,
            "tags_code": 7,
            "ext_store_timestamp_ms": None,
        }
    ]


def test_gaps_are_found_within_files_between_files_and_not_at_the_ends(tmp_path: Path) -> None:
    unit = UNIT.pack(5, 100, 7)
    first = queue_file(tmp_path, 0, [None, unit, None, None, unit, unit])
    second = queue_file(tmp_path, 200, [None, unit, unit])
    fourth = queue_file(tmp_path, 600, [unit])
    assert gaps_of(first, second, fourth) == [(2, 3), (6, 10), (13, 29)]
    assert gaps_of(queue_file(tmp_path, 800, [unit, unit])) == []


def test_an_address_is_replaced_by_the_tag_code_of_the_extension(tmp_path: Path) -> None:
    ext = tmp_path / "ext"
    ext.mkdir()
    contents = [CqExtUnit(11, 1111, b"bits").packed(), CqExtUnit(22, 2222).packed()]
    (ext / f"{0:020d}").write_bytes(bytes(10) + contents[0])
    (ext / f"{4096:020d}").write_bytes(contents[1] + b"\xff\xff")
    sign = -(2**63)
    path = queue_file(
        tmp_path,
        0,
        [UNIT.pack(0, 1, code) for code in (5, sign + 10, sign + 4096, sign + 9000, sign + 4096 + 20, -(2**31))],
    )
    rows = units_of([path], sorted(ext.iterdir()))
    assert [(row["tags_code"], row["ext_store_timestamp_ms"]) for row in rows] == [
        (5, None),
        (11, 1111),
        (22, 2222),
        (None, None),
        (None, None),
        (-(2**31), None),
    ]


def test_a_file_that_a_broker_deletes_meanwhile_has_no_units(tmp_path: Path) -> None:
    assert units_of([tmp_path / f"{0:020d}"]) == []


def test_executors_import_nothing_of_the_broker() -> None:
    modules = ("queue_units", "index_entries", "expected", "java_hashes")
    code = "; ".join(f"import rocketpy.spark.pipelines.audit.{name}" for name in modules)
    assert loaded_after(code, "trio", "rocketpy.broker", "rocketpy.client") == []
