"""Readers of store directories: planned on the driver, executed on the executors, once per partition.

A reader and its partitions are sent between processes and must be picklable.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial

import attrs
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rocketpy.errors import SettingsError
from rocketpy.spark.columns.batch import record_batches
from rocketpy.spark.files.byte_ranges import ByteRange, RangeReader
from rocketpy.spark.files.log_files import CommitLogFile, FileGoneError, list_log_files, store_directory
from rocketpy.spark.files.plan import Plan, Planner
from rocketpy.spark.files.problems import (
    PROBLEMS_SCHEMA,
    Problem,
    ReadMode,
    Report,
    ignore_problem,
    problems_batch,
    raise_problem,
)
from rocketpy.spark.files.queue_units import KnownRecords, list_queues
from rocketpy.spark.files.settings import FileSettings, ReadUnits, settings_of
from rocketpy.spark.filters import EVERYTHING
from rocketpy.spark.options.files import VIEW
from rocketpy.spark.options.option import OptionValues
from rocketpy.spark.schema import SPARK_SCHEMA, projection
from rocketpy.store.layout import CONSUME_QUEUE_DIRECTORY


def store_schema(values: OptionValues) -> StructType:
    """Return the schema of a read of files that names no columns."""
    return PROBLEMS_SCHEMA if values[VIEW] == "problems" else SPARK_SCHEMA


def open_store_reader(values: OptionValues, schema: StructType) -> DataSourceReader:
    """Return the reader of what the options ask for; ``SettingsError`` for a schema that does not fit it."""
    settings = settings_of(values)
    if values[VIEW] == "problems":
        if schema != PROBLEMS_SCHEMA:
            raise SettingsError(f"view problems: expected no schema or {PROBLEMS_SCHEMA.simpleString()}")
        return ProblemsReader(settings)
    projection(schema)
    return StoreReader(settings, schema)


class StoreReader(DataSourceReader):
    """Reads the messages of a store directory."""

    def __init__(self, settings: FileSettings, schema: StructType) -> None:
        self._settings = settings
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """List the files and plan the ranges."""
        plan = _plan(self._settings, _report(self._settings))
        return [InputPartition(part) for part in plan.ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield what is wanted of one partition."""
        if partition.value is None:  # Spark's own partition for an empty list
            return
        settings = self._settings
        columns = projection(self._schema)
        try:
            for block in _range_reader(settings, _report(settings)).read(partition.value):
                yield from record_batches(block, columns, wants=settings.wants, decompress=settings.decompress)
        except FileGoneError:
            if settings.fail_on_data_loss:
                raise


class ProblemsReader(DataSourceReader):
    """Reads the damaged places of a store directory: everything is checked, whatever is wanted of the messages."""

    def __init__(self, settings: FileSettings) -> None:
        self._settings = attrs.evolve(settings, mode=ReadMode.DROP_MALFORMED, check_crc=True, wants=EVERYTHING)

    def partitions(self) -> Sequence[InputPartition]:
        """List the files and plan the ranges; what is found on the way is a partition of its own."""
        problems: list[Problem] = []
        plan = _plan(self._settings, problems.append)
        if plan.tail is not None:
            problems.append(plan.tail)
        return [InputPartition(problems), *(InputPartition(part) for part in plan.ranges)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the problems of one partition, if there are any."""
        value: list[Problem] | ByteRange = partition.value
        if isinstance(value, ByteRange):
            problems: list[Problem] = []
            deque(_range_reader(self._settings, problems.append).read(value), maxlen=0)
        else:
            problems = value
        if problems:
            yield problems_batch(problems)


def _plan(settings: FileSettings, report: Report) -> Plan:
    queues = [] if settings.read_units is ReadUnits.NEVER else list_queues(_queues_of(settings))
    known = KnownRecords(queues)
    planner = Planner(
        queues=queues,
        partition_bytes_max=settings.partition_bytes_max,
        partitions_min=settings.partitions_min,
        wants=settings.wants,
    )
    return planner.plan(list_log_files(settings.path, report, lambda file: known.last_record(file) is not None))


def _range_reader(settings: FileSettings, report: Report) -> RangeReader:
    return RangeReader(
        report=report,
        next_record=_no_record if settings.read_units is ReadUnits.NEVER else partial(_next_record, settings),
        check_crc=settings.check_crc,
        mode=settings.mode,
        piece_size=settings.piece_size,
    )


def _report(settings: FileSettings) -> Report:
    return raise_problem if settings.mode is ReadMode.FAIL_FAST else ignore_problem


def _queues_of(settings: FileSettings) -> str:
    return os.path.join(store_directory(settings.path), CONSUME_QUEUE_DIRECTORY)


def _next_record(settings: FileSettings, file: CommitLogFile, position: int) -> int | None:
    """Ask all queues; their directory is listed only where something is damaged."""
    return KnownRecords(list_queues(_queues_of(settings))).next_record(file, position)


def _no_record(file: CommitLogFile, position: int) -> None:
    """Know no record: the ConsumeQueues are not to be used."""
