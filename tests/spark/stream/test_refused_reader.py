"""A stream that cannot start: PySpark gets a reader, and with its first question the reason."""

from __future__ import annotations

import inspect
import pickle

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, SupportsTriggerAvailableNow
from pyspark.sql.types import IntegerType, StructField, StructType

from rocketpy.errors import SettingsError
from rocketpy.spark import readers
from rocketpy.spark.schema import SPARK_SCHEMA
from rocketpy.spark.source import RocketMQDataSource
from rocketpy.spark.stream.reader import RocketMQStreamReader
from tests.loaded_modules import loaded_after

LIVE = {"nameServer": "127.0.0.1:1", "topic": "T"}


def reader_of(options: dict[str, str], schema: StructType = SPARK_SCHEMA) -> DataSourceStreamReader:
    return RocketMQDataSource(dict(options)).streamReader(schema)


@pytest.mark.parametrize(
    ("options", "schema", "words"),
    [
        (LIVE | {"endingOffsets": "latest"}, SPARK_SCHEMA, "option endingOffsets is for batch reads"),
        (LIVE | {"startTimestamp": "5"}, SPARK_SCHEMA, "option startTimestamp is for reads of files"),
        ({"path": "/store"}, SPARK_SCHEMA, "option path is for reads of files"),
        (LIVE, StructType([StructField("a", IntegerType())]), "unknown column 'a'"),
    ],
)
def test_every_call_raises_the_reason_and_the_end_is_quiet(
    options: dict[str, str], schema: StructType, words: str
) -> None:
    reader = reader_of(options, schema)
    assert isinstance(reader, SupportsTriggerAvailableNow)
    for call in (
        reader.getDefaultReadLimit,
        reader.prepareForTriggerAvailableNow,
        reader.initialOffset,
        lambda: reader.latestOffset({}, ReadAllAvailable()),
        lambda: reader.partitions({}, {}),
        lambda: pickle.loads(pickle.dumps(reader)).read(InputPartition(None)),
    ):
        with pytest.raises(SettingsError, match=words):
            call()
    reader.stop()


def test_it_looks_like_the_reader_of_a_stream_that_starts() -> None:
    """Spark asks for the parameters of ``latestOffset`` to know what a reader supports, before it calls anything."""
    shapes = {tuple(inspect.signature(reader_of(each).latestOffset).parameters) for each in (LIVE, {})}
    assert len(shapes) == 1
    assert isinstance(reader_of(LIVE), RocketMQStreamReader)


def test_a_mistake_of_the_code_and_a_library_that_is_missing_are_said_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for reason in (ModuleNotFoundError("No module named 'pyarrow'"), AssertionError("ours")):
        monkeypatch.setattr(readers, "parse", lambda *_, reason=reason: (_ for _ in ()).throw(reason))
        with pytest.raises(type(reason), match=str(reason)):
            reader_of(LIVE).initialOffset()
    assert loaded_after("import rocketpy.spark.stream.refused_reader", "pyarrow", "rocketpy.spark.stream.reader") == []
