"""``rocketpy pipeline trace``: the way of a message, by its id or a key."""

from __future__ import annotations

from typing import Annotated

import typer

from rocketpy.cli.outcome import FAILED
from rocketpy.cli.pipeline.option_groups import with_option_groups
from rocketpy.cli.pipeline.running import Running
from rocketpy.cli.pipeline.sources import FormatOptions, NameServer, Store, Topics, format_options

Wanted = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="Message id of a client or a broker, one of a message's keys, or a transaction id.",
        show_default=False,
    ),
]


@with_option_groups
def trace(
    wanted: Wanted,
    store: Store = "",
    namesrv: NameServer = "",
    topic: Topics = None,
    option: FormatOptions = None,
    *,
    running: Running,
) -> None:
    """Show what happened to a message: over retries, delays, transactions and dead letters.

    In a store directory all topics are searched, and the groups' offsets are shown too; in a cluster the topics that
    --topic names, among them the %RETRY% and %DLQ% topics of groups. Exit status: 0 found, 1 not found, 2 wrong usage.
    """
    if not store and not namesrv:
        raise typer.BadParameter("expected a store directory, or a cluster (--namesrv)", param_hint="--store")
    if not store and not topic:
        raise typer.BadParameter("expected at least one topic to read from a cluster", param_hint="--topic")
    options = format_options(option)
    with running.session("trace") as spark:
        from pyspark.sql import functions

        from rocketpy.spark.pipelines.audit.progress import group_offsets
        from rocketpy.spark.pipelines.audit.store_files import list_store
        from rocketpy.spark.pipelines.sources import live_messages, whole_log
        from rocketpy.spark.pipelines.trace import find_trace

        offsets = None
        if store:
            offsets = group_offsets(spark, list_store(store).tables.offsets or {})
            messages = whole_log(spark, store, options=options)
            if topic:
                messages = messages.where(functions.col("topic").isin(topic))
        else:
            messages = live_messages(spark, namesrv, topic or (), options=options)
        with running.bar(spark, "tracing"):
            report = find_trace(messages, wanted, offsets=offsets)
        running.show(report)
        if not report.stations:
            raise typer.Exit(FAILED)
