"""The readers without Spark's processes: what is planned, what each partition gives, and that they travel."""

from __future__ import annotations

import pickle
from pathlib import Path

import attrs
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rocketpy.errors import SettingsError
from rocketpy.spark import readers
from rocketpy.spark.options.read import ReadOptions
from rocketpy.spark.readers import LiveReader, StoreReader, open_reader
from rocketpy.spark.schema import SPARK_SCHEMA
from tests.spark.test_commit_log_files import golden_store

LIVE = ReadOptions(name_servers=("127.0.0.1:1",), topics=("T",))


def rows(reader: DataSourceReader) -> list[dict[str, object]]:
    """What a query would be given, through the processes that it would go through."""
    travelled = pickle.loads(pickle.dumps(reader))
    partitions = pickle.loads(pickle.dumps(list(reader.partitions())))
    return [row for each in partitions for batch in travelled.read(each) for row in batch.to_pylist()]


def places(found: list[dict[str, object]]) -> list[object]:
    return sorted(row["physical_offset"] for row in found)  # type: ignore[type-var]


def test_files_are_read_by_one_reader_and_clusters_by_the_other() -> None:
    assert isinstance(open_reader(ReadOptions(path="/store"), SPARK_SCHEMA), StoreReader)
    assert isinstance(open_reader(LIVE, SPARK_SCHEMA), LiveReader)


def test_a_schema_of_the_user_s_own_is_refused_before_anything_is_read() -> None:
    with pytest.raises(SettingsError, match="has its own schema, expected none or struct<"):
        open_reader(ReadOptions(path="/no/such/store"), StructType())


@pytest.mark.parametrize("min_partitions", [1, 7])
def test_every_record_of_a_store_comes_once_however_it_is_cut(tmp_path: Path, min_partitions: int) -> None:
    store, expected = golden_store("store-clean", tmp_path)
    reader = StoreReader(ReadOptions(path=str(store), min_partitions=min_partitions), str(store))
    assert len(reader.partitions()) >= min_partitions
    assert places(rows(reader)) == sorted(each["offset"] for each in expected)  # type: ignore[type-var]


def test_only_what_the_options_want_is_given(tmp_path: Path) -> None:
    store, _ = golden_store("store-clean", tmp_path)
    options = ReadOptions(path=str(store))
    everything = rows(StoreReader(options, str(store)))
    topic = everything[0]["topic"]
    wanted = attrs.evolve(options, topics=(str(topic),))
    found = rows(StoreReader(wanted, str(store)))
    assert places(found) == places([row for row in everything if row["topic"] == topic])
    assert 0 < len(found) < len(everything)


def test_what_arrives_after_the_plan_is_not_part_of_the_read(tmp_path: Path) -> None:
    store, expected = golden_store("store-clean", tmp_path)
    reader = StoreReader(ReadOptions(path=str(store)), str(store))
    planned = reader.partitions()
    (store / "commitlog" / f"{1 << 40:020d}").write_bytes(b"what is not there yet")
    found = [row for each in planned for batch in reader.read(each) for row in batch.to_pylist()]
    assert len(found) == len(expected)


@pytest.mark.parametrize("reader", [StoreReader(ReadOptions(path="/s"), "/s"), LiveReader(LIVE)])
def test_the_partition_that_spark_makes_of_an_empty_plan_holds_nothing(reader: DataSourceReader) -> None:
    assert list(reader.read(InputPartition(None))) == []


def test_a_live_read_gives_each_partition_its_own_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, ReadOptions]] = []

    def read(part: object, options: ReadOptions) -> list[object]:
        asked.append((part, options))
        return []

    monkeypatch.setattr(readers, "plan_queue_ranges", lambda options: ["queue 0", "queue 1"])
    monkeypatch.setattr(readers, "read_queue_range", read)
    reader = LiveReader(LIVE)
    for partition in reader.partitions():
        assert list(reader.read(partition)) == []
    assert asked == [("queue 0", LIVE), ("queue 1", LIVE)]
