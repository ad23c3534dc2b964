"""Archive in a table of Delta or Iceberg: the same messages as in Parquet files, written by the format's own writer.

These formats append a run as one transaction, so a run is in the table whole or not at all. A run may append and die
before it can note what it has added, and must not be repeated then: each row has the id of its run in the column
``archive_run``, a run announces its id before it appends, and the next run looks for that id in the table.

The jars of the format are the user's to add (``--conf spark.jars.packages=...``), and its catalog to configure.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812

from rocketpy.clock import Clock, SystemClock
from rocketpy.errors import StartError
from rocketpy.spark.pipelines.archive import PARTITION_COLUMNS, FreshMessages, with_date
from rocketpy.spark.pipelines.archive_log.counts import count_messages
from rocketpy.spark.pipelines.archive_log.log import ArchiveLog
from rocketpy.spark.pipelines.archive_log.opening import open_archive_log
from rocketpy.spark.pipelines.summary import Summary, seconds_since
from rocketpy.spark.schema import SPARK_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RUN_COLUMN = "archive_run"
NOT_THERE = "DATA_SOURCE_NOT_FOUND"


@attrs.frozen
class TableFormat:
    """A format of Spark whose appends are transactions, and the table: a path with a slash, or a name in a catalog.

    The first append creates the table; Iceberg creates tables only by name.
    """

    name: str
    table: str

    @property
    def is_path(self) -> bool:
        """Whether the table is named by its directory."""
        return "/" in self.table

    def append(self, rows: DataFrame) -> None:
        """Append rows as one transaction."""
        writer = rows.write.format(self.name).mode("append").partitionBy(*PARTITION_COLUMNS)
        if self.is_path:
            writer.save(self.table)
        else:
            writer.saveAsTable(self.table)

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the rows of the table."""
        return spark.read.format(self.name).load(self.table) if self.is_path else spark.read.table(self.table)


def archive_to_table(messages: DataFrame, path: str, table: TableFormat, *, clock: Clock | None = None) -> Summary:
    """Append the messages that the table does not have, and return what was done.

    ``path`` is the directory of the archive's log, which says what the table has; for a Delta table it may be the
    table's own. ``StartError`` if Spark does not have the format, or another run is writing.
    """
    clock = clock or SystemClock()
    begin_ms = clock.timestamp_ms()
    spark = messages.sparkSession
    log = open_archive_log(spark, path, clock=clock)
    with log.opened_for_writing(), _needed(table):
        for run_id in log.announced():
            _settle(spark, log, table, run_id, clock)
        run_id = str(uuid.uuid4())
        fresh = FreshMessages.of(messages, log.state().ranges)
        log.announce(run_id)
        with fresh.counted():
            table.append(with_date(fresh.messages).withColumn(RUN_COLUMN, F.lit(run_id)))
        written = _settle(spark, log, table, run_id, clock)
    details = {"archive": log.root, "format": table.name, "table": table.table}
    return fresh.summary(written, seconds_since(begin_ms, clock), details)


def read_table(spark: SparkSession, table: TableFormat) -> DataFrame:
    """Return the messages of a table, with the columns of the format."""
    with _needed(table):
        return table.read(spark).select(*SPARK_SCHEMA.names)


def _settle(spark: SparkSession, log: ArchiveLog, table: TableFormat, run_id: str, clock: Clock) -> int:
    """Note what a run has appended, if it did, and return how many messages that was."""
    state = log.state()
    rows = 0
    if run_id not in {record.id for record in log.records()} and _exists(spark, table):
        appended = table.read(spark).where(F.col(RUN_COLUMN) == run_id)
        counted = count_messages(appended, F.lit(run_id))
        rows = sum(counted.rows.values())
        if rows:
            log.commit(state.next_record(run_id, clock, ranges=counted.ranges))
    log.withdraw(run_id)
    return rows


def _exists(spark: SparkSession, table: TableFormat) -> bool:
    """Return whether a run has created the table; the first one may have died before."""
    try:
        return RUN_COLUMN in table.read(spark).columns
    except PySparkException as error:
        if NOT_THERE in str(error):
            raise
        return False


@contextmanager
def _needed(table: TableFormat) -> Iterator[None]:
    """Say what is missing where Spark says that it does not know the format."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:  # Spark itself has not decided which
        if NOT_THERE not in str(error):
            raise
        raise StartError(
            f"Spark has no format {table.name}: start the session with its jars, as "
            f"spark.jars.packages=<the package of {table.name} for this Spark>"
        ) from error
