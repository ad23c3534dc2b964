"""Which reader the options choose, and the reader of a live cluster without Spark's processes."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rocketpy.errors import SettingsError
from rocketpy.spark import readers
from rocketpy.spark.files.problems import PROBLEMS_SCHEMA
from rocketpy.spark.files.reader import ProblemsReader, StoreReader
from rocketpy.spark.options.read import ReadOptions
from rocketpy.spark.readers import LiveReader, open_reader, schema_of
from rocketpy.spark.schema import SPARK_SCHEMA

LIVE = ReadOptions(name_servers=("127.0.0.1:1",), topics=("T",))


def test_files_are_read_by_one_reader_and_clusters_by_the_other() -> None:
    assert isinstance(open_reader({"path": "/store"}, SPARK_SCHEMA), StoreReader)
    assert isinstance(open_reader({"path": "/store", "view": "problems"}, PROBLEMS_SCHEMA), ProblemsReader)
    assert isinstance(open_reader({"nameServer": "127.0.0.1:1", "topic": "T"}, SPARK_SCHEMA), LiveReader)


def test_the_schema_is_that_of_what_is_read() -> None:
    assert schema_of({"path": "/store"}) == SPARK_SCHEMA
    assert schema_of({"path": "/store", "view": "problems"}) == PROBLEMS_SCHEMA
    assert schema_of({"nameServer": "127.0.0.1:1", "topic": "T"}) == SPARK_SCHEMA


def test_a_schema_of_the_user_s_own_is_refused_before_anything_is_read() -> None:
    with pytest.raises(SettingsError, match="has its own schema, expected none or struct<"):
        open_reader({"nameServer": "127.0.0.1:1", "topic": "T"}, StructType())
    with pytest.raises(SettingsError, match="needs at least one column"):
        open_reader({"path": "/no/such/store"}, StructType())


@pytest.mark.parametrize("reader", [LiveReader(LIVE)])
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
