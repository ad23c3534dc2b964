"""Messages that did not reach a consumer: dead letters by cause, open transactions, overdue delayed messages.

All three are read from the records themselves, so they hold for a dead broker's disk. "Now" is a parameter: for a disk
it is usually the time of the last message, the last moment at which the broker is known to have lived.

Compatibility: ``SendMessageProcessor.consumerSendMsgBack``, ``TransactionalMessageServiceImpl`` and
``ScheduleMessageService`` (4.9.8). A dead letter does not say why: the cause follows from its number of deliveries and
the group's limit. Our broker adds DEAD_LETTER_REASON to a delayed message that it can never deliver.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from rocketpy.broker.delay.dead_letter import PROPERTY_DEAD_LETTER_REASON
from rocketpy.protocol.properties import (
    PROPERTY_DELAY_TIME_LEVEL,
    PROPERTY_PRODUCER_GROUP,
    PROPERTY_REAL_TOPIC,
    PROPERTY_RETRY_TOPIC,
    PROPERTY_TRANSACTION_CHECK_TIMES,
    PROPERTY_TRANSACTION_PREPARED_QUEUE_OFFSET,
)
from rocketpy.protocol.topic_name import (
    DELAY_DEAD_LETTER_TOPIC,
    DLQ_PREFIX,
    SCHEDULE_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)
from rocketpy.spark.pipelines.audit.findings import findings_of

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import Column, DataFrame

RETRY_MAX_TIMES = 16
"""A group's limit unless it has its own."""

_OP_TAG = "d"
_WHEN = ("physical_offset", "since")


def is_dead_letter() -> Column:
    """Return whether a message is in a topic of messages that were given up."""
    topic = F.col("topic")
    return topic.startswith(DLQ_PREFIX) | topic.isin(TRANS_CHECK_MAX_TIME_TOPIC, DELAY_DEAD_LETTER_TOPIC)


def dead_letters(messages: DataFrame, retry_max_times: Mapping[str, int] | None = None) -> DataFrame:
    """Return the dead letters, one row each.

    Columns: ``consumer_group`` (of a transaction the producer's), ``origin_topic``, ``reconsume_times``, ``cause``, and
    ``topic``, ``queue_id``, ``queue_offset``, ``physical_offset``, ``message_id``, ``unique_key``, ``keys``, ``since``.
    """
    topic, properties = F.col("topic"), F.col("properties")
    group = F.substr(topic, F.lit(len(DLQ_PREFIX) + 1))
    limit = F.lit(RETRY_MAX_TIMES)
    if retry_max_times:
        table = F.create_map(*[F.lit(each) for item in retry_max_times.items() for each in item])
        limit = F.coalesce(table[group], limit)
    cause = (
        F.when(topic == DELAY_DEAD_LETTER_TOPIC, F.coalesce(properties[PROPERTY_DEAD_LETTER_REASON], F.lit("unknown")))
        .when(
            topic == TRANS_CHECK_MAX_TIME_TOPIC,
            F.concat(
                F.lit("transaction neither committed nor rolled back after "),
                F.coalesce(properties[PROPERTY_TRANSACTION_CHECK_TIMES], F.lit("?")),
                F.lit(" checks"),
            ),
        )
        .when(F.col("reconsume_times") >= limit, F.format_string("retries exhausted: the limit is %d", limit))
        .otherwise(F.format_string("given up by the consumer before the limit of %d", limit))
    )
    return messages.where(is_dead_letter()).select(
        F.when(topic.startswith(DLQ_PREFIX), group)
        .when(topic == TRANS_CHECK_MAX_TIME_TOPIC, properties[PROPERTY_PRODUCER_GROUP])
        .alias("consumer_group"),
        F.coalesce(properties[PROPERTY_RETRY_TOPIC], properties[PROPERTY_REAL_TOPIC]).alias("origin_topic"),
        "reconsume_times",
        cause.alias("cause"),
        "topic",
        "queue_id",
        "queue_offset",
        "physical_offset",
        "message_id",
        "unique_key",
        "keys",
        F.col("store_timestamp").alias("since"),
    )


def dead_letter_findings(letters: DataFrame) -> DataFrame:
    """Return a finding for each group, topic of origin and cause among dead letters."""
    rows = letters.groupBy("topic", "consumer_group", "origin_topic", "cause").agg(
        F.count("*").alias("messages"),
        F.min("since").alias("since"),
        F.min("physical_offset").alias("physical_offset"),
        F.max("reconsume_times").alias("reconsume_times"),
    )
    return findings_of(
        rows,
        "deadLetter",
        expected=F.concat(F.lit("consumption of "), F.coalesce("origin_topic", F.lit("an unknown topic"))),
        found=F.concat(F.col("cause"), F.format_string("; sent back up to %d times", "reconsume_times")),
    )


def open_transactions(messages: DataFrame) -> DataFrame:
    """Return a finding for each transaction that was neither committed, rolled back nor given up.

    A transaction is a unique key: the copies that checks append have the same, also those of a Java broker, which do
    not name the first record. Without a unique key it is the first record's queue offset.
    """
    properties = F.col("properties")
    named = F.expr(f"try_cast(properties['{PROPERTY_TRANSACTION_PREPARED_QUEUE_OFFSET}'] as bigint)")
    ended = (
        messages.where((F.col("topic") == TRANS_OP_HALF_TOPIC) & (F.col("tags") == _OP_TAG))
        .select(F.col("body").cast("string").try_cast("bigint").alias("queue_offset"))
        .where("queue_offset is not null")
        .distinct()
        .withColumn("is_ended", F.lit(True))
    )
    halves = messages.where(F.col("topic").isin(TRANS_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC)).select(
        "topic",
        "queue_id",
        "queue_offset",
        "physical_offset",
        F.col("store_timestamp").alias("since"),
        F.coalesce("unique_key", F.coalesce(named, "queue_offset").cast("string")).alias("transaction"),
        properties[PROPERTY_REAL_TOPIC].alias("real_topic"),
        properties[PROPERTY_PRODUCER_GROUP].alias("consumer_group"),
    )
    is_given_up = F.col("topic") == TRANS_CHECK_MAX_TIME_TOPIC
    rows = (
        halves.join(ended, "queue_offset", "left")
        .groupBy("transaction")
        .agg(
            F.max(is_given_up | F.coalesce("is_ended", F.lit(False))).alias("is_ended"),
            F.min_by(F.struct("topic", "queue_id", "queue_offset", *_WHEN), "physical_offset").alias("first"),
            F.first("real_topic").alias("real_topic"),
            F.first("consumer_group").alias("consumer_group"),
            F.count("*").alias("records"),
        )
        .where("not is_ended")
        .select("first.*", "real_topic", "consumer_group", "records")
    )  # fmt: skip
    return findings_of(
        rows,
        "openTransaction",
        expected="a commit or rollback",
        found=F.concat(
            F.format_string("none; checked %d times; it is for ", F.col("records") - 1),
            F.coalesce("real_topic", F.lit("an unknown topic")),
        ),
    )


def overdue_messages(messages: DataFrame, units: DataFrame, delivered: Mapping[int, int], at: datetime) -> DataFrame:
    """Return a finding for each delay level with messages that were due at a time and not delivered.

    ``delivered`` is the broker's table: level -> next queue offset. It may lag by ten seconds of deliveries after a
    crash, so a message with a later copy in its own topic counts as delivered too.
    """
    properties, prepared = F.col("properties"), F.col("prepared_transaction_offset")
    due = units.where((F.col("topic") == SCHEDULE_TOPIC) & (F.col("tags_code") <= int(at.timestamp() * 1000)))
    if delivered:
        table = F.create_map(*[F.lit(each) for item in delivered.items() for each in item])
        due = due.where(F.col("queue_offset") >= F.coalesce(table[F.col("queue_id") + 1], F.lit(0)))
    key = ["unique_key", "real_topic", "reconsume_times"]
    waiting = (
        messages.where(F.col("topic") == SCHEDULE_TOPIC)
        .select(
            "queue_id",
            "queue_offset",
            "unique_key",
            "reconsume_times",
            properties[PROPERTY_REAL_TOPIC].alias("real_topic"),
        )
        .join(due, ["queue_id", "queue_offset"])
    )
    copies = messages.where(
        (F.col("topic") != SCHEDULE_TOPIC) & F.map_contains_key(properties, PROPERTY_DELAY_TIME_LEVEL)
    )
    # Copies of our broker name their original; those of a Java broker have no more in common than the unique key.
    named = copies.where(prepared < 0).select(F.bitwise_not(prepared).alias("physical_offset"))
    last_copy = (
        copies.withColumn("real_topic", F.col("topic")).groupBy(*key).agg(F.max("physical_offset").alias("copy_offset"))
    )
    rows = (
        waiting.join(named, "physical_offset", "left_anti")
        .join(last_copy, key, "left")
        .where(F.coalesce(F.col("copy_offset") <= F.col("physical_offset"), F.lit(True)))
        .groupBy("topic", "queue_id")
        .agg(
            F.count("*").alias("messages"),
            F.min("queue_offset").alias("queue_offset"),
            F.min("physical_offset").alias("physical_offset"),
            F.timestamp_millis(F.min("tags_code")).alias("since"),
        )
    )
    return findings_of(
        rows,
        "overdueDelay",
        expected=F.format_string("delivery of level %d since the time in `since`", F.col("queue_id") + 1),
        found=F.format_string("%d messages not delivered", "messages"),
    )
