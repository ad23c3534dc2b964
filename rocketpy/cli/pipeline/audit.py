"""``rocketpy pipeline audit``: a store directory against itself, and against an archive."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import attrs
import typer

from rocketpy.cli.outcome import FAILED
from rocketpy.cli.pipeline.option_groups import with_option_groups
from rocketpy.cli.pipeline.running import Running

AuditedStore = Annotated[
    str, typer.Argument(metavar="STORE", help="Store directory, of a running broker or a dead one.", show_default=False)
]


@with_option_groups
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
    *,
    running: Running,
) -> None:
    """Compare log, queues, index, consumer offsets and an archive of a store; nothing in it is changed.

    Exit status: 0 nothing but notices, 1 a warning or an error, 2 wrong usage.
    """
    if archive and not broker_name:
        raise typer.BadParameter("--archive needs it: an archive has several brokers", param_hint="--broker-name")
    with running.session("audit") as spark:
        from pyspark.sql import functions

        from rocketpy.spark.pipelines.archive import read_archive
        from rocketpy.spark.pipelines.audit.store import audit_store

        archived = read_archive(spark, archive).where(functions.col("broker_name") == broker_name) if archive else None
        moment = None if at is None else at.replace(tzinfo=UTC)
        with (
            running.bar(spark, "auditing"),
            audit_store(spark, store, archive=archived, at=moment) as result,
        ):
            report = result.report
            if findings:
                result.findings.coalesce(1).write.parquet(findings)
                report = attrs.evolve(report, written=sum(each.findings for each in report.kinds))
        running.show(report)
        if not report.is_clean:
            raise typer.Exit(FAILED)
