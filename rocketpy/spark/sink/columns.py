"""Columns that ``df.write.format("rocketmq")`` accepts, and the check of a DataFrame's schema against them.

The check runs on the driver, before any task starts. Names are compared without case, as Spark compares them.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from pyspark.sql.types import DataType, StructType

from rocketpy.spark.sink.failures import SinkError

_INTEGERS = ("tinyint", "smallint", "int", "bigint")


@attrs.frozen
class SinkColumn:
    """One accepted column. ``types`` are Spark's names of types (``simpleString``), the usual one first."""

    name: str
    types: tuple[str, ...]
    meaning: str


SINK_COLUMNS: tuple[SinkColumn, ...] = (
    SinkColumn("topic", ("string",), "topic of the message; null: that of the option `topic`"),
    SinkColumn("body", ("binary", "string"), "body, required and not empty; a string is written as UTF-8"),
    SinkColumn("tags", ("string",), "the tag; null or blank: none"),
    SinkColumn("keys", ("string", "array<string>"), "index keys; a string has them separated by blanks"),
    SinkColumn(
        "properties", ("map<string,string>",), "properties of the program; KEYS, TAGS and UNIQ_KEY may be there"
    ),
    SinkColumn("queue_id", ("int", "tinyint", "smallint", "bigint"), "queue of the topic; null: the producer's choice"),
    SinkColumn(
        "sharding_key",
        ("string", *_INTEGERS),
        "rows of equal keys go to one queue, in order: `SelectMessageQueueByHash`; null: the producer's choice",
    ),
    SinkColumn("delay_level", ("int", "tinyint", "smallint", "bigint"), "delay level from 1 on; null or 0: no delay"),
)
_BY_NAME = {column.name: column for column in SINK_COLUMNS}
ACCEPTED = ", ".join(column.name for column in SINK_COLUMNS)


def check_sink_schema(schema: StructType, *, has_topic: bool) -> tuple[str, ...]:
    """Return the names of the accepted columns in the order of the schema; ``has_topic``: the option names one.

    Raises :class:`SinkError` for the first column that is not accepted, of a wrong type, twice there, or missing.
    """
    names: list[str] = []
    for field in schema.fields:
        column = _BY_NAME.get(field.name.lower())
        if column is None:
            raise SinkError(
                f"the DataFrame has the column {field.name!r}, which format rocketmq does not write; it writes "
                f"{ACCEPTED}: drop the column, or put it into body or properties"
            )
        _check_type(column, field.name, field.dataType)
        if column.name in names:
            raise SinkError(f"the DataFrame has the column {column.name!r} twice, format rocketmq needs it once")
        names.append(column.name)
    if "body" not in names:
        raise SinkError(f"the DataFrame has no column 'body' (binary or string), it has {_listed(schema.names)}")
    if "topic" not in names and not has_topic:
        raise SinkError(
            "the topic is missing: give the option topic, or the column 'topic' (string), "
            f"the DataFrame has {_listed(schema.names)}"
        )
    return tuple(names)


def documentation() -> str:
    """Return the accepted columns as a Markdown table."""
    lines = ["| column | type | meaning |", "|---|---|---|"]
    for column in SINK_COLUMNS:
        types = " or ".join(f"`{each}`" for each in column.types)
        lines.append(f"| `{column.name}` | {types} | {column.meaning} |")
    return "\n".join(lines) + "\n"


def _check_type(column: SinkColumn, name: str, found: DataType) -> None:
    text = found.simpleString()
    is_text = text == "string" or text.startswith(("string collate", "varchar(", "char("))
    if text not in column.types and not (is_text and "string" in column.types):
        raise SinkError(f"the column {name!r} is of type {text}, format rocketmq needs {' or '.join(column.types)}")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if names else "no columns"
