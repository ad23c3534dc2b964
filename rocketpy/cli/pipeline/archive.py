"""``rocketpy pipeline archive``: topics of a cluster, or of a dead broker's disk, into Parquet files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rocketpy.cli.pipeline.option_groups import with_option_groups
from rocketpy.cli.pipeline.running import Running
from rocketpy.cli.pipeline.sources import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARQUET = "parquet"
FORMATS = (PARQUET, "delta", "iceberg")

Archive = Annotated[str, typer.Argument(metavar="ARCHIVE", help="Directory of the archive.", show_default=False)]


@with_option_groups
def archive(
    path: Archive,
    source: Source,
    files_per_partition: Annotated[
        int | None,
        typer.Option(min=1, help="Most files of a topic and date: shuffles.", show_default=False),
    ] = None,
    format_name: Annotated[
        str, typer.Option("--format", help="parquet; or delta, iceberg, if Spark has their jars.")
    ] = PARQUET,
    table: Annotated[
        str, typer.Option(help="Table of --format: a name in a catalog, or a path (delta); without it, ARCHIVE.")
    ] = "",
    compact: Annotated[
        bool, typer.Option("--compact", help="Read no messages: merge the archive's small files.")
    ] = False,
    *,
    running: Running,
) -> None:
    """Add to an archive the messages that it does not have, each once. Without --topic a store's user topics.

    Of a cluster each queue is read from the first message that the archive does not have, unless an --option says where
    to begin. With --compact the archive's small files become few, and nothing is added.

    Exit status: 0 archived, or nothing new, 1 failed and nothing was added, 2 wrong usage.
    """
    check_format(format_name, table)
    if compact:
        check_compaction(source, format_name)
        _compact(path, running)
        return
    source.check()
    with running.session("archive") as spark:
        from rocketpy.spark.pipelines.archive import archive as run
        from rocketpy.spark.pipelines.archive_table import TableFormat, archive_to_table

        with running.bar(spark, "archiving"):
            messages = source.messages(spark) if source.store else _new_messages(spark, source, path)
            if format_name == PARQUET:
                summary = run(messages, path, files_per_partition=files_per_partition)
            else:
                summary = archive_to_table(messages, path, TableFormat(format_name, table or path))
        running.show(summary)


def _new_messages(spark: SparkSession, source: Source, path: str) -> DataFrame:
    """Return what a cluster has after what the archive has."""
    from rocketpy.spark.pipelines.archive_live import new_live_messages

    return new_live_messages(spark, source.namesrv, source.topic or (), path, options=source.options)


def _compact(path: str, running: Running) -> None:
    with running.session("archive") as spark:
        from rocketpy.spark.pipelines.compaction import compact

        with running.bar(spark, "compacting"):
            summary = compact(spark, path)
        running.show(summary)


def check_compaction(source: Source, format_name: str) -> None:
    """Raise ``BadParameter`` for options that --compact does not go with."""
    if source.store or source.topic:
        raise typer.BadParameter("it is about the whole archive, without a source", param_hint="--compact")
    if format_name != PARQUET:
        raise typer.BadParameter(f"a table of {format_name} has a compaction of its own", param_hint="--compact")


def check_format(name: str, table: str) -> None:
    """Raise ``BadParameter`` unless it is a format of an archive, with the table that it needs."""
    if name == "iceberg" and not table:
        raise typer.BadParameter("iceberg creates tables in a catalog: expected CATALOG.DB.TABLE", param_hint="--table")
    if name not in FORMATS:
        raise typer.BadParameter(f"{name!r}, expected one of {', '.join(FORMATS)}", param_hint="--format")
