"""Options that several ways of reading share: which messages, in how many pieces, which columns."""

from __future__ import annotations

from rocketpy.spark.options.kinds import BOOLEAN, NAMES, TIMESTAMP, one_of, whole_number
from rocketpy.spark.options.option import Mode, Option, modes

PARTITIONS_MAX = 100_000

_BATCH = modes(Mode.FILES, Mode.LIVE)
_EVERY_READ = modes(Mode.FILES, Mode.LIVE, Mode.STREAM)

TOPIC: Option[tuple[str, ...]] = Option(
    "topic",
    NAMES,
    (),
    modes(*Mode),
    "Topics to read; files: all, if none is named. Sink: the topic of rows that name none.",
    aliases=("consumer.topic",),
    shown_default="none",
)
START_TIMESTAMP: Option[int | None] = Option(
    "startTimestamp", TIMESTAMP, None, _BATCH, "Only messages stored at this time or later."
)
END_TIMESTAMP: Option[int | None] = Option(
    "endTimestamp", TIMESTAMP, None, _BATCH, "Only messages stored before this time."
)
MIN_PARTITIONS: Option[int] = Option(
    "minPartitions",
    whole_number(1, PARTITIONS_MAX),
    1,
    _EVERY_READ,
    "Read in at least so many partitions.",
)
DECOMPRESS: Option[bool] = Option(
    "decompress", BOOLEAN, True, _EVERY_READ, "Decompress bodies; `false` reads them as they are stored."
)
COLUMNS: Option[tuple[str, ...]] = Option(
    "columns",
    NAMES,
    (),
    _EVERY_READ,
    "Columns to read, in this order, as `.schema(...)` with types does: what is not read is not decoded.",
    shown_default="all but the metadata columns",
)
BODY_AS: Option[str] = Option(
    "bodyAs",
    one_of("binary", "string", "variant"),
    "binary",
    _EVERY_READ,
    "Type of the column `body`; `string`: UTF-8, `variant`: JSON, or null where it is none.",
)

OPTIONS = (TOPIC, START_TIMESTAMP, END_TIMESTAMP, MIN_PARTITIONS, DECOMPRESS, COLUMNS, BODY_AS)
