"""The way of one message through a broker: from where it was born to where it is, over all records that it left.

A message that is delayed, retried or sent in a transaction leaves several records. They are linked by

- the property UNIQ_KEY, which every copy keeps;
- ORIGIN_MESSAGE_ID, in retries and dead letters: the broker's id of the record that was sent back first;
- ``prepared_transaction_offset``: a committed message names its half message, and a delivered delayed message of our
  broker its original (as ``~offset``);
- the body of an op message, which is the queue offset of the half message that it ends.

Each record becomes one or more *stations*, ordered by time, each with a sentence.

Compatibility: records of Java brokers and ours (4.9.8). A delay is told by the levels of the default
``messageDelayLevel`` unless others are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import attrs
from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812

from rocketpy.broker.delay.dead_letter import PROPERTY_DEAD_LETTER_REASON
from rocketpy.clock import Clock, SystemClock
from rocketpy.protocol.delay_level import parse_delay_levels
from rocketpy.protocol.properties import (
    PROPERTY_DELAY_TIME_LEVEL,
    PROPERTY_ORIGIN_MESSAGE_ID,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_RETRY_TOPIC,
    PROPERTY_TRANSACTION_CHECK_TIMES,
    PROPERTY_TRANSACTION_PREPARED,
)
from rocketpy.protocol.sysflag import TRANSACTION_COMMIT_TYPE, TRANSACTION_ROLLBACK_TYPE
from rocketpy.protocol.topic_name import (
    DELAY_DEAD_LETTER_TOPIC,
    DLQ_PREFIX,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)
from rocketpy.spark.pipelines.summary import Summary, seconds_since

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
MESSAGES_MAX = 1_000
"""A key of more messages is traced for the first of them only."""

_TRANSACTION_ID = "__transactionId__"
_STATION = ("at", "station", "sentence")
_PLACE = (
    "topic",
    "queue_id",
    "queue_offset",
    "physical_offset",
    "message_id",
    "unique_key",
    "reconsume_times",
)


@attrs.frozen(kw_only=True)
class Station:
    """One thing that happened to a message."""

    at: datetime | None
    """In UTC; None for what has no time in the log: the progress of groups."""
    station: str
    sentence: str
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    message_id: str
    unique_key: str | None
    reconsume_times: int


@attrs.frozen(kw_only=True)
class TraceReport:
    """The stations of what was looked for, in order."""

    wanted: str
    stations: tuple[Station, ...]
    summary: Summary | None = None
    """What was searched, where that was counted; nothing is written, and nothing skipped."""

    def as_fields(self) -> dict[str, object]:
        """Return the report as a JSON object."""
        stations = [
            attrs.asdict(each) | {"at": None if each.at is None else each.at.isoformat()} for each in self.stations
        ]
        counted = {} if self.summary is None else self.summary.as_fields()
        return {"pipeline": "trace", **counted, "wanted": self.wanted, "stations": stations}

    def lines(self) -> list[str]:
        """Return the report as lines of text."""
        counted = [] if self.summary is None else self.summary.lines()
        if not self.stations:
            return [f"trace of {self.wanted}: nothing found", *counted]
        messages = len({each.unique_key or each.message_id for each in self.stations})
        records = len({(each.physical_offset, each.message_id) for each in self.stations})
        lines = [f"trace of {self.wanted}: {messages} messages in {records} records"]
        for each in self.stations:
            time = "now" if each.at is None else each.at.isoformat(sep=" ", timespec="milliseconds")
            lines.append(f"    {time}  {each.sentence}")
        return [*lines, *counted]


def find_trace(
    messages: DataFrame,
    wanted: str,
    *,
    topic: str | None = None,
    offsets: DataFrame | None = None,
    delay_levels: str = DELAY_LEVELS,
    clock: Clock | None = None,
) -> TraceReport:
    """Return the stations of the messages with a key or an id as a value; see :func:`trace`."""
    clock = clock or SystemClock()
    begin_ms = clock.timestamp_ms()
    seen = Observation()
    searched = messages.observe(seen, F.count(F.lit(1)).alias("rows"))
    stations = trace(searched, wanted, topic=topic, offsets=offsets, delay_levels=delay_levels)
    report = trace_report(stations, wanted)
    read = int(seen.get.get("rows", 0))
    return attrs.evolve(report, summary=Summary(pipeline="trace", read=read, seconds=seconds_since(begin_ms, clock)))


def trace(
    messages: DataFrame,
    wanted: str,
    *,
    topic: str | None = None,
    offsets: DataFrame | None = None,
    delay_levels: str = DELAY_LEVELS,
) -> DataFrame:
    """Return the stations of the messages with a key or an id, ordered by time.

    ``wanted`` is a client's message id (UNIQ_KEY), a broker's (offsetMsgId), one of a message's KEYS or a transaction
    id; ``topic`` narrows keys that several topics use. ``messages`` should have the broker's own topics too. With
    ``offsets`` (``topic``, ``consumer_group``, ``queue_id``, ``consumer_offset``) the last stations say which groups
    have acknowledged the message. One Spark job finds the messages, the DataFrame that is returned the records.

    Columns: ``at``, ``station``, ``sentence``, and the record's place.
    """
    records, is_of_transaction = _records_of(messages, wanted, topic)
    found = records.select(F.explode(F.array_compact(_stations(delay_levels))).alias("is"), *_PLACE)
    if is_of_transaction:
        found = found.unionByName(_ends(messages, records))
    if offsets is not None:
        found = found.unionByName(_progress(records, offsets))
    return (
        found.select("is.*", *_PLACE)
        .repartition(1)  # a few rows: to sort them in parallel would read the log twice
        .orderBy(F.asc_nulls_last("at"), "physical_offset", "order")
        .select(*_STATION, *_PLACE)
    )


def trace_report(stations: DataFrame, wanted: str) -> TraceReport:
    """Return what :func:`trace` found as a value; runs the job."""
    rows = stations.withColumn("at", F.unix_millis("at")).collect()
    found = []
    for row in rows:
        columns = row.asDict()
        millis = columns.pop("at")
        at = None if millis is None else datetime.fromtimestamp(millis / 1000, UTC)
        found.append(Station(at=at, **columns))
    return TraceReport(wanted=wanted, stations=tuple(found))


def _ends(messages: DataFrame, records: DataFrame) -> DataFrame:
    """Return the stations of op messages, which end the half messages among the records."""
    halves = records.where(F.col("topic") == TRANS_HALF_TOPIC)
    ops = (
        messages.where((F.col("topic") == TRANS_OP_HALF_TOPIC) & (F.col("tags") == "d"))
        .withColumn("half_offset", F.col("body").cast("string").try_cast("bigint"))
        .join(
            F.broadcast(
                halves.select(
                    F.col("queue_offset").alias("half_offset"),
                    F.col("physical_offset").alias("half_physical_offset"),
                    F.col("unique_key").alias("half_unique_key"),
                )
            ),
            "half_offset",
        )
    )
    commits = records.where(_transaction_type() == TRANSACTION_COMMIT_TYPE).select(
        F.col("prepared_transaction_offset").alias("half_physical_offset"), F.lit(True).alias("is_committed")
    )
    return (
        ops.join(F.broadcast(commits.distinct()), "half_physical_offset", "left")
        .withColumn("unique_key", F.col("half_unique_key"))
        .select(F.explode(F.array(_op_station())).alias("is"), *_PLACE)
    )


# ---- records of one message -----------------------------------------------------------------------------------------


def _records_of(messages: DataFrame, wanted: str, topic: str | None) -> tuple[DataFrame, bool]:
    """Return all records of the messages that are wanted, but op messages, and whether one was in a transaction."""
    properties, message_id = F.col("properties"), wanted.upper()
    is_wanted = (
        (F.col("unique_key") == wanted)
        | (F.col("message_id") == message_id)
        | (properties[PROPERTY_ORIGIN_MESSAGE_ID] == message_id)
        | (properties[_TRANSACTION_ID] == wanted)
        | F.array_contains(F.split("keys", " "), wanted)
    )
    own_topic = F.coalesce(properties[PROPERTY_RETRY_TOPIC], properties[PROPERTY_REAL_TOPIC], "topic")
    chosen = messages.where(is_wanted if topic is None else is_wanted & (own_topic == topic))
    origin = properties[PROPERTY_ORIGIN_MESSAGE_ID].alias("origin")
    rows = (
        chosen.select(
            "unique_key",
            "message_id",
            origin,
            "physical_offset",
            "prepared_transaction_offset",
            _is_of_transaction().alias("is_of_transaction"),
        )
        .orderBy("physical_offset")
        .limit(MESSAGES_MAX)
        .collect()
    )
    unique_keys = sorted({row.unique_key for row in rows if row.unique_key is not None})
    ids = sorted({each for row in rows for each in (row.message_id, row.origin) if each is not None})
    # Without a unique key there are only the links from copy to original. An offset of 0 is no link.
    own = {row.physical_offset for row in rows if row.unique_key is None}
    named = {row.prepared_transaction_offset for row in rows if row.unique_key is None}
    places = sorted(own | {each if each > 0 else ~each for each in named if each})
    links = sorted({each for place in places for each in (place, ~place)} - {0})
    is_part = (
        F.col("unique_key").isin(unique_keys)
        | F.col("message_id").isin(ids)
        | properties[PROPERTY_ORIGIN_MESSAGE_ID].isin(ids)
        | (F.col("unique_key").isNull() & F.col("physical_offset").isin(places))
        | (F.col("unique_key").isNull() & F.col("prepared_transaction_offset").isin(links))
    )
    records = messages.where(is_part & (F.col("topic") != TRANS_OP_HALF_TOPIC))
    return records, any(row.is_of_transaction for row in rows)


def _is_of_transaction() -> Column:
    """Return whether a record may belong to a transaction: its half message, or any copy of what it became."""
    return (
        F.col("topic").isin(TRANS_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC)
        | F.map_contains_key("properties", PROPERTY_TRANSACTION_PREPARED)
        | (_transaction_type() != 0)
    )


def _transaction_type() -> Column:
    return F.col("sys_flag").bitwiseAND(TRANSACTION_ROLLBACK_TYPE)


# ---- stations -------------------------------------------------------------------------------------------------------


def _station(order: int, name: str, at: str, sentence: Column) -> Column:
    return F.struct(
        (F.lit(None) if at == "" else F.col(at)).cast("timestamp").alias("at"),
        F.lit(name).alias("station"),
        sentence.alias("sentence"),
        F.lit(order).alias("order"),
    )


def _stations(delay_levels: str) -> Column:
    """Return the stations of a record as an array, with nulls."""
    topic, properties = F.col("topic"), F.col("properties")
    is_ = _conditions()
    place = F.format_string("queue %d of %s at offset %d", "queue_id", "topic", "queue_offset")
    delay, retry = _delay_sentence(delay_levels), _retry_sentence()
    dead_group = F.substr(topic, F.lit(len(DLQ_PREFIX) + 1))
    reason = F.coalesce(properties[PROPERTY_DEAD_LETTER_REASON], F.lit("the broker does not say why"))
    plain = is_["first"] & ~is_["waiting"] & ~is_["half"]
    cases = (
        ("delayed", is_["waiting"] & ~is_["retry"], delay),
        ("sent back", is_["waiting"] & is_["retry"], F.concat(retry, F.lit("; "), delay)),
        ("sent back", is_["retry"] & ~is_["delayed"], retry),
        (
            "retry",
            is_["retry"] & is_["delayed"] & ~is_["waiting"],
            F.concat(F.lit("delivered again to its group: "), place),
        ),
        ("prepared", is_["half"], _half_sentence()),
        ("committed", is_["committed"], F.concat(F.lit("committed: "), place)),
        (
            "dead letter",
            is_["dead"],
            F.format_string("dead letter of group %s after %d times: %s", dead_group, "reconsume_times", place),
        ),
        (
            "given up",
            topic == TRANS_CHECK_MAX_TIME_TOPIC,
            F.lit("given up: checked too often, neither committed nor rolled back"),
        ),
        (
            "dead letter",
            topic == DELAY_DEAD_LETTER_TOPIC,
            F.concat(F.lit("can never be delivered: "), reason),
        ),
        ("stored", plain, F.concat(F.lit("stored in "), place)),
        ("delivered", is_["delivered"], F.concat(F.lit("delivered after its delay: "), place)),
    )
    born = _station(0, "born", "born_timestamp", F.concat(F.lit("born at producer "), "born_host"))
    stations = [F.when(condition, _station(1, name, "store_timestamp", text)) for name, condition, text in cases]
    return F.array(F.when(is_["first"], born), *stations)


def _conditions() -> dict[str, Column]:
    """Return what a record may be; none of them is null."""
    topic, properties = F.col("topic"), F.col("properties")
    waiting, delayed = topic == SCHEDULE_TOPIC, F.map_contains_key(properties, PROPERTY_DELAY_TIME_LEVEL)
    half, committed = topic == TRANS_HALF_TOPIC, _transaction_type() == TRANSACTION_COMMIT_TYPE
    dead = topic.startswith(DLQ_PREFIX)
    waits_for_retry = waiting & F.coalesce(properties[PROPERTY_REAL_TOPIC].startswith(RETRY_PREFIX), F.lit(False))
    retry = topic.startswith(RETRY_PREFIX) | waits_for_retry
    given_up = topic.isin(TRANS_CHECK_MAX_TIME_TOPIC, DELAY_DEAD_LETTER_TOPIC)
    delivered = delayed & ~waiting & ~retry & ~committed & ~half & ~dead & ~given_up
    copy_of_half = half & F.map_contains_key(properties, PROPERTY_TRANSACTION_CHECK_TIMES)
    sent_back = F.map_contains_key(properties, PROPERTY_RETRY_TOPIC)
    return {
        "waiting": waiting,
        "delayed": delayed,
        "half": half,
        "committed": committed,
        "dead": dead,
        "retry": retry,
        "delivered": delivered,
        "first": ~(given_up | dead | retry | sent_back | committed | copy_of_half | (delayed & ~waiting)),
    }


def _delay_sentence(delay_levels: str) -> Column:
    """Return until when a record of the delay topic waits, and where it goes then."""
    properties = F.col("properties")
    delays = parse_delay_levels(delay_levels)
    table = F.create_map(*[F.lit(each) for item in enumerate(delays, 1) for each in item])
    level = F.col("queue_id") + 1
    due = F.timestamp_millis(F.unix_millis("store_timestamp") + table[level])
    until = F.coalesce(F.date_format(due, "yyyy-MM-dd HH:mm:ss.SSS"), F.lit("a time that only the broker knows"))
    return F.concat(
        F.format_string("delayed by level %d until ", level),
        until,
        F.lit(", then to queue "),
        F.coalesce(properties[PROPERTY_REAL_QUEUE_ID], F.lit("?")),
        F.lit(" of "),
        F.coalesce(properties[PROPERTY_REAL_TOPIC], F.lit("an unknown topic")),
    )


def _retry_sentence() -> Column:
    real_topic = F.when(F.col("topic") == SCHEDULE_TOPIC, F.col("properties")[PROPERTY_REAL_TOPIC]).otherwise(
        F.col("topic")
    )
    group = F.substr(real_topic, F.lit(len(RETRY_PREFIX) + 1))
    return F.format_string("sent back by group %s, time %d", group, F.col("reconsume_times"))


def _half_sentence() -> Column:
    properties = F.col("properties")
    is_checked = F.map_contains_key(properties, PROPERTY_TRANSACTION_CHECK_TIMES)
    target = F.concat(
        F.lit("for queue "),
        F.coalesce(properties[PROPERTY_REAL_QUEUE_ID], F.lit("?")),
        F.lit(" of "),
        F.coalesce(properties[PROPERTY_REAL_TOPIC], F.lit("an unknown topic")),
    )
    checked = F.concat(
        F.lit("its producer was asked, time "), properties[PROPERTY_TRANSACTION_CHECK_TIMES], F.lit("; still prepared ")
    )
    return F.concat(F.when(is_checked, checked).otherwise(F.lit("prepared as a half message ")), target)


def _op_station() -> Column:
    committed = F.coalesce("is_committed", F.lit(False))
    sentence = F.when(committed, "the transaction is marked as ended").otherwise("rolled back")
    ended, rolled_back = (_station(2, name, "store_timestamp", sentence) for name in ("ended", "rolled back"))
    return F.when(committed, ended).otherwise(rolled_back)


def _progress(records: DataFrame, offsets: DataFrame) -> DataFrame:
    """Return for each record which groups are past it."""
    groups = offsets.select("topic", "queue_id", "consumer_group", "consumer_offset")
    is_past = F.col("consumer_offset") > F.col("queue_offset")
    past = F.format_string("acknowledged by group %s, whose offset is %d", "consumer_group", "consumer_offset")
    waits = F.format_string("not acknowledged by group %s, whose offset is %d", "consumer_group", "consumer_offset")
    station = F.when(is_past, _station(3, "acknowledged", "", past)).otherwise(_station(3, "waiting", "", waits))
    internal: Sequence[str] = (SCHEDULE_TOPIC, TRANS_HALF_TOPIC)
    return (
        records.where(~F.col("topic").isin(list(internal)))
        .join(F.broadcast(groups), ["topic", "queue_id"])
        .select(station.alias("is"), *_PLACE)
    )
