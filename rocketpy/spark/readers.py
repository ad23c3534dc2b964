"""The readers of a batch read: of store directories, and of a live cluster.

The range to read is captured when the read is planned: later messages are not part of it. Readers and partitions are
sent between processes and must be picklable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rocketpy.errors import SettingsError
from rocketpy.spark.files.reader import open_store_reader, store_schema
from rocketpy.spark.live_queues import plan_queue_ranges, read_queue_range
from rocketpy.spark.options.option import Mode
from rocketpy.spark.options.parsing import check_read_options, parse, read_mode
from rocketpy.spark.options.read import ReadOptions, parse_options
from rocketpy.spark.options.reading import BODY_AS, COLUMNS
from rocketpy.spark.rows import record_batches
from rocketpy.spark.schema import SPARK_SCHEMA, spark_schema


def schema_of(options: Mapping[str, str]) -> StructType:
    """Return the schema of a read with these options, unless the user gives one; ``SettingsError`` for wrong ones."""
    values = check_read_options(options)
    if values.mode is Mode.FILES:
        return store_schema(values)
    return spark_schema(values[COLUMNS], body_as=values[BODY_AS])


def open_reader(options: Mapping[str, str], schema: StructType) -> DataSourceReader:
    """Return the reader for the options; :class:`SettingsError` for a schema that it cannot give."""
    mode = read_mode(options)
    if mode is Mode.FILES:
        return open_store_reader(parse(options, mode), schema)
    if schema != SPARK_SCHEMA:
        raise SettingsError(f"format rocketmq has its own schema, expected none or {SPARK_SCHEMA.simpleString()}")
    return LiveReader(parse_options(options))


class LiveReader(DataSourceReader):
    """Reads the queues of a live cluster: one partition for each queue that holds messages, or more if wanted."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Ask the cluster for queues and their offsets."""
        return [InputPartition(part) for part in plan_queue_ranges(self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield what is wanted of one range of a queue."""
        if partition.value is None:
            return iter(())
        return record_batches(read_queue_range(partition.value, self._options))
