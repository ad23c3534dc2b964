"""Audit of a whole store directory: log, queues, index, the broker's tables, and an archive if there is one.

The log is read once: its columns without the bodies are kept by Spark for the comparisons, in memory or on the
executors' disks. A store that a broker is writing may be audited: queues and index are listed first, and records and
units that came after are left out of the comparison.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import attrs
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.storagelevel import StorageLevel

from rocketpy.clock import Clock, SystemClock
from rocketpy.protocol.topic_name import (
    SCHEDULE_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)
from rocketpy.spark.pipelines.audit.archives import body_hash, log_against_archive
from rocketpy.spark.pipelines.audit.extents import QueueExtent, bounds_of_queues, queue_extents
from rocketpy.spark.pipelines.audit.findings import FINDING_SCHEMA, KINDS, findings_of, severity_of, union_of
from rocketpy.spark.pipelines.audit.index_entries import index_entries
from rocketpy.spark.pipelines.audit.key_index import log_against_index
from rocketpy.spark.pipelines.audit.progress import (
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
from rocketpy.spark.pipelines.local_rows import local_frame
from rocketpy.spark.pipelines.sources import whole_log
from rocketpy.spark.pipelines.summary import seconds_since

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

APPENDED = "appended after the audit began"
SMALL_LOG_SIZE = 64 << 20
"""Bytes of a log that one task compares: starting more would cost more than they save."""


@attrs.frozen(kw_only=True)
class Audit:
    """One audit: all findings as a DataFrame with the columns of ``FINDING_SCHEMA``, and the report."""

    findings: DataFrame
    report: AuditReport


@contextmanager
def audit_store(
    spark: SparkSession,
    path: str,
    *,
    archive: DataFrame | None = None,
    at: datetime | None = None,
    clock: Clock | None = None,
) -> Iterator[Audit]:
    """Audit a store directory; inside the block the findings are kept by Spark, after it they can no longer be read.

    ``at`` is the moment to which due times refer, without it the time of the last message. Of ``archive``, an archive
    of this broker's messages, every message is compared. :class:`~rocketpy.errors.SettingsError` where there is no
    store.
    """
    clock = clock or SystemClock()
    begin_ms = clock.timestamp_ms()
    files = list_store(path)
    units = queue_units(spark, files).persist(StorageLevel.MEMORY_AND_DISK)
    kept = [units]
    try:
        extents = queue_extents(units, log_min_offset=files.log_min_offset)
        dispatched = max((each.end_physical_offset for each in extents), default=0)
        log = _Log(
            spark=spark,
            files=files,
            end=dispatched if files.is_live else None,
            extents=extents,
            tasks=None if dispatched - files.log_min_offset > SMALL_LOG_SIZE else 1,
        )
        messages = log.spread(whole_log(spark, path))
        messages = messages.select(*COLUMNS, _op_body(), *([] if archive is None else [body_hash().alias("body_hash")]))
        messages = messages.persist(StorageLevel.MEMORY_AND_DISK)
        kept.append(messages)
        extent = _extent(messages, log.end)
        if log.end is not None:
            messages = messages.where(F.col("physical_offset") < log.end)
        moment = at or extent.last or datetime.fromtimestamp(0, UTC)
        units = log.spread(units)
        findings = log.spread(
            union_of(
                [
                    *_of_log(log, messages, units),
                    *_of_progress(log, messages),
                    *_of_stuck(files, messages, units, extent, moment),
                    *([] if archive is None else [log_against_archive(messages, archive)]),
                    _of_files(spark, files),
                ]
            )
        ).persist(StorageLevel.MEMORY_AND_DISK)
        kept.append(findings)
        counts, listed = _listed(findings)
        report = AuditReport(
            path=files.path,
            is_live=files.is_live,
            at=moment.isoformat(),
            messages=extent.count,
            units=sum(each.units for each in extents),
            index_entries=sum(each.header.index_count - 1 for each in files.index_files),
            groups=len(files.tables.offsets or {}),
            kinds=counts,
            listed=listed,
            skipped={APPENDED: extent.appended},
            seconds=seconds_since(begin_ms, clock),
        )
        yield Audit(findings=findings, report=report)
    finally:
        for each in kept:
            each.unpersist()


@attrs.frozen(kw_only=True)
class _Log:
    """What an audit knows of its store before it reads the log."""

    spark: SparkSession
    files: StoreFiles
    end: int | None
    """Physical offset after the last dispatched record, in a store that a broker is writing."""
    extents: tuple[QueueExtent, ...]
    tasks: int | None
    """1 for a small log."""

    def spread(self, rows: DataFrame) -> DataFrame:
        """Return rows in one partition if the log is small: then no comparison shuffles, and each has one job."""
        return rows if self.tasks is None else rows.coalesce(self.tasks)


def _op_body() -> Column:
    return F.when(F.col("topic") == TRANS_OP_HALF_TOPIC, F.col("body")).alias("body")


@attrs.frozen(kw_only=True)
class _Extent:
    """What is in a log, so that comparisons of what is not there are left out: each costs several jobs of Spark."""

    count: int
    appended: int
    """Records that a broker has written since the audit began."""
    last: datetime | None
    """When the last message was stored."""
    has_dead_letters: bool
    has_transactions: bool
    has_delays: bool


def _extent(messages: DataFrame, end: int | None) -> _Extent:
    topic = F.col("topic")
    inside = F.lit(True) if end is None else F.col("physical_offset") < end
    [row] = messages.agg(
        F.count_if(inside).alias("count"),
        F.count_if(~inside).alias("appended"),
        F.unix_millis(F.max(F.when(inside, F.col("store_timestamp")))).alias("last"),
        F.count_if(inside & is_dead_letter()).alias("dead"),
        F.count_if(inside & topic.isin(TRANS_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC)).alias("halves"),
        F.count_if(inside & (topic == SCHEDULE_TOPIC)).alias("delays"),
    ).collect()
    return _Extent(
        count=row["count"],
        appended=row["appended"],
        last=None if row["last"] is None else datetime.fromtimestamp(row["last"] / 1000, UTC),
        has_dead_letters=row["dead"] > 0,
        has_transactions=row["halves"] > 0,
        has_delays=row["delays"] > 0,
    )


def _of_log(log: _Log, messages: DataFrame, units: DataFrame) -> list[DataFrame]:
    """Return the findings about log, queues and index."""
    spark, files = log.spark, log.files
    problems = whole_log(spark, files.path, options={"view": "problems"})
    findings = [
        damages_of_log(problems),
        log_against_queues(
            messages,
            units,
            log_min_offset=files.log_min_offset,
            log_end_offset=log.end,
            topics=files.tables.topics,
            deleted_before=files.deleted_before,
            extents=log.extents,
        ),
    ]
    if any(each.has_gaps for each in log.extents):
        findings.append(gaps_of_queues(messages, log.spread(queue_gaps(spark, files))))
    if files.index_files:
        entries = log.spread(index_entries(spark, files))
        findings.append(
            log_against_index(messages, entries, log_min_offset=files.log_min_offset, log_end_offset=log.end)
        )
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


def _of_progress(log: _Log, messages: DataFrame) -> list[DataFrame]:
    """Return the findings about consumer groups."""
    tables = log.files.tables
    if tables.offsets is None:
        return []
    bounds = bounds_of_queues(log.spark, log.extents)
    offsets = group_offsets(log.spark, tables.offsets)
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
    return local_frame(spark, rows, FINDING_SCHEMA)


def _listed(findings: DataFrame) -> tuple[tuple[KindCount, ...], tuple[dict[str, object], ...]]:
    """Return the findings by kind, and the first ones of each."""
    of_kind = Window.partitionBy("kind")
    number = F.row_number().over(of_kind.orderBy("topic", "queue_id", "queue_offset", "physical_offset"))
    first = findings.select(
        "*",
        number.alias("number"),
        F.count("*").over(of_kind).alias("findings_of_kind"),
        F.sum("messages").over(of_kind).alias("messages_of_kind"),
    ).where(F.col("number") <= LISTED_MAX)
    kinds = [kind.name for kind in KINDS]
    counts, listed = [], []
    for row in sorted(first.collect(), key=lambda row: (kinds.index(row.kind), row.number)):
        if row.number == 1:
            counts.append(
                KindCount(
                    kind=row.kind,
                    severity=row.severity,
                    findings=row.findings_of_kind,
                    messages=row.messages_of_kind,
                )
            )
        listed.append(_as_fields({name: row[name] for name in findings.columns}))
    return ordered(counts), tuple(listed)


def _as_fields(row: dict[str, object]) -> dict[str, object]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}
