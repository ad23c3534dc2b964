"""Options of reading a live cluster, in batch and as a stream. Names and rules are those of spark-sql-kafka."""

from __future__ import annotations

from collections.abc import Mapping

from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.live.positions import OFFSETS_EXAMPLE, QUEUES_EXAMPLE, parse_positions, parse_queues
from rocketpy.spark.options.kinds import BOOLEAN, NAMES, TEXT, TIMESTAMP, Kind, one_of, whole_number
from rocketpy.spark.options.option import Mode, Option, modes

DEFAULT_CONSUMER_GROUP = "rocketpy_spark"
PULL_BATCH_SIZE_MAX = 65_536
RECORDS_MAX = 2**31 - 1

_LIVE = modes(Mode.LIVE, Mode.STREAM)
_BATCH = modes(Mode.LIVE)

EARLIEST_WORD = "earliest"
LATEST_WORD = "latest"
Offsets = str | Mapping[MessageQueue, int]
"""``EARLIEST_WORD``, ``LATEST_WORD``, or the offset of each queue."""


def _offsets(text: str) -> Offsets:
    if text.lower() in (EARLIEST_WORD, LATEST_WORD):
        return text.lower()
    return parse_positions(text)


def _timestamps(text: str) -> Mapping[MessageQueue, int]:
    return parse_positions(text, least=0)


OFFSETS = Kind("earliest, latest or JSON", f"earliest, latest or {OFFSETS_EXAMPLE}", _offsets, explains=True)
TIMESTAMPS = Kind("JSON", f"milliseconds as {OFFSETS_EXAMPLE}", _timestamps, explains=True)
QUEUES = Kind("JSON", f"queues as {QUEUES_EXAMPLE}", parse_queues, explains=True)

SUBSCRIBE: Option[tuple[str, ...]] = Option(
    "subscribe", NAMES, (), _LIVE, "Topics to read, another name of `topic`.", shown_default="none"
)
SUBSCRIBE_PATTERN: Option[str | None] = Option(
    "subscribePattern",
    TEXT,
    None,
    _LIVE,
    "Regular expression of whole topic names; retry and dead-letter topics only if it begins with `%`.",
)
ASSIGN: Option[frozenset[MessageQueue] | None] = Option(
    "assign", QUEUES, None, _LIVE, f"Queues to read: `{QUEUES_EXAMPLE}`."
)
STARTING_OFFSETS: Option[Offsets | None] = Option(
    "startingOffsets",
    OFFSETS,
    None,
    _LIVE,
    f"Where to begin; JSON names every queue: `{OFFSETS_EXAMPLE}`, -2 is the earliest, -1 the latest offset.",
    aliases=("consumerOffset",),
    shown_default="`earliest`; stream: `latest`",
)
STARTING_TIMESTAMP: Option[int | None] = Option(
    "startingTimestamp",
    TIMESTAMP,
    None,
    _LIVE,
    "Begin each queue at its first message stored at this time or later; precedes the other two.",
)
STARTING_OFFSETS_BY_TIMESTAMP: Option[Mapping[MessageQueue, int] | None] = Option(
    "startingOffsetsByTimestamp", TIMESTAMPS, None, _LIVE, "The same for each queue; precedes `startingOffsets`."
)
STARTING_OFFSETS_BY_TIMESTAMP_STRATEGY: Option[str] = Option(
    "startingOffsetsByTimestampStrategy",
    one_of("error", "latest"),
    "error",
    _LIVE,
    "What to do with a queue that has no message so late: fail, or begin at its end.",
)
ENDING_OFFSETS: Option[Offsets] = Option(
    "endingOffsets", OFFSETS, LATEST_WORD, _BATCH, "Where to end, the message at it not included; JSON as above."
)
ENDING_TIMESTAMP: Option[int | None] = Option(
    "endingTimestamp",
    TIMESTAMP,
    None,
    _BATCH,
    "End each queue before its first message stored at this time or later; precedes the other two.",
)
ENDING_OFFSETS_BY_TIMESTAMP: Option[Mapping[MessageQueue, int] | None] = Option(
    "endingOffsetsByTimestamp", TIMESTAMPS, None, _BATCH, "The same for each queue; precedes `endingOffsets`."
)
TAGS: Option[str | None] = Option(
    "tags",
    TEXT,
    None,
    _LIVE,
    "Only messages with one of these tags, chosen by the broker; several are separated by two vertical bars.",
    aliases=("consumer.tag", "subExpression"),
)
SQL: Option[str | None] = Option(
    "sql", TEXT, None, _LIVE, "Only messages that an SQL92 expression chooses on the broker (`enablePropertyFilter`)."
)
MAX_RECORDS_PER_PARTITION: Option[int | None] = Option(
    "maxRecordsPerPartition",
    whole_number(1, RECORDS_MAX),
    None,
    _LIVE,
    "Most messages of a partition; larger pieces of a queue are cut.",
    shown_default="no limit",
)
READ_FROM: Option[str] = Option(
    "readFrom",
    one_of("master", "slave", "any"),
    "master",
    _LIVE,
    "Brokers to pull from. A slave that is gone or lags behind is left for the next one, the master last. While there "
    "is no master, `slave` and `any` plan with what a slave has.",
)
PULL_BATCH_SIZE: Option[int] = Option(
    "pullBatchSize",
    whole_number(1, PULL_BATCH_SIZE_MAX),
    1024,
    _LIVE,
    "Most messages to ask for at once; brokers have a limit of their own (`maxTransferCountOnMessageInMemory`).",
    aliases=("pull.max.batch.size", "pullMaxBatchSize"),
)
CONSUMER_GROUP: Option[str] = Option(
    "consumerGroup",
    TEXT,
    DEFAULT_CONSUMER_GROUP,
    _LIVE,
    "Group named in pulls; its progress is neither read nor changed.",
    aliases=("group", "consumer.group"),
)
FAIL_ON_DATA_LOSS: Option[bool] = Option(
    "failOnDataLoss",
    BOOLEAN,
    True,
    modes(Mode.FILES, Mode.LIVE, Mode.STREAM),
    "Fail if messages were deleted after the read was planned; `false` reads what is left.",
)

OPTIONS = (
    SUBSCRIBE,
    SUBSCRIBE_PATTERN,
    ASSIGN,
    STARTING_OFFSETS,
    STARTING_TIMESTAMP,
    STARTING_OFFSETS_BY_TIMESTAMP,
    STARTING_OFFSETS_BY_TIMESTAMP_STRATEGY,
    ENDING_OFFSETS,
    ENDING_TIMESTAMP,
    ENDING_OFFSETS_BY_TIMESTAMP,
    TAGS,
    SQL,
    MAX_RECORDS_PER_PARTITION,
    READ_FROM,
    PULL_BATCH_SIZE,
    CONSUMER_GROUP,
    FAIL_ON_DATA_LOSS,
)
