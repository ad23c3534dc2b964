"""All statistics of messages in one run: tables as values, for a terminal or JSON, or written as files.

The columns that statistics need are read once, without bodies, and kept by Spark until the last table is made.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import attrs
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import TimestampType
from pyspark.storagelevel import StorageLevel

from rocketpy.clock import Clock, SystemClock
from rocketpy.errors import SettingsError
from rocketpy.spark.pipelines import statistics
from rocketpy.spark.pipelines.summary import Summary, seconds_since

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = (
    "topic",
    "broker_name",
    "queue_id",
    "queue_offset",
    "physical_offset",
    "message_id",
    "unique_key",
    "keys",
    "properties",
    "born_timestamp",
    "store_timestamp",
    "reconsume_times",
    "body_size",
    "stored_size",
)
"""What statistics need of a message."""

FORMATS = ("parquet", "csv", "json")
ROWS_MAX = 1_000
"""Rows of a table that a report has; a file has all."""
SHOWN_MAX = 20
"""Rows of a table among the lines of a report."""


@attrs.frozen(kw_only=True)
class GroupProgress:
    """Offsets of consumer groups, and those of ``seconds`` earlier if there are any; see :func:`statistics.lag`."""

    offsets: DataFrame
    earlier: DataFrame | None = None
    seconds: float = 0
    at: datetime | None = None


@attrs.frozen(kw_only=True)
class Output:
    """Where tables are written: each as a directory of its name, in one of ``FORMATS``."""

    directory: str
    format: str = "parquet"


@attrs.frozen(kw_only=True)
class Table:
    """One table of a report: its first rows, and how many it has."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    row_count: int

    def as_fields(self) -> dict[str, object]:
        """Return the table as a JSON object."""
        rows = [dict(zip(self.columns, map(_plain, row), strict=True)) for row in self.rows]
        return {"row_count": self.row_count, "rows": rows}

    def lines(self) -> list[str]:
        """Return the table as lines of text, numbers to the right."""
        rows = self.rows[:SHOWN_MAX]
        cells = [self.columns, *[tuple(map(_shown, row)) for row in rows]]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        is_number = [any(isinstance(value, int | float) for value in column) for column in zip(*rows, strict=True)]
        is_number = is_number or [False] * len(widths)
        aligned = [
            "  ".join(
                cell.rjust(width) if number else cell.ljust(width)
                for cell, width, number in zip(line, widths, is_number, strict=True)
            ).rstrip()
            for line in cells
        ]
        more = [f"and {self.row_count - len(rows)} more"] if self.row_count > len(rows) else []
        return [f"{self.name}:", *(f"    {line}" for line in [*aligned, *more])]


@attrs.frozen(kw_only=True)
class StatisticsReport:
    """The tables that were asked for, in the order of ``STATISTICS``."""

    summary: Summary
    tables: tuple[Table, ...]

    def as_fields(self) -> dict[str, object]:
        """Return the report as a JSON object."""
        return {**self.summary.as_fields(), "tables": {each.name: each.as_fields() for each in self.tables}}

    def lines(self) -> list[str]:
        """Return the report as lines of text: the summary, then each table."""
        return [*self.summary.lines(), *(line for table in self.tables for line in table.lines())]


@attrs.frozen(kw_only=True)
class _Asked:
    bin_width: str
    count: int
    groups: GroupProgress | None


def _lag(messages: DataFrame, asked: _Asked) -> DataFrame:
    assert asked.groups is not None, "checked before"
    groups = asked.groups
    lags = statistics.lag(messages, groups.offsets, groups.earlier, seconds=groups.seconds, at=groups.at)
    return lags.orderBy(F.desc("lag"), "topic", "consumer_group", "queue_id")


LAG = "lag"
STATISTICS: Mapping[str, Callable[[DataFrame, _Asked], DataFrame]] = {
    "rates": lambda messages, asked: statistics.rates(messages, asked.bin_width).orderBy("topic", "begin"),
    "sizes": lambda messages, _: statistics.sizes(messages).orderBy("topic"),
    "latency": lambda messages, _: statistics.latency(messages).orderBy("topic"),
    LAG: _lag,
    "hot_keys": lambda messages, asked: statistics.hot_keys(messages, asked.count),
    "queue_skew": lambda messages, _: statistics.queue_skew(messages).orderBy(F.desc("most_to_mean"), "topic"),
    "biggest_messages": lambda messages, asked: statistics.biggest_messages(
        messages.drop("properties", "reconsume_times"), asked.count
    ),
    "reconsume_counts": lambda messages, _: statistics.reconsume_counts(messages).orderBy("topic", "reconsume_times"),
}
"""Each table by its name: the function of :mod:`~rocketpy.spark.pipelines.statistics`, and the order of the rows."""


def statistics_report(
    messages: DataFrame,
    names: Collection[str] = (),
    *,
    groups: GroupProgress | None = None,
    bin_width: str = "1 minute",
    count: int = 20,
    output: Output | None = None,
    clock: Clock | None = None,
) -> StatisticsReport:
    """Return the statistics with these names, or all; ``messages`` has at least ``COLUMNS``.

    The lag needs ``groups``, and is left out of all where there are none. ``bin_width`` is that of the rates, ``count``
    how many keys and messages are listed. :class:`SettingsError` for a name that is none, for the lag without groups,
    and for a format that is none.
    """
    clock = clock or SystemClock()
    begin_ms = clock.timestamp_ms()
    chosen = _chosen(names, has_groups=groups is not None)
    if output is not None and output.format not in FORMATS:
        raise SettingsError(f"expected a format of {', '.join(FORMATS)}, found {output.format!r}")
    asked = _Asked(bin_width=bin_width, count=count, groups=groups)
    kept = messages.select(*COLUMNS).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        read = kept.count()
        tables = [_table(name, STATISTICS[name](kept, asked), output) for name in chosen]
    finally:
        kept.unpersist()
    summary = Summary(
        pipeline="statistics",
        read=read,
        written=sum(each.row_count for each in tables) if output else 0,
        seconds=seconds_since(begin_ms, clock),
        details={"output": output.directory, "format": output.format} if output else {},
    )
    return StatisticsReport(summary=summary, tables=tuple(tables))


def _chosen(names: Collection[str], *, has_groups: bool) -> Sequence[str]:
    if unknown := sorted(set(names) - set(STATISTICS)):
        raise SettingsError(f"expected statistics of {', '.join(STATISTICS)}, found {unknown[0]!r}")
    if LAG in names and not has_groups:
        raise SettingsError("the lag needs offsets of consumer groups: those of a cluster or of a store directory")
    return [name for name in STATISTICS if name in names or (not names and (has_groups or name != LAG))]


def _table(name: str, found: DataFrame, output: Output | None) -> Table:
    """Collect the first rows, and write all if that is wanted."""
    times = {field.name for field in found.schema.fields if isinstance(field.dataType, TimestampType)}
    columns = [F.unix_millis(each).alias(each) if each in times else F.col(each) for each in found.columns]
    if output is not None:
        found = found.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        first = [
            tuple(_time(value) if each in times else value for each, value in zip(found.columns, row, strict=True))
            for row in found.select(*columns).limit(ROWS_MAX + 1).collect()
        ]
        row_count = len(first) if len(first) <= ROWS_MAX else found.count()
        if output is not None:
            files = found.coalesce(1).write.format(output.format).option("header", True)
            files.save(f"{output.directory}/{name}")
    finally:
        if output is not None:
            found.unpersist()
    return Table(name=name, columns=tuple(found.columns), rows=tuple(first[:ROWS_MAX]), row_count=row_count)


def _time(millis: int | None) -> datetime | None:
    return None if millis is None else datetime.fromtimestamp(millis / 1000, UTC)


def _plain(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime) else value


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    return "-" if value is None else str(value)
