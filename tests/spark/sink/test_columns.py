"""The schema of a DataFrame that is written: what is accepted, and what is said about the rest."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    VarcharType,
)

from rocketpy.spark.sink.columns import SINK_COLUMNS, check_sink_schema
from rocketpy.spark.sink.failures import SinkError

ALL = (
    "topic string, body binary, tags string, keys array<string>, properties map<string,string>, queue_id int, "
    "sharding_key bigint, delay_level smallint"
)


TYPES: dict[str, DataType] = {
    "string": StringType(),
    "varchar(20)": VarcharType(20),
    "binary": BinaryType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "smallint": ShortType(),
    "double": DoubleType(),
    "array<string>": ArrayType(StringType()),
    "map<string,string>": MapType(StringType(), StringType()),
    "map<string,int>": MapType(StringType(), IntegerType()),
}


def schema(text: str) -> StructType:
    """Return a schema as in SQL, without the session that Spark's own parser needs."""
    return StructType([StructField(name, TYPES[kind]) for name, kind in map(str.split, text.split(", "))])


@pytest.mark.parametrize(
    "text",
    [
        ALL,
        "body string, topic string",
        "topic varchar(20), body binary, keys string, sharding_key string",
        "BODY binary, Topic string",
    ],
)
def test_what_is_documented_is_accepted(text: str) -> None:
    names = check_sink_schema(schema(text), has_topic=False)
    assert set(names) <= {column.name for column in SINK_COLUMNS}
    assert len(names) == len(schema(text).fields)


def test_the_topic_may_come_from_the_option() -> None:
    assert check_sink_schema(schema("body binary"), has_topic=True) == ("body",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("topic string, body binary, price int", r"'price'.* does not write; it writes topic, body, tags, keys"),
        ("topic string, body int", r"'body' is of type int, format rocketmq needs binary or string"),
        ("topic string, body binary, keys map<string,string>", r"'keys' is of type map<string,string>.*array<string>"),
        ("topic string, body binary, properties map<string,int>", r"'properties' is of type map<string,int>"),
        ("topic string, body binary, delay_level double", r"'delay_level' is of type double, .*needs int"),
        ("topic string, tags string", "no column 'body'.*it has topic, tags"),
        ("body binary, tags string", "give the option topic, or the column 'topic'.*body, tags"),
        ("topic string, body binary, Body string", "the column 'body' twice"),
        ("topic int, body binary", "'topic' is of type int, format rocketmq needs string"),
    ],
)
def test_anything_else_is_named_with_what_is_accepted(text: str, words: str) -> None:
    with pytest.raises(SinkError, match=words):
        check_sink_schema(schema(text), has_topic=False)
