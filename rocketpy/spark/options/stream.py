"""Options of streams alone. Names and rules are those of spark-sql-kafka, as far as it has them."""

from __future__ import annotations

from typing import Any

from rocketpy.spark.options.kinds import DURATION, TEXT, whole_number
from rocketpy.spark.options.option import Mode, Option, modes

OFFSETS_MAX = 2**63 - 1
DISCOVERY_INTERVAL_MS_MAX = 3_600_000

_STREAM = modes(Mode.STREAM)

MAX_OFFSETS_PER_TRIGGER: Option[int | None] = Option(
    "maxOffsetsPerTrigger",
    whole_number(1, OFFSETS_MAX),
    None,
    _STREAM,
    "Most offsets of a batch, shared by the queues in proportion to what they have; at least one each.",
    shown_default="no limit",
)
MIN_OFFSETS_PER_TRIGGER: Option[int | None] = Option(
    "minOffsetsPerTrigger",
    whole_number(1, OFFSETS_MAX),
    None,
    _STREAM,
    "A batch waits until there are so many offsets, or `maxTriggerDelay` is over; not with Trigger.AvailableNow.",
)
MAX_TRIGGER_DELAY: Option[float] = Option(
    "maxTriggerDelay",
    DURATION,
    900.0,
    _STREAM,
    "Longest wait between two batches if there is anything to read.",
    shown_default="`15m`",
)
DISCOVERY_INTERVAL_MS: Option[int] = Option(
    "discoveryIntervalMs",
    whole_number(0, DISCOVERY_INTERVAL_MS_MAX),
    10_000,
    _STREAM,
    "How often a running query looks for new topics and queues.",
)
COMMIT_GROUP: Option[str | None] = Option(
    "commitGroup",
    TEXT,
    None,
    _STREAM,
    "Consumer group to which progress is committed, for RocketMQ's tools to show; never read.",
)

OPTIONS: tuple[Option[Any], ...] = (
    MAX_OFFSETS_PER_TRIGGER,
    MIN_OFFSETS_PER_TRIGGER,
    MAX_TRIGGER_DELAY,
    DISCOVERY_INTERVAL_MS,
    COMMIT_GROUP,
)
