"""All options of the format, and names of other connectors that have a successor here.

The documentation's table is made from this, and every name a user gives is looked up in it.
"""

from __future__ import annotations

from typing import Any

from rocketpy.spark.options import connection, files, live, reading, sink, stream
from rocketpy.spark.options.option import Mode, Option

OPTIONS: tuple[Option[Any], ...] = (
    *files.OPTIONS,
    *connection.OPTIONS,
    *reading.OPTIONS,
    *live.OPTIONS,
    *stream.OPTIONS,
    *sink.OPTIONS,
)

REPLACED: dict[str, str] = {
    "kafka.bootstrap.servers": "nameServer names the cluster",
    "kafka.group.id": "consumerGroup names the group",
    "groupIdPrefix": "consumerGroup names the group",
    "mq.pull.consumer.provider.factory.name": "connections are made from nameServer and accessKey",
    "consumer.messages.orderly": "the rows of a queue are always in its order",
    "paths": "a read is of one store directory, and frames of several are joined with unionByName",
    "includeHeaders": "the column properties is always there",
}
"""Options of rocketmq-spark, spark-sql-kafka and Spark's files that have no counterpart: what to use instead."""


def options_of(mode: Mode) -> tuple[Option[Any], ...]:
    """Return the options that may be given in a mode."""
    return tuple(option for option in OPTIONS if mode in option.modes)


def documentation() -> str:
    """Return the options as a Markdown table."""
    lines = ["| option | for | value | default | meaning |", "|---|---|---|---|---|"]
    for option in OPTIONS:
        names = f"`{option.name}`" + "".join(f", `{alias}`" for alias in option.aliases)
        where = ", ".join(mode.value for mode in Mode if mode in option.modes)
        lines.append(f"| {names} | {where} | {option.kind.shown} | {_default(option)} | {option.meaning} |")
    return "\n".join(lines) + "\n"


def _default(option: Option[Any]) -> str:
    if option.shown_default:
        return option.shown_default
    if option.default is None:
        return "none"
    return f"`{str(option.default).lower() if isinstance(option.default, bool) else option.default}`"
