"""Options of reading store directories."""

from __future__ import annotations

from rocketpy.spark.options.kinds import TEXT
from rocketpy.spark.options.option import Mode, Option, modes

PATH: Option[str | None] = Option(
    "path",
    TEXT,
    None,
    modes(Mode.FILES),
    "Store directory, or its `commitlog` directory; `load(path)` sets it.",
    shown_default="required",
)

OPTIONS = (PATH,)
