"""Options of writing."""

from __future__ import annotations

from rocketpy.spark.options.kinds import TEXT
from rocketpy.spark.options.option import Mode, Option, modes

CHECKPOINT_LOCATION: Option[str | None] = Option(
    "checkpointLocation", TEXT, None, modes(Mode.SINK), "Spark's own, of a streaming query."
)

OPTIONS = (CHECKPOINT_LOCATION,)
