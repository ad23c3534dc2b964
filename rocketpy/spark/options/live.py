"""Options of reading a live cluster, in batch and as a stream. Names and rules are those of spark-sql-kafka."""

from __future__ import annotations

from rocketpy.spark.options.kinds import BOOLEAN, TEXT
from rocketpy.spark.options.option import Mode, Option, modes

DEFAULT_CONSUMER_GROUP = "rocketpy_spark"

_LIVE = modes(Mode.LIVE, Mode.STREAM)

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

OPTIONS = (CONSUMER_GROUP, FAIL_ON_DATA_LOSS)
