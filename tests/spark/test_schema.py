"""The columns: one table, Spark's conversion of it, and what a user may ask for."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from rocketpy.errors import SettingsError
from rocketpy.spark.schema import COLUMNS, SPARK_SCHEMA, projection, spark_schema


@pytest.mark.parametrize("body_as", ["binary", "string", "variant"])
def test_every_column_and_type_of_body_is_one_to_the_installed_spark(body_as: str) -> None:
    schema = spark_schema([column.name for column in COLUMNS], body_as=body_as)
    assert to_arrow_schema(schema, timezone="UTC").equals(projection(schema))


def test_metadata_columns_are_there_only_if_named() -> None:
    assert {"_file", "_offset"}.isdisjoint(SPARK_SCHEMA.names)
    assert spark_schema(["_offset", "topic", "_file"]).names == ["_offset", "topic", "_file"]


def test_names_are_compared_without_case() -> None:
    """As Spark compares them. A schema of the user's own keeps its spelling: Spark expects batches to have it."""
    assert spark_schema(["Topic", "BODY"]).names == ["topic", "body"]
    assert projection(StructType([StructField("Queue_ID", IntegerType())])).names == ["Queue_ID"]
    with pytest.raises(SettingsError, match="column topic is named twice"):
        spark_schema(["topic", "Topic"])


def test_a_schema_of_the_users_own_keeps_its_order_and_its_nullability() -> None:
    """A schema written as DDL says that everything may be null, the values of a map included."""
    users = StructType(
        [
            StructField("tags", StringType()),
            StructField("queue_id", IntegerType(), False),
            StructField("properties", MapType(StringType(), StringType())),
            StructField("body", StringType()),
        ]
    )
    assert to_arrow_schema(users, timezone="UTC").equals(projection(users))
    assert projection(users).names == ["tags", "queue_id", "properties", "body"]


@pytest.mark.parametrize(
    ("field", "words"),
    [
        (StructField("queueid", IntegerType()), "unknown column 'queueid' .* did you mean queue_id"),
        (StructField("zzz", IntegerType()), "unknown column 'zzz' .* expected one of topic, queue_id"),
        (StructField("queue_id", LongType()), "column queue_id: expected type int, found bigint"),
        (StructField("body", LongType()), "column body: expected type binary or string or variant, found bigint"),
        (StructField("topic", BinaryType()), "column topic: expected type string, found binary"),
        (StructField("properties", MapType(StringType(), LongType())), "expected type map<string,string>, found map"),
        (StructField("tags", StringType(), False), "column tags: it may be null"),
        (StructField("body", VariantType(), False), "column body: it may be null"),
    ],
)
def test_a_wrong_field_of_a_schema_is_named(field: StructField, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        projection(StructType([StructField("topic", StringType()), field][-2 if field.name != "topic" else -1 :]))


def test_a_schema_without_columns_and_a_column_named_twice_are_refused() -> None:
    with pytest.raises(SettingsError, match="at least one column"):
        projection(StructType([]))
    with pytest.raises(SettingsError, match="column topic is named twice"):
        spark_schema(["topic", "queue_id", "topic"])


def test_an_unknown_type_of_body_is_named() -> None:
    with pytest.raises(SettingsError, match="option bodyAs: expected one of binary, string, variant, found 'json'"):
        spark_schema(body_as="json")
