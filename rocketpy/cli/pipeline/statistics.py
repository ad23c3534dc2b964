"""``rocketpy pipeline statistics``: figures of the messages of a cluster, a store directory or an archive."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import attrs
import typer

from rocketpy.cli.pipeline.option_groups import with_option_groups
from rocketpy.cli.pipeline.running import Running
from rocketpy.cli.pipeline.sources import Archive, Source
from rocketpy.clock import SystemClock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rocketpy.spark.pipelines.statistics_report import GroupProgress

OUTPUT_FORMATS = ("parquet", "csv", "json")

Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME",
        help="rates, sizes, latency, lag, hot_keys, queue_skew, biggest_messages, reconsume_counts; without one, all.",
        show_default=False,
    ),
]


@with_option_groups
def statistics(
    names: Names = None,
    archive: Archive = "",
    *,
    source: Source,
    bin_width: Annotated[str, typer.Option("--bin", help="Width of the bins of rates, as '10 seconds'.")] = "1 minute",
    top: Annotated[int, typer.Option(min=1, help="Number of hot keys, and of biggest messages.")] = 20,
    watch: Annotated[
        float,
        typer.Option(
            min=0,
            help="Seconds between two looks at the offsets of groups, from which follows the trend of their lag.",
            show_default=False,
        ),
    ] = 0,
    output: Annotated[
        str, typer.Option(metavar="DIR", help="Write each table there, as a directory.", show_default=False)
    ] = "",
    format_name: Annotated[str, typer.Option("--format", help="Of --output: parquet, csv, json.")] = "parquet",
    running: Running,
) -> None:
    """Show rates, sizes, latencies, lags of groups, hot keys and skew of queues. An archive has no groups.

    Exit status: 0 done, 1 failed, 2 wrong usage.
    """
    if not archive:
        source.check(needs_broker_name=False)
    elif watch:
        raise typer.BadParameter("an archive has no offsets of groups", param_hint="--watch")
    if format_name not in OUTPUT_FORMATS:
        raise typer.BadParameter(f"{format_name!r}, expected one of {', '.join(OUTPUT_FORMATS)}", param_hint="--format")
    with running.session("statistics") as spark:
        from rocketpy.spark.pipelines.statistics_report import Output, statistics_report

        with running.bar(spark, "reading"):
            groups = None if archive else _progress(spark, source, watch)
            report = statistics_report(
                _messages(spark, archive, source),
                names or (),
                groups=groups,
                bin_width=bin_width,
                count=top,
                output=Output(directory=output, format=format_name) if output else None,
            )
        running.show(report)


def _messages(spark: SparkSession, archive: str, source: Source) -> DataFrame:
    from rocketpy.spark.pipelines.archive import read_archive
    from rocketpy.spark.pipelines.statistics_report import COLUMNS

    if archive:
        return read_archive(spark, archive, topics=source.topic or ())
    columns = f"columns={','.join(COLUMNS)}"
    return attrs.evolve(source, option=[columns, *(source.option or ())]).messages(spark)


def _progress(spark: SparkSession, source: Source, seconds: float) -> GroupProgress | None:
    """Return the groups' offsets, looked at twice where the trend is wanted; None of a store without them."""
    from rocketpy.spark.pipelines.statistics_report import GroupProgress

    first = _offsets(spark, source)
    if first is None or not seconds:
        return None if first is None else GroupProgress(offsets=first)
    time.sleep(seconds)
    second = _offsets(spark, source)
    now = datetime.fromtimestamp(SystemClock().timestamp_ms() / 1000, UTC)
    return None if second is None else GroupProgress(offsets=second, earlier=first, seconds=seconds, at=now)


def _offsets(spark: SparkSession, source: Source) -> DataFrame | None:
    from rocketpy.spark.pipelines.audit.progress import group_offsets
    from rocketpy.spark.pipelines.audit.store_files import list_store
    from rocketpy.spark.pipelines.live_offsets import live_group_offsets

    if not source.store:
        return live_group_offsets(spark, source.namesrv, source.topic or (), options=source.options)
    table = list_store(source.store).tables.offsets
    if table is None:
        return None
    chosen = {
        key: offsets for key, offsets in table.items() if not source.topic or key.partition("@")[0] in source.topic
    }
    return group_offsets(spark, chosen)
