"""The columns of a message in a DataFrame: one table, from which every schema and the documented table are made.

Rule: Spark refuses a batch whose Arrow schema differs in any detail from what it derives from the DataFrame's schema,
nullability included. So a reader does not choose: :func:`projection` turns the schema that Spark asks for into the
Arrow schema of its batches, and ``tests/spark/test_schema.py`` compares the two with the installed PySpark's own
conversion.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

import attrs
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from rocketpy.errors import SettingsError

TIMESTAMP_MS_MAX = 253_402_300_799_999
"""The end of the year 9999, where Python's and Spark's calendars end."""

BODY_TYPES: dict[str, DataType] = {"binary": BinaryType(), "string": StringType(), "variant": VariantType()}
"""Values of the option ``bodyAs``, with the type of the column ``body``."""

_STRINGS = MapType(StringType(), StringType(), valueContainsNull=False)


@attrs.frozen
class Column:
    """One column. ``is_metadata``: only there where the user names it."""

    name: str
    type: DataType
    nullable: bool
    meaning: str
    is_metadata: bool = False

    @property
    def field(self) -> StructField:
        """The column in Spark's schema."""
        return StructField(self.name, self.type, self.nullable)


COLUMNS: tuple[Column, ...] = (
    Column("topic", StringType(), False, "topic"),
    Column("queue_id", IntegerType(), False, "number of the queue on its broker"),
    Column("queue_offset", LongType(), False, "position in the queue, counted in messages"),
    Column("physical_offset", LongType(), False, "position of the record in the broker's CommitLog, in bytes"),
    Column("message_id", StringType(), False, "the broker's id (offsetMsgId): store host and physical offset"),
    Column("unique_key", StringType(), True, "the producer's id (property UNIQ_KEY), which users know as message id"),
    Column("keys", StringType(), True, "property KEYS: the index keys, separated by spaces"),
    Column("tags", StringType(), True, "property TAGS: the tag"),
    Column("body", BinaryType(), False, "the body, decompressed unless `decompress=false`"),
    Column("body_size", IntegerType(), False, "bytes of the body as it is in the column `body`"),
    Column("properties", _STRINGS, False, "all properties, in their order; of a repeated name the last value"),
    Column("born_timestamp", TimestampType(), True, "when the producer sent it; null outside the years 1970 to 9999"),
    Column("store_timestamp", TimestampType(), True, "when the broker stored it; null outside the years 1970 to 9999"),
    Column("born_host", StringType(), False, "`ip:port` of the producer, an IPv6 address in brackets"),
    Column("store_host", StringType(), False, "`ip:port` of the broker, an IPv6 address in brackets"),
    Column("reconsume_times", IntegerType(), False, "how often consumers have sent it back"),
    Column("sys_flag", IntegerType(), False, "bits for compression, transaction type and IPv6 addresses"),
    Column("flag", IntegerType(), False, "the producer's own flag"),
    Column("prepared_transaction_offset", LongType(), False, "physical offset of the half message that it ends, or 0"),
    Column("stored_size", IntegerType(), False, "bytes of the record"),
    Column("broker_name", StringType(), True, "name of the broker; null from files, which do not hold it"),
    Column("_file", StringType(), True, "path of the CommitLog file; null from a live cluster", is_metadata=True),
    Column("_offset", LongType(), True, "position of the record in `_file`, in bytes", is_metadata=True),
)
"""All columns, in the order of the default schema."""

_BY_NAME = {column.name: column for column in COLUMNS}

SPARK_SCHEMA = StructType([column.field for column in COLUMNS if not column.is_metadata])
"""The schema of a read that names no columns."""


def spark_schema(names: Iterable[str] = (), *, body_as: str = "binary") -> StructType:
    """Return the schema of a read of these columns, in their order; without names, all but the metadata columns.

    Names are compared without case, as Spark compares them. :class:`SettingsError` for a name that is unknown or
    repeated, and for an unknown ``body_as``.
    """
    if body_as not in BODY_TYPES:
        raise SettingsError(f"option bodyAs: expected one of {', '.join(BODY_TYPES)}, found {body_as!r}")
    wanted = [_known(name) for name in names]
    for column in wanted:
        if wanted.count(column) > 1:
            raise SettingsError(f"column {column.name} is named twice")
    fields = [column.field for column in wanted] or list(SPARK_SCHEMA.fields)
    body = StructField("body", BODY_TYPES[body_as], _may_be_null("body", BODY_TYPES[body_as]))
    return StructType([body if each.name == "body" else each for each in fields])


def projection(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of batches for the schema that Spark asks for: the default one, or a user's own.

    A user's schema names columns in any order and case; each has the type of the table, ``body`` may be any of
    ``BODY_TYPES``. Whether a column is nullable is the user's to say, except that a column that may be null cannot be
    declared not to be. :class:`SettingsError` names the first field that is wrong.
    """
    for field in schema.fields:
        _check(field)
    if not schema.fields:
        raise SettingsError("a schema of format rocketmq needs at least one column, found none")
    spark_schema(schema.names)
    return pa.schema([pa.field(each.name, arrow_type(each.dataType), nullable=each.nullable) for each in schema])


def _check(field: StructField) -> None:
    column = _known(field.name)
    allowed = _types_of(column)
    if not any(_is_same(field.dataType, each) for each in allowed):
        expected = " or ".join(each.simpleString() for each in allowed)
        raise SettingsError(f"column {field.name}: expected type {expected}, found {field.dataType.simpleString()}")
    if _may_be_null(column.name, field.dataType) and not field.nullable:
        raise SettingsError(f"column {field.name}: it may be null, expected no NOT NULL")


def _types_of(column: Column) -> list[DataType]:
    """Return the types that a column may be read as, the default first."""
    return list(BODY_TYPES.values()) if column.name == "body" else [column.type]


def _may_be_null(name: str, spark: DataType) -> bool:
    """Whether a column of this type may hold nulls: a body that is no JSON is null as a VARIANT."""
    return _BY_NAME[name].nullable or isinstance(spark, VariantType)


def _is_same(found: DataType, expected: DataType) -> bool:
    """Compare two types; a map written as DDL says that its values may be null, which does no harm."""
    if isinstance(found, MapType) and isinstance(expected, MapType):
        return found.keyType == expected.keyType and found.valueType == expected.valueType
    return found == expected


def _known(name: str) -> Column:
    if name.lower() in _BY_NAME:
        return _BY_NAME[name.lower()]
    near = get_close_matches(name.lower(), _BY_NAME, 1)
    hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(_BY_NAME)}"
    raise SettingsError(f"unknown column {name!r} of format rocketmq, {hint}")


def arrow_type(spark: DataType) -> pa.DataType:
    """Return the Arrow type that a type of Spark has in a batch. PySpark's own conversion would import pandas."""
    match spark:
        case BooleanType():
            return pa.bool_()
        case StringType():
            return pa.string()
        case BinaryType():
            return pa.binary()
        case IntegerType():
            return pa.int32()
        case LongType():
            return pa.int64()
        case TimestampType():
            return pa.timestamp("us", tz="UTC")
        case MapType():
            value = pa.field("value", arrow_type(spark.valueType), nullable=spark.valueContainsNull)
            return pa.map_(arrow_type(spark.keyType), value)
        case ArrayType():
            return pa.list_(arrow_type(spark.elementType))
        case VariantType():
            metadata = pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"})
            return pa.struct([pa.field("value", pa.binary(), nullable=False), metadata])
        case _:
            raise AssertionError(f"no column has type {spark}")


def is_any_in(names: Iterable[str], schema: pa.Schema) -> bool:
    """Return whether a schema of batches, in whatever case the user has written it, has one of some columns."""
    return not {each.lower() for each in schema.names}.isdisjoint(names)


ARROW_SCHEMA = projection(SPARK_SCHEMA)
"""The Arrow schema of a read that names no columns."""


def documentation() -> str:
    """Return the columns as a Markdown table."""
    lines = ["| column | type | null | meaning |", "|---|---|---|---|"]
    for column in COLUMNS:
        types = ", ".join(each.simpleString() for each in _types_of(column))
        null = "may be" if column.nullable else "never"
        meaning = column.meaning + ("; only if it is named" if column.is_metadata else "")
        lines.append(f"| `{column.name}` | {types} | {null} | {meaning[0].upper()}{meaning[1:]}. |")
    return "\n".join(lines) + "\n"
