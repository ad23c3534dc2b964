"""Log against the groups' offsets: what was acknowledged and never consumed, what was gone before it was consumed.

A group's offset is the next queue offset to consume. The broker takes any offset from a client, so it may lie before
the queue's first message (those between were deleted before the group had consumed them) or after its end (the group
misses what is sent until the queue has grown that far).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from rocketpy.protocol.topic_name import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_TOPIC_PREFIX, SYSTEM_TOPICS
from rocketpy.spark.pipelines.audit.findings import classified_findings, findings_of, union_of
from rocketpy.spark.pipelines.local_rows import local_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OFFSET_SCHEMA = "topic string, consumer_group string, queue_id int, consumer_offset bigint"
TRANSACTION_GROUP = "CID_RMQ_SYS_TRANS"
"""The broker's own group, whose lag says nothing: open transactions are found one by one."""

_REPLY_SUFFIX = "_REPLY_TOPIC"


def group_offsets(spark: SparkSession, table: Mapping[str, Mapping[int, int]]) -> DataFrame:
    """Return a table of consumer offsets (``topic@group`` -> queue id -> offset); columns: ``OFFSET_SCHEMA``."""
    return local_frame(spark, offset_rows(table), OFFSET_SCHEMA)


def offset_rows(table: Mapping[str, Mapping[int, int]]) -> list[tuple[str, str, int, int]]:
    """Return a table of consumer offsets as rows of ``OFFSET_SCHEMA``."""
    rows = []
    for key, offsets in table.items():
        topic, _, group = key.partition("@")
        rows += [(topic, group, queue_id, offset) for queue_id, offset in offsets.items()]
    return rows


def log_against_offsets(
    messages: DataFrame, offsets: DataFrame, bounds: DataFrame, *, topics: Collection[str] | None = None
) -> DataFrame:
    """Return findings about groups: what they have not consumed, what they lost, and offsets past the end.

    ``offsets`` has the columns of ``OFFSET_SCHEMA``, ``bounds`` those of
    :func:`~rocketpy.spark.pipelines.audit.extents.bounds_of_queues`. ``since`` of what was
    never consumed is when its oldest message was stored. Offsets of a topic that is not among ``topics`` are those of
    a deleted one, and left out.
    """
    col = F.col
    consumed = offsets.where(col("consumer_group") != TRANSACTION_GROUP)
    if topics is not None:
        consumed = consumed.where(col("topic").isin(list(topics)) | col("topic").startswith("%"))
    rows = (
        consumed.join(bounds, ["topic", "queue_id"], "left")
        .withColumn("min_offset", F.coalesce("min_offset", F.lit(0)))
        .withColumn("max_offset", F.coalesce("max_offset", F.lit(0)))
        .withColumn("next_offset", F.greatest("consumer_offset", "min_offset"))
        .withColumn("queue_offset", col("consumer_offset"))
    )
    waiting = rows.where(col("next_offset") < col("max_offset"))
    place = ["topic", "queue_id", "next_offset"]
    oldest = (
        messages.withColumn("next_offset", col("queue_offset"))
        .select(*place, "physical_offset", "store_timestamp")
        .join(F.broadcast(waiting.select(*place).distinct()), place)
        .groupBy(*place)
        .agg(F.max("physical_offset").alias("physical_offset"), F.max("store_timestamp").alias("since"))
    )  # fmt: skip
    end = F.format_string("consumed up to the queue's end at %d", "max_offset")
    never = waiting.join(F.broadcast(oldest), place, "left").withColumn(
        "messages", col("max_offset") - col("next_offset")
    )
    return union_of(
        [
            findings_of(
                never.withColumn("queue_offset", col("next_offset")),
                "neverConsumed",
                expected=end,
                found=F.format_string("offset %d: %d messages not consumed", "consumer_offset", "messages"),
            ),
            classified_findings(
                rows.withColumn("messages", F.abs(col("consumer_offset") - F.when(
                    col("consumer_offset") < col("min_offset"), col("min_offset")).otherwise(col("max_offset")))),
                {
                    "lostBeforeConsumed": (
                        col("consumer_offset") < col("min_offset"),
                        F.format_string("messages from offset %d on", "consumer_offset"),
                        F.format_string("the queue begins at %d", "min_offset"),
                    ),
                    "offsetPastEnd": (
                        col("consumer_offset") > col("max_offset"),
                        F.format_string("an offset up to the queue's end at %d", "max_offset"),
                        F.format_string("offset %d", "consumer_offset"),
                    ),
                },
            ),
        ]
    )  # fmt: skip


def topics_without_groups(bounds: DataFrame, offsets: DataFrame) -> DataFrame:
    """Return a notice for each topic with messages from which no group has consumed.

    Topics of the broker itself are left out, and those of retries and dead letters.
    """
    topic = F.col("topic")
    is_internal = (
        topic.isin(list(SYSTEM_TOPICS))
        | topic.startswith(SYSTEM_TOPIC_PREFIX)
        | topic.startswith(RETRY_PREFIX)
        | topic.startswith(DLQ_PREFIX)
        | topic.endswith(_REPLY_SUFFIX)
    )
    rows = (
        bounds.where(~is_internal)
        .groupBy("topic")
        .agg(F.sum(F.col("max_offset") - F.col("min_offset")).alias("messages"))
        .where("messages > 0")
        .join(F.broadcast(offsets.select("topic").distinct()), "topic", "left_anti")
    )
    return findings_of(
        rows,
        "topicWithoutGroup",
        expected="offsets of a consumer group",
        found=F.format_string("none for %d messages", "messages"),
    )
