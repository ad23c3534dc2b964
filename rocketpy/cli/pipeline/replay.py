"""``rocketpy pipeline replay``: messages of an archive, a dead broker's disk or a cluster into topics."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from rocketpy.cli.pipeline.option_groups import with_option_groups
from rocketpy.cli.pipeline.running import Running, is_bar_wanted
from rocketpy.cli.pipeline.sources import Archive, Source, format_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Target = Annotated[
    str, typer.Argument(metavar="TARGET", help="Nameservers of the target cluster, HOST:PORT.", show_default=False)
]
To = Annotated[
    list[str] | None,
    typer.Option(
        "--to",
        metavar="TOPIC",
        help="Topic for all messages; or FROM=TO, repeated. Without it each goes to its own topic.",
        show_default=False,
    ),
]


@with_option_groups
def replay(
    target: Target,
    archive: Archive = "",
    *,
    source: Source,
    to: To = None,
    key: Annotated[
        list[str] | None, typer.Option("-k", "--key", help="Messages with this key; repeatable.", show_default=False)
    ] = None,
    begin: Annotated[str, typer.Option(help="Stored at this time or later: ISO 8601, or ms since the epoch.")] = "",
    end: Annotated[str, typer.Option(help="Stored before this time.")] = "",
    where: Annotated[str, typer.Option(help="Condition in Spark's SQL over the columns of the format.")] = "",
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Messages a second, at most.", show_default=False)
    ] = None,
    work: Annotated[
        str, typer.Option(metavar="DIR", help="Directory of the progress: the same again resumes the replay.")
    ] = "",
    keep_queues: Annotated[bool, typer.Option("--keep-queues", help="Into the queues of the same numbers.")] = False,
    sink_option: Annotated[
        list[str] | None,
        typer.Option("--sink-option", metavar="NAME=VALUE", help="Option of the sink; repeatable.", show_default=False),
    ] = None,
    running: Running,
) -> None:
    """Send messages again, of an archive, a store directory or a cluster. At least once; queues keep their order.

    Exit status: 0 all were sent, 1 failed (with --work the next run goes on), 2 wrong usage.
    """
    if not archive:
        source.check()
    topics = parse_topics(to or [])
    times = parse_time(begin, "--begin"), parse_time(end, "--end")
    sink_options = format_options(sink_option)
    with running.session("replay") as spark:
        from rocketpy.spark.pipelines import replay as pipeline
        from rocketpy.spark.pipelines.progress import message_bar
        from rocketpy.spark.pipelines.selection import Selection, selected

        messages = _archived(spark, archive, source.topic) if archive else source.messages(spark)
        selection = Selection(keys=tuple(key or ()), begin=times[0], end=times[1], where=where)
        with message_bar("replaying", show=is_bar_wanted()) as advance:
            summary = pipeline.replay(
                selected(messages, selection),
                pipeline.Target(name_server=target, topics=topics, keeps_queues=keep_queues, options=sink_options),
                rate=rate,
                work=work or None,
                progress=advance,
            )
        running.show(summary)


def parse_topics(texts: list[str]) -> str | Mapping[str, str] | None:
    """Parse the values of --to: one topic, or pairs."""
    if not texts:
        return None
    if len(texts) == 1 and "=" not in texts[0]:
        return texts[0]
    pairs = {}
    for text in texts:
        origin, equals, target = text.partition("=")
        if not origin or not equals or not target:
            raise typer.BadParameter(f"{text!r}, expected one TOPIC, or only FROM=TO", param_hint="--to")
        pairs[origin] = target
    return pairs


def parse_time(text: str, option: str) -> datetime | None:
    """Return a time with its zone; without one in the text it is local."""
    from rocketpy.cli.store import parse_time as parse_timestamp

    return datetime.fromtimestamp(parse_timestamp(text, option, 0) / 1000, UTC) if text else None


def _archived(spark: SparkSession, path: str, topics: list[str] | None) -> DataFrame:
    from rocketpy.spark.pipelines.archive import read_archive

    return read_archive(spark, path, topics=topics or ())
