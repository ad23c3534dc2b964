"""Statistics of messages: rates, sizes, latency, lag, hot keys, skew of queues, retries. Each a function of DataFrames.

All are plain aggregations, so Spark does most of the work before it moves a row. Percentiles are Spark's approximate
ones, exact for groups of up to ``PERCENTILE_ACCURACY`` different values, beyond that within 1/``PERCENTILE_ACCURACY``
of the rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import Column, DataFrame

PERCENTILES = (0.5, 0.9, 0.99, 0.999)
PERCENTILE_ACCURACY = 10_000
HOT_KEYS_TRACKED = 10_000
"""Keys that the first pass of :func:`hot_keys` tracks: each key of more than this fraction of all keys is found."""

_KEY = ["topic", "queue_id"]


def rates(messages: DataFrame, bin_width: str = "1 minute") -> DataFrame:
    """Return messages and bytes by topic and bin of the store time; bins without messages have no row.

    Columns: ``topic``, ``begin`` (of the bin), ``messages``, ``stored_bytes``, ``per_second``, ``bytes_per_second``.
    """
    window = F.window("store_timestamp", bin_width)
    seconds = F.unix_seconds("bin.end") - F.unix_seconds("bin.start")
    return (
        messages.where(F.col("store_timestamp").isNotNull())
        .groupBy("topic", window.alias("bin"))
        .agg(F.count("*").alias("messages"), F.sum("stored_size").cast("bigint").alias("stored_bytes"))
        .select(
            "topic",
            F.col("bin.start").alias("begin"),
            "messages",
            "stored_bytes",
            (F.col("messages") / seconds).alias("per_second"),
            (F.col("stored_bytes") / seconds).alias("bytes_per_second"),
        )
    )


def sizes(messages: DataFrame) -> DataFrame:
    """Return the distribution of body and record sizes in bytes by topic.

    Columns: ``topic``, ``messages``, then for ``body`` and ``record`` each ``..._min``, ``..._mean``, ``..._p50``,
    ``..._p90``, ``..._p99``, ``..._p999``, ``..._max``.
    """
    return (
        messages.groupBy("topic")
        .agg(
            F.count("*").alias("messages"),
            *_distribution(F.col("body_size"), "body"),
            *_distribution(F.col("stored_size"), "record"),
        )
        .select("topic", "messages", *_flat("body"), *_flat("record"))
    )


def latency(messages: DataFrame) -> DataFrame:
    """Return the time from born to stored in milliseconds by topic.

    A message that was stored before it was born shows that clocks differ: ``negative`` counts those, and the
    percentiles include them. Copies (retries, delivered delayed messages, commits) keep their first born time, so only
    messages without a RETRY_TOPIC, DELAY or REAL_TOPIC property count. Columns: ``topic``, ``messages``, ``negative``,
    ``latency_min``, ``latency_mean``, ``latency_p50`` ... ``latency_max``.
    """
    properties = F.col("properties")
    is_copy = (
        F.map_contains_key(properties, "RETRY_TOPIC")
        | F.map_contains_key(properties, "DELAY")
        | F.map_contains_key(properties, "REAL_TOPIC")
    )
    spent = F.unix_millis("store_timestamp") - F.unix_millis("born_timestamp")
    return (
        messages.where(~is_copy)
        .withColumn("spent", spent)
        .where(F.col("spent").isNotNull())
        .groupBy("topic")
        .agg(
            F.count("*").alias("messages"),
            F.count_if(F.col("spent") < 0).alias("negative"),
            *_distribution(F.col("spent"), "latency"),
        )
        .select("topic", "messages", "negative", *_flat("latency"))
    )


def lag(
    messages: DataFrame,
    offsets: DataFrame,
    earlier: DataFrame | None = None,
    *,
    seconds: float = 0,
    at: datetime | None = None,
) -> DataFrame:
    """Return the lag of each group in each queue, and with an earlier snapshot its trend.

    ``offsets`` has ``topic``, ``consumer_group``, ``queue_id`` and ``consumer_offset`` (the next one to consume), as
    :func:`rocketpy.spark.pipelines.audit.progress.group_offsets` reads them from a store; ``earlier`` the same from
    ``seconds`` before. Columns: those of ``offsets`` and ``max_offset``, ``lag`` in messages, ``lag_seconds`` (store
    time of the newest message less that of the oldest one not consumed), ``arrived_per_second`` and, with ``earlier``,
    ``consumed_per_second``, ``trend`` (grows, shrinks, steady or caught up) and ``seconds_to_catch_up`` where it
    shrinks.

    The arrivals are counted from the store times of the last ``seconds`` before ``at``, by default before the newest
    message of the topic; without ``earlier`` of the whole log. Where several brokers have a topic, ``offsets`` has the
    column ``broker_name`` too, and a queue is one of its broker.
    """
    if earlier is not None and seconds <= 0:
        raise ValueError(f"expected the seconds between the two snapshots, found {seconds}")
    col = F.col
    queue = [*_KEY, "broker_name"] if "broker_name" in offsets.columns else _KEY
    newest = messages.groupBy(*queue).agg(
        (F.max("queue_offset") + 1).alias("max_offset"),
        F.unix_millis(F.max("store_timestamp")).alias("newest_ms"),
        F.unix_millis(F.min("store_timestamp")).alias("first_ms"),
        F.count("*").alias("log_messages"),
    )
    groups = offsets.join(F.broadcast(newest), queue, "left").withColumn(
        "max_offset", F.coalesce("max_offset", "consumer_offset")
    )
    period_ms = int(seconds * 1000)
    newest_of_topic = F.max("newest_ms").over(Window.partitionBy("topic"))
    since = (newest_of_topic if at is None else F.lit(int(at.timestamp() * 1000))) - period_ms
    place = [*queue, "consumer_offset"]
    waiting = groups.select(*place, since.alias("since_ms")).distinct()
    log = messages.select(*queue, "queue_offset", F.unix_millis("store_timestamp").alias("stored_ms"))
    seen = (
        log.join(F.broadcast(waiting), queue)
        .groupBy(*place)
        .agg(
            F.min_by("stored_ms", F.when(col("queue_offset") >= col("consumer_offset"), col("queue_offset"))).alias(
                "oldest_ms"
            ),
            F.count_if(col("stored_ms") > col("since_ms")).alias("recent"),
        )
    )
    span_s = (col("newest_ms") - col("first_ms")) / 1000
    arrived = col("recent") / F.lit(seconds) if seconds else col("log_messages") / F.when(span_s > 0, span_s)
    result = groups.join(F.broadcast(seen), place, "left").select(
        *offsets.columns,
        "max_offset",
        F.greatest(col("max_offset") - col("consumer_offset"), F.lit(0)).alias("lag"),
        F.when(col("consumer_offset") < col("max_offset"), (col("newest_ms") - col("oldest_ms")) / 1000)
        .otherwise(0.0)
        .alias("lag_seconds"),
        arrived.alias("arrived_per_second"),
    )
    return result if earlier is None else _with_trend(result, earlier, seconds, [*queue, "consumer_group"])


def _with_trend(lags: DataFrame, earlier: DataFrame, seconds: float, key: list[str]) -> DataFrame:
    col = F.col
    consumed = (col("consumer_offset") - col("earlier_offset")) / F.lit(seconds)
    gain = col("consumed_per_second") - F.coalesce("arrived_per_second", F.lit(0.0))
    trend = (
        F.when(col("consumed_per_second").isNull(), F.lit(None))
        .when(col("lag") == 0, "caught up")
        .when(gain > 0, "shrinks")
        .when(gain < 0, "grows")
        .otherwise("steady")
    )
    before = earlier.select(*key, col("consumer_offset").alias("earlier_offset"))
    return (
        lags.join(before, key, "left")
        .withColumn("consumed_per_second", consumed)
        .drop("earlier_offset")
        .withColumn("trend", trend)
        .withColumn("seconds_to_catch_up", F.when(col("trend") == "shrinks", col("lag") / gain))
    )


def hot_keys(messages: DataFrame, count: int = 20, *, tracked: int = HOT_KEYS_TRACKED) -> DataFrame:
    """Return the keys with the most messages by topic and their exact numbers, the ``count`` highest of all topics.

    The first pass is approximate, in bounded memory: it finds every key that has more than a share of 1/``tracked`` of
    all keys, and proposes others. The second one counts what was proposed. So the numbers are exact, and the order is
    too among keys that are that frequent. A key is a part of KEYS. Columns: ``topic``, ``key``, ``messages``, ``share``
    of the topic's messages.
    """
    keyed = messages.where(F.col("keys").isNotNull()).select(
        "topic", F.explode(F.array_distinct(F.split("keys", " "))).alias("key")
    )
    keyed = keyed.where("key != ''")
    pairs = keyed.select(F.to_json(F.struct("topic", "key")).alias("pair"))
    proposed = (
        pairs.agg(F.expr(f"approx_top_k(pair, {count}, {tracked})").alias("top"))
        .select(F.explode("top").alias("top"))
        .select(F.from_json("top.item", "topic string, key string").alias("pair"))
        .select("pair.*")
    )
    totals = messages.groupBy("topic").agg(F.count("*").alias("total"))
    return (
        keyed.join(F.broadcast(proposed), ["topic", "key"], "left_semi")
        .groupBy("topic", "key")
        .agg(F.count("*").alias("messages"))
        .join(F.broadcast(totals), "topic")
        .withColumn("share", F.col("messages") / F.col("total"))
        .drop("total")
        .orderBy(F.desc("messages"), "topic", "key")
        .limit(count)
    )


def queue_skew(messages: DataFrame) -> DataFrame:
    """Return how unevenly the messages of a topic lie in its queues; queues without messages are not seen.

    Columns: ``topic``, ``queues``, ``messages``, ``mean``, ``least``, ``most``, ``most_to_mean`` (1: even), ``gini``
    (0: even, near 1: one queue has all) and ``fullest``, the number of the fullest queue.
    """
    broker = [name for name in ("broker_name",) if name in messages.columns]
    queues = messages.groupBy(*_KEY, *broker).agg(F.count("*").alias("n"))
    rank = F.row_number().over(Window.partitionBy("topic").orderBy("n"))
    return (
        queues.withColumn("rank", rank)
        .groupBy("topic")
        .agg(
            F.count("*").alias("queues"),
            F.sum("n").alias("messages"),
            F.avg("n").alias("mean"),
            F.min("n").alias("least"),
            F.max("n").alias("most"),
            F.sum(F.col("rank") * F.col("n")).alias("ranked"),
            F.max_by("queue_id", "n").alias("fullest"),
        )
        .select(
            "topic",
            "queues",
            "messages",
            "mean",
            "least",
            "most",
            (F.col("most") / F.col("mean")).alias("most_to_mean"),
            (
                2 * F.col("ranked") / (F.col("queues") * F.col("messages")) - (F.col("queues") + 1) / F.col("queues")
            ).alias("gini"),
            "fullest",
        )
    )


def biggest_messages(messages: DataFrame, count: int = 20) -> DataFrame:
    """Return the messages with the biggest records, without their bodies."""
    kept = [name for name in messages.columns if name != "body"]
    return messages.select(*kept).orderBy(F.desc("stored_size"), "physical_offset").limit(count)


def reconsume_counts(messages: DataFrame) -> DataFrame:
    """Return how many messages were sent back how often, by retry topic.

    Columns: ``topic``, ``reconsume_times``, ``messages``. A message that was sent back three times is counted under 1,
    2 and 3, once for each record.
    """
    return messages.where("reconsume_times > 0").groupBy("topic", "reconsume_times").agg(F.count("*").alias("messages"))


def _distribution(value: Column, name: str, percentiles: Sequence[float] = PERCENTILES) -> list[Column]:
    return [
        F.min(value).alias(f"{name}_min"),
        F.avg(value).alias(f"{name}_mean"),
        F.percentile_approx(value, list(percentiles), PERCENTILE_ACCURACY).alias(f"{name}_percentiles"),
        F.max(value).alias(f"{name}_max"),
    ]


def _flat(name: str) -> list[Column]:
    """Return the columns of a distribution, with its percentiles as columns of their own."""
    percentiles = F.col(f"{name}_percentiles")
    return [
        F.col(f"{name}_min"),
        F.col(f"{name}_mean"),
        *[
            percentiles[number].alias(f"{name}_p{str(each)[2:].ljust(2, '0')}")
            for number, each in enumerate(PERCENTILES)
        ],
        F.col(f"{name}_max"),
    ]
