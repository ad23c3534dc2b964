"""Which reader the options choose, and which schema."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql.datasource import EqualTo, IsNotNull
from pyspark.sql.types import StringType, StructField, StructType

from rocketpy.client import Message, blocking
from rocketpy.errors import SettingsError
from rocketpy.spark.files.problems import PROBLEMS_SCHEMA
from rocketpy.spark.files.reader import ProblemsReader, StoreReader
from rocketpy.spark.live.reader import LiveReader
from rocketpy.spark.readers import open_reader, open_streaming_reader, schema_of
from rocketpy.spark.schema import SPARK_SCHEMA
from rocketpy.testing.fixture.in_thread import BrokerInThread
from tests.loaded_modules import loaded_after


def test_files_are_read_by_one_reader_and_clusters_by_the_other() -> None:
    assert isinstance(open_reader({"path": "/store"}, SPARK_SCHEMA), StoreReader)
    assert isinstance(open_reader({"path": "/store", "view": "problems"}, PROBLEMS_SCHEMA), ProblemsReader)
    assert isinstance(open_reader({"nameServer": "127.0.0.1:1", "topic": "T"}, SPARK_SCHEMA), LiveReader)


def test_the_schema_is_that_of_what_is_read() -> None:
    assert schema_of({"path": "/store"}) == SPARK_SCHEMA
    assert schema_of({"path": "/store", "view": "problems"}) == PROBLEMS_SCHEMA
    assert schema_of({"nameServer": "127.0.0.1:1", "topic": "T"}) == SPARK_SCHEMA


def test_a_schema_of_the_user_s_own_is_refused_before_anything_is_read() -> None:
    for options in ({"nameServer": "127.0.0.1:1", "topic": "T"}, {"path": "/no/such/store"}):
        with pytest.raises(SettingsError, match="needs at least one column"):
            open_reader(options, StructType())


def test_options_of_a_live_read_fail_before_anything_is_read() -> None:
    with pytest.raises(SettingsError, match="also needs one of the options topic or subscribe"):
        schema_of({"nameServer": "127.0.0.1:1"})


def test_options_that_are_right_for_a_stream_alone_have_a_schema() -> None:
    """Spark asks for the schema without saying whether it is for a batch or a stream."""
    options = {"nameServer": "127.0.0.1:1", "topic": "T", "startingOffsets": "latest"}
    assert schema_of(options) == SPARK_SCHEMA
    with pytest.raises(SettingsError, match="a batch cannot begin at latest"):
        open_reader(options, SPARK_SCHEMA)
    with pytest.raises(SettingsError, match="a batch cannot begin at latest"):
        schema_of(options | {"endingOffsets": "latest"})


def test_the_schema_of_a_cluster_is_known_without_the_readers() -> None:
    """Spark asks for it in a new process before every ``load()``: what is imported there is waited for."""
    code = "from rocketpy.spark.readers import schema_of; schema_of({'nameServer': '127.0.0.1:1', 'topic': 'T'})"
    assert loaded_after(code, "rocketpy.spark.files.reader", "rocketpy.spark.live.reader") == []


LIVE = {"nameServer": "127.0.0.1:1", "topic": "T"}


@pytest.mark.parametrize("options", [LIVE, {"path": "/store"}])
def test_options_that_a_schema_of_the_user_s_own_makes_void_are_refused(options: dict[str, str]) -> None:
    own = StructType([StructField("Topic", StringType()), StructField("body", StringType())])
    opens = [open_reader, open_streaming_reader] if options is LIVE else [open_reader]
    for open_it in opens:
        for given, words in (
            ({"columns": "topic"}, r"option columns names topic, and \.schema\(\.\.\.\) Topic, body: expected one"),
            (
                {"bodyAs": "variant"},
                r"option bodyAs is variant, and the body of .* string: expected one",
            ),
        ):
            with pytest.raises(SettingsError, match=words):
                open_it(options | given, own)
        open_it(options | {"bodyAs": "string"}, own)
        open_it(options | {"columns": "topic"}, schema_of(options | {"columns": "topic"}))


def test_a_schema_of_the_user_s_own_may_be_in_any_case(rocketmq: BrokerInThread) -> None:
    topic = rocketmq.topic("Cased", 1)
    with blocking.open_producer(rocketmq.name_server) as producer:
        producer.send(Message(topic, b"x"))
    own = StructType([StructField("Body", StringType()), StructField("TOPIC", StringType())])
    store = str(Path(rocketmq.directory) / "store")
    for options in ({"nameServer": rocketmq.name_server, "topic": topic}, {"path": store, "topic": topic}):
        reader = open_reader(options, own)
        assert not list(reader.pushFilters([EqualTo(("TOPIC",), topic), IsNotNull(("TOPIC",))]))
        [batch] = [batch for each in reader.partitions() for batch in reader.read(each)]
        assert batch.to_pylist() == [{"Body": "x", "TOPIC": topic}]
