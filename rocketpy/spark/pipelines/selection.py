"""Selection of messages by topic, key, time and condition."""

from __future__ import annotations

from datetime import datetime
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING

import attrs
from pyspark.sql import functions as F  # noqa: N812

from rocketpy.protocol.properties import KEY_SEPARATOR

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@attrs.frozen(kw_only=True)
class Selection:
    """Conditions that a message meets, all of them; an empty one is none.

    ``keys`` are index keys: one of them is its UNIQ_KEY, or a part of its KEYS. ``begin`` and ``end`` are times of the
    store, with a time zone; ``end`` is exclusive. ``where`` is a condition in Spark's SQL over the columns of the
    format, such as ``tags = 'paid' and properties['region'] = 'eu'``.
    """

    topics: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    begin: datetime | None = None
    end: datetime | None = None
    where: str = ""


def selected(messages: DataFrame, selection: Selection) -> DataFrame:
    """Return the messages that a selection has. Spark refuses a condition that it does not understand here already."""
    conditions = []
    if selection.topics:
        conditions.append(F.col("topic").isin(list(selection.topics)))
    if selection.begin is not None:
        conditions.append(F.col("store_timestamp") >= F.lit(selection.begin))
    if selection.end is not None:
        conditions.append(F.col("store_timestamp") < F.lit(selection.end))
    if selection.keys:
        parts = F.split(F.coalesce("keys", F.lit("")), KEY_SEPARATOR)
        conditions.append(
            reduce(or_, [F.array_contains(parts, key) | (F.col("unique_key") == key) for key in selection.keys])
        )
    if selection.where:
        conditions.append(F.expr(selection.where))
    return messages.where(reduce(and_, conditions)) if conditions else messages
