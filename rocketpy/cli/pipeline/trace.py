"""``rocketpy pipeline trace``: the way of a message, by its id or a key."""

from __future__ import annotations

from typing import Annotated

import typer

from rocketpy.cli.outcome import FAILED
from rocketpy.cli.pipeline.running import (
    DEFAULT_MASTER,
    AsJson,
    Configuration,
    Master,
    is_bar_wanted,
    pipeline_session,
    show_result,
)
from rocketpy.cli.pipeline.sources import NameServer, Store, Topics

Wanted = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="Message id of a client or a broker, one of a message's keys, or a transaction id.",
        show_default=False,
    ),
]


def trace(
    wanted: Wanted,
    store: Store = "",
    namesrv: NameServer = "",
    topic: Topics = None,
    master: Master = DEFAULT_MASTER,
    conf: Configuration = None,
    as_json: AsJson = False,
) -> None:
    """Show what happened to a message: over retries, delays, transactions and dead letters.

    In a store directory all topics are searched, and the groups' offsets are shown too; in a cluster the topics that
    --topic names, among them the %RETRY% and %DLQ% topics of groups. Exit status: 0 found, 1 not found, 2 wrong usage.
    """
    if not store and not namesrv:
        raise typer.BadParameter("expected a store directory, or a cluster (--namesrv)", param_hint="--store")
    if not store and not topic:
        raise typer.BadParameter("expected at least one topic to read from a cluster", param_hint="--topic")
    with pipeline_session("trace", master, conf) as spark:
        from pyspark.sql import functions

        from rocketpy.spark.pipelines.audit.progress import group_offsets
        from rocketpy.spark.pipelines.audit.store_files import list_store
        from rocketpy.spark.pipelines.progress import progress_bar
        from rocketpy.spark.pipelines.sources import live_messages, whole_log
        from rocketpy.spark.pipelines.trace import trace as run
        from rocketpy.spark.pipelines.trace import trace_report

        offsets = None
        if store:
            offsets = group_offsets(spark, list_store(store).tables.offsets or {})
            messages = whole_log(spark, store)
            if topic:
                messages = messages.where(functions.col("topic").isin(topic))
        else:
            messages = live_messages(spark, namesrv, topic or ())
        with progress_bar(spark, "tracing", show=is_bar_wanted()):
            report = trace_report(run(messages, wanted, offsets=offsets), wanted)
        show_result(report, as_json=as_json)
        if not report.stations:
            raise typer.Exit(FAILED)
