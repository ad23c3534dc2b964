"""Audit of a whole store directory: log, queues, index, the broker's tables, and an archive if there is one.

The log is read once: its columns without the bodies are kept by Spark for the comparisons, in memory or on the
executors' disks. A store that a broker is writing may be audited: queues and index are listed first, and records and
units that came after are left out of the comparison.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import attrs
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.storagelevel import StorageLevel

from rocketpy.protocol.topic_name import (
    SCHEDULE_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)
from rocketpy.spark.pipelines.audit.archives import log_against_archive
from rocketpy.spark.pipelines.audit.findings import FINDING_SCHEMA, KINDS, findings_of, severity_of, union_of
from rocketpy.spark.pipelines.audit.index_entries import index_entries
from rocketpy.spark.pipelines.audit.key_index import log_against_index
from rocketpy.spark.pipelines.audit.progress import (
    bounds_of_units,
    group_offsets,
    log_against_offsets,
    topics_without_groups,
)
from rocketpy.spark.pipelines.audit.queue_units import queue_gaps, queue_units
from rocketpy.spark.pipelines.audit.queues import gaps_of_queues, log_against_queues
from rocketpy.spark.pipelines.audit.report import LISTED_MAX, AuditReport, KindCount, ordered
from rocketpy.spark.pipelines.audit.store_files import StoreFiles, list_store
from rocketpy.spark.pipelines.audit.stuck import (
    dead_letter_findings,
    dead_letters,
    is_dead_letter,
    open_transactions,
    overdue_messages,
)
from rocketpy.spark.pipelines.sources import whole_log

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

COLUMNS = (
    "topic",
    "queue_id",
    "queue_offset",
    "physical_offset",
    "message_id",
    "unique_key",
    "keys",
    "tags",
    "properties",
    "store_timestamp",
    "reconsume_times",
    "sys_flag",
    "prepared_transaction_offset",
    "stored_size",
)
"""What the comparisons need of a message; of the bodies only those of op messages."""


@attrs.frozen(kw_only=True)
class Audit:
    """One audit: all findings as a DataFrame with the columns of ``FINDING_SCHEMA``, and the report."""

    findings: DataFrame
    report: AuditReport


@contextmanager
def audit_store(
    spark: SparkSession, path: str, *, archive: DataFrame | None = None, at: datetime | None = None
) -> Iterator[Audit]:
    """Audit a store directory; inside the block the findings are kept by Spark, after it they can no longer be read.

    ``at`` is the moment to which due times refer, without it the time of the last message. Of ``archive``, an archive
    of this broker's messages, every message is compared. :class:`~rocketpy.errors.SettingsError` where there is no
    store.
    """
    begin = time.monotonic()
    files = list_store(path)
    units = queue_units(spark, files).persist(StorageLevel.MEMORY_AND_DISK)
    end = _end_of_units(units) if files.is_live else None
    log = whole_log(spark, path)
    messages = log.select(*COLUMNS, _op_body()).persist(StorageLevel.MEMORY_AND_DISK)
    kept = [units, messages]
    try:
        if end is not None:
            messages = messages.where(F.col("physical_offset") < end)
        extent = _extent(messages)
        moment = at or extent.last or datetime.fromtimestamp(0, UTC)
        findings = union_of(
            [
                *_of_log(spark, files, messages, units, end),
                *_of_progress(spark, files, messages, units),
                *_of_stuck(files, messages, units, extent, moment),
                *([] if archive is None else [log_against_archive(log, archive)]),
                _of_files(spark, files),
            ]
        ).persist(StorageLevel.MEMORY_AND_DISK)
        kept.append(findings)
        counts, listed = _listed(findings)
        report = AuditReport(
            path=files.path,
            is_live=files.is_live,
            at=moment.isoformat(),
            messages=extent.count,
            units=units.count(),
            index_entries=sum(each.header.index_count - 1 for each in files.index_files),
            groups=len(files.tables.offsets or {}),
            kinds=counts,
            listed=listed,
            seconds=time.monotonic() - begin,
        )
        yield Audit(findings=findings, report=report)
    finally:
        for each in kept:
            each.unpersist()


def _op_body() -> Column:
    return F.when(F.col("topic") == TRANS_OP_HALF_TOPIC, F.col("body")).alias("body")


def _end_of_units(units: DataFrame) -> int:
    """Return the physical offset after the last unit's record: what lies before was dispatched when it was listed."""
    [row] = units.agg(F.max(F.col("physical_offset") + F.col("size")).alias("end")).collect()
    return row.end or 0


@attrs.frozen(kw_only=True)
class _Extent:
    """What is in a log, so that comparisons of what is not there are left out: each costs several jobs of Spark."""

    count: int
    last: datetime | None
    """When the last message was stored."""
    has_dead_letters: bool
    has_transactions: bool
    has_delays: bool


def _extent(messages: DataFrame) -> _Extent:
    topic = F.col("topic")
    [row] = messages.agg(
        F.count("*").alias("count"),
        F.unix_millis(F.max("store_timestamp")).alias("last"),
        F.count_if(is_dead_letter()).alias("dead"),
        F.count_if(topic.isin(TRANS_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC)).alias("halves"),
        F.count_if(topic == SCHEDULE_TOPIC).alias("delays"),
    ).collect()
    return _Extent(
        count=row["count"],
        last=None if row["last"] is None else datetime.fromtimestamp(row["last"] / 1000, UTC),
        has_dead_letters=row["dead"] > 0,
        has_transactions=row["halves"] > 0,
        has_delays=row["delays"] > 0,
    )


def _of_log(
    spark: SparkSession, files: StoreFiles, messages: DataFrame, units: DataFrame, end: int | None
) -> list[DataFrame]:
    """Return the findings about log, queues and index."""
    problems = whole_log(spark, files.path, options={"view": "problems"})
    findings = [
        damages_of_log(problems),
        log_against_queues(
            messages,
            units,
            log_min_offset=files.log_min_offset,
            log_end_offset=end,
            topics=files.tables.topics,
            deleted_before=files.deleted_before,
        ),
    ]
    gaps = queue_gaps(spark, files)
    if not gaps.isEmpty():
        findings.append(gaps_of_queues(messages, gaps))
    if files.index_files:
        entries = index_entries(spark, files)
        findings.append(log_against_index(messages, entries, log_min_offset=files.log_min_offset, log_end_offset=end))
    return findings


def damages_of_log(problems: DataFrame) -> DataFrame:
    """Return a finding for each damaged place of the log; ``problems`` is that view of the reader."""
    base_offset = F.element_at(F.split("file", "/"), -1).cast("bigint")
    return findings_of(
        problems.withColumn("physical_offset", base_offset + F.col("position")),
        "damagedLog",
        expected=F.format_string("records in %d bytes of %s", "size", "file"),
        found=F.col("what"),
    )


def _of_progress(spark: SparkSession, files: StoreFiles, messages: DataFrame, units: DataFrame) -> list[DataFrame]:
    """Return the findings about consumer groups."""
    tables = files.tables
    if tables.offsets is None:
        return []
    bounds = bounds_of_units(units, log_min_offset=files.log_min_offset)
    offsets = group_offsets(spark, tables.offsets)
    against = [log_against_offsets(messages, offsets, bounds, topics=tables.topics)] if tables.offsets else []
    return [*against, topics_without_groups(bounds, offsets)]


def _of_stuck(
    files: StoreFiles, messages: DataFrame, units: DataFrame, extent: _Extent, moment: datetime
) -> list[DataFrame]:
    """Return the findings about dead letters, transactions and delayed messages."""
    tables, findings = files.tables, []
    if extent.has_dead_letters:
        findings.append(dead_letter_findings(dead_letters(messages, tables.retry_max_times)))
    if extent.has_transactions:
        findings.append(open_transactions(messages))
    if extent.has_delays:
        delivered = {} if tables.delay is None else dict(tables.delay.offsets)
        findings.append(overdue_messages(messages, units, delivered, moment))
    return findings


def _of_files(spark: SparkSession, files: StoreFiles) -> DataFrame:
    """Return the findings about files that could not be read at all."""
    found = [("indexFileUnreadable", "slots and entries that fit the size of the file", each.path)
             for each in files.index_files if each.layout is None]  # fmt: skip
    found += [("tableUnreadable", "a JSON table", f"{path}: {why}") for path, why in files.tables.unreadable]
    rows = [
        (kind, severity_of(kind).value, None, None, None, None, None, expected, where, 1, None)
        for kind, expected, where in found
    ]
    return spark.createDataFrame(rows, FINDING_SCHEMA)


def _listed(findings: DataFrame) -> tuple[tuple[KindCount, ...], tuple[dict[str, object], ...]]:
    """Return the findings by kind, and the first ones of each."""
    counts = [
        KindCount(kind=row.kind, severity=row.severity, findings=row.findings, messages=row.messages)
        for row in findings.groupBy("kind", "severity")
        .agg(F.count("*").alias("findings"), F.sum("messages").alias("messages"))
        .collect()
    ]
    order = Window.partitionBy("kind").orderBy("topic", "queue_id", "queue_offset", "physical_offset")
    first = findings.withColumn("number", F.row_number().over(order)).where(F.col("number") <= LISTED_MAX)
    rows = [_as_fields(row.asDict()) for row in first.orderBy("number").drop("number").collect()] if counts else []
    kinds = [kind.name for kind in KINDS]
    return ordered(counts), tuple(sorted(rows, key=lambda row: kinds.index(str(row["kind"]))))


def _as_fields(row: dict[str, object]) -> dict[str, object]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}
