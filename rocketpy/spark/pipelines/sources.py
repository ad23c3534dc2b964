"""DataFrames that pipelines begin with: messages of a live cluster or of a store directory, all with a broker name.

The file of a store does not hold the name of its broker, and without it messages of two brokers cannot be told apart:
whoever reads a store directory says whose it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from rocketpy.protocol.topic_name import NOT_ALLOWED_SEND_TOPICS, SYSTEM_TOPIC_PREFIX, SYSTEM_TOPICS
from rocketpy.spark.source import FORMAT_NAME

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def live_messages(
    spark: SparkSession, name_server: str, topics: Sequence[str], *, options: Mapping[str, str] | None = None
) -> DataFrame:
    """Return the messages of topics of a live cluster, up to the offsets at the moment when they are read."""
    return read_live(spark, live_options(name_server, topics, options))


def read_live(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """Return the messages that options of a live read name."""
    return spark.read.format(FORMAT_NAME).options(**options).load()


def live_options(name_server: str, topics: Sequence[str], options: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the options of a read of topics of a live cluster."""
    named = {"topic": ",".join(topics)} if topics else {}
    return {"nameServer": name_server} | named | dict(options or {})


def store_messages(
    spark: SparkSession,
    path: str,
    broker_name: str | None,
    topics: Sequence[str] = (),
    *,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the messages in a store directory, with the name of its broker if it is given.

    Without topics, those of all topics but the brokers' own.
    """
    chosen = ({"topic": ",".join(topics)} if topics else {}) | dict(options or {})
    messages = spark.read.format(FORMAT_NAME).options(**chosen).load(path)
    if broker_name is not None:
        messages = with_broker_name(messages, broker_name)
    return messages if topics else messages.where(is_user_topic(F.col("topic")))


def whole_log(spark: SparkSession, path: str, *, options: Mapping[str, str] | None = None) -> DataFrame:
    """Return every record of a store directory, those of the broker's own topics too, past damaged places.

    The records are found in the log alone, without the help of ConsumeQueues, so that the two may be compared.
    """
    chosen = {"includeSystemTopics": "true", "mode": "permissive", "readUnits": "never"} | dict(options or {})
    return spark.read.format(FORMAT_NAME).options(**chosen).load(path)


def with_broker_name(messages: DataFrame, broker_name: str) -> DataFrame:
    """Return messages that have this broker name where they have none."""
    return messages.withColumn("broker_name", F.coalesce("broker_name", F.lit(broker_name)))


def is_user_topic(topic: Column) -> Column:
    """Return whether a topic is not one that brokers keep for themselves; retry topics and dead letters are the
    users'."""
    system = sorted(SYSTEM_TOPICS | NOT_ALLOWED_SEND_TOPICS)
    conditions = [~topic.isin(system), ~F.lower(topic).startswith(SYSTEM_TOPIC_PREFIX)]
    return reduce(and_, conditions)
