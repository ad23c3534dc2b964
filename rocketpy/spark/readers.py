"""The readers of a batch read: of store directories, and of a live cluster.

The range to read is captured when the read is planned: later messages are not part of it. Readers and partitions are
sent between processes and must be picklable.

Rule: each reader is imported where it is chosen. Spark asks for the schema in a new process, before every ``load()``,
and the modules of both readers cost more than the answer.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from rocketpy.errors import SettingsError
from rocketpy.spark.live.settings import settings_of
from rocketpy.spark.options.files import VIEW
from rocketpy.spark.options.option import Mode, OptionValues
from rocketpy.spark.options.parsing import check_read_options, parse, read_mode
from rocketpy.spark.options.reading import BODY_AS, COLUMNS
from rocketpy.spark.schema import BODY_TYPES, projection, spark_schema


def schema_of(options: Mapping[str, str]) -> StructType:
    """Return the schema of a read with these options, unless the user gives one; ``SettingsError`` for wrong ones."""
    values = check_read_options(options)
    if values.mode is Mode.FILES:
        from rocketpy.spark.files.reader import store_schema

        return store_schema(values)
    try:
        settings_of(values)
    except SettingsError as error:  # of a batch, such as the latest offset as its beginning; it may be for a stream
        _check_stream(options, error)
    return spark_schema(values[COLUMNS], body_as=values[BODY_AS])


def _check_stream(options: Mapping[str, str], otherwise: SettingsError) -> None:
    try:
        settings_of(parse(options, Mode.STREAM))
    except SettingsError:
        raise otherwise from None


def open_reader(options: Mapping[str, str], schema: StructType) -> DataSourceReader:
    """Return the reader for the options; :class:`SettingsError` for a schema that it cannot give."""
    values = parse(options, read_mode(options))
    _check_user_schema(values, schema)
    if values.mode is Mode.FILES:
        from rocketpy.spark.files.reader import open_store_reader

        return open_store_reader(values, schema)
    from rocketpy.spark.live.reader import LiveReader

    projection(schema)
    return LiveReader(settings_of(values), schema)


def open_streaming_reader(options: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:
    """Return the reader of a stream; :class:`SettingsError` for wrong options and for a schema that it cannot give."""
    from rocketpy.spark.stream.reader import open_stream_reader

    values = parse(options, Mode.STREAM)
    _check_user_schema(values, schema)
    return open_stream_reader(values, schema)


def _check_user_schema(values: OptionValues, schema: StructType) -> None:
    """Refuse options that a schema of the user's own makes void: Spark does not ask for ours then."""
    if values.mode is Mode.FILES and values[VIEW] == "problems":
        return
    if values.is_given(COLUMNS):
        named = spark_schema(values[COLUMNS], body_as=values[BODY_AS])
        if schema.simpleString() != named.simpleString():
            raise SettingsError(
                f"option columns names {', '.join(named.names)}, and .schema(...) {', '.join(schema.names)}: expected "
                "one of them"
            )
    if values.is_given(BODY_AS):
        types = {field.name.lower(): field.dataType for field in schema}
        if types.get("body", BODY_TYPES[values[BODY_AS]]) != BODY_TYPES[values[BODY_AS]]:
            raise SettingsError(
                f"option bodyAs is {values[BODY_AS]}, and the body of .schema(...) {types['body'].simpleString()}: "
                "expected one of them"
            )
