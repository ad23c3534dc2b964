"""The two readers of the data source: planned on the driver, executed on the executors, once per partition.

The range to read is captured when the read is planned: later messages are not part of it. Filters of a query are not
pushed down, because Spark refuses every read of a source with pushdown unless the session has enabled
``spark.sql.python.filterPushdown.enabled``; the options ``topic``, ``startTimestamp`` and ``endTimestamp`` select
instead. Readers and partitions are sent between processes and must be picklable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rocketpy.errors import SettingsError
from rocketpy.spark.commit_log_files import list_commit_log_files, read_messages, split_files
from rocketpy.spark.live_queues import plan_queue_ranges, read_queue_range
from rocketpy.spark.options.read import ReadOptions
from rocketpy.spark.rows import record_batches
from rocketpy.spark.schema import SPARK_SCHEMA


def open_reader(options: ReadOptions, schema: StructType) -> DataSourceReader:
    """Return the reader for the options; :class:`SettingsError` for a schema of the user's own."""
    if schema != SPARK_SCHEMA:
        raise SettingsError(f"format rocketmq has its own schema, expected none or {SPARK_SCHEMA.simpleString()}")
    return LiveReader(options) if options.path is None else StoreReader(options, options.path)


class StoreReader(DataSourceReader):
    """Reads CommitLog files: one partition for each file, or more if the user wants more."""

    def __init__(self, options: ReadOptions, path: str) -> None:
        self._options = options
        self._path = path

    def partitions(self) -> Sequence[InputPartition]:
        """List the files."""
        files = list_commit_log_files(self._path)
        return [InputPartition(part) for part in split_files(files, self._options.min_partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield what is wanted of one range of a file."""
        if partition.value is None:  # Spark's own partition for an empty list
            return iter(())
        options = self._options
        return record_batches(read_messages(partition.value, options.wants, decompress=options.decompress))


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
