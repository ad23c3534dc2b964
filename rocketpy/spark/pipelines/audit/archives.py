"""Log against an archive: what is in one and not in the other, and what differs.

A message is its topic, queue id and queue offset; several brokers in one archive are the caller's to tell apart, by a
condition on ``broker_name``. What either side cannot have is a notice: messages from before the log begins, and those
after the last one that the archive has of a queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from rocketpy.protocol.sysflag import NO_QUEUE_FLAG
from rocketpy.spark.pipelines.audit.findings import classified_findings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_BODY_COLUMNS = frozenset({"body", "body_hash"})
_KEY = ["topic", "queue_id", "queue_offset"]


def log_against_archive(messages: DataFrame, archive: DataFrame, *, compare_bodies: bool = True) -> DataFrame:
    """Return findings about messages that log and archive do not both have, once and equal.

    Both have the columns of a read; ``archive`` may hold topics that the log does not. Without ``compare_bodies`` only
    the unique keys are compared, and no body is read. Where there is a column ``body_hash``, as :func:`body_hash` makes
    it, no body is needed.
    """
    compares = compare_bodies and all(_BODY_COLUMNS & set(rows.columns) for rows in (messages, archive))
    log_bounds = messages.groupBy("topic", "queue_id").agg(F.min("queue_offset").alias("log_min"))
    archive_bounds = archive.groupBy("topic", "queue_id").agg(F.max("queue_offset").alias("archive_max"))
    rows = (
        _side(messages, "log", compares=compares)
        .join(_side(archive, "archive", compares=compares), _KEY, "full_outer")
        .join(F.broadcast(log_bounds), ["topic", "queue_id"], "left")
        .join(F.broadcast(archive_bounds), ["topic", "queue_id"], "left")
        .withColumn("physical_offset", F.coalesce("log_physical_offset", "archive_physical_offset"))
        .withColumn("since", F.coalesce("log_since", "archive_since"))
    )
    return classified_findings(rows, _cases(), grouped=("archiveBehind", "expiredFromLog"))


def body_hash() -> Column:
    """Return what bodies are compared by, for messages that are kept without them: the column ``body_hash``."""
    return F.xxhash64(F.col("body").cast("binary"))


def _side(rows: DataFrame, name: str, *, compares: bool) -> DataFrame:
    """Return one row for each queue offset of a side, with how many messages have it."""
    has_hash = "body_hash" in rows.columns
    body = F.lit(None).cast("bigint") if not compares else F.col("body_hash") if has_hash else body_hash()
    return (
        rows.where(F.col("sys_flag").bitwiseAND(NO_QUEUE_FLAG) == 0)
        .select(*_KEY, "physical_offset", "unique_key", body.alias("body_hash"), "store_timestamp")
        .groupBy(*_KEY)
        .agg(
            F.count("*").alias(f"{name}_count"),
            F.max("physical_offset").alias(f"{name}_physical_offset"),
            F.max("unique_key").alias(f"{name}_unique_key"),
            F.max("body_hash").alias(f"{name}_body"),
            F.max("store_timestamp").alias(f"{name}_since"),
        )
    )


def _cases() -> dict[str, tuple[Column, Column | str, Column | str]]:
    """Return for each kind of finding its condition, what is expected, and what is found."""
    col = F.col
    in_log, in_archive = col("log_count").isNotNull(), col("archive_count").isNotNull()
    differs = ~col("log_unique_key").eqNullSafe(col("archive_unique_key")) | ~col("log_body").eqNullSafe(
        col("archive_body")
    )
    is_behind = col("archive_max").isNull() | (col("queue_offset") > col("archive_max"))
    is_expired = col("log_min").isNull() | (col("queue_offset") < col("log_min"))
    named, archived = (
        F.format_string("the message %s", F.coalesce(f"{side}_unique_key", F.lit("without a unique key")))
        for side in ("log", "archive")
    )
    return {
        "notInArchive": (in_log & ~in_archive & ~is_behind, named, "nothing at its queue offset in the archive"),
        "archiveBehind": (in_log & ~in_archive & is_behind, "all messages of the log", "none of these"),
        "onlyInArchive": (
            ~in_log & in_archive & ~is_expired,
            archived,
            "nothing at its queue offset in the log",
        ),
        "expiredFromLog": (~in_log & in_archive & is_expired, "all messages of the archive", "none of these"),
        "differsFromArchive": (
            in_log & in_archive & differs,
            named,
            F.when(
                ~col("log_unique_key").eqNullSafe(col("archive_unique_key")),
                archived,
            ).otherwise("another body"),
        ),
        "doubleInArchive": (
            col("archive_count") > F.coalesce("log_count", F.lit(1)),
            "the message once",
            F.format_string("%d times", "archive_count"),
        ),
    }
