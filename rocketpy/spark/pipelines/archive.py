"""Archive: topics into Parquet files partitioned by topic and date, incrementally, each message once.

::

    messages = live_messages(spark, "127.0.0.1:9876", ["orders"])
    archive(messages, "/archive")                                       # again tomorrow: adds what is new
    archive(store_messages(spark, "/mnt/dead/store", "broker-a"), "/archive")
    read_archive(spark, "/archive").groupBy("topic").count().show()

A message is known by broker, topic, queue and queue offset. What an archive has is in its log
(:mod:`rocketpy.spark.pipelines.archive_log.log`), as ranges of queue offsets that are counted in the files after they
were written, so a run adds exactly what no run before it has. Spark's checkpoint of a stream would do for a live
cluster alone: it knows nothing of a disk from which the same queues are archived.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING
from urllib.parse import unquote

import attrs
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DateType, StructField, StructType

from rocketpy.clock import Clock, SystemClock
from rocketpy.spark.pipelines.archive_log.counts import QUEUE_COLUMNS, count_messages
from rocketpy.spark.pipelines.archive_log.log import ArchiveLog
from rocketpy.spark.pipelines.archive_log.opening import open_archive_log
from rocketpy.spark.pipelines.archive_log.ranges import OffsetRange, gaps, joined
from rocketpy.spark.pipelines.archive_log.record import ArchivedFile, ArchiveState, RunRecord
from rocketpy.spark.pipelines.local_rows import local_frame
from rocketpy.spark.pipelines.summary import Summary, seconds_since
from rocketpy.spark.schema import SPARK_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITION_COLUMNS = ("topic", "date")
SECONDS_OF_A_DAY = 86_400
ALREADY_ARCHIVED = "already archived"
_EXCLUDED_RULES = "spark.sql.adaptive.optimizer.excludedRules"
_DROP_EMPTY_PLANS = "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"

_RANGE_SCHEMA = "topic string, broker_name string, queue_id int, start long, end long"


def archive(
    messages: DataFrame, path: str, *, files_per_partition: int | None = None, clock: Clock | None = None
) -> Summary:
    """Add the messages that the archive at ``path`` does not have, and return what was done. Durable when it returns.

    ``messages`` has the columns of the format, and a broker name in every row. ``files_per_partition`` shuffles them so
    that each topic and date gets no more files than that; without it each task writes its own. A run that fails or is
    killed adds nothing. ``StartError`` if another run is writing, ``SettingsError`` for rows without a broker name
    or a queue offset that comes twice.
    """
    clock = clock or SystemClock()
    begin_ms = clock.timestamp_ms()
    spark = messages.sparkSession
    log = open_archive_log(spark, path, clock=clock)
    with log.opened_for_writing() as state:
        fresh = FreshMessages.of(messages, state.ranges)

        def stage(run_id: str) -> RunRecord | None:
            with fresh.counted():
                _write(fresh.messages, log.staging(run_id), files_per_partition)
            return staged_record(spark, log, state, run_id, clock)

        record = log.add_run(stage)
    after = joined([*state.ranges, *(record.ranges if record else ())])
    details = {
        "archive": log.root,
        "run": record.run if record else None,
        "files": len(record.files) if record else 0,
        "queues": len({(each.topic, each.broker_name, each.queue_id) for each in after}),
        "missing": sum(each.message_count for each in gaps(after)),
    }
    return fresh.summary(record.row_count if record else 0, seconds_since(begin_ms, clock), details)


@attrs.frozen
class FreshMessages:
    """The messages that a run adds; Spark counts those that it looks at for them."""

    messages: DataFrame
    seen: Observation

    @classmethod
    def of(cls, messages: DataFrame, held: Sequence[OffsetRange]) -> FreshMessages:
        """Return the messages that are in none of the ranges of an archive."""
        seen = Observation()
        return cls(without(messages.observe(seen, F.count(F.lit(1)).alias("rows")), held), seen)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Write within it: Spark would drop a plan that turns out to have no rows while it runs, and its count."""
        conf = self.messages.sparkSession.conf
        excluded = conf.get(_EXCLUDED_RULES, None)
        conf.set(_EXCLUDED_RULES, ",".join(filter(None, [excluded, _DROP_EMPTY_PLANS])))
        try:
            yield
        finally:
            if excluded is None:
                conf.unset(_EXCLUDED_RULES)
            else:
                conf.set(_EXCLUDED_RULES, excluded)

    def summary(self, written: int, seconds: float, details: Mapping[str, object]) -> Summary:
        """Return the figures of the run that has written them."""
        read = int(self.seen.get.get("rows", written))  # no figure where Spark knows beforehand that there is no row
        return Summary(
            pipeline="archive",
            read=read,
            written=written,
            skipped={ALREADY_ARCHIVED: read - written},
            seconds=seconds,
            details=details,
        )


def read_archive(
    spark: SparkSession, path: str, *, topics: Sequence[str] = (), as_of: int | datetime | None = None
) -> DataFrame:
    """Return the messages of an archive, of these topics or of all, with the columns of the format.

    ``as_of`` is the number of a run, or a time with a time zone: the archive as it was after that run, or at that time
    of the drivers' clocks. ``SettingsError`` for a run that has not been. Only files of committed runs are read,
    wherever they are at the moment; every column may be null for Spark.
    """
    log = open_archive_log(spark, path)
    now = log.state()
    then = now if as_of is None else log.state(as_of)
    is_compacted = not set(then.files) <= set(now.files)
    files = now.files if is_compacted else then.files
    parts = [read_files(spark, root, paths) for root, paths in log.paths(files).items()]
    if not parts:
        return local_frame(spark, [], SPARK_SCHEMA)
    messages = reduce(DataFrame.unionByName, parts).select(*SPARK_SCHEMA.names)
    if is_compacted:  # a file of that time is part of another one now, maybe with later messages
        messages = _joined_with(messages, then.ranges, "left_semi")
    return messages.where(F.col("topic").isin(list(topics))) if topics else messages


def archived_ranges(spark: SparkSession, path: str) -> tuple[OffsetRange, ...]:
    """Return which queue offsets an archive has, by queue and offset."""
    return open_archive_log(spark, path).state().ranges


def without(messages: DataFrame, ranges: Sequence[OffsetRange]) -> DataFrame:
    """Return the messages that are in none of the ranges."""
    return _joined_with(messages, ranges, "left_anti") if ranges else messages


def _joined_with(messages: DataFrame, ranges: Sequence[OffsetRange], how: str) -> DataFrame:
    """Return the messages that are in the ranges (``left_semi``), or those that are not (``left_anti``)."""
    rows = [(each.topic, each.broker_name, each.queue_id, each.start, each.end) for each in ranges]
    held = F.broadcast(local_frame(messages.sparkSession, rows, _RANGE_SCHEMA)).alias("held")
    offset = messages["queue_offset"]
    same_queue = [messages[name] == F.col(f"held.{name}") for name in QUEUE_COLUMNS]
    return messages.join(held, [*same_queue, offset >= F.col("held.start"), offset < F.col("held.end")], how=how)


def with_date(messages: DataFrame) -> DataFrame:
    """Return messages with the columns of an archive. The date is that of the store's time, in UTC."""
    days = F.floor(F.unix_seconds("store_timestamp") / F.lit(SECONDS_OF_A_DAY)).cast("int")
    return messages.select(*SPARK_SCHEMA.names, F.date_from_unix_date(days).alias("date"))


def read_files(spark: SparkSession, root: str, paths: Sequence[str]) -> DataFrame:
    """Read files under a directory. The schema is given, or Spark would take a topic named ``123`` for a number."""
    schema = StructType([*SPARK_SCHEMA.fields, StructField("date", DateType())])
    return spark.read.schema(schema).option("basePath", root).parquet(*(f"{root}/{path}" for path in paths))


def staged_record(
    spark: SparkSession, log: ArchiveLog, state: ArchiveState, run_id: str, clock: Clock
) -> RunRecord | None:
    """Return the record of what was staged, counted in the files themselves; None if they have no message."""
    paths = log.staged_files(run_id)
    if not paths:
        return None
    counted = count_messages(read_files(spark, log.staging(run_id), paths), F.col("_metadata.file_path"))
    rows = Counter[str]()
    for uri, count in counted.rows.items():
        rows["/".join(unquote(uri).split("/")[-1 - len(PARTITION_COLUMNS) :])] += count
    files = tuple(ArchivedFile(path, rows[path]) for path in paths)
    return state.next_record(run_id, clock, ranges=counted.ranges, files=files)


def _write(fresh: DataFrame, staging: str, files_per_partition: int | None) -> None:
    """Write the messages as the archive has them."""
    dated = with_date(fresh)
    if files_per_partition is not None:
        part = F.pmod(F.col("queue_id"), F.lit(files_per_partition))
        dated = dated.repartition(*PARTITION_COLUMNS, part)
    dated.write.partitionBy(*PARTITION_COLUMNS).parquet(staging)
