"""Options of streams alone."""

from __future__ import annotations

from typing import Any

from rocketpy.spark.options.option import Option

OPTIONS: tuple[Option[Any], ...] = ()
