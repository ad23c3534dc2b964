"""``rocketpy pipeline audit``: a store directory against itself, and against an archive."""

from __future__ import annotations

from datetime import UTC, datetime
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

AuditedStore = Annotated[
    str, typer.Argument(metavar="STORE", help="Store directory, of a running broker or a dead one.", show_default=False)
]


def audit(
    store: AuditedStore,
    archive: Annotated[
        str, typer.Option(metavar="ARCHIVE", help="Compare with this archive too.", show_default=False)
    ] = "",
    broker_name: Annotated[
        str, typer.Option(help="With --archive: name of the store's broker there.", show_default=False)
    ] = "",
    at: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%dT%H:%M:%S", "%Y-%m-%d"],
            help="Time in UTC for which due messages are judged; without it the time of the last message.",
            show_default=False,
        ),
    ] = None,
    findings: Annotated[
        str, typer.Option(metavar="DIR", help="Write all findings there as Parquet.", show_default=False)
    ] = "",
    master: Master = DEFAULT_MASTER,
    conf: Configuration = None,
    as_json: AsJson = False,
) -> None:
    """Compare log, queues, index, consumer offsets and an archive of a store; nothing in it is changed.

    Exit status: 0 nothing but notices, 1 a warning or an error, 2 wrong usage.
    """
    if archive and not broker_name:
        raise typer.BadParameter("--archive needs it: an archive has several brokers", param_hint="--broker-name")
    with pipeline_session("audit", master, conf) as spark:
        from pyspark.sql import functions

        from rocketpy.spark.pipelines.archive import read_archive
        from rocketpy.spark.pipelines.audit.store import audit_store
        from rocketpy.spark.pipelines.progress import progress_bar

        archived = read_archive(spark, archive).where(functions.col("broker_name") == broker_name) if archive else None
        moment = None if at is None else at.replace(tzinfo=UTC)
        with (
            progress_bar(spark, "auditing", show=is_bar_wanted()),
            audit_store(spark, store, archive=archived, at=moment) as result,
        ):
            if findings:
                result.findings.write.parquet(findings)
        report = result.report
        show_result(report, as_json=as_json)
        if not report.is_clean:
            raise typer.Exit(FAILED)
