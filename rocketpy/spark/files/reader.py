"""Readers of store directories: planned on the driver, executed on the executors, once per partition.

A reader and its partitions are sent between processes and must be picklable.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import attrs
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rocketpy.errors import SettingsError
from rocketpy.spark.columns.batch import record_batches
from rocketpy.spark.columns.bodies import BadBodies, find_bad_bodies
from rocketpy.spark.columns.layout import PHYSICAL_OFFSET, read_int64
from rocketpy.spark.columns.records import RecordBlock
from rocketpy.spark.columns.wanted import WantedRecords
from rocketpy.spark.failures import stated
from rocketpy.spark.files.byte_ranges import ByteRange, RangeReader
from rocketpy.spark.files.key_plan import plan_keys
from rocketpy.spark.files.log_files import CommitLogFile, FileGoneError, list_log_files, store_directory
from rocketpy.spark.files.plan import Planner, is_being_written
from rocketpy.spark.files.problems import (
    PROBLEMS_SCHEMA,
    Problem,
    ReadMode,
    Report,
    ignore_problem,
    problems_batch,
    raise_problem,
)
from rocketpy.spark.files.queue_units import KnownRecords, QueueFiles, list_queues
from rocketpy.spark.files.settings import CheckCrc, FileSettings, ReadUnits, settings_of
from rocketpy.spark.files.unit_plan import UnitPlanner, dispatched_to
from rocketpy.spark.files.unit_ranges import FoundRecords, UnitRange, UnitReader
from rocketpy.spark.filters import EVERYTHING, MessageFilter, PushedFilters
from rocketpy.spark.options.files import VIEW
from rocketpy.spark.options.option import OptionValues
from rocketpy.spark.options.reading import BODY_AS, COLUMNS
from rocketpy.spark.schema import is_any_in, projection, spark_schema
from rocketpy.store.layout import CONSUME_QUEUE_DIRECTORY

_BAD_BODIES = {
    ReadMode.FAIL_FAST: BadBodies.RAISE,
    ReadMode.PERMISSIVE: BadBodies.KEEP,
    ReadMode.DROP_MALFORMED: BadBodies.DROP,
}
Part: TypeAlias = ByteRange | tuple[UnitRange, ...] | FoundRecords
_UNITS_COST = 4
"""A byte read through a unit costs as much as so many bytes that are read one after the other."""


def store_schema(values: OptionValues) -> StructType:
    """Return the schema of a read of files, unless the user gives one."""
    if values[VIEW] != "problems":
        return spark_schema(values[COLUMNS], body_as=values[BODY_AS])
    return PROBLEMS_SCHEMA


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

    pushFilters = PushedFilters()  # noqa: N815 - Spark's name

    def __init__(self, settings: FileSettings, schema: StructType) -> None:
        self._settings = settings
        self._schema = schema

    @property
    def wants(self) -> MessageFilter:
        """What the options and the filters of the query ask for."""
        return self._settings.wants

    @wants.setter
    def wants(self, wants: MessageFilter) -> None:
        self._settings = attrs.evolve(self._settings, wants=wants)

    @stated
    def partitions(self) -> Sequence[InputPartition]:
        """List the files and plan the ranges."""
        parts, _ = _plan(self._settings, _report(self._settings))
        return [InputPartition(part) for part in parts]

    @stated
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield what is wanted of one partition."""
        if partition.value is None:  # Spark's own partition for an empty list
            return
        settings = self._settings
        columns = projection(self._schema)
        part: Part = partition.value
        rules = _range_reader(settings, _report(settings), check_crc=_checks_crc(settings, columns))
        reader = UnitReader(rules, fails_on_loss=settings.fail_on_data_loss)
        if isinstance(part, ByteRange):
            sources = [(rules.read(part), settings.wants)]
        elif isinstance(part, FoundRecords):
            sources = [(reader.read_found(part), settings.wants)]
        else:
            sources = [(reader.read(each), _of_queue(each.queue, settings.wants)) for each in part]
        try:
            for blocks, wants in sources:
                for block in blocks:
                    yield from record_batches(
                        block,
                        columns,
                        wants=wants,
                        decompress=settings.decompress,
                        bad_bodies=_BAD_BODIES[settings.mode],
                    )
        except FileGoneError:
            if settings.fail_on_data_loss:
                raise


class ProblemsReader(DataSourceReader):
    """Reads the damaged places of a store directory: everything is checked, whatever is wanted of the messages."""

    def __init__(self, settings: FileSettings) -> None:
        self._settings = attrs.evolve(settings, mode=ReadMode.DROP_MALFORMED, wants=EVERYTHING)

    @stated
    def partitions(self) -> Sequence[InputPartition]:
        """List the files and plan the ranges; what is found on the way is a partition of its own."""
        problems: list[Problem] = []
        parts, tail = _plan(self._settings, problems.append)
        if tail is not None and not is_being_written(tail):
            problems.append(tail)
        return [InputPartition(problems), *(InputPartition(part) for part in parts)]

    @stated
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the problems of one partition, if there are any."""
        value: list[Problem] | ByteRange = partition.value
        if isinstance(value, ByteRange):
            problems: list[Problem] = []
            for block in _range_reader(self._settings, problems.append, check_crc=True).read(value):
                problems += _bad_bodies(block, value.file)
        else:
            problems = value
        if problems:
            yield problems_batch(problems)


def _bad_bodies(block: RecordBlock, file: CommitLogFile) -> Iterator[Problem]:
    """Yield the bodies of sound records that do not decompress."""
    for row, why in find_bad_bodies(WantedRecords(block)):
        position = int(read_int64(block.buffer, block.starts[row : row + 1] + PHYSICAL_OFFSET)[0]) - file.base_offset
        yield Problem(file.path, position, int(block.sizes[row]), why)


def _plan(settings: FileSettings, report: Report) -> tuple[list[Part], Problem | None]:
    """Return the parts of a read, and the torn end of the log if it has one."""
    queues = [] if settings.read_units is ReadUnits.NEVER else list_queues(_queues_of(settings))
    known = KnownRecords(queues)
    planner = Planner(
        queues=queues,
        partition_bytes_max=settings.partition_bytes_max,
        partitions_min=settings.partitions_min,
        wants=settings.wants,
    )
    files = list_log_files(settings.path, report, lambda file: known.last_record(file) is not None)
    plan = planner.plan(files)
    whole = _Way(sum(part.size for part in plan.ranges), lambda: [*plan.ranges])
    ways = [] if settings.read_units is ReadUnits.ALWAYS else [whole]
    if settings.read_units is not ReadUnits.NEVER and plan.ranges:
        ways += _through_units(settings, planner, files, plan.ranges)
        ways += _through_index(settings, plan.ranges)
    return min(ways, key=lambda way: way.cost, default=whole).parts(), plan.tail


class _Way(NamedTuple):
    """A way to read what is wanted; its parts are planned only if it is taken."""

    cost: int
    parts: Callable[[], list[Part]]


def _through_units(
    settings: FileSettings, planner: Planner, files: Sequence[CommitLogFile], otherwise: Sequence[ByteRange]
) -> list[_Way]:
    """Return the way that reads wanted topics through their queues; none where these are no help."""
    queues = planner.queues
    if settings.wants.topics is None or not queues:
        return []
    limit = dispatched_to(store_directory(settings.path), files, queues)
    units = UnitPlanner(queues=queues, wants=settings.wants, partition_bytes=_step(settings, otherwise))
    tasks, bytes_wanted = units.plan(files, limit)
    bytes_after = sum(min(part.size, max(0, part.file.base_offset + part.end - limit)) for part in otherwise)
    return [_Way(_UNITS_COST * bytes_wanted + bytes_after, lambda: [*tasks, *planner.plan(files, limit).ranges])]


def _through_index(settings: FileSettings, otherwise: Sequence[ByteRange]) -> list[_Way]:
    """Return the way that reads wanted keys through the index; none where that is no help."""
    root = store_directory(settings.path)
    plan = plan_keys(root, settings.wants, otherwise, _step(settings, otherwise))
    return [] if plan is None else [_Way(plan.cost, lambda: [*plan.found, *plan.rest])]


def _step(settings: FileSettings, otherwise: Sequence[ByteRange]) -> int:
    """Return how many bytes a task should read, about."""
    size = sum(part.size for part in otherwise)
    return min(settings.partition_bytes_max, max(1, size // settings.partitions_min))


def _of_queue(queue: QueueFiles, wants: MessageFilter) -> MessageFilter:
    """Return what is wanted of a queue's own records, which are those of its topic and number."""
    return attrs.evolve(wants, topics=frozenset((queue.topic,)), queue_ids=frozenset((queue.queue_id,)))


def _range_reader(settings: FileSettings, report: Report, *, check_crc: bool) -> RangeReader:
    return RangeReader(
        report=report,
        next_record=_no_record if settings.read_units is ReadUnits.NEVER else partial(_next_record, settings),
        check_crc=check_crc,
        mode=settings.mode,
        piece_size=settings.piece_size,
    )


def _checks_crc(settings: FileSettings, columns: pa.Schema) -> bool:
    """Return whether bodies are compared with their checksums, which cover nothing else.

    ``dropMalformed`` has the same rows whatever the columns are.
    """
    if settings.check_crc is not CheckCrc.AUTO:
        return settings.check_crc is CheckCrc.ALWAYS
    return settings.mode is ReadMode.DROP_MALFORMED or is_any_in(("body", "body_size"), columns)


def _report(settings: FileSettings) -> Report:
    return raise_problem if settings.mode is ReadMode.FAIL_FAST else ignore_problem


def _queues_of(settings: FileSettings) -> str:
    return os.path.join(store_directory(settings.path), CONSUME_QUEUE_DIRECTORY)


def _next_record(settings: FileSettings, file: CommitLogFile, position: int) -> int | None:
    """Ask all queues; their directory is listed only where something is damaged."""
    return KnownRecords(list_queues(_queues_of(settings))).next_record(file, position)


def _no_record(file: CommitLogFile, position: int) -> None:
    """Know no record: the ConsumeQueues are not to be used."""
